"""One training step of one replica, the same on every device: precision, loss, gradients and optimizer."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from trainer.errors import check_choice
from trainer.machine import multiplies_bfloat16
from trainer.training.loss import kld_loss
from trainer.training.settings import TrainConfig
from trainer.training.strategy import Devices

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
"""Keras policy for each precision. Weights, loss and normalisation are float32 under all of them."""
TENSOR_CORES = {(8, 0): "bfloat16", (7, 0): "float16"}
"""Fastest precision of NVIDIA GPUs by their minimum compute capability (CUDA C++ Programming Guide, table of
features by compute capability: bfloat16 since Ampere, half precision since Volta)."""
EPSILON = 1e-8
"""Adam's epsilon: the default of TensorFlow 1, which the reference used. Keras' default is 1e-7."""
LINEAR_UP_TO = 64
"""Largest batch for which linear scaling has been tried (research/log.md)."""
SCALING: dict[str, Callable[[int], float]] = {
    "none": lambda batch: 1.0,
    "sqrt": math.sqrt,
    "linear": float,
    "capped": lambda batch: min(batch, math.sqrt(LINEAR_UP_TO * batch)),
}
"""Factor of a batch size on the learning rate, which is the paper's, for a batch of one."""

Batch = dict[str, tf.Tensor]
Computed = tuple[tf.Tensor, list[tf.Tensor]]
"""A loss and its gradients."""


class Network(NamedTuple):
    """The state that a training changes: weights, and the optimizer's variables."""

    model: keras.Model
    optimizer: Any
    """A built Keras optimizer, in float16 a `LossScaleOptimizer`."""


# === The step ===


def gradients(network: Network, batch: Batch, batch_size: int, accumulation: int = 1) -> Computed:
    """Compute the share of this replica of the loss and the gradients over the global batch.

    Args:
        network: its optimizer scales the loss in float16.
        batch: stimulus (b, H, W, 3) uint8 and density (b, H, W, 1) uint8.
        batch_size: images of the step over all replicas. This replica has b of them.
        accumulation: number of parts into which this replica splits its images, a divisor of b. It computes
            one after another, adds up loss and gradients, and holds the activations of one part in memory.

    Returns:
        The sum of the loss over b images divided by `batch_size`, () float32. With it, its gradients with
        respect to `model.trainable_variables`, float32, times the optimizer's loss scale.
    """
    loss = tf.constant(0.0)
    sums: list[tf.Tensor] = []
    # Unrolled in Python: a tf.while_loop over the parts sometimes fails inside the loop over the steps.
    parts = (tf.split(batch[key], accumulation) for key in ("stimulus", "density"))
    for stimulus, density in zip(*parts, strict=True):
        with tf.control_dependencies([loss, *sums]):  # so that one part at a time is in memory
            images = tf.cast(stimulus, tf.float32)
        with tf.GradientTape() as tape:
            predictions = network.model(images, training=True)
            part_loss = tf.reduce_sum(kld_loss(density, predictions)) / batch_size
            scaled_loss = network.optimizer.scale_loss(part_loss)
        computed = tape.gradient(scaled_loss, network.model.trainable_variables)
        loss += part_loss
        sums = [total + gradient for total, gradient in zip(sums, computed, strict=True)] if sums else computed
    return loss, sums


def apply_gradients(network: Network, computed: list[tf.Tensor]) -> None:
    """Update the weights with the gradients of all replicas.

    Args:
        network: its weights and its optimizer's variables change.
        computed: gradients of this replica, as `gradients` returns them.
    """
    if isinstance(network.optimizer, keras.optimizers.LossScaleOptimizer):
        computed = _finite_together(computed)
    network.optimizer.apply(computed, network.model.trainable_variables)


def _finite_together(computed: list[tf.Tensor]) -> list[tf.Tensor]:
    """Make the gradients of all replicas non-finite if one replica's are.

    Keras' optimizer skips a step if the gradients of its own replica are not finite. If only some replicas skipped
    a step, their weights would differ from then on.
    """
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in computed])
    replicas = tf.distribute.get_replica_context()
    bad = replicas.all_reduce(tf.distribute.ReduceOp.SUM, 1.0 - tf.cast(finite, tf.float32))
    return [computed[0] + tf.where(bad > 0, float("nan"), 0.0), *computed[1:]]


def validation_loss(model: keras.Model, batch: Batch) -> tf.Tensor:
    """Sum KLD over the images of a batch. `mask` (b,) float32 is 1 for images and 0 for padding."""
    predictions = model(tf.cast(batch["stimulus"], tf.float32))
    return tf.reduce_sum(kld_loss(batch["density"], predictions) * batch["mask"])


# === The optimizer ===


class Adam(keras.optimizers.Adam):  # type: ignore[misc]
    """Keras' Adam, on a CPU with one operation for each weight: Keras' nine read and write memory each."""

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """Change a weight and its moments, on a GPU or a TPU as Keras does it."""
        if "CPU" not in variable.device:
            super().update_step(gradient, variable, learning_rate)
            return
        index, step = self._get_variable_index(variable), tf.cast(self.iterations + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )


def build_optimizer(config: TrainConfig, model: keras.Model, steps_per_epoch: int, precision: str) -> Any:
    """Build Adam for the variables of `model`. Call it within the strategy's scope.

    Args:
        config: the settings, with the batch size in use.
        model: the network.
        steps_per_epoch: steps of an epoch, for the schedule of the learning rate.
        precision: key of POLICIES.
    """
    adam = Adam(learning_rate(config, steps_per_epoch), epsilon=EPSILON)
    optimizer = with_loss_scaling(adam, precision)
    optimizer.build(model.trainable_variables)
    return optimizer


def with_loss_scaling(optimizer: keras.optimizers.Optimizer, precision: str) -> Any:
    """Wrap `optimizer` in loss scaling if `precision` is float16.

    The scale doubles after 2000 finite steps. It halves if gradients are not finite, and that step is skipped.
    Without it, the small gradients of a mean over pixels would vanish below float16's 6e-8 (Micikevicius et al.
    2018, "Mixed Precision Training", section 3.2).
    """
    return keras.optimizers.LossScaleOptimizer(optimizer) if precision == "float16" else optimizer


def peak_learning_rate(config: TrainConfig) -> float:
    """Return the highest learning rate of a training: `learning_rate` scaled for the batch size.

    Example: 1e-5 for a batch of 32 scaled `capped` is 3.2e-4.
    """
    return config.learning_rate * SCALING[config.learning_rate_scaling](config.batch_size)


def learning_rate(config: TrainConfig, steps_per_epoch: int) -> Any:
    """Return the learning rate for the optimizer: a number, or a Keras schedule over the steps.

    It rises linearly from 0 over `warmup_epochs` (Goyal et al. 2017, "Accurate, Large Minibatch SGD", 2.2).
    Then it is constant, or falls to 0 at the last step along half a cosine (Loshchilov and Hutter 2017, "SGDR",
    equation 5, without restarts).
    """
    highest = peak_learning_rate(config)
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


# === The precision ===


def resolve_precision(precision: str, devices: Devices) -> str:
    """Resolve a precision to a key of `POLICIES`. `auto` is the fastest precision of the devices.

    For an accelerator of the table it is the table's precision. For any other GPU its compute capability decides.
    For a CPU it is bfloat16 if the CPU has instructions for it (AVX512_BF16, AMX), else float32. A training step
    at 240 x 320 on two cores takes 0.95 s in bfloat16 and 1.57 s in float32. Without these instructions bfloat16
    is emulated, and slower than float32.

    Raises:
        UserError: if `precision` is unknown.
    """
    if precision != "auto":
        check_choice("precision", precision, POLICIES)
        return precision
    if devices.kind == "cpu":
        return "bfloat16" if multiplies_bfloat16() else "float32"
    if devices.chip is not None:
        return devices.chip.precision
    return "bfloat16" if devices.kind == "tpu" else _of_gpu()


def _of_gpu() -> str:
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    capability = details.get("compute_capability", (0, 0))
    return next((name for minimum, name in TENSOR_CORES.items() if capability >= minimum), "float32")
