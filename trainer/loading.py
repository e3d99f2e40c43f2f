"""Loads TensorFlow, which takes seconds, only when it is needed, and prints a line about it.

A command checks its arguments before it calls `load_tensorflow`, so that mistakes are reported at once.
"""

import gc
import importlib
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOADING = "loading TensorFlow"
ERRORS_ALONE = "2"
"""Value of TF_CPP_MIN_LOG_LEVEL: 0 for everything, 1 for warnings and errors, 2 for errors."""
TPU_LOCKED_BYTES = 68_719_476_736_000
"""Limit of locked memory that the driver of a TPU v5e needs to exchange data with the chips by DMA (Google's page
"Deploy a model to Cloud TPU VMs"; `ulimit -l 68719476736` there counts in KiB)."""


def load_tensorflow() -> None:
    """Import TensorFlow, after a line on stderr; do nothing if it is already loaded.

    What TensorFlow's C++ writes to stderr is limited to errors, unless the environment has another level.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", ERRORS_ALONE)
    announce(LOADING)
    if is_for_tpu():
        raise_locked_memory()
    with _without("matplotlib.pyplot"), _without_garbage_collection():
        importlib.import_module("tensorflow")


def announce(work: str) -> None:
    """Say on stderr what takes a while; to be called before seconds of work that shows no progress."""
    print(f"{work} ...", file=sys.stderr, flush=True)


def is_for_tpu() -> bool:
    """Whether this process is set up for a TPU, as images/Dockerfile does it."""
    return os.environ.get("PJRT_DEVICE") == "TPU"


def locked_memory_is_low() -> bool:
    """Whether this process may lock less memory than a TPU needs."""
    return 0 <= resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] < TPU_LOCKED_BYTES  # unlimited is negative


def raise_locked_memory() -> None:
    """Raise the limit to the hard limit, and to TPU_LOCKED_BYTES if this process may.

    More than the hard limit needs the capability SYS_RESOURCE, which root has unless its container gave it up.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    for limit in (hard, TPU_LOCKED_BYTES):
        if locked_memory_is_low():
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection inside the block: it takes a quarter of an import's time and finds nothing."""
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
