"""Switches deterministic operations on or off for one test; other tests of the process may need the opposite."""

from collections.abc import Iterator
from contextlib import contextmanager

from tensorflow.python.framework import config


@contextmanager
def operations(deterministic: bool) -> Iterator[None]:
    """Operations are deterministic or not inside the block; the setting before is restored afterwards."""
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
