"""Scores on a terminal."""

import dataclasses
import io

import pytest
from rich.console import Console

from tests.consoles import printed
from trainer.metrics.metric_table import FIXATIONS, METRICS
from trainer.reports.terminal import print_evaluation


@pytest.fixture
def lines(evaluation):
    console = Console(file=io.StringIO(), width=80)
    print_evaluation(evaluation, console)
    return printed(console).splitlines()


def test_every_score_is_shown_with_its_interval_within_80_characters(evaluation, lines):
    salicon = evaluation.datasets["salicon"]
    assert lines[0].strip() == "Validation images of salicon: 10, with 95% confidence intervals"
    assert lines[1].split() == ["centre"]
    assert lines[2].split() == ["candidate", "interval", "default", "bias", "gain", "interval"]
    low, high = salicon.intervals["candidate"]["nss"]
    gain = salicon.gains["nss"]
    nss, _ = (line.split() for line in lines if line.startswith("NSS ↑"))
    means = {model: f"{scores['nss']:.3f}" for model, scores in salicon.models.items()}
    assert nss[2:7] == [means["candidate"], f"{low:.3f}", "to", f"{high:.3f}", means["champion"]]
    assert nss[-4:] == [f"{gain.mean:+.3f}", f"{gain.low:+.3f}", "to", f"{gain.high:+.3f}"]
    prose = ("Undefined", "Each model", "Intervals", "KLD decides")
    assert all(len(line) <= 80 for line in lines[:-1] if not line.startswith(prose))
    assert lines[-1].startswith("Not decided, so the current default stays: there are 10 validation images")


def test_metrics_in_which_the_candidate_is_worse_stand_below_the_scores(evaluation):
    worse = {"centre_bias": ["information_gain", "nss"], "champion": []}
    results = {"salicon": dataclasses.replace(evaluation.datasets["salicon"], worse=worse)}
    console = Console(file=io.StringIO(), width=80)
    print_evaluation(dataclasses.replace(evaluation, datasets=results), console)
    assert "The candidate is significantly worse than the centre bias in IG, NSS.\n" in printed(console)


def test_way_to_people_is_shown_for_each_model(evaluation, lines):
    start = next(index for index, line in enumerate(lines) if line.startswith("Share of the way"))
    assert lines[start + 1].split() == ["held", "centre"]
    assert lines[start + 2].split() == ["out", "bias", "people", "candidate", "default"]
    rows = [line.split() for line in lines[start + 3 : start + 3 + len(METRICS)]]
    protocols = {row.label: "one" if FIXATIONS in row.needs else "half" for row in METRICS.values()}
    assert {row[0]: row[2] for row in rows} == protocols
    shares = evaluation.datasets["salicon"].ceiling.split_half.shares["candidate"]["cc"]
    (cc,) = (line for line in lines[start:] if line.startswith("CC ↑") and "%" in line)
    percents = [round(100 * getattr(shares, end)) for end in ("share", "low", "high")]
    assert "{}% ({} to {})".format(*percents) in cc
    assert "Scored on held-out observers of 10 images with 5 observers each." in lines
