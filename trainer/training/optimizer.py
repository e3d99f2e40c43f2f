"""The optimizer of a training: Adam, with the learning rate of `trainer.config.TrainConfig`."""

from typing import Any

import keras

from trainer.config import TrainConfig
from trainer.training import precision, schedule

EPSILON = 1e-8
"""The default of TensorFlow 1, which the reference used; Keras' default is 1e-7."""


def build_optimizer(config: TrainConfig, model: keras.Model, steps_per_epoch: int, resolved: str) -> Any:
    """An optimizer that is built for the variables of `model`; call it within the strategy's scope.

    Args:
        config: the settings, with the batch size in use.
        model: the network.
        steps_per_epoch: steps of an epoch, for the schedule of the learning rate.
        resolved: key of `precision.POLICIES`.
    """
    adam = keras.optimizers.Adam(schedule.learning_rate(config, steps_per_epoch), epsilon=EPSILON)
    optimizer = precision.scaled(adam, resolved)
    optimizer.build(model.trainable_variables)
    return optimizer
