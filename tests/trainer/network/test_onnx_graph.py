"""The ONNX graph: TensorFlow is its oracle, and ONNX's own checker and two runtimes read it."""

import dataclasses
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from PIL import Image
from skimage import data

from tests.guide import ROOT
from tests.narrow import weights_of
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.io.files import read_json, write_json
from trainer.machine.runtime import multiplies_bfloat16
from trainer.models.find import find_model
from trainer.network import onnx_graph
from trainer.network.calibration import Calibration
from trainer.network.compact import quantized, write_compact
from trainer.network.inference import Inference
from trainer.network.load import Trained, load_model
from trainer.network.model_folder import MODEL_CONFIG
from trainer.network.networks import DEFAULT_NETWORK
from trainer.prediction.predictor import Predictor

pytestmark = pytest.mark.usefixtures("narrow")

NEEDS_BFLOAT16 = pytest.mark.skipif(not multiplies_bfloat16(), reason="this CPU does not multiply bfloat16")
CLIENT = ROOT / "docs" / "serving" / "client_onnx.py"
CALIBRATION = Calibration(
    0.7, bias_logit=1.5, bias_slope=2.0, bias_height=0.15, bias_width=0.25, bias_y=-0.1, bias_x=0.2
)
SIZES = [(48, 64), (8, 8), (104, 24), (40, 136)]
# Sums of up to 11,520 products in another order, through 23 layers; TensorFlow's own golden test allows as much.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def network():
    return predictable.network(13)


def images(height, width):
    """Four images: noise, noise with padding at either pair of sides, and one that is all padding."""
    stimuli = np.random.default_rng(height).integers(0, 256, (4, height, width, 3)).astype(np.float32)
    stimuli[1, : height // 4] = stimuli[1, -(height // 4) :] = 126
    stimuli[2, :, : width // 4] = stimuli[2, :, -(width // 4) :] = 126
    stimuli[3] = 126
    return stimuli


def run(content, stimuli):
    return onnxruntime.InferenceSession(content).run(["output"], {"input": stimuli})[0]


@pytest.mark.numerics
@pytest.mark.parametrize("calibration", [None, CALIBRATION])
@pytest.mark.parametrize("flips", [False, True])
def test_maps_of_any_size_are_those_of_tensorflow(network, flips, calibration):
    content = onnx_graph.encode_onnx(DEFAULT_NETWORK, weights_of(network), flips, calibration)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    for size in SIZES:
        stimuli = images(*size)
        expected = Trained(network, flips, calibration)(tf.constant(stimuli)).numpy()
        np.testing.assert_allclose(run(content, stimuli), expected, atol=TOLERANCE)


@pytest.mark.parametrize("calibration", [None, CALIBRATION])
@pytest.mark.parametrize("flips", [False, True])
def test_network_and_what_follows_it_give_the_whole_graphs_maps(network, flips, calibration):
    alone = onnx_graph.encode_onnx(DEFAULT_NETWORK, weights_of(network))
    finish = onnx_graph.encode_finish(flips, calibration)
    onnx.checker.check_model(onnx.load_from_string(finish), full_check=True)
    stimuli = images(48, 64)
    views = np.concatenate([stimuli, stimuli[:, :, ::-1]]) if flips else stimuli
    session = onnxruntime.InferenceSession(finish)
    (found,) = session.run(["output"], {"input": stimuli, "maps": run(alone, views)})
    whole = onnx_graph.encode_onnx(DEFAULT_NETWORK, weights_of(network), flips, calibration)
    np.testing.assert_allclose(found, run(whole, stimuli), atol=1e-5)


@pytest.mark.numerics
@pytest.mark.parametrize("flips", [False, True])
def test_predictions_are_those_of_tensorflow(network, tmp_path, flips):
    folder = predictable.write_model(tmp_path / "model", network)
    config = read_json(folder / MODEL_CONFIG, "", dict) | {"settings": {"flip_prediction": flips}}
    write_json(folder / MODEL_CONFIG, config | {"calibration": dataclasses.asdict(CALIBRATION)})
    model = load_model(folder)
    for size in SIZES:
        stimuli = images(*size)
        expected = model(tf.constant(stimuli)).numpy()[..., 0]
        maps = Inference(folder, size, "float32")(stimuli)
        np.testing.assert_allclose(maps, expected, atol=TOLERANCE)
        alone = Inference(folder, size, "float32")(stimuli[1:2])
        np.testing.assert_array_equal(alone, maps[1:2])


def test_weights_in_compact_form_are_expanded_by_the_runtimes(network, tmp_path):
    write_compact(weights_of(network), tmp_path / "model", {"image_size": [48, 64]})
    stimuli = images(48, 64)
    expected = load_model(tmp_path / "model")(tf.constant(stimuli)).numpy()
    content = onnx_graph.encode_onnx(DEFAULT_NETWORK, quantized(weights_of(network)))
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert len(content) < sum(value.nbytes for value in weights_of(network).values()) / 3.5
    np.testing.assert_allclose(run(content, stimuli), expected, atol=TOLERANCE)
    maps = Inference(tmp_path / "model", (48, 64), "float32")(stimuli)
    np.testing.assert_allclose(maps, expected[..., 0], atol=TOLERANCE)


@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=NEEDS_BFLOAT16)])
def test_an_inference_names_its_runtime_and_precision(network, tmp_path, precision):
    folder = predictable.write_model(tmp_path / "model", network)
    inference = Inference(folder, (48, 64), precision)
    assert inference.runtime.startswith("OpenVINO 20")
    assert inference.runtime.endswith(f", {precision}")
    assert inference(images(48, 64)).shape == (4, 48, 64)


@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=NEEDS_BFLOAT16)])
def test_maps_computed_at_once_have_the_bits_of_each_alone(network, tmp_path, precision):
    """A network of several streams, which would be the library's own way, fails in one of five attempts."""
    folder, stimuli = predictable.write_model(tmp_path / "model", network), np.repeat(images(48, 64), 4, axis=0)
    expected = Inference(folder, (48, 64), precision)(stimuli)
    for _ in range(5):
        found = Inference(folder, (48, 64), precision, parallel=3)(stimuli)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("format", ["onnx", "onnx-int8"])
def test_exports_say_what_they_need_and_predict(network, tmp_path, format):
    folder = predictable.write_model(tmp_path / "model", network)
    path = tmp_path / "model.onnx"
    main(["export", "--model", str(folder), "--format", format, "--output", str(path), "--flip-prediction"])
    metadata = {each.key: each.value for each in onnx.load(path).metadata_props}
    assert metadata["image_size"] == "48x64"
    assert "trained on salicon" in metadata["description"]
    stimuli = images(48, 64)
    expected = dataclasses.replace(load_model(folder), flips=True)(tf.constant(stimuli)).numpy()
    tolerance = TOLERANCE if format == "onnx" else 0.1
    np.testing.assert_allclose(run(path.read_bytes(), stimuli), expected, atol=tolerance)


def test_exports_of_a_compact_model_have_its_weights(network, tmp_path):
    write_compact(weights_of(network), tmp_path / "compact", {"image_size": [48, 64], "dataset": "osie"})
    stimuli = images(48, 64)
    expected = load_model(find_model(str(tmp_path / "compact")))(tf.constant(stimuli)).numpy()
    for kind in ("onnx", "onnx-int8"):
        path = tmp_path / f"{kind}.onnx"
        main(["export", "--model", str(tmp_path / "compact"), "--format", kind, "--output", str(path)])
        np.testing.assert_allclose(run(path.read_bytes(), stimuli), expected, atol=TOLERANCE)


def test_client_of_the_guide_draws_the_map_that_predict_draws(network, tmp_path):
    folder = predictable.write_model(tmp_path / "model", network)
    path = tmp_path / "model.onnx"
    main(["export", "--model", str(folder), "--format", "onnx-int8", "--output", str(path)])
    Image.fromarray(data.astronaut()[:300]).save(tmp_path / "photo.png")
    written = tmp_path / "map.png"
    subprocess.run([sys.executable, CLIENT, path, tmp_path / "photo.png", written], check=True)
    drawn = np.asarray(Image.open(written)) / 255
    expected = Predictor(folder).predict(data.astronaut()[:300])
    assert drawn.shape == expected.shape
    # The client resizes with Pillow, and the weights have 8 bits.
    assert np.corrcoef(drawn.ravel(), expected.ravel())[0, 1] > 0.9
