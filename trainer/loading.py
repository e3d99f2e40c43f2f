"""Loads TensorFlow, which takes seconds, only when it is needed, and prints a line about it.

A command checks its arguments before it calls `load_tensorflow`, so that mistakes are reported at once.
"""

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from trainer.cpu import check_cpu

LOADING = "loading TensorFlow ..."


def load_tensorflow() -> None:
    """Import TensorFlow, after a line on stderr; do nothing if it is already loaded.

    Raises:
        UserError: if the CPU is too old for it.
    """
    if "tensorflow" in sys.modules:
        return
    for line in (check_cpu(), LOADING):
        if line:
            print(line, file=sys.stderr, flush=True)
    with _without("matplotlib.pyplot"), _without_garbage_collection():
        importlib.import_module("tensorflow")


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Modules stay, so looking for garbage among them is in vain; it takes a quarter of the loading time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Make the import of an optional module fail inside the block.

    Keras imports pyplot for a function that this project does not use; that takes a fifth of the loading time.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # `import` then raises ImportError
    try:
        yield
    finally:
        del sys.modules[name]
