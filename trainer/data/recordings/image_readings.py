"""What names the image of each row of tables: a column, or the paths of the tables.

The evidence is how many rows and images a reading uses, and how probable it is that something names the image by
accident. Example: a column of numbers may count anything, and a column named `image` does not.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from trainer.data.recordings.columns import ROLES, is_usual
from trainer.data.recordings.image_names import ImageNames, is_number
from trainer.data.recordings.paths import part_of
from trainer.data.recordings.reading import FILE, FOLDER, ONLY
from trainer.data.recordings.tables import Source
from trainer.data.settings import FetchConfig
from trainer.pictures import PICTURE_SUFFIXES

USUAL, PATH, PART_OF_PATH, WITH_SUFFIX, TEXT, NUMBER_IN_PATH, NUMBER = range(7, 0, -1)
"""What may name images, the least accidental first: a column with a usual name, a name of a table or folder, a
part of it, a column of names with the suffix of an image, a column of other names, numbers in the names of
tables, and a column of numbers, which may count anything."""
MIN_RUN = 1.5
"""Mean number of rows of one image that follow one another, if a column of numbers may name images."""


@dataclasses.dataclass(frozen=True)
class ImageReading:
    """What names the image of each row."""

    text: str
    name: str
    """Its name in the setting `columns`."""
    rank: int
    images: Sequence[pl.Series]
    """For each table, the position of the image of each row: -1 if it is none of the source, null if it is
    empty."""
    part: tuple[int, int, int] | None = None
    """The part of the path of tables that names it (see `part_of`). None for a column."""
    has_numbers: bool = False
    """Whether numbers in a column name it."""

    @property
    def n_used(self) -> int:
        """Number of rows with an image of the source."""
        return sum(int((each >= 0).sum()) for each in self.images)

    @property
    def n_labelled(self) -> int:
        """Number of rows that name an image."""
        return sum(each.count() for each in self.images)

    @property
    def n_images(self) -> int:
        """Number of images that are named."""
        return len(set().union(*(each.unique().to_list() for each in self.images)) - {-1, None})

    def agrees_with(self, other: "ImageReading") -> bool:
        """Whether no row has one image by this reading and another one by the other."""
        for own, others in zip(self.images, other.images, strict=True):
            if ((own >= 0) & (others >= 0) & (own != others)).any():
                return False
        return True

    def varies(self) -> bool:
        """Whether tables name several images each."""
        return any(each.n_unique() > 2 for each in self.images)


def image_readings(sources: Sequence[Source], names: ImageNames, named: str) -> list[ImageReading]:
    """What names the images of the rows of tables of one form: columns, and parts of the tables' paths.

    `named` is what the user says: the name of a column, FILE or FOLDER. If it is empty, all that names any
    image counts. Example: the column `stimulus`, and the names of tables such as a_fixations.csv, if a.png is
    there.
    """
    readings = list(_by_column(sources, names, named)) if named not in (FILE, FOLDER) else []
    if named in ("", FILE, FOLDER):
        readings += _by_path(sources, names, named)
    return [each for each in readings if each.n_used or each.rank == USUAL]


def _by_column(sources: Sequence[Source], names: ImageNames, named: str) -> Iterator[ImageReading]:
    for word in dict.fromkeys(word for source in sources for word in source.labels):
        images, labels = [], set[str]()
        for source in sources:
            column = source.labels.get(word)
            if column is None:
                images.append(pl.Series([None] * len(source.rows), dtype=pl.Int32))
                continue
            found = names.named_by(source.rows[column].drop_nulls().unique().to_list())
            labels |= found.keys()
            images.append(_replaced(source.rows[column], found))
        has_numbers = all(map(is_number, labels))
        is_known = named or word in ROLES["image"] or (is_usual(word) and (has_numbers or not labels))
        rank = USUAL if is_known else TEXT
        if rank == TEXT and has_numbers:
            if not _repeats(images):
                continue
            rank = NUMBER
        elif rank == TEXT and any(label.strip().lower().endswith(PICTURE_SUFFIXES) for label in labels):
            rank = WITH_SUFFIX
        column = next(source.labels[word] for source in sources if word in source.labels)
        title = next(source.label_name(column) for source in sources if column in source.rows.columns)
        text = f"the column {title!r} names the image"
        yield ImageReading(text, title, rank, images, has_numbers=has_numbers)


def _repeats(images: Sequence[pl.Series]) -> bool:
    """Whether rows of one image follow one another, as the fixations of a trial do. The numbers of rows do not.

    Example: 1, 1, 1, 2, 2 may name images, and 1, 2, 3, 4, 5 counts rows.
    """
    n_rows, n_runs = sum(map(len, images)), sum(int(each.rle_id().n_unique()) for each in images if len(each))
    return n_rows > MIN_RUN * n_runs


def _replaced(labels: pl.Series, images: dict[str, int]) -> pl.Series:
    texts = labels.cast(pl.String)
    found = texts.replace_strict(list(images), list(images.values()), default=-1, return_dtype=pl.Int32)
    return found.set(texts.is_null(), None)


def _by_path(sources: Sequence[Source], names: ImageNames, named: str) -> Iterator[ImageReading]:
    """The parts of paths that name an image for most tables, and the only image beside tables that are of one."""
    paths = [source.parts for source in sources]
    depths = {FILE: range(1), FOLDER: range(1, 4)}.get(named, range(4))
    for depth in depths:
        spans = [(0, 0), *(pair for pair in itertools.product(range(5), range(4)) if pair != (0, 0))]
        for before, after in spans:
            found = {path: part_of(path, (depth, before, after)) for path in paths}
            labels = [label for label in found.values() if label]
            matches = names.named_by(set(labels))
            if len([label for label in labels if label in matches]) < max(1, len(found) / 2):
                continue
            twins = {
                source.content: matches[label] for source in sources if (label := found[source.parts]) in matches
            }
            images = [
                pl.Series(
                    [matches.get(found[source.parts], twins.get(source.content, -1))], dtype=pl.Int32
                ).new_from_index(0, len(source.rows))
                for source in sources
            ]
            is_whole = (before, after) == (0, 0)
            rank = PATH if is_whole else PART_OF_PATH
            if all(map(is_number, matches)) and not (is_whole and all(map(names.knows, matches))):
                rank = NUMBER_IN_PATH
            what = "the name of each table" if depth == 0 else "the name of the folder of each table"
            text = f"{what} names the image" if is_whole else f"a part of {what} names the image"
            yield ImageReading(text, FOLDER if depth else FILE, rank, images, (depth, before, after))
    if not named and all(source.columns.is_mapped for source in sources):
        only = [names.only_in("/".join(path[:-1])) for path in paths]
        twin = {source.content: image for source, image in zip(sources, only, strict=True) if image is not None}
        only = [
            twin.get(source.content) if image is None else image
            for source, image in zip(sources, only, strict=True)
        ]
        images = [
            pl.Series([-1 if image is None else image], dtype=pl.Int32).new_from_index(0, len(source.rows))
            for image, source in zip(only, sources, strict=True)
        ]
        yield ImageReading("each table is of the only image in its folder", ONLY, PART_OF_PATH, images)


def choose_image(
    readings: Sequence[ImageReading], sources: Sequence[Source], n_images: int, config: FetchConfig
) -> ImageReading | list[ImageReading] | None:
    """Choose the reading that fits. A list has several readings if the evidence does not decide between them.

    - A reading fits if it uses nearly all rows and images.
    - Among readings that fit, the least accidental one is chosen, by its `rank`. Example: a column `image`
      before a column `note` with names of images.
    - If none fits, the one with most rows is chosen, and `check_lost` says what is lost.
    - None: nothing names an image.
    """
    n_rows = sum(len(source.rows) for source in sources)
    most_lost = config.max_lost_share

    def fits(reading: ImageReading) -> bool:
        n_needed = reading.n_labelled if reading.rank == USUAL else n_rows
        return reading.n_used >= (1 - most_lost) * n_needed and reading.n_images >= (1 - most_lost) * n_images

    told = [each for each in readings if each.rank > NUMBER]
    fitting = [each for each in told if fits(each)]
    numbers = [each for each in readings if each.rank == NUMBER]
    if not fitting:
        if not told:
            return [each for each in numbers if fits(each)] or numbers or None
        return max(told, key=lambda each: (each.n_used, each.rank, each.n_labelled))
    best = max(fitting, key=lambda each: (each.rank, each.n_used))
    rivals = [each for each in fitting if each.rank == best.rank]
    is_count = best.rank == NUMBER_IN_PATH or (best.rank == PATH and _is_numbered(sources))
    if is_count and not _have_several_people(sources):
        rivals += [each for each in (*fitting, *numbers) if fits(each)]
    elif best.rank == USUAL and _is_numbered(sources) and not best.varies():
        rivals += [each for each in fitting if each.rank == PATH]
    if best.rank == USUAL and best.has_numbers:
        rivals += [each for each in fitting if each.rank == WITH_SUFFIX]
    others = [each for each in rivals if not each.agrees_with(best)]
    return [best, *others] if others else best


def _is_numbered(sources: Sequence[Source]) -> bool:
    return all(is_number(source.parts[-1]) for source in sources)


def _have_several_people(sources: Sequence[Source]) -> bool:
    """Whether most tables have rows of several observers. Then numbers in names of tables do not count people."""
    n_people = [
        source.rows["observer"].n_unique() if "observer" in source.rows.columns else 1 for source in sources
    ]
    return bool(np.median(n_people) > 1)
