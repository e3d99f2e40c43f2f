"""Arrays in files of weights, whose values are read only when their shape is known to be right."""

import dataclasses
from collections.abc import Callable
from typing import Self

import numpy as np


@dataclasses.dataclass(frozen=True)
class Array:
    """One array of a file."""

    name: str
    """The name in the file."""
    shape: tuple[int, ...]
    """The shape that the file declares, which may be larger than any memory."""
    read: Callable[[], np.ndarray]
    """The values. Raises `ContentError` if they are damaged, or not within the file."""
    called: str
    """`layer/kernel`, possibly behind scopes, if the file has the layer's name; else empty."""
    place: str = ""
    """`attribute/kernel`, the path of objects to the layer, if the file has it."""

    @classmethod
    def of(cls, name: str, value: np.ndarray) -> Self:
        """An array that is in memory, and called by its name."""
        return cls(name, value.shape, lambda: value, name)
