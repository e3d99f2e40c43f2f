"""The images and recordings that a model was made of, kept with it, and how new data differ from them.

An image is the same if its pixels are equal, or if it is a copy by the rule of `trainer.data.copies`. Its
recording is the same if every person who was recorded before has the same fixations: people may be added.
"""

import csv
import dataclasses
import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from trainer.data import PreparedData, match_copies
from trainer.errors import ContentError, check
from trainer.evaluation.evaluation import RECORDED
from trainer.io import StrPath
from trainer.texts import some

FEWEST_ALIKE = 0.8
"""Share of the changed recordings that changed in one way, for it to be named."""
REVERSED = -0.9
"""Correlation of positions before and now by which an axis is upside down."""
LEAST_MOVED = 0.01
"""Share of an image's side by which a mean position moves at least."""

NEEDED = ("split", "image", "digest", "hash", "recording")
"""Columns that are compared."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of IMAGES: an image and its recording."""

    split: str
    image: str
    digest: str
    hash: str
    recording: str
    cells: Mapping[str, str]
    """All columns in their order, those above too. Data of earlier versions have fewer."""

    @classmethod
    def of(cls, cells: Mapping[str, str]) -> "Line":
        """The line with these cells."""
        split, image, digest, hash_, recording = (cells[column] for column in NEEDED)
        return cls(split, image, digest, hash_, recording, cells)

    @property
    def key(self) -> tuple[str, str]:
        """Split and name of the image."""
        return self.split, self.image


@dataclasses.dataclass(frozen=True)
class Pair:
    """An image that a model's data had, too, such as `a.png` now and `old/a.png` before."""

    now: Line
    before: Line

    @property
    def is_of_one_size(self) -> bool:
        """Whether the picture has the size that it had: positions in a cropped or scaled one are others."""
        return all(self.now.cells.get(side) == self.before.cells.get(side) for side in ("pixels", "aspect"))

    @property
    def has_changed(self) -> bool:
        """Whether a person's recording of before is gone. Example: `a1 b1` is now `a1 b2`, not `a1 b1 c1`."""
        return bool(Counter(self.before.recording.split()) - Counter(self.now.recording.split()))


@dataclasses.dataclass(frozen=True)
class Compared:
    """New data beside the data of a model."""

    pairs: list[Pair]
    added: list[Line]
    """The images that are new."""
    n_before: int
    """Number of images that the model's data had."""
    found: frozenset[tuple[str, str]]
    """The keys of the images that are still there."""

    @classmethod
    def with_model(cls, folder: StrPath, model: StrPath | None, name: str) -> "Compared":
        """Put prepared data beside the data `name` of a model, such as `finetune`.

        All images are new without a model, and if it does not list the images of its data.

        Raises:
            UserError: a list of images cannot be read.
        """
        before = read_recorded(model).get(name, []) if model is not None else []
        return compare(read_lines(folder), before)

    @property
    def now(self) -> list[Line]:
        """All images of the new data."""
        return [*(pair.now for pair in self.pairs), *self.added]

    @property
    def n_gone(self) -> int:
        """Number of images that are not there any more."""
        return self.n_before - len(self.found)

    @property
    def comparable(self) -> list[Pair]:
        """The images of an unchanged size."""
        return [pair for pair in self.pairs if pair.is_of_one_size]

    @property
    def changed(self) -> list[Pair]:
        """The comparable images with other recordings now."""
        return [pair for pair in self.comparable if pair.has_changed]

    def how(self) -> str:
        """Say how the recordings changed, as a clause. Empty if they did not change in one way."""
        changed = self.changed
        elsewhere = {pair.before.recording: pair.before.image for pair in self.pairs}
        moved = [pair for pair in changed if pair.now.recording in elsewhere]
        if len(moved) >= FEWEST_ALIKE * len(changed):
            names = [f"{pair.now.image} has that of {elsewhere[pair.now.recording]}" for pair in moved]
            return f"they are now those of other images ({some(names)})"
        clauses = []
        for column, side, words in (
            ("x", "width", ("to the right", "to the left")),
            ("y", "height", ("down", "up")),
        ):
            now, before = _columns(changed, column)
            if len(now) < 3:
                continue
            if np.std(now) and np.std(before) and np.corrcoef(now, before)[0, 1] < REVERSED:
                clauses.append(f"{column} is as if from the other side")
            elif abs(step := float(np.median(now - before))) >= LEAST_MOVED:
                spread = np.abs(now - before - step)
                if (spread < max(LEAST_MOVED, abs(step) / 2)).mean() >= FEWEST_ALIKE:
                    clauses.append(f"they moved by {abs(step):.0%} of the {side} {words[step < 0]}")
        now, before = _columns(changed, "fixations")
        if len(now) and (ratio := float(np.median(now / np.maximum(before, 1)))) != 1:
            clauses.append(f"they have {ratio:.2g} times as many fixations")
        return " and ".join(clauses)


def write_recorded(path: pathlib.Path, data: Mapping[str, StrPath]) -> None:
    """Write the images of a model's data: `data` is its name, such as `finetune` -> prepared folder."""
    lines = [{"data": name, **line.cells} for name, folder in data.items() for line in read_lines(folder)]
    columns = dict.fromkeys(column for line in lines for column in line)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(lines)


def read_recorded(model: StrPath) -> dict[str, list[Line]]:
    """Name of the data -> images that the model in a folder was made of. Empty for one of an earlier version.

    Raises:
        UserError: the file is damaged.
    """
    path = pathlib.Path(model, RECORDED)
    if not path.is_file():
        return {}
    found: dict[str, list[Line]] = {}
    for line in _read(path, "remove it, then the data are not compared image by image"):
        found.setdefault(line.cells.get("data", ""), []).append(line)
    return found


def read_lines(folder: StrPath) -> list[Line]:
    """The lines of IMAGES of prepared data. Raises `UserError` if they cannot be read."""
    return _read(PreparedData(folder).image_list, "prepare the dataset again")


def _read(path: pathlib.Path, remedy: str) -> list[Line]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise ContentError(f"{path} cannot be read ({error}): {remedy}") from None
    for column in NEEDED:
        is_there = all(line.get(column) is not None for line in lines)
        check(is_there, f"{path} has no {column}: {remedy}", ContentError)
    return [Line.of(line) for line in lines]


def compare(now: Sequence[Line], before: Sequence[Line]) -> Compared:
    """Pair images of new data with images of a model's data: by pixels, as copies, or by name and size.

    A picture may be there under several names, with recordings of its own under each. A sparse picture is never a
    copy (`copies.hash_of`), so its name without the suffix tells.
    """
    by_digest: dict[str, list[Line]] = {}
    by_name = {}
    for line in before:
        by_digest.setdefault(line.digest, []).append(line)
        by_name[_name_and_size(line)] = line
    rest = [line for line in now if line.digest not in by_digest]
    hashes = [line.hash for line in rest], [line.hash for line in before]
    twins = match_copies(*hashes, mirrored=False)  # else positions would be mirrored, too
    copied = {line.key: before[twin] for line, twin in zip(rest, twins, strict=True) if twin is not None}
    pairs, added = [], []
    for line in now:
        same = copied.get(line.key)
        if line.digest in by_digest:
            same = _likest(line, by_digest[line.digest])
        elif same is None and not line.hash and line.cells.get("pixels"):
            same = by_name.get(_name_and_size(line))
        if same is None:
            added.append(line)
        else:
            pairs.append(Pair(line, same))
    there = {pair.before.digest for pair in pairs}
    return Compared(pairs, added, len(before), frozenset(line.key for line in before if line.digest in there))


def _name_and_size(line: Line) -> tuple[str, ...]:
    return (
        str(pathlib.PurePosixPath(line.image).with_suffix("")),
        line.cells.get("pixels", ""),
        line.cells.get("aspect", ""),
    )


def _likest(line: Line, others: Sequence[Line]) -> Line:
    """Of lines with the same pixels, the one with the same name, else with the same recording, else the first."""
    return max(others, key=lambda other: (other.image == line.image, other.recording == line.recording))


def _columns(pairs: Sequence[Pair], column: str) -> tuple[np.ndarray, np.ndarray]:
    """A feature of the images of pairs now and before, where it is known."""
    known = [pair for pair in pairs if pair.now.cells.get(column) and pair.before.cells.get(column)]
    now, before = ([float(getattr(pair, when).cells[column]) for pair in known] for when in ("now", "before"))
    return np.array(now), np.array(before)
