"""The file of an evaluation: its form stays, and what earlier versions left out is filled."""

import json
import pathlib

import pytest

from tests.refusals import refused
from trainer.errors import ContentError
from trainer.evaluation.evaluation import CeilingScores, Evaluation, Gain, NoCeiling
from trainer.network.model_folder import EVALUATION

WRITTEN = sorted((pathlib.Path(__file__).parent / "evaluations").glob("*.json"))
"""What evaluations of networks wrote when they were dictionaries, with fewer metrics and pictures."""


def parse(content) -> Evaluation:
    return Evaluation.parse(json.dumps(content).encode(), "evaluation.json", "evaluate again")


@pytest.fixture
def held():
    return json.loads((WRITTEN[0].parent / "held.json").read_text())


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_the_form_of_the_file_is_that_of_before(path, tmp_path):
    before = json.loads(path.read_text())
    parse(before).write(tmp_path)
    written = json.loads((tmp_path / EVALUATION).read_text())
    assert written == before
    assert list(written["datasets"]) == list(before["datasets"])
    assert Evaluation.read(tmp_path, "") == parse(before)


def test_values_are_objects(held):
    evaluation = parse(held)
    assert evaluation.deciding is evaluation.datasets["grown"]
    assert isinstance(evaluation.deciding.decisive_gain, Gain)
    assert evaluation.deciding.gains["kld"] == evaluation.deciding.decisive_gain
    assert evaluation.deciding.manifest.held_out == "valid"
    assert evaluation.known.n_images == 30


LATER = (
    *("gate_on", "beats_champion", "end", "decided", "known", "n_known", "model_folders", "decision"),
    *("data_warnings", "questions", "run", "date"),
)
LATER_OF_DATASET = (
    *("folder", "center_bias", "left_out", "worse", "over_people", "decisive_gain", "spread", "could_find"),
    *("n_units", "n_fixations", "n_observers", "image_sizes", "map_size", "runtime", "pages", "ceiling"),
)


def test_an_evaluation_of_an_earlier_version_is_read(held):
    for name in LATER:
        del held[name]
    for name in LATER_OF_DATASET:
        del held["datasets"]["grown"][name]
    for name in ("has_known_observers", "as_seen", "map_variation", "schema"):
        del held["datasets"]["grown"]["manifest"][name]
    evaluation = parse(held | {"later": 1})
    scored = evaluation.deciding
    assert (evaluation.decided, evaluation.questions) == (True, None)
    assert (scored.n_units, scored.left_out, scored.ceiling) == (scored.n_images, [], None)
    assert scored.origin_of_bias == (scored.manifest.fingerprint, scored.manifest.counts["train"])


def test_why_there_is_no_ceiling_is_read(held, tmp_path):
    held["datasets"]["grown"]["ceiling"] = {"absent": "Nobody looked."}
    evaluation = parse(held)
    assert evaluation.deciding.ceiling == NoCeiling("Nobody looked.")
    evaluation.write(tmp_path)
    assert json.loads((tmp_path / EVALUATION).read_text()) == held


def test_groups_were_unknown_to_ceilings_of_earlier_versions(held):
    ceiling = held["datasets"]["grown"]["ceiling"]
    del ceiling["n_units"]
    found = parse(held).deciding.ceiling
    assert isinstance(found, CeilingScores)
    assert found.n_units == ceiling["n_images"]


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        (("reason",), None, "reason"),
        (("datasets",), [], "datasets"),
        (("datasets", "grown"), [], "datasets.grown"),
        (("datasets", "grown", "models"), {"candidate": {"kld": "low"}}, "datasets.grown.models.candidate.kld"),
        (("datasets", "grown", "manifest"), {"dataset": "osie"}, "datasets.grown.manifest.source"),
        (("datasets", "grown", "gains", "kld"), {"mean": 1.0}, "datasets.grown.gains.kld.low"),
        (("known", "n_images"), "some", "known.n_images"),
        (("model_configs", "candidate"), {"image_size": "large"}, "model_configs.candidate.image_size"),
    ],
)
def test_a_wrong_value_is_named_by_its_place(held, place, value, named):
    *outer, last = place
    inner = held
    for name in outer:
        inner = inner[name]
    inner[last] = value
    with refused(ContentError, named, "evaluation.json", "evaluate again"):
        parse(held)


@pytest.mark.parametrize("name", ["decides", "promote", "reason", "model_configs", "gate", "datasets"])
def test_a_missing_key_is_named(held, name):
    del held[name]
    with refused(ContentError, name):
        parse(held)
