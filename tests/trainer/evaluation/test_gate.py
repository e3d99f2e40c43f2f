"""The decision of the gate and its reason."""

import pytest

from trainer.config import EvaluateConfig
from trainer.errors import UserError
from trainer.evaluation import confidence, gate
from trainer.evaluation.gate import Decision, decide


def means(kld, cc=0.5, nss=1.0):
    return {"kld": kld, "cc": cc, "nss": nss}


BIAS = {"centre_bias": means(1.6, cc=0.25, nss=0.9)}


def gains_between(ours, theirs, half=0.01, n_images=140):
    """Gains in each metric, with intervals of `half` to both sides."""
    gains = {}
    for metric in ours:
        mean = round((ours[metric] - theirs[metric]) * (-1 if metric == "kld" else 1), 6)
        low, high = (None, None) if half is None else (mean - half, mean + half)
        gains[metric] = confidence.Gain(mean, low, high, 0.01, n_images, 96, 44)
    return gains


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
def test_only_a_candidate_worse_in_both_kld_and_cc_fails_the_baseline(candidate, passed):
    decision = decided({"gate": "always"}, candidate, None)
    assert decision.passed_baseline is passed
    assert decision.promote is passed


NUMBERS = "the candidate's KLD is 0.5000, the current default's 0.6000 (lower is better)"
BECOMES, STAYS = f"The candidate becomes the default: {NUMBERS}", f"The current default stays: {NUMBERS}"


@pytest.mark.parametrize(
    ("settings", "changes", "outcome", "gain"),
    [
        (
            {},
            {},
            BECOMES,
            "significantly better by 0.1000 (95% confidence interval of the gain: 0.0900 to 0.1100)",
        ),
        (
            {"gate_confidence": 0.99},
            {"half": 0.2},
            STAYS,
            "better by 0.1000, but not significantly (99% confidence interval of the gain: -0.1000 to 0.3000)",
        ),
        (
            {"gate_margin": 0.2},
            {},
            STAYS,
            "significantly better by 0.1000 (95% confidence interval of the gain: 0.0900 to 0.1100; "
            "all of it must be above 0.2)",
        ),
        (
            {},
            {"half": None, "n_images": 1},
            STAYS,
            "better by 0.1000, but 1 image is too few for a 95% confidence interval, which needs 2 or more",
        ),
        ({"gate_confidence": 0.0}, {}, BECOMES, "better by 0.1000"),
        ({"gate_confidence": 0.0, "gate_margin": 0.2}, {}, STAYS, "better by 0.1000 (gate_margin is 0.2)"),
    ],
)
def test_the_reason_names_the_numbers(settings, changes, outcome, gain):
    assert decided(settings, means(0.5), means(0.6), **changes).reason == f"{outcome}, {gain}."


def test_candidate_equal_to_the_default_makes_no_difference():
    reason = decided({}, means(0.5), means(0.5), half=0.0).reason
    assert reason.endswith("current default's 0.5000 (lower is better), no difference.")


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
    reservation = gate.reservation({"source": source}, champion)
    assert (reservation == "") is counts
    models = BIAS | {"candidate": means(0.5), "champion": means(0.6)}
    gains = gains_between(means(0.5), means(0.6))
    for choice, promoted in (("kld", counts), ("always", True), ("never", False)):
        decision = decide(EvaluateConfig(gate=choice), models, gains, reservation)
        assert (decision.beats_champion, decision.promote) == (True, promoted)


OF_SAMPLE, OF_PHOTOS = {"source": "sample"}, {"source": "gs://data/osie"}


@pytest.mark.parametrize(
    ("source", "candidate", "champion", "said"),
    [
        ("gs://data/osie", OF_PHOTOS, OF_SAMPLE, "was trained on generated shapes, "),
        ("gs://data/osie", OF_PHOTOS, OF_SAMPLE | {"base_model": OF_PHOTOS}, "was trained on generated "),
        ("sample", OF_PHOTOS, OF_SAMPLE, ""),
        ("gs://data/osie", OF_SAMPLE, OF_SAMPLE, ""),
        ("gs://data/osie", None, OF_SAMPLE, ""),
        ("gs://data/osie", OF_PHOTOS, OF_PHOTOS, ""),
        ("gs://data/osie", OF_PHOTOS, {"dataset": "osie"}, ""),
        ("gs://data/osie", OF_PHOTOS, None, ""),
    ],
)
def test_candidate_of_real_data_need_not_beat_a_default_of_the_sample_set(source, candidate, champion, said):
    precedence = gate.precedence({"source": source}, candidate, champion)
    assert bool(precedence) is bool(said)
    assert said in precedence
    ours, theirs = means(0.5), means(0.501)
    gains = gains_between(ours, theirs)
    for choice, promoted in (("kld", bool(said)), ("always", True), ("never", False)):
        models = BIAS | {"candidate": ours, "champion": theirs}
        decision = decide(EvaluateConfig(gate=choice), models, gains, "", precedence)
        assert (decision.beats_champion, decision.promote) == (False, promoted)
        assert (said in decision.reason) is (choice == "kld" or not said)
    worse = BIAS | {"candidate": means(1.7, cc=0.2), "champion": theirs}
    assert not decide(EvaluateConfig(), worse, gains, "", precedence).promote


def test_metric_that_could_not_be_computed_is_named():
    ours = {"kld": 0.5, "cc": 0.5}
    with pytest.raises(UserError, match="nss could not be computed; choose one of kld, cc"):
        decide(EvaluateConfig(gate="nss"), BIAS | {"candidate": ours, "champion": ours}, {})


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
def test_reason_warns_of_a_model_trained_on_another_version_of_the_data(config, cautious):
    shuffled = {"dataset": "osie", "source": "gs://b/osie", "split": "shuffle", "fingerprint": "aaaa"}
    sentence = gate.caution("current default", config, shuffled)
    assert bool(sentence) == cautious
    assert not cautious or "another version of osie (fingerprint bbbb, here aaaa)" in sentence
    # New images do not change a given split.
    assert gate.caution("current default", config, shuffled | {"split": "given"}) == ""


# === Test sets ===


@pytest.mark.parametrize(
    ("config", "cautious"),
    [
        (None, False),
        ({"dataset": "cat2000", "fingerprint": "aaaa"}, False),
        ({"dataset": "osie", "fingerprint": "aaaa"}, False),
        ({"dataset": "osie", "fingerprint": "bbbb"}, True),
        ({"dataset": "cat2000", "base_model": {"dataset": "osie", "imported": {}}}, True),
        ({"dataset": "osie", "source": "sample", "fingerprint": "bbbb"}, False),
    ],
)
def test_reason_warns_of_a_model_trained_on_data_of_that_name_that_is_not_at_hand(config, cautious):
    manifest = {"dataset": "osie", "source": "gs://b/osie", "split": "shuffle"}
    sentence = gate.held_out_caution("current default", config, manifest, {"aaaa": 0.0})
    assert bool(sentence) == cautious
    assert not cautious or sentence.startswith("The current default was trained on osie too.")


@pytest.mark.parametrize(("share", "cautious"), [(None, True), (0.3, True), (0.5, False), (0.6, False)])
@pytest.mark.parametrize("split", ["shuffle", "given"])
def test_reason_warns_of_a_model_that_kept_fewer_images_apart(share, cautious, split):
    manifest = {"dataset": "osie", "source": "gs://b/osie", "split": split, "test_share": 0.5}
    config = {"dataset": "osie", "fingerprint": "aaaa"} | ({} if share is None else {"test_share": share})
    sentence = gate.held_out_caution("current default", config, manifest, {"aaaa": 0.5})
    assert ("may have been in its training or validation set, so" in sentence) == cautious
    assert bool(sentence) == cautious
