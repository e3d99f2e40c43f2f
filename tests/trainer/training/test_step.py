"""What one replica computes of a batch."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import determinism, rounding
from tests.golden.inputs import fixation_map, image
from trainer import convolution, pooling
from trainer.model import build_model
from trainer.training import precision, step

SIZE = (32, 40)


@pytest.fixture(scope="module")
def batch():
    return {"stimulus": tf.constant(image(1, 4, *SIZE)), "density": tf.constant(fixation_map(1, 4, *SIZE))}


def network(policy="float32"):
    return build_model(SIZE, policy, "he_normal", seed=1)


def optimizer_of(model, resolved="float32"):
    made = precision.scaled(keras.optimizers.Adam(1e-4), resolved)
    made.build(model.trainable_variables)
    return made


def flat(computed, scale=1.0):
    return np.concatenate([np.ravel(each) for each in computed]) / scale


@pytest.fixture(scope="module")
def whole(batch):
    model = network()
    return step.gradients(model, optimizer_of(model), batch, batch_size=4)


@pytest.fixture(scope="module")
def exact(batch):
    """The same with a network in float64, where rounding turns no ReLU and no maximum the other way.

    In float32 it does: of two million activations one or two lie within rounding of 0 or of their neighbour. Each
    of them moves a whole column of gradients, on some CPUs and not on others.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(convolution, "_has_dilated_gradient", lambda: False)  # oneDNN has no float64
        model = network("float64")
        yield step.gradients(model, optimizer_of(model), batch, batch_size=4)


FLOAT32_HEAD = 6 * np.sqrt(SIZE[0] * SIZE[1]) * rounding.UNIT
"""Relative error of the loss and of the gradient that enters the network: both are sums over the pixels in float32,
and all that follows in the backward pass is linear in it."""


def test_parts_sum_to_the_whole(batch, exact):
    model = network("float64")
    loss, computed = step.gradients(model, optimizer_of(model), batch, batch_size=4, accumulation=2)
    assert float(loss) == pytest.approx(float(exact[0]), rel=4 * rounding.UNIT)  # the sums of four images' losses
    np.testing.assert_allclose(flat(computed), flat(exact[1]), atol=1e-6 * np.abs(flat(exact[1])).max())


def test_gradients_are_added_two_at_a_time(batch):
    # The order of more is not the same in every run.
    model = network()
    optimizer = optimizer_of(model)
    graph = (
        tf.function(lambda: step.gradients(model, optimizer, batch, batch_size=4)).get_concrete_function().graph
    )
    sums = [operation for operation in graph.get_operations() if operation.type == "AddN"]
    assert sums
    assert {len(operation.inputs) for operation in sums} == {2}


def test_share_of_a_replica_is_over_the_global_batch(batch, whole):
    model = network()
    halves = [{key: values[index : index + 2] for key, values in batch.items()} for index in (0, 2)]
    shares = [step.gradients(model, optimizer_of(model), half, batch_size=4)[0] for half in halves]
    assert float(sum(shares)) == pytest.approx(float(whole[0]), rel=1e-6)


def as_on_a_gpu(batch, policy, monkeypatch):
    """Compiled by XLA, with deterministic operations asked for."""
    monkeypatch.setattr(pooling, "own_gradient", True)
    monkeypatch.setattr(convolution, "chip", True)
    model = network(policy)
    compute = functools.partial(step.gradients, model, optimizer_of(model), batch_size=4)
    with determinism.operations(deterministic=True):
        return tf.function(compute, jit_compile=True)(batch)


def test_step_as_on_a_gpu_is_that_of_a_processor(batch, exact, monkeypatch):
    loss, computed = as_on_a_gpu(batch, "float64", monkeypatch)
    assert float(loss) == pytest.approx(float(exact[0]), rel=FLOAT32_HEAD)
    np.testing.assert_allclose(flat(computed), flat(exact[1]), atol=FLOAT32_HEAD * np.abs(flat(exact[1])).max())


def test_step_in_float32_has_the_gradients_of_float64_but_for_a_few_turned_activations(whole, exact):
    """Of n active units of a layer, one that is turned moves a gradient by 1/sqrt(n); the smallest has 5 x 4 x 256."""
    assert float(whole[0]) == pytest.approx(float(exact[0]), rel=1e-5)
    for found, expected in zip(whole[1], exact[1], strict=True):
        assert np.linalg.norm(found.numpy() - expected.numpy()) <= 2 / np.sqrt(4 * 5 * 4 * 256) * np.linalg.norm(
            expected
        )


@pytest.mark.parametrize("resolved", ["float16", "bfloat16"])
def test_half_precision_points_the_same_way(batch, whole, resolved, monkeypatch):
    model = network(precision.POLICIES[resolved])
    optimizer = optimizer_of(model, resolved)
    compute = functools.partial(step.gradients, model, optimizer, batch_size=4)
    # TensorFlow's own kernels for processors have no gradient of a dilated convolution in float16.
    monkeypatch.setattr(pooling, "own_gradient", resolved == "float16")
    loss, computed = tf.function(compute, jit_compile=resolved == "float16")(batch)
    assert {variable.dtype for variable in model.variables} == {"float32"}
    assert float(loss) == pytest.approx(float(whole[0]), rel=0.05)
    scale = float(optimizer.scale_loss(1.0))
    assert scale == (2.0**15 if resolved == "float16" else 1.0)
    found, expected = flat(computed, scale), flat(whole[1])
    assert found @ expected / np.linalg.norm(found) / np.linalg.norm(expected) > 0.95
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(expected), rel=0.1)


def test_step_whose_gradients_overflow_is_left_out_and_the_scale_halved(batch):
    model = network()
    optimizer = optimizer_of(model, "float16")
    compute = functools.partial(step.gradients, model, optimizer, batch_size=4)
    before = [variable.numpy() for variable in model.variables]

    def overflowing(batch):
        loss, computed = compute(batch)
        return loss, [*computed[:-1], computed[-1] * np.inf]

    step.train_step(model, optimizer, batch, overflowing)
    assert float(optimizer.dynamic_scale) == 2.0**14
    assert int(optimizer.iterations) == 0
    assert all(
        (variable.numpy() == values).all() for variable, values in zip(model.variables, before, strict=True)
    )
    step.train_step(model, optimizer, batch, compute)
    assert int(optimizer.iterations) == 1
    assert any(
        (variable.numpy() != values).any() for variable, values in zip(model.variables, before, strict=True)
    )


def test_validation_leaves_out_what_fills_up(batch):
    model = network()
    mask = tf.constant([1.0, 0.0, 1.0, 0.0])
    masked = step.validation_step(model, {**batch, "mask": mask})
    two = {key: tf.gather(values, [0, 2]) for key, values in batch.items()}
    assert float(masked) == pytest.approx(
        float(step.validation_step(model, {**two, "mask": tf.ones(2)})), rel=1e-6
    )
