"""The optimizer of a training: Adam, with the options of `trainer.config.TrainConfig`."""

from typing import Any

import keras

from trainer.config import TrainConfig
from trainer.model import is_of_encoder
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
    factors = [
        1.0 if is_of_encoder(variable.path) else config.head_factor for variable in model.trainable_variables
    ]
    adam = _Adam(
        factors,
        learning_rate=schedule.learning_rate(config, steps_per_epoch),
        epsilon=EPSILON,
        weight_decay=config.weight_decay or None,
        use_ema=bool(config.ema_decay),
        ema_momentum=config.ema_decay**config.batch_size,  # a step of a batch is as many steps of one image
    )
    if config.weight_decay:
        adam.exclude_from_weight_decay(var_names=["bias"])
    optimizer = precision.scaled(adam, resolved)
    optimizer.build(model.trainable_variables)
    return optimizer


class _Adam(keras.optimizers.Adam):  # type: ignore[misc]
    """Adam with a factor on the learning rate for each variable."""

    def __init__(self, factors: list[float], **options: Any) -> None:
        super().__init__(**options)
        self._factors = factors

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        factor = self._factors[self._get_variable_index(variable)]
        # Not multiplied by 1, so that the operations without factors are those of Adam.
        super().update_step(gradient, variable, learning_rate if factor == 1 else factor * learning_rate)
