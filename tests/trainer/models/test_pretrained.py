"""The model that comes with the package: it is whole, and each command takes it, in place of a missing one too."""

import json
import pathlib
import tomllib

import numpy as np
import pytest
from PIL import Image
from skimage import data

from tests.prepared import write_prepared
from trainer.__main__ import main
from trainer.data.prepared_data import Manifest
from trainer.io.files import read_json
from trainer.models.answering import HINT
from trainer.models.find import find_model
from trainer.models.provenance import Provenance
from trainer.network import model_folder
from trainer.network.model_folder import (
    COMPACT_WEIGHTS,
    MODEL_CONFIG,
    TRAINING_IMAGES,
    WEIGHTS_SHA256,
    ModelFolder,
)
from trainer.network.msinet import architecture
from trainer.network.weights import read_weights
from trainer.training.checkpoints import Progress
from trainer.training.settings import TrainConfig
from trainer.training.train import (
    Job,
    fingerprint_initial_model,
    initial_model,
    run_identity,
    training_record,
)

ROOT = pathlib.Path(__file__).parents[3]
SAID = "model: pretrained (MSI-Net, trained on "


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def arrays():
    return read_weights(model_folder.PRETRAINED_FOLDER)


# === The folder ===


def test_it_is_whole_and_small_enough_for_a_repository(arrays):
    files = {path.name for path in model_folder.PRETRAINED_FOLDER.iterdir()}
    assert files == {MODEL_CONFIG, COMPACT_WEIGHTS, TRAINING_IMAGES}
    assert (model_folder.PRETRAINED_FOLDER / COMPACT_WEIGHTS).stat().st_size < 26e6
    assert {name: value.shape for name, value in arrays.items()} == architecture.weight_shapes()
    for name, value in arrays.items():
        assert np.isfinite(value).all(), name
        assert value.any() or value.ndim == 1, name


def test_its_configuration_has_what_models_and_people_need():
    config = read_json(model_folder.PRETRAINED_FOLDER / MODEL_CONFIG, "", dict)
    assert {"dataset", "source", "fingerprint", "image_size", "identity", "best_epoch", WEIGHTS_SHA256} <= set(
        config
    )
    assert not any(Provenance(each).is_sample for each in Provenance(config).trainings)
    for private in (str(pathlib.Path.home()), "/work/", "/tmp/"):
        assert private not in json.dumps(config)


def test_it_is_in_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["trainer.models"]
    package = model_folder.PRETRAINED_FOLDER.parent
    packed = {path for pattern in patterns for path in package.glob(pattern)}
    assert set(model_folder.PRETRAINED_FOLDER.iterdir()) <= packed


# === The commands ===


def test_predict_writes_the_map_of_a_photograph(capsys):
    Image.fromarray(data.astronaut()).save("photo.png")
    main(["predict", "photo.png", "--output-dir", "maps", "--json", "-"])
    out, err = capsys.readouterr()
    assert json.loads(out)["named"] == "pretrained"
    assert json.loads(out)["notice"] == HINT
    said = next(line for line in err.splitlines() if line.startswith(SAID))
    assert said.endswith(", because there is no model in models/msinet")
    levels = np.asarray(Image.open("maps/photo.png"))
    assert levels.shape == (512, 512)
    assert np.ptp(levels) > 200


# === Trainings ===


def test_training_starts_from_its_weights_and_records_it_as_base_model(arrays, tmp_path):
    config = TrainConfig(initial_weights="pretrained")
    network = initial_model(config, (16, 16), "float32", None)
    for (layer, role), value in arrays.items():
        np.testing.assert_array_equal(getattr(network.get_layer(layer), role), value)
    assert len(fingerprint_initial_model(config, None)) == 64
    job = Job(TrainConfig(), Manifest.load(write_prepared(tmp_path / "data")), None, "float32")
    base = ModelFolder(find_model("pretrained")).config_of_base()
    identity = run_identity(job, base)
    assert identity["base"]
    assert training_record(job, base, identity, Progress())["base_model"]["name"] == "pretrained"
