"""Time of the training step on a CPU, and of variants of it, relative to a matrix product with as many operations.

    python -m research.step_forms                 # as for the sample dataset; a minute on two cores
    python -m research.step_forms --image-size 240x320 --batch-size 1
    ONEDNN_MAX_CPU_ISA=AVX2 python -m research.step_forms         # as on a CPU without AVX-512
    git show 784735f:trainer/network/network.py > before.py && python -m research.step_forms before=before.py

TensorFlow multiplies 1024 x 1024 matrices in the step's precision until it has done as many operations as the step
(249 GFLOP for an image of 240 x 320). The ratio therefore means the same on any machine: 1 is a step that only
multiplies, as fast as the machine multiplies large matrices.

A form is a file with a `build_model` as in `trainer/network/msinet/keras_model.py`. Forms and matrix product
alternate, so that a change of the machine's speed affects all of them. Operations are deterministic as in a
training. The table has medians of CPU and clock seconds, and median ratios to the matrix product. CPU time depends
less on other work on the machine.
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

from trainer.data.settings import parse_image_size
from trainer.network.msinet import keras_model as current
from trainer.network.networks import DEFAULT_NETWORK
from trainer.training import step, strategy
from trainer.training.step import EPSILON, Network
from trainer.training.train import make_deterministic

PRODUCT = "matrix product"
SIDE = 1024


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forms", nargs="*", metavar="NAME=FILE")
    parser.add_argument("--image-size", default="72x96")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--precision", default="auto", choices=("auto", *sorted(step.POLICIES)))
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    make_deterministic()
    size, count = parse_image_size(arguments.image_size), arguments.batch_size
    resolved = step.resolve_precision(arguments.precision, strategy.connect_devices("cpu"))
    modules = {name: _load(name, path) for name, path in (form.split("=", 1) for form in arguments.forms)}
    steps = {PRODUCT: _product(DEFAULT_NETWORK.cost.flop * count * size[0] * size[1] / (240 * 320), resolved)} | {
        name: _step(module, size, count, step.POLICIES[resolved])
        for name, module in (modules | {"this": current}).items()
    }
    rng = np.random.default_rng(0)
    batch = {
        key: tf.constant(rng.integers(0, 256, (count, *size, channels), np.uint8))
        for key, channels in (("stimulus", 3), ("density", 1))
    }
    seconds = _measure(steps, batch, arguments.repeats)
    print(f"{arguments.image_size}, batch {count}, {resolved}, {arguments.repeats} repeats")
    print("form                     CPU s   ratio     clock s   ratio")
    for name, repeats in seconds.items():
        line = f"{name:<18}"
        for kind in (0, 1):
            ratio = statistics.median(a[kind] / b[kind] for a, b in zip(repeats, seconds[PRODUCT], strict=True))
            line += f"{statistics.median(repeat[kind] for repeat in repeats):>12.3f}{ratio:>8.3f}"
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
    optimizer = step.Adam(1e-5, epsilon=EPSILON)
    optimizer.build(model.trainable_variables)
    network = Network(model, optimizer)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def take(batch: step.Batch) -> tf.Tensor:
        loss, computed = step.gradients(network, batch, count)
        step.apply_gradients(network, computed)
        return loss

    return take


def _product(flop: float, resolved: str) -> Any:
    """A function that ignores its batch and multiplies matrices until it has done `flop` operations."""
    random = np.random.default_rng(0)
    # Its powers neither grow nor vanish: such a matrix has a spectral radius of 1.
    factor = tf.cast(random.standard_normal((SIDE, SIDE)) / np.sqrt(SIDE), resolved)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def multiply() -> tf.Tensor:
        times = round(flop / (2 * SIDE**3))
        start = tf.constant(0), factor
        _, product = tf.while_loop(
            lambda done, _: done < times, lambda done, product: (done + 1, product @ factor), start
        )
        return product[0, 0]

    return lambda _: multiply()


def _measure(steps: dict[str, Any], batch: step.Batch, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """CPU and clock seconds of each repeat of each form, after a warm-up of all."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for repeat in range(repeats + 1):
        for name, take in steps.items():
            cpu, clock = time.process_time(), time.perf_counter()
            float(take(batch))
            if repeat:
                seconds[name].append((time.process_time() - cpu, time.perf_counter() - clock))
    return seconds


if __name__ == "__main__":
    sys.exit(main())
