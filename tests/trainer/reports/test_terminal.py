"""Scores on a terminal and in a log."""

import io

import pytest
from rich.console import Console

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
