"""The terms of the loss are the metrics of the same names, with gradients that are finite everywhere."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import losses, metrics

SIZE = 24, 32


@pytest.fixture
def maps():
    random = np.random.default_rng(3)
    targets = random.integers(0, 256, (3, *SIZE, 1)).astype(np.uint8)
    predictions = random.random((3, *SIZE, 1)).astype(np.float32) ** 3
    return targets, predictions


@pytest.mark.parametrize("name", ["cc", "sim"])  # KLD has another epsilon: tests/trainer/test_model.py
def test_term_is_the_metric(maps, name):
    computed = getattr(losses, name)(*maps).numpy()
    for value, target, prediction in zip(computed, *maps, strict=True):
        expected = getattr(metrics, name)(prediction[..., 0].astype(np.float64), target[..., 0].astype(np.float64))
        # Sums of 768 products in float32, which add pairwise.
        assert value == pytest.approx(expected, abs=768 * 1e-7)


def test_terms_do_not_depend_on_the_scale_of_the_maps(maps):
    targets, predictions = maps
    for loss in (losses.cc, losses.sim):
        np.testing.assert_allclose(
            loss(targets, 100 * predictions), loss(targets, predictions), rtol=1e-5, atol=1e-7
        )


def test_weighted_sum_has_the_best_value_zero_for_the_truth(maps):
    targets = maps[0]
    truth = targets.astype(np.float32)
    np.testing.assert_allclose(losses.weighted(targets, truth, 0.5, 2.0), 0, atol=1e-4)
    expected = losses.kld(*maps) + 0.5 * (1 - losses.cc(*maps)) + 2.0 * (1 - losses.sim(*maps))
    np.testing.assert_allclose(losses.weighted(*maps, 0.5, 2.0), expected, rtol=1e-6)
    np.testing.assert_array_equal(losses.weighted(*maps), losses.kld(*maps))


@pytest.mark.parametrize("constant", [0.0, 0.7])
@pytest.mark.parametrize("of", ["targets", "predictions"])
def test_gradient_of_a_constant_map_is_finite(maps, constant, of):
    targets, predictions = (tf.cast(values, tf.float32) for values in maps)
    if of == "targets":
        targets = tf.fill(targets.shape, constant)
    else:
        predictions = tf.fill(predictions.shape, constant)
    with tf.GradientTape() as tape:
        tape.watch(predictions)
        loss = losses.weighted(targets, predictions, 1.0, 1.0)
    assert np.isfinite(loss).all()
    assert np.isfinite(tape.gradient(loss, predictions)).all()
