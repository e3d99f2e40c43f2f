"""A model's calibration: the formula against NumPy, and the same maps wherever the model predicts."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.refusals import refused
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.errors import ContentError
from trainer.io.files import write_json
from trainer.models.find import find_model
from trainer.network import preprocess
from trainer.network.calibration import Calibration
from trainer.network.load import load_model
from trainer.network.model_folder import MODEL_CONFIG
from trainer.network.preprocess import Frame
from trainer.network.tensorflow_calibration import calibrated
from trainer.prediction.predictor import Predictor

pytestmark = pytest.mark.usefixtures("narrow")

SIZE = (48, 64)
CALIBRATION = Calibration(
    0.7, bias_logit=1.5, bias_slope=2.0, bias_height=0.15, bias_width=0.25, bias_y=-0.1, bias_x=0.2
)


def formula(map_, c):
    """A calibrated map (h, w) without padding, in float64."""
    p = map_ / map_.sum()
    below_uniform = np.log(p.size) + (p[p > 0] * np.log(p[p > 0])).sum()
    share = 1 / (1 + np.exp(-(c.bias_logit - c.bias_slope * below_uniform)))
    y, x = ((np.arange(side) + 0.5) / side - 0.5 for side in p.shape)
    bias = np.exp(-0.5 * (((y[:, None] - c.bias_y) / c.bias_height) ** 2 + ((x - c.bias_x) / c.bias_width) ** 2))
    power = p**c.exponent
    mixed = (1 - share) * power / power.sum() + share * bias / bias.sum()
    return mixed / mixed.max()


@pytest.mark.parametrize("image_size", [(48, 64), (48, 40), (20, 64), (21, 64)])
def test_calibrated_maps_are_those_of_the_formula_inside_the_padding(image_size):
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (*image_size, 3)).astype(np.uint8)
    images = Frame(SIZE).image(pixels)[None]
    top, left, height, width = Frame(SIZE).box(image_size)
    box = slice(top, top + height), slice(left, left + width)
    map_ = np.zeros(SIZE, np.float32)
    map_[box] = rng.random((height, width)) ** 3
    result = calibrated(CALIBRATION, tf.constant(map_[None, ..., None]), tf.constant(images)).numpy()[0, ..., 0]
    expected = formula(map_[box].astype(np.float64), CALIBRATION)
    # Sums of 3,072 float32 values, and a logarithm.
    np.testing.assert_allclose(result[box], expected, atol=1e-5)


def test_a_calibration_is_part_of_the_model_wherever_it_predicts(tmp_path):
    network = predictable.network(11)
    folder = predictable.write_model(tmp_path / "model", network)
    config = {"image_size": SIZE, "dataset": "salicon", "settings": {}}
    write_json(folder / MODEL_CONFIG, config | {"calibration": dataclasses.asdict(CALIBRATION)})
    images = np.random.default_rng(3).integers(0, 256, (1, *SIZE, 3)).astype(np.float32)
    expected = formula(network(images).numpy()[0, ..., 0].astype(np.float64), CALIBRATION)
    np.testing.assert_allclose(load_model(folder)(images)[0, ..., 0], expected, atol=1e-5)
    np.testing.assert_allclose(Predictor(folder).predict_prepared(images)[0], expected, atol=1e-5)

    main(["export", "--model", str(folder), "--output", str(tmp_path / "saved")])
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    np.testing.assert_allclose(served(input=tf.constant(images))["output"][0, ..., 0], expected, atol=1e-5)
    main(["export", "--model", str(folder), "--format", "int8", "--output", str(tmp_path / "int8")])
    compact = load_model(find_model(str(tmp_path / "int8")))
    np.testing.assert_allclose(compact(images)[0, ..., 0], expected, atol=0.05)


def test_numbers_are_kept_to_four_digits():
    again = Calibration.of_numbers(CALIBRATION.numbers)
    assert dataclasses.astuple(again) == pytest.approx(dataclasses.astuple(CALIBRATION), rel=1e-3)


def test_borders_of_the_paddings_colour_are_not_taken_for_padding():
    images = np.full((3, *SIZE, 3), preprocess.STIMULUS_PADDING, np.float32)
    images[0, 5:20, 10:30] = 0  # a card on a grey page
    images[1, 12:36, 16:48] = 0  # in its middle
    maps = tf.ones((3, *SIZE, 1))
    whole = calibrated(CALIBRATION, maps, tf.zeros((3, *SIZE, 3)))
    np.testing.assert_allclose(calibrated(CALIBRATION, maps, tf.constant(images)), whole, atol=1e-6)


@pytest.mark.parametrize("numbers", [{"exponent": 1.0}, {**dataclasses.asdict(CALIBRATION), "more": 1.0}])
def test_another_set_of_numbers_is_refused(tmp_path, numbers):
    folder = predictable.write_model(tmp_path / "model", predictable.network(11))
    write_json(folder / MODEL_CONFIG, {"image_size": SIZE, "calibration": numbers})
    with refused(ContentError, "calibration"):
        Predictor(folder)


def test_whole_numbers_are_read_as_those_with_a_point(tmp_path):
    folder = predictable.write_model(tmp_path / "model", predictable.network(11))
    maps = []
    for slope in (2, 2.0):
        numbers = {**dataclasses.asdict(CALIBRATION), "bias_slope": slope}
        write_json(folder / MODEL_CONFIG, {"image_size": SIZE, "calibration": numbers})
        maps.append(Predictor(folder).predict_prepared(np.zeros((1, *SIZE, 3), np.float32)))
    np.testing.assert_array_equal(*maps)
