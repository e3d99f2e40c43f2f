"""Loss and gradients of one replica, and the learning rate over a training."""

import functools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import determinism, rounding
from tests.golden.inputs import fixation_map, image
from tests.narrow import SHALLOW, narrowed
from trainer.network import convolution, layers
from trainer.network.msinet.keras_model import build_model
from trainer.training import step
from trainer.training.settings import LEARNING_RATE_SCALING, TrainConfig
from trainer.training.step import Network

pytestmark = pytest.mark.numerics
SIZE = (32, 40)
WIDE = {"VGG16_BLOCKS": ((64,), (128,), (256,), (512,), (512,))}
"""All filters: with few, the noise of bfloat16 does not average out."""


@pytest.fixture(scope="module")
def batch():
    return {"stimulus": tf.constant(image(1, 4, *SIZE)), "density": tf.constant(fixation_map(1, 4, *SIZE))}


def network(policy="float32", widths=SHALLOW, resolved="float32"):
    """A network with layers of each kind, with the same weights in any precision, and its optimizer."""
    with narrowed(widths):
        model, of_float32 = (build_model(SIZE, name, "he_normal", seed=1) for name in (policy, "float32"))
    model.set_weights(of_float32.get_weights())
    optimizer = step.with_loss_scaling(step.Adam(1e-4), resolved)
    optimizer.build(model.trainable_variables)
    return Network(model, optimizer)


def flat(computed, scale=1.0):
    return np.concatenate([np.ravel(gradient) for gradient in computed]) / scale


@pytest.fixture(scope="module")
def whole(batch):
    return step.gradients(network(), batch, batch_size=4)


@pytest.fixture
def by_keras(monkeypatch):
    """Keras computes convolutions: oneDNN has no float64, and Eigen no gradient of dilated convolutions."""
    monkeypatch.setattr(convolution, "_has_dilated_gradient", lambda dtype: False)


@pytest.fixture(scope="module")
def exact(batch):
    """Loss and gradients of `whole` in float64, where rounding flips no ReLU and no maximum.

    In float32 it does: of two million activations one or two are within rounding of 0 or of their neighbour, and
    each of them changes a whole column of gradients, on some CPUs and not on others.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(convolution, "_has_dilated_gradient", lambda dtype: False)
        return step.gradients(network("float64"), batch, batch_size=4)


HEAD = 3 * 6 * math.sqrt(SIZE[0] * SIZE[1]) * rounding.UNIT
"""Relative error, as six standard deviations, of the three float32 sums over the pixels before the gradient enters
the network: the loss, and shifting and scaling the map. The rest is linear."""


def test_parts_sum_to_the_whole(batch, exact, by_keras):
    loss, computed = step.gradients(network("float64"), batch, batch_size=4, accumulation=2)
    assert float(loss) == pytest.approx(float(exact[0]), rel=4 * rounding.UNIT)  # a sum of four losses
    np.testing.assert_allclose(flat(computed), flat(exact[1]), atol=1e-6 * np.abs(flat(exact[1])).max())


def test_gradients_are_added_two_at_a_time(batch):
    # The order of three or more summands differs between runs.
    narrow = network()
    graph = tf.function(lambda: step.gradients(narrow, batch, batch_size=4)).get_concrete_function().graph
    sums = [operation for operation in graph.get_operations() if operation.type == "AddN"]
    assert sums
    assert {len(operation.inputs) for operation in sums} == {2}


def test_share_of_a_replica_is_over_the_global_batch(batch, whole):
    narrow = network()
    halves = [{key: values[index : index + 2] for key, values in batch.items()} for index in (0, 2)]
    shares = [step.gradients(narrow, half, batch_size=4)[0] for half in halves]
    assert float(sum(shares)) == pytest.approx(float(whole[0]), rel=1e-6)


def test_step_as_on_a_gpu_is_that_of_a_processor(batch, exact, monkeypatch):
    """XLA compiles with deterministic operations."""
    monkeypatch.setattr(layers, "own_gradient", True)
    monkeypatch.setattr(convolution, "chip", True)
    compute = functools.partial(step.gradients, network("float64"), batch_size=4)
    with determinism.operations(deterministic=True):
        loss, computed = tf.function(compute, jit_compile=True)(batch)
    assert float(loss) == pytest.approx(float(exact[0]), rel=HEAD)
    np.testing.assert_allclose(flat(computed), flat(exact[1]), atol=HEAD * np.abs(flat(exact[1])).max())


def test_float32_has_the_gradients_of_float64_but_for_activations_that_rounding_turns(batch, exact):
    """One of n active units changes a gradient by 1/sqrt(n) of it; the smallest layer has n = 5,120."""
    loss, computed = step.gradients(network("float32"), batch, batch_size=4)
    assert float(loss) == pytest.approx(float(exact[0]), rel=HEAD)
    largest = max(np.linalg.norm(expected) for expected in exact[1])
    for gradient, expected in zip(computed, exact[1], strict=True):
        error = np.linalg.norm(gradient.numpy() - expected.numpy())
        assert error <= 2 / np.sqrt(5_120) * np.linalg.norm(expected) + HEAD * largest


COSINE = 0.95
"""Least cosine of the angle between a gradient in half precision and that in float32."""


@pytest.mark.parametrize(
    ("resolved", "widths"),
    [("float16", SHALLOW), pytest.param("bfloat16", WIDE, marks=rounding.needs_bfloat16)],
)
def test_half_precision_points_the_same_way(batch, resolved, widths, monkeypatch):
    whole = step.gradients(network(widths=widths), batch, batch_size=4)
    model, optimizer = network(step.POLICIES[resolved], widths, resolved)
    compute = functools.partial(step.gradients, Network(model, optimizer), batch_size=4)
    # TensorFlow's own CPU kernels have no gradient of dilated convolutions in float16.
    monkeypatch.setattr(layers, "own_gradient", resolved == "float16")
    loss, computed = tf.function(compute, jit_compile=resolved == "float16")(batch)
    assert {variable.dtype for variable in model.variables} == {"float32"}
    assert float(loss) == pytest.approx(float(whole[0]), rel=0.05)
    scale = float(optimizer.scale_loss(1.0))
    assert scale == (2.0**15 if resolved == "float16" else 1.0)
    gradients, expected = flat(computed, scale), flat(whole[1])
    assert gradients @ expected / np.linalg.norm(gradients) / np.linalg.norm(expected) > COSINE
    # An error that turns the gradient as far has tan(acos(COSINE)) of its norm; one along it may have, too.
    assert np.linalg.norm(gradients) == pytest.approx(np.linalg.norm(expected), rel=np.tan(np.arccos(COSINE)))


def test_step_with_overflowing_gradients_is_skipped_and_halves_the_scale(batch):
    model, optimizer = network(resolved="float16")
    _, computed = step.gradients(Network(model, optimizer), batch, batch_size=4)
    before = [variable.numpy() for variable in model.variables]

    step.apply_gradients(Network(model, optimizer), [*computed[:-1], computed[-1] * np.inf])
    assert float(optimizer.dynamic_scale) == 2.0**14
    assert int(optimizer.iterations) == 0
    assert all(
        (variable.numpy() == values).all() for variable, values in zip(model.variables, before, strict=True)
    )
    step.apply_gradients(Network(model, optimizer), computed)
    assert int(optimizer.iterations) == 1
    assert any(
        (variable.numpy() != values).any() for variable, values in zip(model.variables, before, strict=True)
    )


def test_validation_leaves_out_what_fills_up(batch):
    model = network().model
    mask = tf.constant([1.0, 0.0, 1.0, 0.0])
    masked = step.validation_loss(model, {**batch, "mask": mask})
    two = {key: tf.gather(values, [0, 2]) for key, values in batch.items()}
    assert float(masked) == pytest.approx(
        float(step.validation_loss(model, {**two, "mask": tf.ones(2)})), rel=1e-6
    )


# === The optimizer ===


def test_adam_is_that_of_keras():
    """Up to the rounding of 0.999 to float32, 6e-8, which is 6e-5 of 1 - 0.999; Keras rounds the difference."""
    start, computed = np.random.default_rng(0).standard_normal((2, 1000)).astype(np.float32)
    rate = keras.optimizers.schedules.CosineDecay(1e-2, 8)
    variables = []
    for optimizer in (step.Adam(rate, epsilon=1e-8), keras.optimizers.Adam(rate, epsilon=1e-8)):
        weights = keras.Variable(start)
        optimizer.build([weights])
        for share in (1.0, -0.5, 2.0, 0.0):
            optimizer.apply([tf.constant(share * computed)], [weights])
        variables.append([weights - start, *optimizer.variables])  # and iterations, moments
    for ours, theirs in zip(*variables, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=6e-5, atol=1e-6)


# === The learning rate ===

EPOCH_STEPS = 20
"""Steps of an epoch."""


def rates(**settings):
    """The learning rate of every step of 4 epochs."""
    config = TrainConfig(epochs=4, **{"learning_rate": 1e-3, "learning_rate_scaling": "none", **settings})
    optimizer = keras.optimizers.Adam(step.learning_rate(config, EPOCH_STEPS))
    variable = keras.Variable(1.0)
    optimizer.build([variable])
    values = []
    for _ in range(4 * EPOCH_STEPS):
        values.append(float(optimizer.learning_rate))
        optimizer.apply([keras.ops.zeros(())], [variable])
    return values


def test_constant_is_the_number_itself():
    assert step.learning_rate(TrainConfig().with_batch(32), EPOCH_STEPS) == 1e-5


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1), ("sqrt", 16), ("linear", 256), ("capped", 128)])
def test_rate_grows_with_the_batch(scaling, factor):
    config = TrainConfig(batch_size=256, learning_rate_scaling=scaling)
    assert step.learning_rate(config, EPOCH_STEPS) == pytest.approx(factor * 1e-5)
    assert {"auto", *step.SCALING} == set(LEARNING_RATE_SCALING)


@pytest.mark.parametrize(("batch_size", "factor"), [(32, 1), (0, 32)])
def test_rate_grows_automatically_only_with_the_batch_of_the_accelerator(batch_size, factor):
    config = TrainConfig(batch_size=batch_size).with_batch(32)
    assert step.learning_rate(config, EPOCH_STEPS) == pytest.approx(factor * 1e-5)
    assert config.with_batch(32) == config


def test_warm_up_rises_from_zero_to_the_rate_and_stays():
    steps = rates(warmup_epochs=0.5)
    assert steps[:10] == pytest.approx([1e-3 * step / 10 for step in range(10)])
    assert steps[10:] == pytest.approx([1e-3] * 70)


def test_cosine_falls_to_nothing_at_the_last_step():
    steps = rates(schedule="cosine")
    assert steps == pytest.approx([0.5e-3 * (1 + math.cos(math.pi * step / 80)) for step in range(80)], abs=1e-9)


def test_cosine_after_warm_up_begins_at_the_peak():
    steps = rates(schedule="cosine", warmup_epochs=1, batch_size=4, learning_rate_scaling="sqrt")
    assert steps[19:21] == pytest.approx([2e-3 * 19 / 20, 2e-3])
    assert steps[50] == pytest.approx(1e-3)
    assert steps[79] < 1e-5
