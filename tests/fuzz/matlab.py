"""MATLAB files of fixations: numbers that eye trackers write, other shapes and types, and damaged files."""

import dataclasses
import io
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import io as mat

from tests.fuzz.mutate import mutated

SIZE = (24, 32)
"""(height, width) of the image whose fixations they are, pixels."""


@dataclasses.dataclass(frozen=True)
class Mat:
    kind: str
    data: bytes
    is_sound: bool = False


def saved(content: dict[str, Any], compress: bool = True) -> bytes:
    """A file of MATLAB 5, the same bytes each time: without the time in its header."""
    out = io.BytesIO()
    mat.savemat(out, content, do_compression=compress)
    return b"MATLAB 5.0 MAT-file".ljust(116) + out.getvalue()[116:]


def observers(*fixations: Any) -> dict[str, Any]:
    """SALICON's form: one struct an observer."""
    structs = np.zeros((len(fixations), 1), [("location", "O"), ("timestamp", "O"), ("fixations", "O")])
    for struct, points in zip(structs[:, 0], fixations, strict=True):
        struct["fixations"] = points
    return {"gaze": structs}


def points(source: random.Random, n: int = 6) -> NDArray[np.uint16]:
    """(x, y) that count from 1."""
    return np.array([(source.randint(1, SIZE[1]), source.randint(1, SIZE[0])) for _ in range(n)], np.uint16)


def fixations(source: random.Random) -> Mat:
    """A file of a random kind."""
    return source.choice((_sound, _values, _values, _matrix, _shapes, _damaged, _damaged))(source)


def _sound(source: random.Random) -> Mat:
    return Mat("sound", saved(observers(points(source), points(source)), source.random() < 0.5), True)


def _values(source: random.Random) -> Mat:
    values = points(source).astype(np.float64)
    odd = (np.nan, np.inf, -np.inf, 1e300, -5, 0, 0.5, SIZE[1] + 0.9, SIZE[1] + 1, 5000, 2**53, -1e-9)
    for _ in range(source.randint(1, 4)):
        values[source.randrange(len(values)), source.randrange(2)] = source.choice(odd)
    return Mat("values", saved(observers(values, points(source))))


def _matrix(source: random.Random) -> Mat:
    """CAT2000's form."""
    shape: tuple[int, ...] = source.choice((SIZE, SIZE, (600, 800), (1, 5), (0, 0), SIZE[::-1], (*SIZE, 3)))
    values = np.zeros(shape)
    if values.size:
        for _ in range(5):
            values.flat[source.randrange(values.size)] = source.choice((1, 1, 1, 255, 0.5, -1, np.nan, np.inf))
    if source.random() < 0.1:
        values = np.full(shape, np.nan)
    kind = source.choice((values, values, values > 0, values.astype(np.complex128) + 1j))
    return Mat("matrix", saved({"fixLocs": kind}))


def _shapes(source: random.Random) -> Mat:
    values = points(source, 6)
    cell = np.empty((1, 1), object)
    cell[0, 0] = values
    content: dict[str, Any] = source.choice(
        (
            observers(np.hstack([values, values[:, :1]])),
            observers(values.T),
            observers(values.ravel()),
            observers(values + 1j),
            observers("text"),
            observers(np.zeros((0, 2)), np.zeros((0, 0))),
            observers(cell),
            observers(np.zeros((2, 2, 2))),
            {"gaze": values},
            {"gaze": "text"},
            {"gaze": cell},
            {"gaze": {"other": values}},
            {"gaze": np.zeros((0, 0))},
            {"fixLocs": "text"},
            {"fixLocs": cell},
            {"fixLocs": {"a": 1}},
            {"other": values},
            {},
            {"s": np.hstack([np.array([[SIZE[1], SIZE[0], 0]]), [[3, 4, 1]]]).reshape(-1, 3)},
            {"s": np.array([[SIZE[0], SIZE[1], 0], [3, 4, 1], [5, 6, np.nan]])},
            {"s": np.zeros((0, 3))},
            {"fixations": values},
            {"fixations": {"coord": values, "subj": np.ones((6, 1))}},
        )
    )
    return Mat("shapes", saved(content, source.random() < 0.5))


def _damaged(source: random.Random) -> Mat:
    compressed = source.random() < 0.5
    return Mat("damaged", mutated(saved(observers(points(source), points(source)), compressed), source))


def is_judged(data: bytes) -> bool:
    """Whether it has none of the forms that `independent` does not read, DUT-OMRON's and OSIE's."""
    try:
        content = mat.loadmat(io.BytesIO(data))
    except Exception:  # SciPy raises whatever a damaged file leads it to
        return True
    return not {"s", "fixations"} & content.keys()


def independent(data: bytes, size: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The fixations in a file of SALICON's or CAT2000's form, as SciPy alone reads it; None for another form.

    Returns:
        (n, 2) pixels, (y, x) from 0: all at most a pixel outside, moved to the border, and those inside alone.
    """
    try:
        content = mat.loadmat(io.BytesIO(data))
        if "fixLocs" in content:
            matrix = np.asarray(content["fixLocs"])
            if matrix.shape != size or np.iscomplexobj(matrix):
                return None
            found = np.argwhere(matrix.astype(np.float64) > 0)
            return found, found
        each = [np.asarray(one) for one in content["gaze"]["fixations"].ravel()]
        if any(np.iscomplexobj(one) or (one.size and (one.ndim != 2 or one.shape[1] != 2)) for one in each):
            return None
        rows = np.concatenate([one.reshape(-1, 2).astype(np.float64) for one in each])[:, ::-1]
    except Exception:  # SciPy raises whatever a damaged file leads it to
        return None
    whole = np.trunc(rows[np.isfinite(rows).all(axis=1)]) - 1
    near = whole[((whole >= -1) & (whole <= np.array(size))).all(axis=1)].astype(np.int64)
    inside = ((near >= 0) & (near < np.array(size))).all(axis=1)
    return np.clip(near, 0, np.array(size) - 1), near[inside]
