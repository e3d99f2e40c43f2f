"""Compile the training step for GPUs, without a GPU: is there enough memory, and is the estimate of `plan` right?

    make check-gpu [ARGS='--chips l4 a100 --batches 16 64 --precision float32 --json']

This script lowers TensorFlow's step as `tpu_compile.py` does, and `gpu_compiler.py` compiles it with the XLA of a
recent jax, in a separate environment. A case takes a quarter of a minute. The default cases have the accelerator
table's batch on a T4, L4, A100 and H100, in the precision that each chip has by default.

Nothing is executed: the compiler does not try out kernels, as it would beside a GPU, and does not know the
workspaces of cuDNN's kernels. It is also newer than the XLA in TensorFlow.

Exits with 1 if a step does not compile, does not fit into the memory of a chip, or takes more memory
than `plan` says, or far less (`tpu_compile.check_memory`).
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from tests import tpu_compile
from trainer.data.settings import parse_image_size
from trainer.errors import UserError, check
from trainer.network import layers
from trainer.network.architecture import PIXELS
from trainer.network.networks import DEFAULT_NETWORK
from trainer.training import accelerators
from trainer.training.accelerators import Chip

COMPILER = pathlib.Path(__file__).with_name("gpu_compiler.py")


@dataclasses.dataclass(frozen=True)
class Description:
    """What XLA asks of a GPU, beside the memory in the table of accelerators."""

    capability: tuple[int, int]
    cores: int
    clock_ghz: float
    l2_bytes: int
    threads: int
    """Most threads at the same time on a core."""
    fpus: int
    """Float32 units of a core."""
    shared_bytes: int
    """Shared memory of a core."""
    block_shared_bytes: int
    """Shared memory that one block of threads can ask for."""


# The limits of a compute capability are from NVIDIA/cccl at 0e28ed7,
# cudax/include/cuda/experimental/__device/arch_traits.cuh; the other numbers of A100 and H100 from openxla/xla at
# 4336d12 and 0774019, xla/backends/gpu/target_config/specs/a100_sxm_40.txtpb and h100_sxm.txtpb. XLA has no T4 or
# L4: their cores are 2560 and 7424 CUDA cores by 64 and 128 of a core, their clocks and caches those of
# topcpu.net/en/gpu-c/l4-vs-tesla-t4.
KB, MB = 2**10, 2**20
CHIPS: dict[str, tuple[Chip, Description]] = {
    "t4": (accelerators.T4, Description((7, 5), 40, 1.59, 4 * MB, 1024, 64, 64 * KB, 64 * KB)),
    "l4": (accelerators.L4, Description((8, 9), 58, 2.04, 48 * MB, 1536, 128, 100 * KB, 99 * KB)),
    "a100": (accelerators.A100, Description((8, 0), 108, 1.41, 40 * MB, 2048, 64, 164 * KB, 163 * KB)),
    "h100": (accelerators.H100, Description((9, 0), 132, 1.98, 50 * MB, 2048, 128, 228 * KB, 227 * KB)),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A step to compile: `batch` images of `image_size` (height, width) on one chip, a key of CHIPS."""

    chip: str
    batch: int
    image_size: tuple[int, int]
    precision: str


@dataclasses.dataclass(frozen=True)
class Counts(tpu_compile.StepCounts):
    """The compiler's counts of the step; the fields are those that `gpu_compiler.py` prints."""

    def row(self, case: Case) -> dict[str, Any]:
        """A row of the table, per image where a unit is small; times assume the chip's peaks."""
        chip, _ = CHIPS[case.chip]
        arithmetic = DEFAULT_NETWORK.cost.flop * _scale(case) / chip.flops[case.precision]
        memory = self.bytes / case.batch / chip.bandwidth_bytes_s
        return {
            "chip": case.chip,
            "batch": case.batch,
            "precision": case.precision,
            "MB": round(self.bytes / case.batch / 1e6),
            "memory_GB": round(self.memory_bytes / 1e9, 2),
            "planned_GB": round(Chip.step_memory_bytes(*step_of(case)) / 1e9, 2),
            "arithmetic_ms": round(1e3 * arithmetic, 3),
            "memory_ms": round(1e3 * memory, 3),
            "images_per_s": round(1 / max(arithmetic, memory)),
        }


def step_of(case: Case) -> tuple[Chip, int, tuple[int, int], str]:
    """The arguments of `Chip.step_memory_bytes`."""
    chip, _ = CHIPS[case.chip]
    return chip, case.batch, case.image_size, case.precision


def _scale(case: Case) -> float:
    return case.image_size[0] * case.image_size[1] / PIXELS


def main() -> int:
    """Compile each case, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chips", nargs="+", choices=list(CHIPS), default=list(CHIPS), metavar="CHIP")
    parser.add_argument("--batches", nargs="+", type=int, help="images on the chip")
    parser.add_argument("--image-size", default="240x320")
    parser.add_argument("--precision", help="instead of each chip's own")
    parser.add_argument("--compiler", default=".venv-check-gpu/bin/python", help="Python with jax for CUDA")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    arguments = parser.parse_args()
    failed = False
    for case in _cases(arguments):
        try:
            counts = compile_step(case, arguments.compiler)
            row = counts.row(case)
            print(json.dumps(row) if arguments.json else _sentence(row), flush=True)
            tpu_compile.check_memory(counts, *step_of(case))
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
    return int(failed)


def _cases(arguments: argparse.Namespace) -> list[Case]:
    size = parse_image_size(arguments.image_size)
    return [
        Case(name, batch, size, arguments.precision or CHIPS[name][0].precision)
        for name in arguments.chips
        for batch in arguments.batches or [CHIPS[name][0].per_replica_batch]
    ]


def _sentence(row: dict[str, Any]) -> str:
    return (
        f"{row['chip']}, {row['batch']} images in {row['precision']}: {row['memory_GB']} GB, planned "
        f"{row['planned_GB']} GB; {row['MB']} MB of traffic an image; {row['arithmetic_ms']} ms of arithmetic, "
        f"{row['memory_ms']} ms of memory traffic: at most {row['images_per_s']} images/s"
    )


# === Compiling ===


def lower(case: Case) -> str:
    """HLO text of one training step, as TensorFlow passes it to XLA on a GPU."""
    layers.own_gradient = True
    return tpu_compile.lower(tpu_compile.Case("1x1", case.batch, case.image_size, case.precision))


def compile_step(case: Case, compiler: str) -> Counts:
    """Counts of the step of `case`.

    Raises:
        UserError: if the chip has no such precision, or if the compiler does not exist or refuses the step.
    """
    known = CHIPS[case.chip][0].flops
    check(case.precision in known, f"{case.chip} has no {case.precision}; use {' or '.join(known)}")
    found = pathlib.Path(compiler).exists()
    check(found, f"{compiler} does not exist; `make check-gpu` creates it, or pass a Python with jax for CUDA")
    with tempfile.TemporaryDirectory() as folder:
        step, chip = pathlib.Path(folder, "step.hlo"), pathlib.Path(folder, "chip.txtpb")
        step.write_text(lower(case))
        chip.write_text(target(case.chip))
        # -P: the folder of the script has modules with names of packages, which jax must not find.
        command = [compiler, "-P", str(COMPILER), str(step), str(chip)]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    size = "x".join(map(str, case.image_size))
    title = f"{case.batch} images of {size} in {case.precision} on {case.chip}"
    return Counts(**tpu_compile.read_result(finished, title))


def target(name: str) -> str:
    """The chip as XLA's GpuTargetConfigProto, in the text format of Protocol Buffers."""
    chip, found = CHIPS[name]
    major, minor = found.capability
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: {found.threads}
  shared_memory_per_block: {48 * KB}
  shared_memory_per_block_optin: {found.block_shared_bytes}
  shared_memory_per_core: {found.shared_bytes}
  registers_per_block_limit: {64 * KB}
  registers_per_core_limit: {64 * KB}
  core_count: {found.cores}
  fpus_per_core: {found.fpus}
  clock_rate_ghz: {found.clock_ghz}
  l2_cache_size: {found.l2_bytes}
  memory_bandwidth: {chip.bandwidth_bytes_s:.0f}
  device_memory_size: {chip.memory_bytes:.0f}
  block_dim_limit_x: {2**31 - 1}
  block_dim_limit_y: {2**16 - 1}
  block_dim_limit_z: {2**16 - 1}
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  cuda_compute_capability {{
    major: {major}
    minor: {minor}
    feature_extension: {"ACCELERATED_FEATURES" if major == 9 else "NONE"}
  }}
  driver_version: "13.0.0"
  runtime_version: "12.8.0"
  compile_time_toolkit_version: "12.8.0"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
device_description_str: "{chip.title}"
"""


if __name__ == "__main__":
    sys.exit(main())
