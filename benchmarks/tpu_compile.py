"""The trainer's own training step through the TPU compiler, without a TPU: does it fit, and what bounds it?

    make check-tpu [ARGS='--topologies 1x1 --batches 32 64 --precision float32 --json']

TensorFlow's step (network, loss, gradients, all-reduce over the chips, Adam; bytes in) is lowered to HLO here, and
compiled for TPU v5e by `tpu_compiler.py` in an environment of its own, since jax and TensorFlow ask for different
libtpus. A case takes two minutes on two idle cores. By default those are the accelerator table's batch on one,
four and eight chips.

The all-reduce is XLA's, one for each gradient where the optimizer would have the strategy reduce it, over all
chips: TPUStrategy's own operation for it (CrossReplicaSum) can only be lowered on a TPU's host.

Exits with 1 where a step does not fit the chip's memory, or has an operation that a TPU does not know.
"""

import argparse
import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from trainer import accelerators, convolution
from trainer.config import parse_image_size
from trainer.errors import UserError
from trainer.model import build_model
from trainer.training import precision, step
from trainer.training.train import ADAM_EPSILON

CHIP = accelerators.get("v5e-1").chip
CHIPS = {row.tpu_topology: row.chips for row in accelerators.ACCELERATORS.values() if row.image == "tpu"}
COMPILER = pathlib.Path(__file__).with_name("tpu_compiler.py")


@dataclasses.dataclass(frozen=True)
class Case:
    """A step to compile: `batch` images of `image_size` on each chip of `topology`."""

    topology: str
    batch: int
    image_size: tuple[int, int]
    precision: str


@dataclasses.dataclass(frozen=True)
class Counts:
    """What the compiler counts in one chip's step of `batch` images, exactly as `tpu_compiler.py` prints it."""

    flops: float
    bytes: float
    arguments_bytes: float
    unaliased_bytes: float
    temporary_bytes: float
    exchanged_bytes: float

    @property
    def memory_bytes(self) -> float:
        """What the step occupies: weights and Adam's moments, the batch, results, and all in between."""
        return self.arguments_bytes + self.unaliased_bytes + self.temporary_bytes

    def row(self, case: Case) -> dict[str, Any]:
        """Figures of the table, per image; times are those of the chip's peaks."""
        arithmetic = self.flops / case.batch / CHIP.flops[case.precision]
        memory = self.bytes / case.batch / CHIP.bandwidth_bytes_s
        return {
            "topology": case.topology,
            "batch": case.batch,
            "precision": case.precision,
            "GFLOP": round(self.flops / case.batch / 1e9, 1),
            "MB": round(self.bytes / case.batch / 1e6),
            "HBM_GB": round(self.memory_bytes / 1e9, 2),
            "arithmetic_ms": round(1e3 * arithmetic, 3),
            "memory_ms": round(1e3 * memory, 3),
            "images_per_s": round(1 / max(arithmetic, memory)),
            "bound_by": "arithmetic" if arithmetic > memory else "memory",
            "exchanged_MB": round(self.exchanged_bytes / 1e6, 1),
        }


def main() -> int:
    """Compile each case, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topologies", nargs="+", choices=sorted(CHIPS), metavar="CHIPS", help=" ".join(CHIPS))
    parser.add_argument("--batches", nargs="+", type=int, help="images on each chip")
    parser.add_argument("--image-size", default="240x320")
    parser.add_argument("--precision", default=CHIP.precision, choices=sorted(CHIP.flops))
    parser.add_argument("--compiler", default=".venv-check-tpu/bin/python", help="Python that has jax and libtpu")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    arguments = parser.parse_args()
    try:
        for case in _cases(arguments):
            counts = compile_step(case, arguments.compiler)
            _print(counts.row(case), arguments.json)
            check_fit(counts, case)
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
        f"{row['MB']} MB an image, {row['HBM_GB']} GB of HBM; {row['arithmetic_ms']} ms of arithmetic, "
        f"{row['memory_ms']} ms of memory traffic: at most {row['images_per_s']} images/s a chip, bound by "
        f"{row['bound_by']}; {row['exchanged_MB']} MB all-reduced",
        flush=True,
    )


# === Lowering ===


def lower(case: Case) -> str:
    """HLO text of one training step on each chip, as TensorFlow hands it to XLA."""
    convolution.chip = True
    model = build_model(case.image_size, precision.POLICIES[case.precision])
    optimizer = keras.optimizers.Adam(1e-5, epsilon=ADAM_EPSILON)
    optimizer.build(model.trainable_variables)
    chips = CHIPS[case.topology]
    compute = functools.partial(step.gradients, model, optimizer, batch_size=case.batch * chips)

    def reduced(batch: step.Batch) -> step.Computed:
        loss, computed = compute(batch)
        return loss, [_sum_over(chips, each) for each in computed]

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def train(stimulus: tf.Tensor, density: tf.Tensor) -> tf.Tensor:
        return step.train_step(model, optimizer, {"stimulus": stimulus, "density": density}, reduced)

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
        UserError: if the compiler is not there, or does not take the step.
    """
    if not pathlib.Path(compiler).exists():
        raise UserError(
            f"there is no {compiler}; `make check-tpu` sets it up, or name a Python with jax and libtpu"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "step.hlo")
        path.write_text(lower(case))
        command = [compiler, str(COMPILER), str(path), case.topology]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    return read_answer(finished.returncode, finished.stdout, finished.stderr, case)


def read_answer(status: int, output: str, complaints: str, case: Case) -> Counts:
    """Counts out of what `tpu_compiler.py` printed.

    Raises:
        UserError: if it failed, or if XLA did.
    """
    size = "x".join(map(str, case.image_size))
    what = f"{case.batch} images of {size} a chip in {case.precision} on v5e {case.topology}"
    if status:
        last = "\n".join(complaints.strip().splitlines()[-5:])
        raise UserError(f"the compiler did not run for {what} (exit status {status}): {last}")
    answer = json.loads(output.splitlines()[-1])
    if "error" in answer:
        message = answer["error"]
        if "RESOURCE_EXHAUSTED" in message or "Ran out of memory" in message:
            raise UserError(f"{what} do not fit the chip's memory: {message.splitlines()[0][:400]}; take fewer")
        raise UserError(f"the TPU compiler refuses the step for {what}: {message[:800]}")
    return Counts(**answer)


def check_fit(counts: Counts, case: Case) -> None:
    """Raise `UserError` unless the step fits the chip's memory."""
    if counts.memory_bytes > CHIP.memory_bytes:
        raise UserError(
            f"{case.batch} images a chip take {counts.memory_bytes / 1e9:.1f} GB, and a chip has "
            f"{CHIP.memory_bytes / 1e9:.0f} GB; take fewer"
        )


if __name__ == "__main__":
    sys.exit(main())
