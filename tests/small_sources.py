"""Small sources of datasets for tests: images of noise in folders, and archives of them."""

import csv
import io
import pathlib
import tarfile
import zipfile

import numpy as np
from PIL import Image

from trainer.data.prepared_data import OBJECTS
from trainer.places import SourceObject

SIZE = (24, 32)
"""(height, width) of the images, pixels."""
POINTS = np.array([[3, 4], [12, 20], [23, 31]])
"""(y, x) of the fixated pixels in every image."""


def stimulus(index, size=SIZE):
    """Noise, (h, w, 3) uint8."""
    return np.random.default_rng(index).integers(0, 256, (*size, 3), np.uint8)


def point_map(size=SIZE, points=POINTS):
    """0, and 255 at the points, (h, w) uint8."""
    pixels = np.zeros(size, np.uint8)
    pixels[tuple(points.T)] = 255
    return pixels


def density_map(index, size=SIZE):
    """A smooth hill at another place for each index, and 0 at its border as where nobody looks, (h, w) uint8."""
    top = 0.3 + 0.4 * np.array([0.618 * index % 1, 0.414 * index % 1])
    y, x = (np.linspace(0, 1, side) - start for side, start in zip(size, top, strict=True))
    hill = 255 * np.exp(-(y[:, None] ** 2 + x**2) / 0.04)
    return np.pad(hill.astype(np.uint8)[1:-1, 1:-1], 1)


def save(path, pixels):
    """Write an image; the suffix is its format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def write_tree(folder, n=7, maps="fixation", make_map=None):
    """`stimuli/N.png` and maps of the same names; `make_map(index)` makes a map, by default the points."""
    for index in range(1, n + 1):
        save(folder / "stimuli" / f"{index}.png", stimulus(index))
        save(folder / maps / f"{index}.png", make_map(index) if make_map else point_map())
    return folder


def files(folder):
    """Path below the folder -> content of all its files."""
    folder = pathlib.Path(folder)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def listed_objects(folder):
    """The files of the source that a prepared dataset lists."""
    with (folder / OBJECTS).open(newline="") as file:
        return [SourceObject(**{**row, "size_bytes": int(row["size_bytes"])}) for row in csv.DictReader(file)]


def zipped(content):
    """The bytes of a ZIP archive of {name: bytes}; a `zipfile.ZipInfo` can replace a name."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return packed.getvalue()


def write_zip(path, content):
    """A file of `zipped`; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zipped(content))
    return path


def write_tar(path, content, extra=()):
    """A tarball of {name: bytes} and then `extra` `tarfile.TarInfo`s; packed unless its suffix is .tar."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for entry in extra:
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    return path
