"""All ways to compute a convolution and its gradients agree."""

import numpy as np
import pytest
import tensorflow as tf

from tests.rounding import sums_of
from trainer.network import convolution

pytestmark = pytest.mark.numerics
SIZES = [(6, 9), (9, 12), (1, 1), (2, 40)]


def normal(seed, shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def example(size, kernel=(3, 3), channels=16, filters=20):
    """A map, a kernel, and a gradient with respect to the result."""
    return normal(0, (2, *size, channels)), normal(1, (*kernel, channels, filters)), normal(2, (2, *size, filters))


def gradients(x, kernel, dy, dilation, training):
    x, kernel = tf.constant(x), tf.constant(kernel)
    with tf.GradientTape() as tape:
        tape.watch((x, kernel))
        total = tf.reduce_sum(convolution.convolve(x, kernel, dilation, training) * dy)
    return tape.gradient(total, (x, kernel))


@pytest.mark.parametrize("size", SIZES)
def test_dilation_is_one_by_tensorflow_and_by_keras(size, monkeypatch):
    x, kernel, _ = example(size)
    monkeypatch.setattr(convolution, "chip", True)
    direct = convolution.convolve(x, kernel, 4)
    np.testing.assert_allclose(
        convolution._by_keras(x, kernel, 4), direct, atol=sums_of(9 * 16, np.abs(x).max() * np.abs(kernel).max())
    )


@pytest.mark.parametrize("kernel", [(3, 3), (3, 1), (1, 3)])
@pytest.mark.parametrize("dilation", [1, 2, 8, 12])
@pytest.mark.parametrize("size", SIZES)
def test_gradients_in_training_are_tensorflows(size, dilation, kernel, monkeypatch):
    x, weights, dy = example(size, kernel)
    own = gradients(x, weights, dy, dilation, training=True)
    monkeypatch.setattr(convolution, "chip", True)
    for result, expected, terms in zip(
        own, gradients(x, weights, dy, dilation, training=True), (9 * 20, 2 * size[0] * size[1]), strict=True
    ):
        bound = sums_of(terms, np.abs(dy).max() * max(np.abs(x).max(), np.abs(weights).max()))
        np.testing.assert_allclose(result, expected, atol=bound)


def test_gradient_in_training_is_by_matrix_products_and_cut_taps_cost_none():
    """Only the middle of a 3 x 3 kernel at dilation 12 overlaps a map of 9 x 12 pixels."""
    x, dy = tf.zeros((1, 9, 12, 16)), tf.zeros((1, 9, 12, 20))

    def shapes(dilation):
        graph = (
            tf.function(lambda: convolution.kernel_gradient(x, dy, (3, 3), dilation)).get_concrete_function().graph
        )
        products = [operation for operation in graph.get_operations() if operation.type == "MatMul"]
        return [tuple(product.inputs[0].shape) for product in products]

    assert shapes(1) == [(96, 48), (108, 48), (96, 48)]
    assert shapes(8) == [(12, 48), (108, 48), (12, 48)]
    assert shapes(12) == [(108, 16)]


def test_inference_and_thin_maps_leave_the_gradient_to_tensorflow():
    def operations(channels, training):
        x, kernel, dy = example((6, 8), channels=channels)
        trace = tf.function(lambda: gradients(x, kernel, dy, 1, training)).get_concrete_function()
        return {operation.type for operation in trace.graph.get_operations()}

    assert "MatMul" in operations(16, training=True)
    assert "Conv2DBackpropFilter" in operations(16, training=False)
    assert "Conv2DBackpropFilter" in operations(3, training=True)
