"""The Python API: its five lines, the images it takes, what it refuses, and what it imports."""

import inspect
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.refusals import refused
from tests.trainer import predictable
from trainer import api, tools
from trainer.errors import AmbiguousError, ContentError, MismatchError, NotFoundError, UnknownNameError
from trainer.io import files
from trainer.models import registry_layout
from trainer.network.model_folder import ASSETS_EXTRA, MODEL_CONFIG
from trainer.prediction.predictor import Predictor

ROOT = pathlib.Path(__file__).parents[2]
SIZE = (48, 64)
TRAINED_ON = {"dataset": "osie", "source": "gs://data/osie", "image_size": SIZE}


@pytest.fixture(scope="module")
def folder(narrow, tmp_path_factory):
    """A working directory whose registry has one version."""
    work = tmp_path_factory.mktemp("work")
    model = predictable.write_model(work / "models" / "msinet" / "1" / ASSETS_EXTRA, predictable.network(3))
    files.write_json(model / MODEL_CONFIG, TRAINED_ON)
    files.write_json(work / "models" / "msinet" / registry_layout.ALIASES, {"default": 1})
    return work


@pytest.fixture
def model(narrow, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return api.load()


def example():
    return np.asarray(Image.open(ROOT / "examples" / "coffee.jpg").convert("RGB"))


def test_default_model_predicts_a_map_of_the_images_size(model, folder, capsys):
    image = ROOT / "examples" / "coffee.jpg"
    saliency = model.predict(image)
    assert saliency.shape == example().shape[:2]
    assert (saliency.min() >= 0) & (saliency.max() <= 1) & (saliency.std() > 0)
    expected = Predictor(folder / "models" / "msinet" / "1" / ASSETS_EXTRA).predict(example())
    np.testing.assert_array_equal(saliency, expected)
    assert model.image_size == SIZE
    assert repr(model) == "<Model msinet (MSI-Net, trained on osie, version 1, the default of models/msinet)>"
    assert capsys.readouterr() == ("", "")


def test_found_model_says_what_it_is_and_loads_when_it_predicts(narrow, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    found = api.find("msinet@1")
    assert (found.name, found.image_size, found.notice, found.hint) == ("msinet@1", SIZE, "", "")
    assert found.folder == (folder / "models" / "msinet" / "1" / ASSETS_EXTRA).relative_to(folder)
    assert found.tell() == ""
    assert capsys.readouterr().err == f"model: {found}\n"
    np.testing.assert_array_equal(found.predict(example()), api.load("msinet@1").predict(example()))


def test_map_has_the_screens_and_the_size_that_are_asked_for(model):
    page = np.concatenate([example(), example()[::-1]])
    rows = [screen.rows for screen in model.predict(page, "desktop").screens]
    assert rows[0].stop == round(0.625 * page.shape[1])
    assert rows[-1].stop == len(page)
    assert model.predict(page, "whole", size=(50, 60)).shape == (50, 60)
    with refused(UnknownNameError, "tablet", "desktop"):
        model.predict(page, "tablet")


def test_every_name_is_in_the_table_of_the_guide():
    rows = re.findall(r"^\| \*\*.*\|$", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([\w]+)`", row.split("|")[2])]
    assert sorted(named) == sorted(api.__all__)
    assert all(hasattr(api, name) for name in named)


def test_every_name_has_an_example():
    assert [name for name in api.__all__ if ">>>" not in inspect.getdoc(getattr(api, name))] == []


def test_tools_are_few_and_other_names_than_those_for_people():
    assert len(tools.__all__) <= 25
    assert all(hasattr(tools, name) for name in tools.__all__)
    assert not set(tools.__all__) & set(api.__all__)


def test_regions_are_those_of_the_command():
    saliency = np.zeros((10, 20), np.float32)
    saliency[2:4, 5:7] = 1
    found = api.measure(saliency, "button:5,2,2,2", api.Region("left", 0, 0, 50, 100, percent=True))
    assert [each.region.name for each in found] == ["button", "left"]
    assert [(each.share, each.area) for each in found] == [(1.0, 0.02), (1.0, 0.5)]


def test_two_maps_are_compared_by_region():
    before, after = np.zeros((2, 10, 20), np.float32)
    before[2:4, 5:7] = before[8, 10:14] = after[2:4, 8:10] = 1
    moved = api.Region("button", 8, 2, 2, 2)
    (lost,), (kept,) = (api.compare(before, after, "button:5,2,2,2", elsewhere=e) for e in ({}, {"button": moved}))
    assert (lost.first.share, lost.second.share, lost.share, lost.clear) == (0.5, 0, -0.5, True)
    assert (kept.second.region, kept.share) == (moved, 0.5)
    assert not api.compare(before, before, "button:5,2,2,2")[0].clear
    with refused(MismatchError, "(10, 20)", "(10, 19)"):
        api.compare(before, before[:, 1:])


@pytest.mark.parametrize(
    ("image", "kind", "named"),
    [
        (np.zeros((4, 4), np.uint8), ContentError, "(4, 4) uint8"),
        (np.zeros((4, 4, 3)), ContentError, "(4, 4, 3) float64"),
        ("missing.png", NotFoundError, "missing.png"),
        (str(ROOT / "examples"), AmbiguousError, 5),
        (str(ROOT / "README.md"), ContentError, "README.md"),
    ],
)
def test_what_is_not_an_image_is_refused(image, kind, named, model):
    with refused(kind, named):
        model.predict(image)


def test_model_of_the_sample_set_warns(narrow, folder, tmp_path):
    model = tmp_path / "model"
    predictable.write_model(model, predictable.network(3))
    files.write_json(model / MODEL_CONFIG, {**TRAINED_ON, "dataset": "salicon", "source": "sample"})
    with pytest.warns(UserWarning, match="generated shapes"):
        api.load(str(model))


def test_a_map_is_scored_and_an_unknown_model_refused_without_tensorflow(tmp_path):
    code = """
import sys
from trainer.api import UserError, find, load, score
assert find("pretrained").image_size
assert score([[0, 1], [2, 3]], [[1, 1]], blur_px=1)["nss"] > 1
try:
    load("nosuch")
except UserError as error:
    print(error, "|", "tensorflow" in sys.modules or "keras" in sys.modules)
"""
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert finished.stdout.startswith("there is no model at "), finished.stderr
    assert finished.stdout.endswith("| False\n")
