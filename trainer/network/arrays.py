"""Arrays of weights: what a file holds, and what a network has. Needs no TensorFlow."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable
from typing import Self

import numpy as np

Shape = tuple[int, ...]
Weights = dict[tuple[str, str], np.ndarray]
"""(layer, `kernel` or `bias`) -> float32 array in the network's shape, (k, k, in, out) or (out)."""
SCALE = "scale"
"""A layer's array of scales, beside its `kernel` and `bias`, in compact form (`trainer.network.compact`)."""


@dataclasses.dataclass(frozen=True)
class Array:
    """One array of a file."""

    name: str
    """The name in the file."""
    shape: Shape
    """The shape that the file declares, which may be larger than any memory."""
    read: Callable[[], np.ndarray]
    """The values. Raises `ContentError` if they are damaged, or not within the file."""
    called: str
    """`layer/kernel`, possibly behind scopes, if the file has the layer's name. Else empty."""
    object_path: str = ""
    """`attribute/kernel`, the path of objects to the layer, if the file has it."""

    @classmethod
    def of(cls, name: str, value: np.ndarray) -> Self:
        """Make an array that is in memory, and called by its name."""
        return cls(name, value.shape, lambda: value, name)


def fitting(arrays: Iterable[Array], shapes: Collection[Shape]) -> list[Array]:
    """Read the values of the arrays of these shapes into memory. The others have no values any more.

    Example: with the shapes of MSI-Net, an optimizer's moments of other shapes are not read.
    """
    return [
        dataclasses.replace(
            array, read=functools.partial(np.asarray, array.read() if array.shape in shapes else None)
        )
        for array in arrays
    ]
