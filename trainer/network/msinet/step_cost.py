"""What a training step of MSI-Net takes.

XLA counted operations, memory traffic and memory of the whole training step when it compiled the step for a TPU
v5e (`make check-tpu`), and traffic and memory for GPUs (`make check-gpu`), with 1 to 128 images per chip
(research/benchmarks.md). A CPU is assumed to take the memory of a TPU, and float16 on both as much as bfloat16.
"""

from trainer.network.architecture import StepCost

_TPU_TRAFFIC = {"float32": 1.13e9, "bfloat16": 0.65e9, "float16": 0.65e9}
_TPU_MEMORY = {"float32": 6.13e9 / 32, "bfloat16": 3.17e9 / 32, "float16": 3.17e9 / 32}
STEP_COST = StepCost(
    flop=249.3e9,
    state_bytes=24.93e6 * 4 * 4,
    # A step of one image has 2.5 to 2.8 GB in all on four GPUs, and 6.4 GB on a TPU.
    state_traffic_bytes={"cpu": 5.8e9, "gpu": 1.9e9, "tpu": 5.8e9},
    traffic_bytes={
        "cpu": _TPU_TRAFFIC,
        "gpu": {"float32": 1.54e9, "bfloat16": 0.73e9, "float16": 0.73e9},
        "tpu": _TPU_TRAFFIC,
    },
    # For GPUs, of the one that takes most.
    memory_bytes={
        "cpu": _TPU_MEMORY,
        "gpu": {"float32": 7.45e9 / 32, "bfloat16": 4.0e9 / 32, "float16": 3.7e9 / 32},
        "tpu": _TPU_MEMORY,
    },
)
