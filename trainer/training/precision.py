"""The number format in which the network computes."""

import os
from typing import Any

import keras
import tensorflow as tf

from trainer import cpu
from trainer.errors import check_choice
from trainer.training.strategy import Devices

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
"""Keras policy for each precision; weights, loss and normalisation are float32 under all of them."""
TENSOR_CORES = {(8, 0): "bfloat16", (7, 0): "float16"}
"""Fastest precision of NVIDIA GPUs by their minimum compute capability (CUDA C++ Programming Guide, table of
features by compute capability: bfloat16 since Ampere, half precision since Volta)."""


def resolve(precision: str, devices: Devices) -> str:
    """Resolve a precision to a key of `POLICIES`; `auto` is the fastest precision of the devices.

    For an accelerator of the table it is the table's precision; for any other GPU its compute capability decides.
    For a CPU it is bfloat16 if the CPU has instructions for it (AVX512_BF16, AMX), else float32. A training step
    at 240 x 320 on two cores takes 0.95 s in bfloat16 and 1.57 s in float32; without these instructions bfloat16
    is emulated, and slower than float32.

    Raises:
        UserError: if `precision` is unknown.
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
    """Wrap `optimizer` in loss scaling if `precision` is float16.

    The scale doubles after 2000 finite steps. It halves if gradients are not finite, and that step is skipped.
    Without it, the small gradients of a mean over pixels would vanish below float16's 6e-8 (Micikevicius et al.
    2018, "Mixed Precision Training", section 3.2).
    """
    return keras.optimizers.LossScaleOptimizer(optimizer) if precision == "float16" else optimizer


def _of_gpu() -> str:
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    capability = details.get("compute_capability", (0, 0))
    return next((name for minimum, name in TENSOR_CORES.items() if capability >= minimum), "float32")


def _cpu_multiplies_bfloat16() -> bool:
    # oneDNN fails on bfloat16 if it is restricted to older instructions (ONEDNN_MAX_CPU_ISA=AVX2).
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
    if limit not in ("DEFAULT", "ALL") and not any(name in limit for name in ("BF16", "FP16", "AMX", "AVX10")):
        return False
    return bool(cpu.instruction_sets() & {"avx512_bf16", "amx_bf16"})
