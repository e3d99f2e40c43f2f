"""Deterministic operations asked for, or not, in a process where other tests may have chosen otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager

from tensorflow.python.framework import config


@contextmanager
def operations(deterministic: bool) -> Iterator[None]:
    """Within it, operations are as said; afterwards all is as it was."""
    before = config.is_op_determinism_enabled()
    _set(deterministic)
    try:
        yield
    finally:
        _set(before)


def _set(deterministic: bool) -> None:
    if deterministic:
        config.enable_op_determinism()
    else:
        config.disable_op_determinism()
