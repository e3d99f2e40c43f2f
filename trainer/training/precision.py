"""Which number format the network computes in."""

import os
from typing import Any

import keras
import tensorflow as tf

from trainer import processor
from trainer.errors import check_choice
from trainer.training.strategy import Devices

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
"""Keras' policy for each precision; weights, loss and normalisation are float32 under all of them."""
TENSOR_CORES = {(8, 0): "bfloat16", (7, 0): "float16"}
"""What NVIDIA's GPUs multiply fastest, from this compute capability on (CUDA C++ Programming Guide, table of
features by compute capability: bfloat16 since Ampere, half precision since Volta)."""


def resolve(precision: str, devices: Devices) -> str:
    """A key of `POLICIES` for what the user asks for; `auto` is what the devices compute fastest.

    That is the table's precision for an accelerator in it; for another GPU, by its compute capability; and for a
    processor bfloat16 where it multiplies it (AVX512_BF16, AMX), else float32. Measured on two cores at
    240 x 320: 0.95 s a training step in bfloat16, 1.57 s in float32; without the instructions bfloat16 is
    emulated and slower than float32.
    """
    if precision != "auto":
        check_choice("precision", precision, POLICIES)
        return precision
    if devices.kind == "cpu":
        return "bfloat16" if _cpu_multiplies_bfloat16() else "float32"
    if devices.chip is not None:
        return devices.chip.precision
    return "bfloat16" if devices.kind == "tpu" else _of_gpu()


def scaled(optimizer: keras.optimizers.Optimizer, precision: str) -> Any:
    """`optimizer`, around which float16 has the loss scaled: doubled every 2000 good steps, halved at a bad one.

    The small gradients of a mean over pixels vanish below float16's 6e-8 (Micikevicius et al. 2018, "Mixed
    Precision Training", section 3.2); a step whose gradients are not finite is left out.
    """
    return keras.optimizers.LossScaleOptimizer(optimizer) if precision == "float16" else optimizer


def _of_gpu() -> str:
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    capability = details.get("compute_capability", (0, 0))
    return next((name for least, name in TENSOR_CORES.items() if capability >= least), "float32")


def _cpu_multiplies_bfloat16() -> bool:
    # oneDNN fails on bfloat16 where you hold it to older instructions (ONEDNN_MAX_CPU_ISA=AVX2).
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
    if limit not in ("DEFAULT", "ALL") and not any(name in limit for name in ("BF16", "FP16", "AMX", "AVX10")):
        return False
    return bool(processor.flags() & {"avx512_bf16", "amx_bf16"})
