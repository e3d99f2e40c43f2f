"""Loads TensorFlow, which takes seconds, when something needs it, and says so.

A command checks all that it can check before it calls `load_tensorflow`; so a mistake is answered at once.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from trainer.processor import check_processor

LOADING = "loading TensorFlow ..."


def load_tensorflow() -> None:
    """Import TensorFlow, after a line on stderr; nothing happens where it is loaded already.

    Raises:
        UserError: the processor is too old for it.
    """
    if "tensorflow" in sys.modules:
        return
    for line in (check_processor(), LOADING):
        if line:
            print(line, file=sys.stderr, flush=True)
    with _left_out("matplotlib.pyplot"):
        importlib.import_module("tensorflow")


@contextmanager
def _left_out(name: str) -> Iterator[None]:
    """Have imports of a module fail that others use only if it is there.

    Keras imports pyplot for a function that is not used here: a fifth of the time that TensorFlow takes to load.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # what `import` takes as: there is none
    try:
        yield
    finally:
        del sys.modules[name]
