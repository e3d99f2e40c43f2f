"""XLA in a process where other tests have asked for deterministic operations."""

from collections.abc import Iterator
from contextlib import contextmanager

from tensorflow.python.framework import config

from trainer import dilation


@contextmanager
def allowed() -> Iterator[None]:
    """Within it, what XLA has no deterministic form of can be compiled; afterwards all is as it was."""
    asked, direct = config.is_op_determinism_enabled(), dilation.direct
    config.disable_op_determinism()
    try:
        yield
    finally:
        dilation.direct = direct
        if asked:
            config.enable_op_determinism()
