"""Write arrays as `.npy` files, and read maps from them."""

import pathlib
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from trainer.errors import ContentError, first_line


def write_array(path: pathlib.Path, array: npt.NDArray[Any]) -> None:
    """Write what `np.save` writes; on a full disk the `OSError` has the system's number, which NumPy's lacks."""
    with path.open("wb") as file:
        np.lib.format.write_array(_Stream(file), array, allow_pickle=False)


def read_map(path: pathlib.Path, remedy: str) -> npt.NDArray[np.float32]:
    """Read a map, (h, w), finite and not negative.

    Raises:
        ContentError: the file is missing or holds something else; the message ends with `remedy`.
    """
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        if array.ndim != 2 or array.dtype != np.float32 or not (array >= 0).all() or not np.isfinite(array).all():
            raise ValueError(f"it is {array.dtype} {list(array.shape)}, or has values that are none of a map's")
    except Exception as error:  # NumPy raises different errors for damaged bytes, those of Python's tokenizer too
        raise ContentError(f"{path} is missing or damaged ({first_line(error)}): {remedy}") from None
    result: npt.NDArray[np.float32] = array
    return result


class _Stream:
    """Wraps a file so that NumPy does not recognise it and has Python write it, 16 MB at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write
