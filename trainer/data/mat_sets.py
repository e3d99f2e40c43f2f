"""Read MATLAB files that hold the fixations of all images of a dataset: OSIE, Saliency in crowd and PASCAL-S."""

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from trainer.data.gaze import Fixations, Gaze, Size
from trainer.data.mat5 import MOST_BYTES
from trainer.data.mat_files import OSIE_SIZE, counted, fits, load, numbers
from trainer.errors import UserError, first_line
from trainer.sources import Member

MAX_VALUES = 10_000_000
"""Numbers in all matrices of a file; PASCAL-S has 120,942."""

CROWD_SIZE = (768, 1024)
"""(height, width) of the images of Saliency in crowd, pixels."""

Files = Mapping[str, Member]
"""Name in lower case -> file."""


def _fixations(
    points: NDArray[np.float64], observers: NDArray[np.int64] | None, expected: Size | None, origin: str
) -> Fixations:
    """Of points (n, 2) as (y, x), counted from 0, in an image of the `expected` size (h, w)."""
    return Fixations(origin, partial(_in_image, points, observers, expected, origin))


def _in_image(
    points: NDArray[np.float64],
    observers: NDArray[np.int64] | None,
    expected: Size | None,
    origin: str,
    size: Size,
) -> Gaze:
    if expected and not fits(expected, size):
        raise UserError(
            f"{origin} are of an image of {expected[0]} x {expected[1]} pixels (height x width), but its image is "
            f"{size[0]} x {size[1]}; take the images as the authors publish them"
        )
    return Gaze.inside(points, observers, size)


def _unreadable(member: Member, error: Exception) -> UserError:
    return UserError(
        f"{member.origin} is not the authors' file of fixations ({first_line(error)}); download it again"
    )


# === OSIE and Saliency in crowd ===


def read_osie(files: Files, size: Size = OSIE_SIZE) -> dict[str, Fixations]:
    """Stem of an image's name -> fixations, of `fixations.mat`; all images have one size (h, w).

    It has a cell an image, with its name `img` and its `subjects`, each with `fix_x` and `fix_y`, pixels from 0.

    Raises:
        UserError: the file is damaged or has another form.
    """
    (member,) = files.values()
    cells = load(member, "fixations")["fixations"]
    found: dict[str, Fixations] = {}
    try:
        for cell in cells.ravel():
            image = _content(cell)
            name = str(_content(image["img"]))
            stem = name.rpartition(".")[0]
            if not stem or stem in found:
                raise ValueError(f"two images or none are named {name!r}")
            observers = [_osie_points(_content(subject)) for subject in image["subjects"].ravel()]
            whose = np.repeat(np.arange(len(observers)), [len(points) for points in observers])
            origin = f"the fixations of {name} in {member.origin}"
            found[stem] = _fixations(np.concatenate(observers), whose, size, origin)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise _unreadable(member, error) from None
    return found


def _osie_points(subject: Any) -> NDArray[np.float64]:
    columns = [numbers(subject[name]).ravel() for name in ("fix_y", "fix_x")]
    return np.stack(columns, axis=-1)


def _content(cell: Any) -> Any:
    """What is inside of nested cells and structs of one element."""
    while isinstance(cell, np.ndarray) and cell.size == 1:
        cell = cell.ravel()[0]
    return cell


# === PASCAL-S ===


def read_pascals(files: Files) -> dict[str, Fixations]:
    """Number of an image, from "1" -> fixations, of `pascalFix.mat`, and of `pascalSize.mat` if it is there.

    `fixCell` refers to a matrix an image, whose columns in MATLAB are y, x and the observer, which count from 1
    (pysaliency, external_datasets/pascal_s.py). `sizeData` has the height and the width of each image.

    Raises:
        UserError: a file is damaged, has another form, or refers to other files.
    """
    if "pascalfix.mat" not in files:
        raise UserError("pascalSize.mat is there without pascalFix.mat; add that file of the authors")
    member = files["pascalfix.mat"]
    matrices = _read_hdf5(member, "fixCell", _matrices)
    sizes: list[Size | None] = [None] * len(matrices)
    if "pascalsize.mat" in files:
        height_width = _read_hdf5(files["pascalsize.mat"], "sizeData", _sizes)
        if len(height_width) != len(matrices):
            raise UserError(
                f"{files['pascalsize.mat'].origin} has the sizes of {len(height_width)} images, but "
                f"{member.origin} has the fixations of {len(matrices)}; download both again"
            )
        sizes = [*height_width]
    found = {}
    for index, ((points, observers), size) in enumerate(zip(matrices, sizes, strict=True)):
        origin = f"the fixations of image {index + 1} in {member.origin}"
        found[str(index + 1)] = _fixations(points, observers, size, origin)
    return found


Points = NDArray[np.float64]
Observers = NDArray[np.int64] | None


def _matrices(file: h5py.File, cells: h5py.Dataset) -> list[tuple[Points, Observers]]:
    """Points (n, 2) as (y, x) from 0, and the observer of each, of the matrices to which the cells refer."""
    if not h5py.check_ref_dtype(cells.dtype):
        raise ValueError("fixCell does not refer to matrices")
    matrices, n_values = [], 0
    for number, reference in enumerate(np.asarray(cells).ravel(), 1):
        values = _checked(file[reference])
        n_values += values.size
        if n_values > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES:,} numbers")
        try:
            matrix = numbers(values)
        except ValueError as error:
            raise ValueError(f"image {number} has {error}") from None
        if "MATLAB_empty" in values.attrs:
            matrix = np.zeros((3, 0))
        if matrix.ndim != 2 or len(matrix) < 2:
            raise ValueError(f"image {number} has a matrix of {matrix.shape[::-1]}, not of columns y and x")
        observers = counted(matrix[2]) if len(matrix) > 2 else None
        matrices.append((np.trunc(matrix[:2].T) - 1, observers))
    return matrices


def _sizes(_: h5py.File, data: h5py.Dataset) -> list[Size]:
    values = np.asarray(data, np.float64)
    if values.ndim != 2 or len(values) != 2 or not np.isfinite(values).all():
        raise ValueError(f"a matrix of {values.shape[::-1]}, not of columns height and width")
    return [(int(height), int(width)) for height, width in values.T]


Reading = Callable[[h5py.File, h5py.Dataset], list[Any]]


def _read_hdf5(member: Member, name: str, reading: Reading) -> list[Any]:
    """What `reading` makes of the variable `name` of a file of MATLAB 7.3, which is HDF5."""
    data = member.content(MOST_BYTES)
    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            link = file.get(name, getlink=True)
            if link is None:
                raise ValueError(f"it has no variable {name}")
            if not isinstance(link, h5py.HardLink):
                raise ValueError(f"{name} is a link")
            return reading(file, _checked(file[name]))
    except Exception as error:  # h5py raises whatever a damaged file leads it to
        raise _unreadable(member, error) from None


def _checked(data: Any) -> h5py.Dataset:
    """The object itself if it is an array in this very file; HDF5 would follow its way to any other file."""
    if not isinstance(data, h5py.Dataset):
        raise ValueError(f"{data.name} is not a matrix")
    if data.external or data.is_virtual:
        raise ValueError(f"{data.name} is in another file")
    if data.size is None or data.size > MAX_VALUES:
        raise ValueError(f"{data.name} has more than {MAX_VALUES:,} numbers")
    return data


READERS: dict[str, Callable[[Files], dict[str, Fixations]]] = {
    "osie": read_osie,
    "crowd": partial(read_osie, size=CROWD_SIZE),
    "pascals": read_pascals,
}
"""`Rule.reader` -> what reads the files of this reader."""
