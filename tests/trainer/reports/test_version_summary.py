"""The three lines about a version: what its record says, and nothing that it does not."""

import pytest

from trainer.evaluation.version_record import VersionRecord
from trainer.reports import version_summary

GAIN = {
    "metric": "kld",
    "mean": 0.0521,
    "low": 0.0213,
    "high": 0.0829,
    "level": 0.974,
    "n_images": 120,
    "of_groups": False,
}
KNOWN = {"n_images": 60, "mean": -0.004, "low": -0.02, "high": 0.012, "level": 0.95, "verdict": "not worse"}


def lines(record):
    return version_summary.summary_lines(VersionRecord.of(record))


def short_gain(record):
    return version_summary.short_gain(VersionRecord.of(record))


def test_record_without_them_has_no_lines():
    assert lines({"metrics": {}, "reason": "It is better.", "compared_with": 0}) == {}
    assert short_gain({}) == ""


def test_lines_have_the_gain_the_known_images_the_data_and_the_decision():
    record = {"compared_with": 3, "gain": GAIN, "known": KNOWN, "findings": [], "decision": 12, "could_find": 0.06}
    found = lines(record)
    assert found == {
        "Gain": "KLD better by 0.0521 than version 3 on 120 images (97.4% interval of the gain: 0.0213 to 0.0829)",
        "Known": "Not worse on the 60 known images: worse by 0.0040 (95% interval of the gain: -0.0200 to "
        "0.0120). The check of the data found nothing.",
        "Decided": "Decision 12 of its year. A gain of 0.0600 would have been found half of the time.",
    }
    assert short_gain(record) == "KLD +0.052 (0.021 to 0.083)"


@pytest.mark.parametrize(
    ("record", "name", "part"),
    [
        ({"gain": {**GAIN, "of_groups": True}}, "Gain", "on 120 groups of images"),
        ({"gain": {**GAIN, "low": None, "high": None}}, "Gain", "on 120 images, too few for an interval"),
        ({"gain": {**GAIN, "mean": -0.1}, "compared_with": 0}, "Gain", "KLD worse by 0.1000 than pretrained"),
        ({"gain": {**GAIN, "mean": 0.0}}, "Gain", "KLD the same on 120"),
        ({"gain": {**GAIN, "metric": "another"}}, "Gain", "another better"),
        (
            {"known": {**KNOWN, "verdict": "worse", "mean": -0.2}},
            "Known",
            "Worse on the 60 known images: ",
        ),
        ({"known": {"verdict": "gone"}}, "Known", "are gone"),
        ({"known": {"verdict": "forgotten"}}, "Known", "were forgotten"),
        ({"findings": ["All y are mirrored."]}, "Known", "Data: All y are mirrored."),
        ({"held": True}, "Decided", "Held: "),
    ],
)
def test_each_fact_is_told(record, name, part):
    assert part in lines(record)[name]
    assert list(lines(record)) == [name]


def test_gain_without_an_interval_is_short():
    assert short_gain({"gain": {**GAIN, "low": None, "high": None}}) == "KLD +0.052"
    assert short_gain({"gain": {**GAIN, "mean": -0.2}}).startswith("KLD -0.200 (")
