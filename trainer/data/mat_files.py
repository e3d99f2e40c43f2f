"""Read the fixations of one image from a MATLAB file: SALICON's, CAT2000's, DUT-OMRON's, or OSIE's by mouse."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.data import mat5
from trainer.data.gaze import MAX_POINT_SHARE, Gaze, Size
from trainer.errors import UserError, first_line
from trainer.sources import Member

OSIE_SIZE = (600, 800)
"""(height, width) of OSIE's images, pixels."""


def load(member: Member, *names: str) -> dict[str, Any]:
    """Those of the variables `names` that a file has, at least one.

    Raises:
        UserError: the file is not one of MATLAB 5 to 7, is damaged, or has none of the variables.
    """
    data = member.content(mat5.MOST_BYTES)
    try:
        found = mat5.read(data, names)
    except (ValueError, zlib.error) as error:
        raise UserError(
            f"{member.origin} is not a file of fixations: it does not read as a MATLAB file "
            f"({first_line(error)}); download or export it again"
        ) from None
    if not found:
        raise UserError(
            f"{member.origin} is not a file of fixations: it has no variable named {' or '.join(names)}; download "
            "or export it again"
        )
    return found


def read(member: Member, size: Size) -> Gaze:
    """The fixations of an image of `size` (h, w), of a file of any of the four forms.

    Raises:
        UserError: the file has another form, or is of an image of another size.
    """
    content = load(member, "gaze", "fixLocs", "s", "fixations")
    try:
        if "fixLocs" in content:
            return _of_matrix(content["fixLocs"], member, size)
        if "s" in content:
            return _of_list(content["s"], member, size)
        if "fixations" in content:
            return _of_samples(content["fixations"], member, size)
        return _of_observers(content["gaze"], size)
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise UserError(
            f"{member.origin} is not a file of fixations: its variable {next(iter(content))} has another form "
            f"({first_line(error)}); download or export it again"
        ) from None


def _of_observers(structs: Any, size: Size) -> Gaze:
    """SALICON's: one struct an observer, whose `fixations` are (x, y) that count from 1."""
    observers = [_columns(points, 2) for points in structs["fixations"].ravel()]
    points = np.concatenate(observers)[:, ::-1]
    whose = np.repeat(np.arange(len(observers)), [len(each) for each in observers])
    # One element may be one observer, or all.
    return Gaze.inside(np.trunc(points) - 1, whose if len(observers) > 1 else None, size)


def _of_matrix(matrix: Any, member: Member, size: Size) -> Gaze:
    """CAT2000's: a matrix (h, w) that is not 0 at the fixations."""
    values = numbers(matrix)
    if values.shape != size:
        raise _other_size(member, values.shape, size)
    marked = values > 0
    if np.isnan(values).any():
        raise ValueError("a matrix with elements that are no numbers")
    if np.count_nonzero(marked) >= MAX_POINT_SHARE * values.size:
        raise ValueError(f"{np.count_nonzero(marked)} of {values.size} pixels are fixated, as in a density")
    return Gaze(np.argwhere(marked), None)


def _of_list(rows: Any, member: Member, size: Size) -> Gaze:
    """DUT-OMRON's: rows (a, b, number), sorted by number; the first is (width, height), the others are (x, y).

    They count from 0. Numbers above 0 are those of the observers (pysaliency, external_datasets/dut_omrom.py), who
    may have others in other images.
    """
    values = _columns(rows, 3)
    values = values[np.argsort(values[:, 2], kind="stable")]
    width, height = values[0, :2]
    if not fits((height, width), size):
        raise _other_size(member, (height, width), size)
    return Gaze.inside(values[1:, 1::-1], counted(values[1:, 2]), size)


def _of_samples(struct: Any, member: Member, size: Size) -> Gaze:
    """OSIE's mouse tracking: a struct of `coord`, rows (y, x) that count from 1, and `subj`, the observer of each.

    The rows are the places of a moving cursor, some 120 an observer, and no fixations. A pixel counts once for
    each observer: in the authors' maps it counts once for all (their `computeMouseFixationMaps.m`).
    """
    if not fits(OSIE_SIZE, size):
        raise _other_size(member, OSIE_SIZE, size)
    points, subjects = (_columns(struct[name].item(), n) for name, n in (("coord", 2), ("subj", 1)))
    samples = np.concatenate([subjects, points], axis=1)
    samples = samples[np.sort(np.unique(samples, axis=0, return_index=True)[1])]
    return Gaze.inside(np.trunc(samples[:, 1:]) - 1, counted(samples[:, 0]), size)


def fits(stated: tuple[float, float], size: Size) -> bool:
    """Whether the size (h, w) that a file states is that of the image; rounding may change a side by one pixel."""
    return all(abs(side - actual) <= 1 for side, actual in zip(stated, size, strict=True))


def numbers(values: Any) -> NDArray[np.float64]:
    """An array of real numbers or of NaN; `ValueError` for texts, structs, complex and infinite numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError("something else than real numbers")
    real = array.astype(np.float64)
    if np.isinf(real).any():
        raise ValueError("an infinite number")
    return real


def counted(observers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The observers (n,), counted from 0 in the order of their numbers; `ValueError` for NaN."""
    if np.isnan(observers).any():
        raise ValueError("an observer whose number is none")
    return np.unique(observers, return_inverse=True)[1].astype(np.int64)


def _columns(values: Any, n: int) -> NDArray[np.float64]:
    """A matrix (m, n); an empty one may have any shape."""
    matrix = numbers(values)
    if not matrix.size:
        return np.zeros((0, n))
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise ValueError(f"a matrix of {' x '.join(map(str, matrix.shape))}, which has not {n} columns")
    return matrix


def _other_size(member: Member, shape: tuple[float, ...], size: Size) -> UserError:
    return UserError(
        f"{member.origin} is of an image of {' x '.join(f'{side:g}' for side in shape)} pixels (height x width), "
        f"but its image is {size[0]} x {size[1]}; replace one of the two"
    )
