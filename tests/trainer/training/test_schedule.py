"""The learning rate over a training."""

import math

import keras
import pytest

from trainer.config import LEARNING_RATE_SCALING, TrainConfig, with_batch
from trainer.errors import UserError
from trainer.training.step import SCALING, learning_rate

STEPS = 20
"""Steps of an epoch."""


def rates(**settings):
    """The learning rate of every step of 4 epochs."""
    config = TrainConfig(epochs=4, **{"learning_rate": 1e-3, "learning_rate_scaling": "none", **settings})
    optimizer = keras.optimizers.Adam(learning_rate(config, STEPS))
    variable = keras.Variable(1.0)
    optimizer.build([variable])
    values = []
    for _ in range(4 * STEPS):
        values.append(float(optimizer.learning_rate))
        optimizer.apply([keras.ops.zeros(())], [variable])
    return values


def test_constant_is_the_number_itself():
    assert learning_rate(with_batch(TrainConfig(), 32), STEPS) == 1e-5


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1), ("sqrt", 16), ("linear", 256), ("capped", 128)])
def test_rate_grows_with_the_batch(scaling, factor):
    config = TrainConfig(batch_size=256, learning_rate_scaling=scaling)
    assert learning_rate(config, STEPS) == pytest.approx(factor * 1e-5)
    assert {"auto", *SCALING} == set(LEARNING_RATE_SCALING)


@pytest.mark.parametrize(("batch_size", "factor"), [(32, 1), (0, 32)])
def test_rate_grows_automatically_only_with_the_batch_of_the_accelerator(batch_size, factor):
    config = with_batch(TrainConfig(batch_size=batch_size), 32)
    assert learning_rate(config, STEPS) == pytest.approx(factor * 1e-5)
    assert with_batch(config, 32) == config


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


def test_warmup_that_never_ends_is_refused():
    with pytest.raises(UserError, match="warmup_epochs is 10; it must be below epochs, which is 10"):
        TrainConfig(warmup_epochs=10)
