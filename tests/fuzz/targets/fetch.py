"""`fetch`: sources of three or five images, of which one file, the archive around them or a name is odd."""

import csv
import functools
import os
import pathlib
import random
import socket
import zlib
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image

from tests.fuzz import archives, matlab, names, pictures, tables
from tests.fuzz.mutate import mutated
from tests.fuzz.verdicts import Input, command, expect

SIZE = matlab.SIZE
"""(height, width) of the images and of the prepared ones, so that the pixels stay what they are."""
LEVELS = 8
"""Mean difference allowed between the decoders of TensorFlow and Pillow, of 0..255."""


class Target:
    def __init__(self, folder: pathlib.Path) -> None:
        self._run(folder / "warm-up", "osie", str(_write(_osie(), folder / "warm-up" / "set")))

    def make(self, source: random.Random, folder: pathlib.Path) -> Input:
        makers = (self._archive,) * 5 + (self._picture,) * 4 + (self._mat,) * 4 + (self._table,) * 3
        return source.choice((*makers, self._named, self._named, self._special, self._source))(source, folder)

    def _run(self, folder: pathlib.Path, dataset: str, place: str, *arguments: str) -> None:
        size = "x".join(map(str, SIZE))
        given = ("--dataset", dataset, "--source", place, "--image-size", size, "--allow-partial-data", "true")
        command("fetch", *given, "--cache-dir", "", "--output-dir", str(folder / "out" / "data"), *arguments)

    def _input(
        self, kind: str, folder: pathlib.Path, dataset: str, place: str, *compare: Any, **more: Any
    ) -> Input:
        run = functools.partial(self._run, folder, dataset, place)
        compared = functools.partial(compare[0], *compare[1:]) if compare else lambda: None
        return Input(kind, run, compared, outputs=folder / "out", **more)

    def _archive(self, source: random.Random, folder: pathlib.Path) -> Input:
        files = _osie()
        made = archives.archive(files, source)
        path = folder / f"set{made.suffix}"
        path.write_bytes(made.data)
        compare = (_compare_all, folder, files)
        return self._input(made.kind, folder, "osie", str(path), *compare, is_sound=made.is_sound)

    def _picture(self, source: random.Random, folder: pathlib.Path) -> Input:
        files = _osie()
        if source.random() < 0.6:
            form = source.choice(pictures.FORMATS)
            data = pictures.of_format(source, form, SIZE)
            made = pictures.Picture(f"sound {form}", data, pictures.SUFFIXES[form])
            if source.random() < 0.6:
                made = pictures.Picture(f"damaged {form}", mutated(data, source), made.suffix)
        else:
            made = pictures.picture(source)
        role = source.choice(("stimuli", "stimuli", "maps"))
        del files[f"{role}/2.png"]
        files[f"{role}/2{made.suffix}"] = made.data
        place = _write(files, folder / "set")
        compare = (_compare_picture, folder, f"2{made.suffix}", made.data) if role == "stimuli" else ()
        return self._input(f"{role}: {made.kind}", folder, "osie", str(place), *compare)

    def _mat(self, source: random.Random, folder: pathlib.Path) -> Input:
        made = matlab.fixations(source)
        files = {}
        for index, name in enumerate(("train/a", "train/b", "val/c")):
            files[f"images/{name}.png"] = _png(index)
            files[f"maps/{name}.png"] = _density(index)
            whole = matlab.saved(matlab.observers(matlab.points(source), matlab.points(source)))
            files[f"fixations/{name}.mat"] = made.data if name == "train/b" else whole
        place = _write(files, folder / "set")
        compare = (_compare_points, folder, "b.png", made.data)
        return self._input(f"mat: {made.kind}", folder, "salicon", str(place), *compare, is_sound=made.is_sound)

    def _table(self, source: random.Random, folder: pathlib.Path) -> Input:
        images = {f"{stem}.png": _png(index) for index, stem in enumerate("abcde")}
        kind, content, is_sound = tables.table(list(images), source)
        suffix = source.choice((".csv", ".csv", ".tsv", ".txt"))
        place = _write({**images, f"fixations{suffix}": content}, folder / "set")
        compare = (_compare_counts, folder, len(images)) if is_sound else ()
        return self._input(kind, folder, "custom", str(place), *compare, is_sound=is_sound)

    def _named(self, source: random.Random, folder: pathlib.Path) -> Input:
        files, stem = _osie(), names.stem(source)
        is_sound = stem.isprintable() and stem.isascii() and stem.isalnum() and len(stem) < 100
        if source.random() < 0.4:  # one that does not decode, and has to be named
            files["stimuli/2.png"] = b"no picture"
            is_sound = False
        for role in ("stimuli", "maps"):
            files[f"{role}/{stem}.png"] = files.pop(f"{role}/2.png")
        place = _write(files, folder / "set")
        return self._input("name of a file", folder, "osie", str(place), is_sound=is_sound, names=(stem,))

    def _special(self, source: random.Random, folder: pathlib.Path) -> Input:
        """A pipe, a socket, a device or a link beside the images, or in the place of one."""
        files = _osie()
        place = _write(files, folder / "set")
        odd = place / source.choice(("beside", "beside.png", "stimuli/4.png", "stimuli/2.png", "stimuli/below"))
        odd.unlink(missing_ok=True)
        kind = source.choice(
            ("pipe", "socket", "device", "dangling", "self", "up", "twice up", "folder", "outside")
        )
        if kind == "pipe":
            os.mkfifo(odd)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                os.chdir(odd.parent)
                bound.bind(odd.name)
        elif kind == "folder":
            odd.mkdir()
        else:
            to = {"device": "/dev/zero", "dangling": "nowhere", "self": odd.name, "outside": "/proc/self"}
            odd.symlink_to(to.get(kind, "."))
            if kind == "twice up":
                odd.with_name("again").symlink_to(".")
        return self._input(f"special {kind}", folder, "osie", str(place))

    def _source(self, source: random.Random, folder: pathlib.Path) -> Input:
        """A source that is no folder of images."""
        text = names.name(source)
        return self._input("source", folder, source.choice(("osie", "custom", "salicon")), text, names=(text,))


# === Sources ===


def _write(files: archives.Files, folder: pathlib.Path) -> pathlib.Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@functools.cache
def _png(index: int) -> bytes:
    return pictures.encoded(Image.fromarray(pictures.pixels(random.Random(index), SIZE)), "PNG")


@functools.cache
def _density(index: int) -> bytes:
    ramp = (np.arange(SIZE[0] * SIZE[1]) + 37 * index) % 256
    return pictures.encoded(Image.fromarray(ramp.astype(np.uint8).reshape(SIZE)), "PNG")


def _osie() -> archives.Files:
    """Three images with their maps."""
    makers = {"stimuli": _png, "maps": _density}
    return {f"{role}/{index}.png": make(index) for role, make in makers.items() for index in (1, 2, 3)}


# === What was prepared, read without this project ===


def _records(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Name of an image -> the features of its record."""
    records = {}
    for shard in sorted((folder / "out" / "data").glob("*.tfrecord")):
        for record in tf.data.TFRecordDataset(str(shard)).as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            values = {
                key: list(value.int64_list.value) or list(value.bytes_list.value) for key, value in feature.items()
            }
            records[values["name"][0].decode()] = values
    with (folder / "out" / "data" / "images.csv").open(newline="") as file:
        listed = [row["image"] for row in csv.DictReader(file)]
    expect(sorted(listed) == sorted(records), f"images.csv has {sorted(listed)}, the shards {sorted(records)}")
    return records


def _stimulus(record: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(record["stimulus"][0], np.uint8).reshape(*SIZE, 3)


def _compare_all(folder: pathlib.Path, files: archives.Files) -> None:
    """All images are there, with the pixels and the maps that were packed."""
    records = _records(folder)
    for index in (1, 2, 3):
        record = records.pop(f"{index}.png", None)
        expect(record, f"image {index}.png is missing without a word")
        assert record is not None
        sound = pictures.independent(files[f"stimuli/{index}.png"])
        expect(np.array_equal(_stimulus(record), sound), f"image {index}.png has other pixels")
        density = np.frombuffer(zlib.decompress(record["density"][0]), np.uint8)
        levels = pictures.independent(files[f"maps/{index}.png"])
        assert levels is not None
        expect(np.array_equal(density.reshape(SIZE), levels[..., 0]), f"the map of {index}.png has other values")
    expect(not records, f"there are more images: {sorted(records)}")


def _compare_picture(folder: pathlib.Path, name: str, data: bytes) -> None:
    record = _records(folder)[name]
    theirs = pictures.as_stored(data)
    expect(theirs is not None, "Pillow does not read the picture, and it is in the data")
    assert theirs is not None
    expect(
        tuple(record["original_size"]) == theirs.shape[:2], f"{record['original_size']}, Pillow: {theirs.shape}"
    )
    if theirs.shape[:2] == SIZE:
        off = np.abs(_stimulus(record).astype(int) - theirs).mean()
        expect(off <= LEVELS, f"the pixels differ by {off:.3g} levels from Pillow's")


def _compare_points(folder: pathlib.Path, name: str, data: bytes) -> None:
    """No point is elsewhere than SciPy reads it, and none inside of the image is left out."""
    points = np.array(_records(folder)[name]["fixations"], np.int64).reshape(-1, 2)
    if not matlab.is_judged(data):
        return
    theirs = matlab.independent(data, SIZE)
    expect(theirs is not None, f"SciPy finds no form of fixations, and {len(points)} are in the data")
    assert theirs is not None
    near, inside = theirs
    expect(_contains(near, points), f"{points.tolist()} are not among {near.tolist()}")
    expect(_contains(points, inside), f"{inside.tolist()} are not all in {points.tolist()}")


def _contains(all: np.ndarray, some: np.ndarray) -> bool:
    left = list(map(tuple, all.tolist()))
    for each in map(tuple, some.tolist()):
        if each not in left:
            return False
        left.remove(each)
    return True


def _compare_counts(folder: pathlib.Path, n_images: int) -> None:
    records = _records(folder)
    expect(len(records) == n_images, f"{len(records)} of {n_images} images are there")
    for name, record in records.items():
        expect(len(record["fixations"]) == 12, f"{name} has {len(record['fixations'])} numbers, not 12")
