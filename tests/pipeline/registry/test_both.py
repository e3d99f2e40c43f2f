"""What a registry does alike in a folder, in a bucket and on Vertex AI."""

import pytest

from pipeline.registry.register import connect
from pipeline.registry.versions import NO_VERSION
from trainer import artifacts
from trainer.artifacts import CHALLENGER, DEFAULT
from trainer.errors import UserError
from trainer.models.find import find_model

SCORES = (artifacts.EVALUATION, artifacts.PER_IMAGE)


@pytest.fixture(params=["folder", "bucket", "vertex"])
def registry(request, tmp_path):
    if request.param == "folder":
        return connect(str(tmp_path / "models"))
    if request.param == "bucket":
        return connect(f"gs://{request.getfixturevalue('bucket').name}/models")
    return connect(request.getfixturevalue("address"))


def record(name="msinet-1"):
    data = {
        "base": {"dataset": "salicon", "source": "gs://data/salicon", "fingerprint": "aa01"},
        "finetune": {"dataset": "fixationadd1000", "source": "gs://data/add1000", "fingerprint": "bb02"},
    }
    return {
        "metrics": {"fixationadd1000": {"kld": 0.4321, "information_gain": -0.1}, "salicon": {"kld": 0.5}},
        "compared_with": NO_VERSION,
        "reason": "The candidate becomes the default: there is no default model yet.",
        "lineage": {"run": name, "code_version": "0.1.0+5f2a", "data": data, "model": {"epochs": 1}},
    }


def add(registry, model, name="msinet-1", promote=True, champion=NO_VERSION):
    """Register what the run of this name has made."""
    return registry.add("msinet", model, record(name), promote, champion)


def test_registry_without_versions_has_no_default(registry):
    assert registry.default("msinet") is None
    assert registry.versions("msinet") == []
    assert registry.aliases("msinet") == {}


@pytest.mark.parametrize(("promote", "champion"), [(False, 1), (True, NO_VERSION)])
def test_model_that_is_not_promoted_or_was_compared_with_nothing_becomes_the_challenger(
    registry, model, promote, champion
):
    add(registry, model)
    assert add(registry, model, "msinet-2", promote=promote, champion=champion) == (2, CHALLENGER)
    assert registry.aliases("msinet") == {DEFAULT: 1, CHALLENGER: 2}


def test_model_compared_with_a_default_that_has_moved_since_does_not_become_it(registry, model):
    add(registry, model)
    add(registry, model, "msinet-2", champion=1)
    assert add(registry, model, "msinet-3", champion=1) == (3, CHALLENGER)
    assert registry.aliases("msinet") == {DEFAULT: 2, CHALLENGER: 3}


def test_alias_of_a_version_that_does_not_exist_is_refused(registry, model):
    add(registry, model)
    with pytest.raises(UserError, match=r"no version 5 .*versions: 1"):
        registry.set_alias("msinet", DEFAULT, 5)
    assert registry.aliases("msinet") == {DEFAULT: 1}


def test_check_finds_a_registry_that_can_be_written(registry, model):
    registry.check_writable("msinet")
    add(registry, model)
    registry.check_writable("msinet")
    assert registry.aliases("msinet") == {DEFAULT: 1}


def test_version_keeps_the_scores_of_each_image(registry, model, tmp_path):
    for name in SCORES:
        (tmp_path / name).write_text(name)
    registry.add("msinet", model, record(), True, NO_VERSION, evaluation=tmp_path)
    with_scores = registry.default("msinet")
    for folder in (with_scores.model, find_model(with_scores.place)):
        assert [(folder / name).read_text() for name in SCORES] == list(SCORES)
    add(registry, model, "msinet-2", champion=1)
    assert not any((registry.default("msinet").model / name).exists() for name in SCORES)
