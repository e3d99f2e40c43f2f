"""Scores on a terminal and in a log."""

import io

import pytest
from rich.console import Console

from trainer.metric_table import METRICS
from trainer.reports.terminal import print_evaluation


@pytest.fixture
def lines(evaluation):
    console = Console(file=io.StringIO(), width=80)
    print_evaluation(evaluation, console)
    return console.file.getvalue().splitlines()


def test_every_score_is_shown_with_its_interval_within_80_characters(evaluation, lines):
    salicon = evaluation["datasets"]["salicon"]
    assert lines[0].strip() == "Validation images of salicon: 10; 95% confidence intervals"
    assert lines[1].split() == ["candidate", "default", "centre", "bias", "gain", "interval"]
    low, high = salicon["intervals"]["champion"]["nss"]
    gain = salicon["gains"]["nss"]
    nss, _ = (line.split() for line in lines if line.startswith("NSS ↑"))
    assert nss[4:6] == [f"{salicon['models']['champion']['nss']:.3f}", f"±{(high - low) / 2:.3f}"]
    assert nss[-4:] == [f"{gain['mean']:+.3f}", f"{gain['low']:+.3f}", "to", f"{gain['high']:+.3f}"]
    assert all(len(line) <= 80 for line in lines[:-1] if not line.startswith("Undefined"))


def test_last_line_is_the_whole_reason(lines):
    assert lines[-1].startswith("The candidate becomes the default: the candidate's KLD is 0.0")


def test_way_to_people_is_shown_for_each_model(evaluation, lines):
    start = next(index for index, line in enumerate(lines) if line.startswith("Share of the way"))
    assert lines[start + 1].split() == ["centre", "bias", "people", "candidate", "default"]
    assert [line.split()[0] for line in lines[start + 2 : start + 9]] == [row.label for row in METRICS.values()]
    shares = evaluation["datasets"]["salicon"]["ceiling"]["split_half"]["shares"]["candidate"]["cc"]
    (cc,) = (line for line in lines[start:] if line.startswith("CC ↑") and "%" in line)
    percents = [round(100 * shares[end]) for end in ("share", "low", "high")]
    assert "{}% ({} to {})".format(*percents) in cc
    assert "Scored on held-out observers of 10 images with 5 observers each." in lines


def test_no_ceiling_is_said_with_its_reason(evaluation):
    evaluation["datasets"]["salicon"]["ceiling"] = {"absent": "Nobody looked."}
    console = Console(file=io.StringIO(), width=80)
    print_evaluation(evaluation, console)
    assert "No ceiling of people: Nobody looked." in console.file.getvalue().splitlines()
    assert "Share of the way" not in console.file.getvalue()
