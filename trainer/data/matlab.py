"""Read the fixations in MATLAB files, in the forms of the datasets' authors.

SciPy and h5py read them, in the worker of `trainer.machine.untrusted` alone: `trainer.data.source_layout` sends it
the bytes of a file. Errors about the form of a file are a `ValueError`, or the library's own.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat, whosmat

from trainer.data.source_layout import (
    FIXATION_VARIABLES,
    MATLAB_7_3,
    MAX_POINT_SHARE,
    MOST_VARIABLES,
    Fixations,
    Gaze,
    Size,
    fits,
)
from trainer.errors import ContentError
from trainer.texts import some

OSIE_SIZE = (600, 800)
"""(height, width) of OSIE's images, pixels."""
CROWD_SIZE = (768, 1024)
"""(height, width) of the images of Saliency in crowd, pixels."""

Points = NDArray[np.float64]
"""(n, 2) of (y, x), pixels counted from 0. They may be any numbers."""
Observers = NDArray[np.int64] | None
"""(n,): the observer of each point, counted from 0. None if observers are not told apart."""


@dataclass(frozen=True)
class _File:
    """A MATLAB file in memory."""

    origin: str
    """The name of the file in messages."""
    content: bytes


# === The fixations of one image ===


def read_one(origin: str, content: bytes, size: Size) -> Gaze:
    """The fixations of one image of `size` (h, w), from a file of SALICON, CAT2000, DUT-OMRON or OSIE's mouse.

    `origin` is the name of the file in messages. Raises `ContentError` if it is of an image of another size.
    """
    file = _File(origin, content)
    variables = _variables(file, *FIXATION_VARIABLES)
    if "fixLocs" in variables:
        return _of_matrix(variables["fixLocs"], file, size)
    if "s" in variables:
        return _of_list(variables["s"], file, size)
    if "fixations" in variables:
        return _of_samples(variables["fixations"], file, size)
    return _of_observers(variables["gaze"], size)


def _variables(file: _File, *names: str) -> dict[str, Any]:
    """The variables `names` that a file has, at least one."""
    content = loadmat(io.BytesIO(file.content), variable_names=names)
    variables = {name: value for name, value in content.items() if name in names}
    if not variables:
        held = some(list_variables(file.content), MOST_VARIABLES) or "none"
        raise ValueError(f"it has no variable named {' or '.join(names)}, but {held}")
    return variables


def list_variables(content: bytes) -> list[str]:
    """The names of a file's variables with their sizes and classes. Example: `gaze (1 x 40 struct)`."""
    if not content.startswith(MATLAB_7_3):
        variables = whosmat(io.BytesIO(content))
        return [f"{name} ({' x '.join(map(str, shape))} {kind})" for name, shape, kind in variables]
    with h5py.File(io.BytesIO(content), "r") as hdf5:
        names = [name for name in hdf5 if isinstance(hdf5.get(name, getlink=True), h5py.HardLink)]
        return [_about_variable(name, hdf5[name]) for name in names if not name.startswith("#")]


def _about_variable(name: str, data: Any) -> str:
    """A variable of MATLAB 7.3 as `list_variables` names it. HDF5 has its sides in the reverse order."""
    kind = data.attrs.get("MATLAB_class", b"")
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    shape = " x ".join(map(str, data.shape[::-1])) if isinstance(data, h5py.Dataset) else ""
    about = " ".join(filter(None, (shape, kind)))
    return f"{name} ({about})" if about else name


def _of_observers(structs: Any, size: Size) -> Gaze:
    """Read SALICON's variable: one struct for each observer with `fixations`, (x, y) counted from 1."""
    observers = [_columns(points, 2) for points in structs["fixations"].ravel()]
    points = np.concatenate(observers)[:, ::-1]
    whose = np.repeat(np.arange(len(observers)), [len(each) for each in observers])
    # One element may be one observer, or all.
    return Gaze.inside(np.trunc(points) - 1, whose if len(observers) > 1 else None, size)


def _of_matrix(matrix: Any, file: _File, size: Size) -> Gaze:
    """Read CAT2000's variable: a matrix (h, w) that is not 0 at the fixations."""
    values = np.asarray(matrix, np.float64)
    if values.shape != size:
        raise _other_size(file, values.shape, size)
    marked = values > 0
    if np.count_nonzero(marked) >= MAX_POINT_SHARE * values.size:
        raise ValueError(f"{np.count_nonzero(marked)} of {values.size} pixels are fixated, as in a density")
    return Gaze(np.argwhere(marked), None)


def _of_list(rows: Any, file: _File, size: Size) -> Gaze:
    """Read DUT-OMRON's variable: rows (a, b, number).

    Sorted by number, the first row is (width, height), and the others are (x, y), counted from 0. Numbers
    above 0 are observers (pysaliency, external_datasets/dut_omrom.py). They may have other numbers in other
    images.
    """
    values = _columns(rows, 3)
    values = values[np.argsort(values[:, 2], kind="stable")]
    width, height = values[0, :2]
    if not fits((height, width), size):
        raise _other_size(file, (height, width), size)
    return Gaze.inside(values[1:, 1::-1], _counted(values[1:, 2]), size)


def _of_samples(struct: Any, file: _File, size: Size) -> Gaze:
    """Read OSIE's mouse tracking: a struct of `coord`, rows (y, x) counted from 1, and `subj`, their observers.

    The rows are the positions of a moving cursor, some 120 for each observer, and no fixations. A pixel counts
    once for each observer: in the authors' maps it counts once for all (their `computeMouseFixationMaps.m`).
    """
    if not fits(OSIE_SIZE, size):
        raise _other_size(file, OSIE_SIZE, size)
    points, subjects = (_columns(struct[name].item(), n) for name, n in (("coord", 2), ("subj", 1)))
    samples = np.concatenate([subjects, points], axis=1)
    samples = samples[np.sort(np.unique(samples, axis=0, return_index=True)[1])]
    return Gaze.inside(np.trunc(samples[:, 1:]) - 1, _counted(samples[:, 0]), size)


def _columns(values: Any, n: int) -> NDArray[np.float64]:
    """A matrix (m, n) of numbers. An empty one may have any shape."""
    matrix = np.asarray(values, np.float64)
    if not matrix.size:
        return np.zeros((0, n))
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise ValueError(f"a matrix of {' x '.join(map(str, matrix.shape))}, which has not {n} columns")
    return matrix


def _counted(observers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The observers (n,), counted from 0 in the order of their numbers."""
    return np.unique(observers, return_inverse=True)[1].astype(np.int64)


def _other_size(file: _File, shape: tuple[float, ...], size: Size) -> ContentError:
    return ContentError(
        f"{file.origin} is of an image of {' x '.join(f'{side:g}' for side in shape)} pixels (height x width), "
        f"but its image is {size[0]} x {size[1]}. Replace one of the two"
    )


# === The fixations of all images of a dataset ===


def read_set(reader: str, files: Mapping[str, tuple[str, bytes]]) -> dict[str, Fixations]:
    """The fixations of all images of a dataset, by the image's name without its ending.

    Args:
        reader: a name in `READERS`.
        files: name in lower case -> the file's name in messages, and its bytes.

    Raises:
        UserError: a file is missing, or two contradict each other.
    """
    return READERS[reader]({name: _File(*file) for name, file in files.items()})


def _read_osie(files: Mapping[str, _File], size: Size = OSIE_SIZE) -> dict[str, Fixations]:
    """Read `fixations.mat` of OSIE and of Saliency in crowd. All images of a dataset have one size (h, w).

    It has one cell for each image, with its name `img` and its `subjects`, each with `fix_x` and `fix_y`,
    pixels from 0. Example: the cell of 1001.jpg becomes the image `1001`.
    """
    (file,) = files.values()
    images: dict[str, Fixations] = {}
    for cell in _variables(file, "fixations")["fixations"].ravel():
        image = _unwrap(cell)
        name = str(_unwrap(image["img"]))
        subjects = [_unwrap(subject) for subject in image["subjects"].ravel()]
        observers = [
            np.stack([subject[axis].ravel() for axis in ("fix_y", "fix_x")], axis=-1) for subject in subjects
        ]
        whose = np.repeat(np.arange(len(observers)), [len(points) for points in observers])
        origin = f"the fixations of {name} in {file.origin}"
        points = _columns(np.concatenate(observers), 2)
        images[name.rpartition(".")[0]] = Fixations(origin, points, whose, size, has_known_observers=True)
    return images


def _unwrap(cell: Any) -> Any:
    """The value inside of nested MATLAB cells and structs of one element, which SciPy reads as arrays."""
    while isinstance(cell, np.ndarray) and cell.size == 1:
        cell = cell.ravel()[0]
    return cell


def _read_pascals(files: Mapping[str, _File]) -> dict[str, Fixations]:
    """Read `pascalFix.mat`, and `pascalSize.mat` if it is there. An image's name is its number, from "1".

    `fixCell` refers to one matrix for each image. Its columns in MATLAB are y, x and the observer, counted
    from 1 (pysaliency, external_datasets/pascal_s.py). `sizeData` has the height and the width of each image.
    """
    if "pascalfix.mat" not in files:
        raise ContentError("pascalSize.mat is there without pascalFix.mat. Add that file of the authors")
    file = files["pascalfix.mat"]
    matrices = _read_hdf5(file, "fixCell", _matrices)
    sizes: list[Size | None] = [None] * len(matrices)
    if "pascalsize.mat" in files:
        sizes = _read_hdf5(files["pascalsize.mat"], "sizeData", _sizes)
    images = {}
    for index, ((points, observers), size) in enumerate(zip(matrices, sizes, strict=True)):
        origin = f"the fixations of image {index + 1} in {file.origin}"
        images[str(index + 1)] = Fixations(origin, _columns(points, 2), observers, size)
    return images


def _matrices(hdf5: h5py.File, cells: h5py.Dataset) -> list[tuple[Points, Observers]]:
    """The points and the observers in each of the matrices to which the cells refer."""
    matrices = []
    for reference in np.asarray(cells).ravel():
        values = _inside(hdf5[reference])
        matrix = np.zeros((3, 0)) if "MATLAB_empty" in values.attrs else np.asarray(values, np.float64)
        observers = _counted(matrix[2]) if len(matrix) > 2 else None
        matrices.append((np.trunc(matrix[:2].T) - 1, observers))
    return matrices


def _sizes(_: h5py.File, data: h5py.Dataset) -> list[Size]:
    return [(int(height), int(width)) for height, width in np.asarray(data, np.float64).T]


def _read_hdf5(file: _File, name: str, reading: Callable[[h5py.File, h5py.Dataset], list[Any]]) -> list[Any]:
    """The result of `reading` for the variable `name` of a file of MATLAB 7.3, a form of HDF5."""
    with h5py.File(io.BytesIO(file.content), "r") as hdf5:
        if not isinstance(hdf5.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"it has no variable {name} of its own")
        return reading(hdf5, _inside(hdf5[name]))


def _inside(data: Any) -> h5py.Dataset:
    """The array itself. HDF5 would read one from any other file of this machine that it names."""
    if not isinstance(data, h5py.Dataset):
        raise ValueError(f"{data.name} is not a matrix")
    if data.external or data.is_virtual:
        raise ValueError(f"{data.name} is in another file")
    return data


READERS: dict[str, Callable[[Mapping[str, _File]], dict[str, Fixations]]] = {
    "osie": _read_osie,
    "crowd": partial(_read_osie, size=CROWD_SIZE),
    "pascals": _read_pascals,
}
"""`FileRule.reader` -> what reads the files of this reader."""
