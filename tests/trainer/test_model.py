"""The network and its loss against what the reference graph answered."""

import keras
import numpy as np
import pytest

from tests.golden.weights import set_golden_weights
from trainer.losses import kld
from trainer.model import UpsampleBilinear, build_model

GOLDEN = np.load("tests/golden/msinet_reference.npz")


@pytest.fixture(scope="module")
def model():
    keras.utils.clear_session()
    model = build_model((None, None), dtype="float32")
    set_golden_weights(model, GOLDEN["variables"])
    return model


def test_network_has_the_parameters_of_the_reference(model):
    assert model.count_params() == GOLDEN["n_parameters"] == 24_934_209


@pytest.mark.parametrize("case", ["small", "salicon"])
def test_prediction_and_loss_equal_the_reference(model, case):
    prediction = np.asarray(model(GOLDEN[f"{case}_image"].astype(np.float32)))
    assert prediction.dtype == np.float32
    tolerance = 1e-4 if case == "small" else 1e-4 + 2**-12  # the large prediction is stored as float16
    np.testing.assert_allclose(prediction, GOLDEN[f"{case}_prediction"], atol=tolerance, rtol=0)
    loss = np.mean(kld(GOLDEN[f"{case}_map"], prediction))
    np.testing.assert_allclose(loss, GOLDEN[f"{case}_kld"], rtol=1e-4)


def test_five_adam_steps_equal_the_reference():
    import tensorflow as tf

    model = build_model((64, 80), dtype="float32")
    set_golden_weights(model, GOLDEN["variables"])
    optimizer = keras.optimizers.Adam(1e-5, epsilon=1e-8)
    image, target = GOLDEN["small_image"].astype(np.float32), GOLDEN["small_map"].astype(np.float32)
    losses = []
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(kld(target, model(image)))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        losses.append(float(loss))
    np.testing.assert_allclose(losses, GOLDEN["small_adam_1e-5_losses"], rtol=1e-4)


def test_free_size_model_answers_as_the_fixed_one(model):
    fixed = build_model((64, 80), dtype="float32")
    fixed.set_weights(model.get_weights())
    image = GOLDEN["small_image"].astype(np.float32)
    np.testing.assert_allclose(fixed(image), model(image), atol=1e-6)


def test_upsampling_is_the_one_of_tensorflow_1():
    features = np.random.default_rng(0).standard_normal((2, 5, 7, 3)).astype(np.float32)
    import tensorflow as tf

    expected = tf.compat.v1.image.resize_bilinear(features, (10, 14), align_corners=False)
    np.testing.assert_allclose(UpsampleBilinear()(features), expected, atol=1e-6)


def test_upsampling_keeps_bfloat16():
    layer = UpsampleBilinear(dtype="bfloat16")
    assert layer(np.zeros((1, 2, 2, 1), np.float32)).dtype == "bfloat16"


def test_mixed_precision_keeps_weights_and_output_in_float32():
    model = build_model((16, 24), dtype="mixed_bfloat16")
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert model.get_layer("decoder_conv1").compute_dtype == "bfloat16"
    prediction = model(np.zeros((1, 16, 24, 3), np.float32))
    assert prediction.dtype == "float32"


def test_size_that_the_network_cannot_halve_three_times_is_refused():
    with pytest.raises(ValueError, match="divisible by 8"):
        build_model((240, 321))


def test_kld_is_zero_for_identical_maps_and_positive_otherwise():
    maps = GOLDEN["small_map"].astype(np.float32)
    np.testing.assert_allclose(kld(maps, maps), 0, atol=1e-3)
    assert (np.asarray(kld(maps, maps[::-1])) > 0.1).all()
