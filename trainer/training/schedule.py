"""The learning rate: scaled for the batch, warmed up, and constant or falling."""

import math
from collections.abc import Callable
from typing import Any

import keras

from trainer.config import TrainConfig

CAP = 64
"""Largest batch for which a linear growth has been tried (docs/log.md)."""
SCALING: dict[str, Callable[[int], float]] = {
    "none": lambda batch: 1.0,
    "sqrt": math.sqrt,
    "linear": float,
    "capped": lambda batch: min(batch, math.sqrt(CAP * batch)),
}
"""Factor by which a batch raises the learning rate, which is that of a batch of one, as the paper's is."""


def peak(config: TrainConfig) -> float:
    """The highest learning rate of a training: `learning_rate` scaled for the batch."""
    return config.learning_rate * SCALING[config.learning_rate_scaling](config.batch_size)


def learning_rate(config: TrainConfig, steps_per_epoch: int) -> Any:
    """What the optimizer takes: a number, or Keras' schedule over the steps.

    It rises linearly from 0 over `warmup_epochs` (Goyal et al. 2017, "Accurate, Large Minibatch SGD", 2.2);
    then it stays, or falls to 0 at the last step along half a cosine (Loshchilov and Hutter 2017, "SGDR",
    equation 5, without restarts).
    """
    highest = peak(config)
    warmup = round(config.warmup_epochs * steps_per_epoch)
    if config.schedule == "constant" and not warmup:
        return highest
    return keras.optimizers.schedules.CosineDecay(
        0.0 if warmup else highest,
        decay_steps=max(1, config.epochs * steps_per_epoch - warmup),
        alpha=1.0 if config.schedule == "constant" else 0.0,  # share of the peak that is left at the end
        warmup_target=highest if warmup else None,
        warmup_steps=warmup,
    )
