"""The decision of the gate and its reason."""

import pytest

from tests.prepared import manifest_of
from tests.refusals import refused
from trainer.errors import SettingError
from trainer.evaluation import confidence, gate, reasons
from trainer.evaluation.evaluation import Gain, Known
from trainer.evaluation.gate import Decision, decide
from trainer.evaluation.settings import EvaluateConfig, metric_of


def means(kld, cc=0.5, nss=1.0):
    return {"kld": kld, "cc": cc, "nss": nss}


BIAS = {"centre_bias": means(1.6, cc=0.25, nss=0.9)}


def gains_between(ours, theirs, level=0.95, half=0.01, n_images=140):
    """Gains in each metric, with intervals of `half` to both sides."""
    gains = {}
    for metric in ours:
        mean = round((ours[metric] - theirs[metric]) * (-1 if metric == "kld" else 1), 6)
        low, high = (None, None) if half is None else (mean - half, mean + half)
        gains[metric] = Gain(mean, low, high, 0.01, n_images, 96, 44, level=level)
    return gains


def decided(settings, candidate, champion, **changes) -> Decision:
    models = BIAS | {"candidate": candidate} | ({"champion": champion} if champion else {})
    config = EvaluateConfig(**settings)
    gains = gains_between(candidate, champion, config.gate_confidence, **changes) if champion else {}
    return decide(config, models, gains.get(metric_of(config.gate), gains.get("kld")))


@pytest.mark.parametrize(
    ("settings", "candidate", "champion", "beats", "promote"),
    [
        ({}, means(0.5), None, None, True),
        ({}, means(0.5), means(0.6), True, True),
        ({}, means(0.6), means(0.5), False, False),
        ({}, means(0.5), means(0.5), False, False),
        ({}, means(0.5), means(0.509), False, False),
        ({"gate_confidence": 0.0}, means(0.5), means(0.509), True, True),
        ({"gate_margin": 0.2}, means(0.5), means(0.6), False, False),
        ({"gate_margin": 0.05}, means(0.5), means(0.6), True, True),
        ({"gate_margin": 0.095}, means(0.5), means(0.6), False, False),
        ({"gate_margin": 0.095, "gate_confidence": 0.0}, means(0.5), means(0.6), True, True),
        ({"gate": "nss"}, means(0.9, nss=2.0), means(0.5, nss=1.5), True, True),
        ({"gate": "nss"}, means(0.5, nss=1.5), means(0.9, nss=2.0), False, False),
        ({"gate": "always"}, means(0.6), means(0.5), False, True),
        ({"gate": "never"}, means(0.5), means(0.6), True, False),
        ({"gate": "never"}, means(0.5), None, None, False),
    ],
)
def test_the_gate_decides(settings, candidate, champion, beats, promote):
    decision = decided(settings, candidate, champion)
    assert (decision.passed_baseline, decision.beats_champion, decision.promote) == (True, beats, promote)
    assert decision.reason.endswith(".")


@pytest.mark.parametrize(
    ("candidate", "passed"),
    [
        (means(1.7, cc=0.2), False),
        (means(1.5, cc=0.2), True),
        (means(1.7, cc=0.3), True),
        (means(1.6, cc=0.25), True),
    ],
)
def test_only_a_candidate_worse_in_both_kld_and_cc_fails_the_baseline(candidate, passed):
    decision = decided({"gate": "always"}, candidate, None)
    assert decision.passed_baseline is passed
    assert decision.promote is passed


@pytest.mark.parametrize(
    ("source", "champion", "counts"),
    [
        ("sample", {"source": "gs://data/add1000"}, False),
        ("sample", {"source": "sample"}, True),
        ("sample", {"dataset": "fixationadd1000"}, True),
        ("sample", None, True),
        ("gs://data/add1000", {"source": "sample"}, True),
        ("gs://data/new", {"source": "gs://data/add1000"}, True),
    ],
)
def test_synthetic_patterns_do_not_count_against_a_default_trained_on_real_data(source, champion, counts):
    reservation = gate.reservation(manifest_of(source=source), champion)
    assert (reservation == "") is counts
    models = BIAS | {"candidate": means(0.5), "champion": means(0.6)}
    gains = gains_between(means(0.5), means(0.6))
    for choice, promoted in (("kld", counts), ("always", True), ("never", False)):
        decision = decide(EvaluateConfig(gate=choice), models, gains["kld"], reservation)
        assert (decision.beats_champion, decision.promote) == (True, promoted)


def test_metric_that_could_not_be_computed_is_named():
    ours = {"kld": 0.5, "cc": 0.5}
    with refused(SettingError, "nss", "kld, cc"):
        decided({"gate": "nss"}, ours, ours)


@pytest.mark.parametrize(
    ("n_images", "n_seen", "n_units", "gate_confidence", "decides"),
    [
        (20, 0, 20, 0.95, True),
        (19, 0, 19, 0.95, False),
        (21, 1, 20, 0.95, True),
        (20, 1, 19, 0.95, False),
        (100, 100, 0, 0.95, False),
        (90, 0, 20, 0.95, True),
        (90, 0, 19, 0.95, False),
        (3, 0, 3, 0.0, True),
        (20, 1, 19, 0.0, False),
    ],
)
def test_nothing_is_decided_on_few_images_or_groups(n_images, n_seen, n_units, gate_confidence, decides):
    config = EvaluateConfig(gate_confidence=gate_confidence)
    undecided = reasons.too_few_to_decide("validation images of osie", n_images, n_seen, n_units, config)
    assert bool(undecided) is not decides
    if not decides:
        assert str(n_images) in undecided
        assert str(n_units) in undecided
        assert str(confidence.MIN_DECIDING) in undecided
    models = BIAS | {"candidate": means(0.5), "champion": means(0.6)}
    gain = gains_between(means(0.5), means(0.6))["kld"]
    decision = decide(EvaluateConfig(), models, gain, undecided=undecided)
    assert (decision.decided, decision.promote) == (decides, decides)
    assert decide(EvaluateConfig(gate="always"), models, gain, undecided=undecided).promote
    alone = BIAS | {"candidate": means(0.5)}
    assert decide(EvaluateConfig(), alone, None, undecided=undecided).promote


def test_later_decisions_of_a_year_need_wider_intervals_and_one_outside_of_runs_does_not():
    config = EvaluateConfig()
    levels = [gate.gate_level(config, decision) for decision in (0, 1, 2, 10, 52, 53)]
    assert levels[0] == 0.95
    assert levels[1:] == sorted(levels[1:])
    assert gate.gate_level(EvaluateConfig(gate_confidence=0.0), 52) == 0.95


def test_always_says_what_it_overrules():
    models = BIAS | {"candidate": means(0.5), "champion": means(0.6)}
    gain = gains_between(means(0.5), means(0.6))["kld"]
    worse = Known(Known.WORSE, 30, -0.2, -0.3, -0.1)
    for known, said in ((worse, "-0.2"), (Known(Known.GONE, 30), "gone")):
        decision = decide(
            EvaluateConfig(gate="always"), models, gain, known=known, questions=["Is it upside down?"]
        )
        assert decision.promote
        assert said in decision.reason
        assert "upside down" in decision.reason
