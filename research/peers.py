"""Time of the training step on a CPU, relative to that of the same network in PyTorch.

    python -m venv torch-venv && torch-venv/bin/pip install torch
    python -m research.peers --torch-python torch-venv/bin/python   # ten minutes on two idle cores
    git worktree add ../before COMMIT && python -m research.peers --torch-python ... before=../before
    ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 python -m research.peers --precisions float32 ...

"this" is the trainer's own step, with the same bits in every run as in training; a NAME=FOLDER is that of another
checkout. PyTorch computes eagerly, with channels last, bfloat16 by autocast, and without its own determinism. All
have Adam and random weights. Each runs in a process of its own; the processes take turns, so that a change of the
machine's speed affects all of them. The table has the median clock and processor seconds of a step, and of their
ratios to PyTorch's (below 1: faster) the median, least and largest of the turns. Processor time depends less on
other work on the machine; PyTorch's threads wait asleep for that (OMP_WAIT_POLICY, unless you set it).
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

PARAMETERS = 24_934_209
STEPS = 3
"""Steps of a turn; the first one, with caches that another process has filled, is not timed."""

Seconds = tuple[float, float]
"""Of a step: clock, and processor."""


def main() -> int:
    """Measure and print."""
    if sys.argv[1:2] == ["worker"]:
        _serve(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("others", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("--torch-python", required=True, metavar="PATH", help="interpreter that has PyTorch")
    parser.add_argument("--precisions", default="float32,bfloat16")
    parser.add_argument("--cases", default="240x320x1,240x320x4,72x96x4", help="height x width x batch")
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    folders = {"this": "."} | dict(other.split("=", 1) for other in arguments.others)
    print(
        f"{'case':<25}{'form':<12}" + "".join(f"{kind:>10}   / PyTorch        " for kind in ("clock s", "CPU s"))
    )
    for precision in arguments.precisions.split(","):
        for case in arguments.cases.split(","):
            with ExitStack() as stack:
                python = {"PyTorch": (arguments.torch_python, "torch", ".")}
                python |= {name: (sys.executable, "tensorflow", folder) for name, folder in folders.items()}
                turns = {name: stack.enter_context(_process(*of, precision, case)) for name, of in python.items()}
                for take in turns.values():
                    take()  # compiles
                seconds = [{name: take() for name, take in turns.items()} for _ in range(arguments.turns)]
            for name in turns:
                line = f"{precision + ' ' + case:<25}{name:<12}"
                for kind in (0, 1):
                    ratios = [turn[name][kind] / turn["PyTorch"][kind] for turn in seconds]
                    line += f"{statistics.median(turn[name][kind] for turn in seconds):10.3f}   "
                    line += f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                print(line, flush=True)
    return 0


@contextmanager
def _process(
    python: str, framework: str, folder: str, precision: str, case: str
) -> Iterator[Callable[[], Seconds]]:
    """A process that takes steps when told to; the function returns the seconds of one."""
    command = [python, __file__, "worker", framework, precision, case]
    environment = {"OMP_WAIT_POLICY": "passive"} | os.environ | {"PYTHONPATH": folder}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True, bufsize=1) as process:

        def turn() -> Seconds:
            print(file=process.stdin, flush=True)
            clock, cpu = process.stdout.readline().split()  # type: ignore[union-attr]
            return float(clock), float(cpu)

        yield turn
        process.stdin.close()  # type: ignore[union-attr]


def _serve(framework: str, precision: str, case: str) -> None:
    """Take a turn for each line of stdin."""
    height, width, count = map(int, case.split("x"))
    step = {"torch": _torch, "tensorflow": _tensorflow}[framework]((height, width), count, precision)
    for _ in sys.stdin:
        step()
        clock, cpu = time.perf_counter(), time.process_time()
        for _ in range(STEPS - 1):
            step()
        print((time.perf_counter() - clock) / (STEPS - 1), (time.process_time() - cpu) / (STEPS - 1), flush=True)


def _tensorflow(size: tuple[int, int], count: int, precision: str) -> Callable[[], float]:
    from trainer.training import step
    from trainer.training.train import make_deterministic  # and TensorFlow, by trainer's own setting of oneDNN

    make_deterministic()
    import numpy as np
    import tensorflow as tf

    from trainer.network.msinet.keras_model import build_model
    from trainer.training.settings import TrainConfig

    model = build_model(size, step.POLICIES[precision], "he_normal", seed=0)
    optimizer = step.build_optimizer(TrainConfig().with_batch(count), model, 1, precision)
    network = step.Network(model, optimizer)
    rng = np.random.default_rng(0)
    shapes = {"stimulus": (count, *size, 3), "density": (count, *size, 1)}
    batch = {key: tf.constant(rng.integers(0, 256, shape, np.uint8)) for key, shape in shapes.items()}

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def take() -> tf.Tensor:
        loss, computed = step.gradients(network, batch, count)
        step.apply_gradients(network, computed)
        return loss

    return lambda: float(take())


def _torch(size: tuple[int, int], count: int, precision: str) -> Callable[[], float]:
    import torch
    from torch import nn
    from torch.nn import functional

    class Network(nn.Module):  # type: ignore[misc]
        """MSI-Net, plainly: trainer/network/msinet/keras_model.py without the rearrangements of layers.py."""

        def __init__(self) -> None:
            super().__init__()
            blocks = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
            channels, self.blocks = 3, nn.ModuleList()
            for block, widths in enumerate(blocks):
                layers, dilation = nn.ModuleList(), 2 if block == 4 else 1
                for filters in widths:
                    layers.append(nn.Conv2d(channels, filters, 3, padding=dilation, dilation=dilation))
                    channels = filters
                self.blocks.append(layers)
            self.branches = nn.ModuleList([nn.Conv2d(1280, 256, 1)])
            self.branches.extend(nn.Conv2d(1280, 256, 3, padding=rate, dilation=rate) for rate in (4, 8, 12))
            self.context, self.join = nn.Conv2d(1280, 256, 1), nn.Conv2d(1280, 256, 1)
            sides = zip((256, 128, 64), (128, 64, 32), strict=True)
            self.decoder = nn.ModuleList(nn.Conv2d(*side, 3, padding=1) for side in sides)
            self.last = nn.Conv2d(32, 1, 3, padding=1)

        def forward(self, x: Any) -> Any:
            pooled = []
            for block, layers in enumerate(self.blocks):
                for layer in layers:
                    x = functional.relu(layer(x), inplace=True)
                x = functional.max_pool2d(*((x, 2) if block < 3 else (functional.pad(x, (0, 1, 0, 1)), 2, 1)))
                pooled.append(x)
            features = torch.cat(pooled[2:], 1)
            context = functional.relu(self.context(features.mean((2, 3), keepdim=True)))
            branches = [functional.relu(branch(features), inplace=True) for branch in self.branches]
            x = torch.cat([*branches, context.expand(-1, -1, *features.shape[2:])], 1)
            x = functional.relu(self.join(x), inplace=True)
            for layer in self.decoder:
                x = functional.interpolate(x, scale_factor=2, mode="bilinear")
                x = functional.relu(layer(x), inplace=True)
            x = self.last(x).float()
            x = x - x.amin((1, 2, 3), keepdim=True)
            return x / (1e-7 + x.amax((1, 2, 3), keepdim=True))

    def distribution(maps: Any) -> Any:
        return maps / (1e-7 + maps.sum((1, 2, 3), keepdim=True))

    torch.manual_seed(0)
    network = Network().to(memory_format=torch.channels_last)
    assert sum(parameter.numel() for parameter in network.parameters()) == PARAMETERS
    optimizer = torch.optim.Adam(network.parameters(), 1e-5, eps=1e-8)
    images = torch.randint(0, 256, (count, 3, *size)).to(torch.uint8).to(memory_format=torch.channels_last)
    density = torch.randint(0, 256, (count, 1, *size)).to(torch.uint8)
    mean = torch.tensor([103.939, 116.779, 123.68]).reshape(1, 3, 1, 1)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            predictions = network(images.float() - mean)
        p, t = distribution(predictions), distribution(density.float())
        loss = (t * (1e-7 + t / (1e-7 + p)).log()).sum((1, 2, 3)).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    sys.exit(main())
