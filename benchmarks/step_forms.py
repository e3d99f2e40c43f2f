"""The training step of this network against that of other forms of it, on a processor.

    git show 784735f:trainer/model.py > before.py
    python benchmarks/step_forms.py before=before.py       # about three minutes on two cores

Each form is a file with a `build_model` as in `trainer/model.py`. Steps take turns, each on the same batch with
deterministic operations as in training: a change of the machine's speed meets all forms. Printed are medians
of the processor's seconds, which other work on the machine changes less than those of the clock, and of these; and
the median ratio to the first form, or to this one where none is given.
"""

import argparse
import importlib.util
import pathlib
import statistics
import sys
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer import model as current
from trainer.config import parse_image_size
from trainer.training import precision, step
from trainer.training.train import ADAM_EPSILON, make_deterministic


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forms", nargs="*", metavar="NAME=FILE")
    parser.add_argument("--image-size", default="240x320")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--precision", default="bfloat16", choices=sorted(precision.POLICIES))
    parser.add_argument("--turns", type=int, default=10)
    arguments = parser.parse_args()
    make_deterministic()
    size, count = parse_image_size(arguments.image_size), arguments.batch_size
    modules = {name: _load(name, path) for name, path in (form.split("=", 1) for form in arguments.forms)}
    steps = {
        name: _step(module, size, count, precision.POLICIES[arguments.precision])
        for name, module in (modules | {"this": current}).items()
    }
    rng = np.random.default_rng(0)
    batch = {
        key: tf.constant(rng.integers(0, 256, (count, *size, channels), np.uint8))
        for key, channels in (("stimulus", 3), ("density", 1))
    }
    seconds = _measure(steps, batch, arguments.turns)
    first = next(iter(seconds))
    print(f"{arguments.image_size}, batch {count}, {arguments.precision}, {arguments.turns} turns")
    print("form               processor s   ratio     clock s   ratio")
    for name, turns in seconds.items():
        line = f"{name:<18}"
        for kind in (0, 1):
            ratio = statistics.median(a[kind] / b[kind] for a, b in zip(turns, seconds[first], strict=True))
            line += f"{statistics.median(turn[kind] for turn in turns):>12.3f}{ratio:>8.3f}"
        print(line, flush=True)
    return 0


def _load(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"form_{name}", pathlib.Path(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _step(module: Any, size: tuple[int, int], count: int, policy: str) -> Any:
    keras.utils.set_random_seed(0)
    model = module.build_model(size, policy)
    optimizer = keras.optimizers.Adam(1e-5, epsilon=ADAM_EPSILON)
    optimizer.build(model.trainable_variables)
    return tf.function(
        lambda batch: step.train_step(
            model, optimizer, batch, lambda part: step.gradients(model, optimizer, part, count)
        )
    )


def _measure(steps: dict[str, Any], batch: step.Batch, turns: int) -> dict[str, list[tuple[float, float]]]:
    """Processor and clock seconds of each turn of each form, after one that does not count."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name, take in steps.items():
            processor, clock = time.process_time(), time.perf_counter()
            float(take(batch))
            if turn:
                seconds[name].append((time.process_time() - processor, time.perf_counter() - clock))
    return seconds


if __name__ == "__main__":
    sys.exit(main())
