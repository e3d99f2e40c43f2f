"""The record of a version, as objects."""

import pytest

from tests.refusals import refused
from trainer.errors import ContentError
from trainer.evaluation.version_record import GainRecord, VersionRecord

GAIN = {"metric": "kld", "mean": 0.05, "n_images": 90, "level": None, "p_value": 0.01}


def test_what_a_record_does_not_say_is_empty():
    record = VersionRecord.of({})
    assert (record.compared_with, record.promote, record.decided, record.gain) == (None, None, True, None)
    assert (record.lineage.run, record.lineage.model) == ("", None)


def test_values_are_objects_and_keys_of_other_programs_are_left_out():
    lineage = {"run": "msinet-1", "data": {"base": {"dataset": "osie", "image_size": [48, 64]}}, "later": 1}
    record = VersionRecord.of({"gain": GAIN, "lineage": lineage, "owner": "lab"})
    assert record.gain == GainRecord("kld", 0.05, 90)
    assert (record.lineage.run, record.lineage.data["base"].dataset) == ("msinet-1", "osie")


def test_a_models_configuration_stays_as_it_is():
    model = {"dataset": "osie", "settings": {"epochs": 3}, "later": 1}
    assert VersionRecord.of({"lineage": {"model": model}}).lineage.model == model


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ([], "the whole"),
        ({"gain": {"metric": "kld"}}, "gain.mean"),
        ({"known": {"verdict": "perhaps"}}, "known.verdict"),
        ({"compared_with": "none"}, "compared_with"),
        ({"lineage": {"model": {"image_size": "large"}}}, "lineage.model.image_size"),
    ],
)
def test_a_wrong_value_is_named_by_its_place(content, named):
    with refused(ContentError, "version.json", named, "restore it"):
        VersionRecord.of(content, "version.json", "restore it")
