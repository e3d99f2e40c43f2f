"""Compile the training step for a TPU, without a TPU: does it fit into memory, and what bounds its speed?

    make check-tpu [ARGS='--topologies 1x1 --batches 32 64 --precision float32 --json']

This script lowers TensorFlow's step (network, loss, gradients, all-reduce over the chips, Adam; uint8 input) to
HLO. `tpu_compiler.py` compiles that for TPU v5e with the libtpu of the tpu image, in a separate environment with
the jax of its time, which describes the chips to it. A case takes seven minutes of processor time. The default
cases have the accelerator table's batch on one, four and eight chips.

Where the optimizer would let the strategy reduce a gradient, the step has XLA's all-reduce over all chips:
TPUStrategy's own operation (CrossReplicaSum) can only be lowered on the host of a TPU.

Exits with 1 if a step does not fit into the memory of a chip, takes another amount than `plan` says
(`check_memory`), or has an operation that a TPU does not support.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from trainer.data.settings import parse_image_size
from trainer.errors import UserError, check
from trainer.network import convolution
from trainer.network.msinet.keras_model import build_model
from trainer.training import accelerators, step
from trainer.training.accelerators import Chip
from trainer.training.step import EPSILON, Network

CHIP = accelerators.Accelerator.named("v5e-1").chip
CHIPS = {row.tpu_topology: row.chips for row in accelerators.ACCELERATORS.values() if row.image == "tpu"}
COMPILER = pathlib.Path(__file__).with_name("tpu_compiler.py")
TOO_LITTLE, TOO_MUCH = 0.03, 0.15
"""Largest errors of `plan`'s estimate of the memory, as shares of it: with one that is too low a training may run
out of memory, one that is too high only asks for a smaller batch. What a plan leaves free (`USABLE_MEMORY`) is for
the runtime, not for these."""
XLA_BUDGET = 0.75
"""Share of a GPU's memory up to which XLA keeps values: beyond 95% of 80% of it, they are computed twice
(openxla/xla, GetSchedulerMemoryLimit in gpu_hlo_schedule.cc)."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A step to compile: `batch` images of `image_size` on each chip of `topology`."""

    topology: str
    batch: int
    image_size: tuple[int, int]
    precision: str


@dataclasses.dataclass(frozen=True)
class StepCounts:
    """What XLA counts of a step on any chip."""

    bytes: float
    arguments_bytes: float
    unaliased_bytes: float
    temporary_bytes: float

    @property
    def memory_bytes(self) -> float:
        """Memory of the step: weights and Adam's moments, the batch, results, and temporary values."""
        return self.arguments_bytes + self.unaliased_bytes + self.temporary_bytes


@dataclasses.dataclass(frozen=True)
class Counts(StepCounts):
    """The compiler's counts of the step on one chip; the fields are those that `tpu_compiler.py` prints."""

    flops: float
    exchanged_bytes: float

    def row(self, case: Case) -> dict[str, Any]:
        """A row of the table, per image; times assume the chip's peaks."""
        arithmetic = self.flops / case.batch / CHIP.flops[case.precision]
        memory = self.bytes / case.batch / CHIP.bandwidth_bytes_s
        return {
            "topology": case.topology,
            "batch": case.batch,
            "precision": case.precision,
            "GFLOP": round(self.flops / case.batch / 1e9, 1),
            "MB": round(self.bytes / case.batch / 1e6),
            "HBM_GB": round(self.memory_bytes / 1e9, 2),
            "planned_GB": round(Chip.step_memory_bytes(*step_of(case)) / 1e9, 2),
            "arithmetic_ms": round(1e3 * arithmetic, 3),
            "memory_ms": round(1e3 * memory, 3),
            "images_per_s": round(1 / max(arithmetic, memory)),
            "bound_by": "arithmetic" if arithmetic > memory else "memory",
            "exchanged_MB": round(self.exchanged_bytes / 1e6, 1),
        }


def step_of(case: Case) -> tuple[Chip, int, tuple[int, int], str]:
    """The arguments of `Chip.step_memory_bytes`."""
    return CHIP, case.batch, case.image_size, case.precision


def main() -> int:
    """Compile each case, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topologies", nargs="+", choices=sorted(CHIPS), metavar="CHIPS", help=" ".join(CHIPS))
    parser.add_argument("--batches", nargs="+", type=int, help="images on each chip")
    parser.add_argument("--image-size", default="240x320")
    parser.add_argument("--precision", default=CHIP.precision, choices=sorted(CHIP.flops))
    parser.add_argument("--compiler", default=".venv-check-tpu/bin/python", help="Python with jax and libtpu")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    arguments = parser.parse_args()
    try:
        for case in _cases(arguments):
            counts = compile_step(case, arguments.compiler)
            _print(counts.row(case), arguments.json)
            check_memory(counts, *step_of(case))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _cases(arguments: argparse.Namespace) -> list[Case]:
    size = parse_image_size(arguments.image_size)
    chosen = arguments.topologies or list(CHIPS)
    pairs = [(topology, batch) for topology in chosen for batch in arguments.batches or [CHIP.per_replica_batch]]
    return [Case(topology, batch, size, arguments.precision) for topology, batch in pairs]


def _print(row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(row), flush=True)
        return
    print(
        f"v5e {row['topology']}, {row['batch']} images a chip in {row['precision']}: {row['GFLOP']} GFLOP and "
        f"{row['MB']} MB an image, {row['HBM_GB']} GB of HBM, planned {row['planned_GB']} GB; "
        f"{row['arithmetic_ms']} ms of arithmetic, {row['memory_ms']} ms of memory traffic: at most "
        f"{row['images_per_s']} images/s a chip, bound by {row['bound_by']}; {row['exchanged_MB']} MB all-reduced",
        flush=True,
    )


# === Lowering ===


def lower(case: Case) -> str:
    """HLO text of one training step on each chip, as TensorFlow passes it to XLA."""
    convolution.chip = True
    model = build_model(case.image_size, step.POLICIES[case.precision])
    optimizer = step.with_loss_scaling(keras.optimizers.Adam(1e-5, epsilon=EPSILON), case.precision)
    optimizer.build(model.trainable_variables)
    network, chips = Network(model, optimizer), CHIPS[case.topology]

    @tf.function(jit_compile=True)
    def train(stimulus: tf.Tensor, density: tf.Tensor) -> tf.Tensor:
        batch = {"stimulus": stimulus, "density": density}
        loss, computed = step.gradients(network, batch, case.batch * chips)
        step.apply_gradients(network, [_sum_over(chips, gradient) for gradient in computed])
        return loss

    shape = (case.batch, *case.image_size)
    batch = [tf.TensorSpec((*shape, channels), tf.uint8) for channels in (3, 1)]
    return str(train.experimental_get_compiler_ir(*batch)(stage="hlo", platform_name="CPU"))


def _sum_over(chips: int, gradient: tf.Tensor) -> tf.Tensor:
    if chips == 1:
        return gradient
    return gen_xla_ops.xla_all_reduce(
        input=gradient, group_assignment=[list(range(chips))], reduce_op="Add", mode="CrossReplica"
    )


# === Compiling ===


def compile_step(case: Case, compiler: str) -> Counts:
    """Counts of the step of `case`.

    Raises:
        UserError: if the compiler does not exist, or refuses the step.
    """
    if not pathlib.Path(compiler).exists():
        raise UserError(
            f"{compiler} does not exist; `make check-tpu` creates it, or pass a Python with jax and libtpu"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "step.hlo")
        path.write_text(lower(case))
        # -P: the folder of the script has modules with names of packages, which jax must not find.
        command = [compiler, "-P", str(COMPILER), str(path), case.topology]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    size = "x".join(map(str, case.image_size))
    title = f"{case.batch} images of {size} a chip in {case.precision} on v5e {case.topology}"
    return Counts(**read_result(finished, title))


def read_result(finished: subprocess.CompletedProcess[str], title: str) -> dict[str, float]:
    """Counts that `tpu_compiler.py` or `gpu_compiler.py` has printed of the step called `title`.

    Raises:
        UserError: if it failed, or if XLA failed.
    """
    if status := finished.returncode:
        last = "\n".join(finished.stderr.strip().splitlines()[-5:])
        raise UserError(f"the compiler did not run for {title} (exit status {status}): {last}")
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    if "error" in result:
        message = result["error"]
        if "RESOURCE_EXHAUSTED" in message or "Ran out of memory" in message:
            raise UserError(f"{title} do not fit the chip's memory: {message.splitlines()[0][:400]}; use fewer")
        raise UserError(f"the compiler refuses the step for {title}: {message[:800]}")
    return result


def check_memory(counts: StepCounts, chip: Chip, batch: int, image_size: tuple[int, int], precision: str) -> None:
    """Raise `UserError` unless the step fits into the memory of `chip`, and takes about as much as `plan` says."""
    takes, has = counts.memory_bytes, chip.memory_bytes
    planned = chip.step_memory_bytes(batch, image_size, precision)
    height, width = image_size
    title = f"{batch} images of {height}x{width} in {precision} on one {chip.title} take {takes / 1e9:.2f} GB"
    check(takes <= has, f"{title}, and it has {has / 1e9:.0f} GB; use fewer")
    check(
        takes <= (1 + TOO_LITTLE) * planned and (takes >= (1 - TOO_MUCH) * planned or planned > XLA_BUDGET * has),
        f"{title}, and `plan` says {planned / 1e9:.2f} GB; correct memory_bytes of msinet/step_cost.py",
    )


if __name__ == "__main__":
    sys.exit(main())
