"""A model with `flip_prediction` averages its map with the mirrored image's, wherever it predicts."""

import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.golden.inputs import image
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.io.files import write_json
from trainer.models.find import find_model
from trainer.network.load import load_model
from trainer.network.model_folder import MODEL_CONFIG
from trainer.network.preprocess import Frame

pytestmark = pytest.mark.usefixtures("narrow")

SIZE = (48, 64)
IMAGES = np.random.default_rng(3).integers(0, 256, (2, *SIZE, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def network():
    return predictable.network(11)


@pytest.fixture(scope="module")
def models(network, tmp_path_factory):
    """Folders of a model without and with the setting, and of one before there was such a setting."""
    root = tmp_path_factory.mktemp("trained")
    settings = {"alone": {"flip_prediction": False}, "both": {"flip_prediction": True}, "older": {"flip": True}}
    for name, chosen in settings.items():
        folder = predictable.write_model(root / name, network)
        write_json(folder / MODEL_CONFIG, {"image_size": SIZE, "dataset": "salicon", "settings": chosen})
    return root


@pytest.fixture(scope="module")
def expected(network):
    """The averaged maps of IMAGES, by NumPy."""
    maps = network(IMAGES).numpy().astype(np.float64)
    maps += network(IMAGES[:, :, ::-1].copy()).numpy()[:, :, ::-1]
    maps -= maps.min(axis=(1, 2, 3), keepdims=True)
    return maps / maps.max(axis=(1, 2, 3), keepdims=True)


def test_map_is_the_scaled_mean_of_both(models, network, expected):
    both = load_model(models / "both")
    np.testing.assert_allclose(both(IMAGES), expected, atol=1e-5)
    assert np.abs(expected - network(IMAGES).numpy()).max() > 0.01  # the network sees left and right differently
    np.testing.assert_allclose(both(IMAGES[:, :, ::-1]), both(IMAGES).numpy()[:, :, ::-1], atol=1e-5)


@pytest.mark.parametrize("name", ["alone", "older"])
def test_other_models_predict_each_image_once(models, network, name):
    np.testing.assert_array_equal(load_model(models / name)(IMAGES), network(IMAGES))


def test_predict_and_the_compact_form_average_too(models, expected, tmp_path):
    pixels = image(5, 1, *SIZE)[0]
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    arguments = ["--model", str(models / "both")]
    written = ["--format", "npy", "--output-dir", str(tmp_path / "maps")]
    main(["predict", str(tmp_path / "photo.png"), *arguments, *written])
    map_ = load_model(models / "both")(Frame(SIZE).image(pixels)[None]).numpy()[0, ..., 0]
    np.testing.assert_allclose(np.load(tmp_path / "maps" / "photo.npy"), map_, atol=1e-4)

    main(["export", *arguments, "--format", "int8", "--output", str(tmp_path / "int8")])
    compact = load_model(find_model(str(tmp_path / "int8")))
    np.testing.assert_allclose(compact(IMAGES), expected, atol=0.05)
    assert np.abs(compact(IMAGES) - load_model(models / "alone")(IMAGES)).max() > 0.05


def test_an_export_may_average_or_not_whatever_the_model_does(models, expected, tmp_path):
    def export(name, form, flag):
        output = tmp_path / f"{name}-{form}"
        main(["export", "--model", str(models / name), "--format", form, flag, "--output", str(output)])
        return output

    for name, flag in (("older", "--flip-prediction"), ("both", "--no-flip-prediction")):
        folders = models / name, export(name, "int8", flag)
        before, after = (json.loads((folder / MODEL_CONFIG).read_text())["settings"] for folder in folders)
        assert after == {**before, "flip_prediction": name == "older"}
    served = tf.saved_model.load(str(export("older", "saved-model", "--flip-prediction")))
    maps = served.signatures["serving_default"](input=tf.constant(IMAGES))["output"]
    np.testing.assert_allclose(maps, expected, atol=1e-5)
