"""The gate: what follows from scores, and how certain it must be."""

import numpy as np
import pytest

from trainer.config import EvaluateConfig
from trainer.errors import UserError
from trainer.evaluation import confidence, gate
from trainer.evaluation.gate import Decision, decide
from trainer.evaluation.per_image import PerImage


def means(kld, cc=0.5, nss=1.0):
    return {"kld": kld, "cc": cc, "nss": nss}


BIAS = {"centre_bias": means(1.6, cc=0.25, nss=0.9)}


def gains_between(ours, theirs, half=0.01, n_images=140):
    """Gains in each metric whose intervals reach `half` to both sides."""
    found = {}
    for metric in ours:
        mean = round((ours[metric] - theirs[metric]) * (-1 if metric == "kld" else 1), 6)
        low, high = (None, None) if half is None else (mean - half, mean + half)
        found[metric] = confidence.Gain(mean, low, high, 0.01, n_images, 96, 44)
    return found


def decided(settings, candidate, champion, **changes) -> Decision:
    models = BIAS | {"candidate": candidate} | ({"champion": champion} if champion else {})
    gains = gains_between(candidate, champion, **changes) if champion else {}
    return decide(EvaluateConfig(**settings), models, gains)


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
def test_only_a_candidate_worse_in_both_kld_and_cc_is_below_the_baseline(candidate, passed):
    decision = decided({"gate": "always"}, candidate, None)
    assert decision.passed_baseline is passed
    assert decision.promote is passed


NUMBERS = (
    "the candidate's KLD is 0.5000, the current default's 0.6000 (lower is better), which is better by 0.1000"
)


@pytest.mark.parametrize(
    ("settings", "changes", "reason"),
    [
        (
            {},
            {},
            f"The candidate becomes the default: {NUMBERS} (95% interval of the gain: 0.0900 to 0.1100).",
        ),
        (
            {"gate_confidence": 0.99},
            {"half": 0.2},
            f"The current default stays: {NUMBERS}, but not for certain (99% interval of the gain: -0.1000 to "
            "0.3000).",
        ),
        (
            {"gate_margin": 0.2},
            {},
            f"The current default stays: {NUMBERS} (95% interval of the gain: 0.0900 to 0.1100, all of which must "
            "be above 0.2).",
        ),
        (
            {},
            {"half": None, "n_images": 1},
            f"The current default stays: {NUMBERS}, but 1 image is too few to be 95% certain; it takes 6.",
        ),
        ({"gate_confidence": 0.0}, {}, f"The candidate becomes the default: {NUMBERS}."),
        (
            {"gate_confidence": 0.0, "gate_margin": 0.2},
            {},
            f"The current default stays: {NUMBERS} where more than 0.2 is asked.",
        ),
    ],
)
def test_the_reason_names_the_numbers(settings, changes, reason):
    assert decided(settings, means(0.5), means(0.6), **changes).reason == reason


def test_candidate_that_is_the_default_is_no_different():
    reason = decided({}, means(0.5), means(0.5), half=0.0).reason
    assert reason.endswith("current default's 0.5000 (lower is better), which is no different.")


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
def test_drawn_patterns_do_not_count_against_a_default_of_real_data(source, champion, counts):
    said = gate.reservation({"source": source}, champion)
    assert (said == "") is counts
    models = BIAS | {"candidate": means(0.5), "champion": means(0.6)}
    gains = gains_between(means(0.5), means(0.6))
    for choice, promoted in (("kld", counts), ("always", True), ("never", False)):
        decision = decide(EvaluateConfig(gate=choice), models, gains, said)
        assert (decision.beats_champion, decision.promote) == (True, promoted)


def test_metric_that_could_not_be_computed_is_named():
    ours = {"kld": 0.5, "cc": 0.5}
    with pytest.raises(UserError, match="the gate's metric nss could not be computed; choose one of kld, cc"):
        decide(EvaluateConfig(gate="nss"), BIAS | {"candidate": ours, "champion": ours}, {})


def test_influence_names_the_images_with_the_largest_gains_and_losses():
    champion = np.full(40, 0.5)
    candidate = champion - np.r_[0.3, 0.2, -0.1, np.linspace(0.01, 0.02, 37)]
    images = [f"{index}.jpg" for index in range(40)]
    table = PerImage(images, {"candidate": {"kld": candidate}, "champion": {"kld": champion}})
    found = gate.influence(EvaluateConfig(), table, 2)
    assert list(found.gains) == ["0.jpg", "1.jpg"]
    assert found.gains["0.jpg"] == pytest.approx(0.3)
    assert found.losses == {"2.jpg": pytest.approx(-0.1)}


def test_influence_names_a_metric_that_could_not_be_computed():
    scores = {"kld": np.array([0.5]), "cc": np.array([0.5])}
    table = PerImage(["0.jpg"], {"candidate": scores, "champion": scores})
    with pytest.raises(UserError, match="the gate's metric shuffled_auc could not be computed; choose one of kld"):
        gate.influence(EvaluateConfig(gate="shuffled_auc"), table, 2)


@pytest.mark.parametrize(
    ("config", "cautious"),
    [
        (None, False),
        ({"dataset": "osie", "fingerprint": "aaaa"}, False),
        ({"dataset": "osie", "fingerprint": "bbbb"}, True),
        ({"dataset": "salicon", "fingerprint": "bbbb"}, False),
        ({"dataset": "cat", "base_model": {"dataset": "osie", "fingerprint": "bbbb"}}, True),
        ({"dataset": "osie", "imported": {}}, False),
        ({"dataset": "osie", "source": "sample", "fingerprint": "bbbb"}, False),
    ],
)
def test_model_of_another_state_of_the_data_may_have_seen_the_images(config, cautious):
    shuffled = {"dataset": "osie", "source": "gs://b/osie", "split": "shuffle", "fingerprint": "aaaa"}
    sentence = gate.caution("current default", config, shuffled)
    assert bool(sentence) == cautious
    assert not cautious or "another state of osie (fingerprint bbbb, here aaaa)" in sentence
    # A split that is given stays what it is when images come.
    assert gate.caution("current default", config, shuffled | {"split": "given"}) == ""


def test_influence_passes_over_images_without_the_metric():
    champion, candidate = np.full(10, 1.0), np.linspace(1.1, 2.0, 10)
    candidate[3] = champion[3] = np.nan
    table = PerImage(list("abcdefghij"), {"candidate": {"nss": candidate}, "champion": {"nss": champion}})
    found = gate.influence(EvaluateConfig(gate="nss"), table, 20)
    assert sorted(found.gains) == list("abcefghij")
