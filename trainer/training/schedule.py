"""The learning rate: scaled for the batch, with a warm-up, then constant or falling."""

import math
from collections.abc import Callable
from typing import Any

import keras

from trainer.config import TrainConfig

CAP = 64
"""Largest batch for which linear scaling has been tried (docs/log.md)."""
SCALING: dict[str, Callable[[int], float]] = {
    "none": lambda batch: 1.0,
    "sqrt": math.sqrt,
    "linear": float,
    "capped": lambda batch: min(batch, math.sqrt(CAP * batch)),
}
"""Factor of a batch size on the learning rate, which is the paper's, for a batch of one."""


def peak(config: TrainConfig) -> float:
    """The highest learning rate of a training: `learning_rate` scaled for the batch size."""
    return config.learning_rate * SCALING[config.learning_rate_scaling](config.batch_size)


def learning_rate(config: TrainConfig, steps_per_epoch: int) -> Any:
    """The learning rate for the optimizer: a number, or a Keras schedule over the steps.

    It rises linearly from 0 over `warmup_epochs` (Goyal et al. 2017, "Accurate, Large Minibatch SGD", 2.2).
    Then it is constant, or falls to 0 at the last step along half a cosine (Loshchilov and Hutter 2017, "SGDR",
    equation 5, without restarts).
    """
    highest = peak(config)
    warmup = round(config.warmup_epochs * steps_per_epoch)
    if config.schedule == "constant" and not warmup:
        return highest
    return keras.optimizers.schedules.CosineDecay(
        0.0 if warmup else highest,
        decay_steps=max(1, config.epochs * steps_per_epoch - warmup),
        alpha=1.0 if config.schedule == "constant" else 0.0,  # share of the peak at the end
        warmup_target=highest if warmup else None,
        warmup_steps=warmup,
    )
