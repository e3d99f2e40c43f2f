"""The default's scores over time, of real networks on a tiny dataset."""

import dataclasses
import json

import pytest
from PIL import Image

from pipeline.__main__ import main
from pipeline.registry.register import connect
from tests.narrow import narrowed
from tests.prepared import write_prepared
from tests.trainer.predictable import network
from trainer import artifacts, files
from trainer.artifacts import DEFAULT, Manifest
from trainer.config import EvaluateConfig
from trainer.evaluation.evaluate import evaluate
from trainer.models.find import PRETRAINED_VERSION


@pytest.fixture(scope="module", autouse=True)
def narrow():
    with narrowed():
        yield


@pytest.fixture
def data(tmp_path):
    return write_prepared(tmp_path / "data", n_train=2, n_valid=3)


@pytest.fixture
def location(tmp_path, model):
    """A registry in which versions 1, 3 and 1 again were the default."""
    registry = connect(str(tmp_path / "models"))
    for number, promote in ((1, True), (2, False), (3, True)):
        network(number).save_weights(model / artifacts.WEIGHTS)
        record = {"metrics": {}, "lineage": {"run": f"run-{number}"}}
        registry.add("msinet", model, record, promote, PRETRAINED_VERSION if number == 1 else 1)
    registry.set_alias("msinet", DEFAULT, 1)
    return str(tmp_path / "models")


@pytest.fixture
def history(location, data, tmp_path, capsys):
    """Function: runs the command; returns what it prints."""

    def history(*arguments):
        capsys.readouterr()
        place = ["--registry", location, "--output", str(tmp_path / "history.html")]
        assert main(["registry", "history", "--data", str(data), *place, *arguments]) == 0
        return capsys.readouterr().out

    return history


def kept(folder):
    return json.loads((folder / "history.json").read_text())


def test_each_default_is_evaluated_once_on_the_same_images_and_drawn(history, location, data, tmp_path):
    first = history()
    assert [f"evaluate msinet@{number}\n" in first for number in (1, 2, 3)] == [True, False, True]
    page = (tmp_path / "history.html").read_text()
    assert page.count('<th scope="row">msinet@1<') == 2
    assert page.count('<th scope="row">msinet@3<') == 1
    assert "<svg" in page
    with Image.open(tmp_path / "history.png") as picture:
        assert min(picture.size) > 500
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 20
    # The scores are those of an evaluation.
    scores = {key.partition(" of ")[0].rpartition("/")[2]: entry for key, entry in kept(tmp_path).items()}
    model = connect(location).versions("msinet")[2].model
    measured = evaluate(EvaluateConfig(), model, {"osie": data}, tmp_path / "evaluation")["datasets"]["osie"]
    assert scores["3"]["means"] == pytest.approx(measured["models"]["candidate"])
    assert scores["3"]["intervals"]["kld"] == pytest.approx(measured["intervals"]["candidate"]["kld"])
    assert scores["3"]["means"] != pytest.approx(scores["1"]["means"])
    assert f"{scores['3']['means']['kld']:.3f}" in page
    assert "evaluate msinet@" not in history()
    connect(location).set_alias("msinet", DEFAULT, 2)
    assert history().count("evaluate msinet@") == 1
    manifest = Manifest.load(data)
    dataclasses.replace(manifest, fingerprint="another").save(data)
    assert history().count("evaluate msinet@") == 3


def test_images_that_a_version_was_trained_on_are_told(history, location, data, tmp_path):
    (data / artifacts.IMAGES).write_text(
        "split,image,digest,group\nvalid,valid/0.jpg,aa,\nvalid,valid/1.jpg,bb,\n"
    )
    model = connect(location).versions("msinet")[2].model
    files.write_json(model / artifacts.TRAINING_IMAGES, {"f": {"train": ["aa"], "valid": ["bb"]}})
    history()
    assert "msinet@3 (1)" in (tmp_path / "history.html").read_text()
