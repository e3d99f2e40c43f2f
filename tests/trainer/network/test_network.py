"""The network and its loss against stored results of the reference graph."""

import h5py
import keras
import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from tests import rounding
from tests.golden.weights import set_golden_weights
from tests.narrow import weights_of
from tests.refusals import refused
from trainer.machine.runtime import load_openvino
from trainer.network import layers
from trainer.network.layers import Pixels, convolve_doubled, convolve_phases
from trainer.network.msinet.architecture import VGG16_BLOCKS, encoder_layer
from trainer.network.msinet.keras_model import build_model
from trainer.network.networks import DEFAULT_NETWORK
from trainer.network.onnx_graph import encode_onnx
from trainer.training.loss import kld_loss
from trainer.training.step import EPSILON, Adam

pytestmark = pytest.mark.numerics
GOLDEN = np.load("tests/golden/msinet_reference.npz")


@pytest.fixture(scope="module")
def model():
    keras.utils.clear_session()
    model = build_model((None, None), dtype="float32")
    set_golden_weights(model)
    return model


def test_network_has_the_parameters_of_the_reference(model):
    assert model.count_params() == GOLDEN["n_parameters"] == 24_934_209


@pytest.mark.parametrize("case", ["small", "salicon"])
def test_prediction_and_loss_equal_the_reference(model, case):
    prediction = np.asarray(model(GOLDEN[f"{case}_image"].astype(np.float32)))
    assert prediction.dtype == np.float32
    tolerance = 1e-4 if case == "small" else 1e-4 + 2**-12  # the large prediction is stored as float16
    np.testing.assert_allclose(prediction, GOLDEN[f"{case}_prediction"], atol=tolerance, rtol=0)
    loss = np.mean(kld_loss(GOLDEN[f"{case}_map"], prediction))
    np.testing.assert_allclose(loss, GOLDEN[f"{case}_kld"], rtol=1e-4)


@pytest.mark.parametrize("case", ["small", "salicon"])
def test_onnx_graph_equals_the_reference_in_both_runtimes(model, case):
    images, expected = GOLDEN[f"{case}_image"].astype(np.float32), GOLDEN[f"{case}_prediction"]
    content = encode_onnx(DEFAULT_NETWORK, weights_of(model))
    (answered,) = onnxruntime.InferenceSession(content).run(None, {"input": images})
    openvino = load_openvino()
    compiled = openvino.compile_model(
        openvino.Core().read_model(content), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    tolerance = 1e-4 if case == "small" else 1e-4 + 2**-12
    for maps in (answered, compiled([images])[0]):
        np.testing.assert_allclose(maps, expected, atol=tolerance, rtol=0)


def test_five_adam_steps_equal_the_reference():
    model = build_model((64, 80), dtype="float32")
    set_golden_weights(model)
    optimizer = Adam(1e-5, epsilon=EPSILON)
    image, target = GOLDEN["small_image"].astype(np.float32), GOLDEN["small_map"].astype(np.float32)
    losses = []
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(kld_loss(target, model(image)))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        losses.append(float(loss))
    np.testing.assert_allclose(losses, GOLDEN["small_adam_1e-5_losses"], rtol=1e-4)


def test_free_size_model_answers_as_the_fixed_one(model):
    fixed = build_model((64, 80), dtype="float32")
    fixed.set_weights(model.get_weights())
    image = GOLDEN["small_image"].astype(np.float32)
    np.testing.assert_allclose(fixed(image), model(image), atol=1e-6)


@pytest.mark.parametrize("size", [(5, 7), (2, 3), (1, 4), (1, 1)])
def test_convolution_of_the_doubled_map_is_that_of_tensorflow_1_up_to_the_borders(size):
    rng = np.random.default_rng(0)
    x, kernel = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, *size, 3), (3, 3, 3, 4)))
    doubled = [2 * side for side in size]

    def expected(x, kernel):
        large = tf.raw_ops.ResizeBilinear(images=x, size=doubled)  # neither aligned corners nor half pixels
        return tf.nn.conv2d(large, kernel, 1, "SAME")

    def phases(x, kernel):
        return Pixels()(convolve_doubled(x, kernel))

    weights = tf.constant(rng.standard_normal((2, *doubled, 4)), tf.float32)
    results = []
    for convolve in (expected, phases):
        inputs = tf.constant(x), tf.constant(kernel)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            answer = convolve(*inputs)
            total = tf.reduce_sum(answer * weights)
        results.append([answer, *tape.gradient(total, inputs)])
    for direct, result in zip(*results, strict=True):
        np.testing.assert_allclose(result, direct, atol=2e-5)


def test_convolution_of_phases_is_that_of_their_pixels():
    rng = np.random.default_rng(0)
    x, kernel = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 5, 8), (3, 3, 2, 3)))
    expected = tf.nn.conv2d(Pixels()(x), kernel, 1, "SAME")
    np.testing.assert_allclose(Pixels()(convolve_phases(x, kernel)), expected, atol=1e-5)


@rounding.needs_bfloat16
def test_phases_keep_bfloat16():
    x = keras.ops.cast(np.zeros((1, 2, 2, 1)), "bfloat16")
    assert convolve_doubled(x, np.zeros((3, 3, 1, 1), np.float32)).dtype == "bfloat16"


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(6, 8), (7, 9)])
def test_both_gradients_of_the_pooling_are_one(stride, size, monkeypatch):
    rng = np.random.default_rng(0)
    x = tf.constant(rng.integers(0, 4, (2, *size, 3)), tf.float32)  # with equal pixels in many windows

    def gradient(own):
        monkeypatch.setattr(layers, "own_gradient", own)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layers.max_pool(x, stride)
            weighted = y * np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)
        return tape.gradient(weighted, x)

    np.testing.assert_allclose(gradient(True), gradient(False), atol=1e-6)


def test_files_of_weights_keep_their_layout(model, tmp_path):
    # Keras numbers layers of a class by their distance from the output: aspp_conv1_5 is farther than the others.
    encoder = [
        encoder_layer(block, i + 1) for block, widths in enumerate(VGG16_BLOCKS, 1) for i in range(len(widths))
    ]
    aspp = [f"aspp_{name}" for name in ("conv1_5", "conv1_1", "conv1_2", "conv1_3", "conv1_4", "conv2")]
    decoder = [f"decoder_conv{index}" for index in range(1, 5)]
    model.save_weights(tmp_path / "all.weights.h5")
    with h5py.File(tmp_path / "all.weights.h5") as file:
        for number, name in enumerate([*encoder, *aspp, *decoder]):
            stored = file["layers"][f"conv2d_{number}" if number else "conv2d"]["vars"]
            for position, weight in enumerate(model.get_layer(name).weights):
                np.testing.assert_array_equal(stored[str(position)], weight)
        assert "conv2d_23" not in file["layers"]


@rounding.needs_bfloat16
def test_mixed_precision_keeps_weights_and_output_in_float32():
    model = build_model((16, 24), dtype="mixed_bfloat16")
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert model.get_layer("decoder_conv1").compute_dtype == "bfloat16"
    prediction = model(np.zeros((1, 16, 24, 3), np.float32))
    assert prediction.dtype == "float32"


def test_size_that_the_network_cannot_halve_three_times_is_refused():
    with refused(ValueError, "(240, 321)", 8):
        build_model((240, 321))


def test_kld_is_zero_for_identical_maps_and_positive_otherwise():
    maps = GOLDEN["small_map"].astype(np.float32)
    np.testing.assert_allclose(kld_loss(maps, maps), 0, atol=1e-3)
    assert (np.asarray(kld_loss(maps, maps[::-1])) > 0.1).all()
