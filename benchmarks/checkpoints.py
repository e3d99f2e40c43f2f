"""Cost of saving checkpoints: on the training's thread, in its own thread, and before the end of a machine.

    python -m benchmarks.checkpoints [--folder FOLDER]        # half a minute; a gs:// address works too

A checkpoint has the weights of the paper's network, Adam's state, and the best weights. Exits with 1 if copying
takes more than 1% of the default time between two checkpoints, or if saving and waiting for it takes more than 30
s.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from trainer.config import TrainConfig
from trainer.model import build_model
from trainer.training.checkpoints import Checkpoints, Progress
from trainer.training.step import Network

LIMIT = 0.01
GRACE_S = 30
"""Time that Vertex AI gives between SIGTERM and the end."""


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="folder to write to (default: a temporary folder)")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    model = build_model((240, 320), "float32", "glorot_uniform", 1)
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    size_mb = sum(4 * int(np.prod(variable.shape)) for variable in (*model.variables, *optimizer.variables)) / 1e6
    with tempfile.TemporaryDirectory() as name:
        copied, written, best = [], [], []
        with Checkpoints(arguments.folder or name, Network(model, optimizer), {}) as checkpoints:
            for epoch in range(arguments.repeats):
                best.append(_seconds(checkpoints.keep_best))
                copied.append(_seconds(checkpoints.save, Progress(epoch)))
                written.append(copied[-1] + _seconds(checkpoints.wait))
            restored = [_seconds(checkpoints.restore) for _ in range(arguments.repeats)]
    share = statistics.median(copied) / (60 * TrainConfig().checkpoint_minutes)
    print(f"{size_mb:.0f} MB of weights and optimizer, and the best weights; median and maximum, s")
    for title, seconds in (
        ("copy to save, on the calling thread", copied),
        ("copy of the best weights", best),
        ("saved and written (SIGTERM)", written),
        ("restored and verified", restored),
    ):
        print(f"{title:>38}: {statistics.median(seconds):6.3f} {max(seconds):6.3f}")
    print(f"{'share of the default time between two':>38}: {share:.4%} (at most {LIMIT:.0%})")
    return int(share > LIMIT or max(written) > GRACE_S)


def _seconds(function: Callable[..., Any], *arguments: Any) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
