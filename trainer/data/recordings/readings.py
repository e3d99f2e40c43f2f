"""How recordings are read: which image each row of the tables is of, and what its positions mean.

A reading is one of these:
- known, by the header of a known export, or a setting,
- inferred, because it fits all evidence, and no other does,
- one of several. Then the user has to choose, and `AmbiguousError` shows them side by side.

Evidence on the image: how many rows and images a reading uses, and how probable it is that something names
the image by accident. Evidence on the unit: how probable the positions are. People look at the middle more
than at the borders, seldom beside the image, and never at one corner of all images. Example: positions of 0.1
to 0.9 are fractions, since in pixels they would all be in one corner.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trainer.data.recordings.ambiguous import AmbiguousError, Reading
from trainer.data.recordings.columns import (
    CENTERED,
    IMAGE,
    ROLES,
    SCREEN,
    Columns,
    ImageNames,
    is_number,
    is_usual,
)
from trainer.data.recordings.geometry import Geometry, Positions
from trainer.data.recordings.tables import Source
from trainer.data.settings import (
    CENTER_HEIGHT,
    CENTER_NORM,
    CENTER_PIXELS,
    DEGREES,
    FRACTION,
    PERCENT,
    PIXELS,
    THOUSANDTHS,
    FetchConfig,
    parse_screen_size,
)
from trainer.data.source_layout import IMAGE_SUFFIXES, Points
from trainer.errors import UserError

FILE, FOLDER = "@file", "@folder"
"""Names in the setting `columns` for an image that the name of the table, or of its folder, names."""
DRAWN_FIXATIONS = 60
DRAWN_IMAGES = 3


# === The image of a row ===

USUAL, PATH, PART_OF_PATH, WITH_SUFFIX, TEXT, NUMBER_IN_PATH, NUMBER = range(7, 0, -1)
"""How improbable it is that something names images by accident: a column with a usual name, a name of a table or
folder, a part of it, a column of names with the suffix of an image, or of other names, numbers in the names of
tables, and a column of numbers, which may count anything."""


WORD = r"[^_\-\s.()]+"
"""A word of the name of a table or a folder."""
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
        elif rank == TEXT and any(label.strip().lower().endswith(IMAGE_SUFFIXES) for label in labels):
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
    """The parts of paths that name an image for nearly every table, and the only image beside a table."""
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
    if not named:
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
        yield ImageReading("each table is of the only image in its folder", FOLDER, PART_OF_PATH, images)


def part_of(path: tuple[str, ...], part: tuple[int, int, int]) -> str:
    """The name at a depth of a path, 0 for the table's, without some of its words before and after.

    It may be empty.

    `part` is the depth, and the numbers of words before and after. Example: of the path (p1, face_07_fix),
    the part (0, 0, 1) is face_07.
    """
    depth, before, after = part
    if depth >= len(path):
        return ""
    name = path[-1 - depth]
    words = list(re.finditer(WORD, name))
    if before + after >= max(1, len(words)):
        return ""
    begin = words[before].start() if before else 0
    return name[begin : words[len(words) - 1 - after].end() if after else len(name)]


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


# === Where positions are ===

CENTER_SIGMA = 0.2
"""Standard deviation of where people look, in sides of the image."""
OUTSIDE = 0.0005
"""Density of positions outside of the image. Inside it is 1."""
CORNER, SHRUNK = 0.45, 0.65
"""Positions within this share of the area of nearly all images, or in pixels of both sides, fill the upper left
corner alone."""
FROM_CORNER = 0.3
"""Share of a side within which positions begin that fill the upper left corner."""
MIN_FOR_CORNER = 30
"""Number of fixations from which it is improbable that people look at one corner alone."""
FULL, OFF_CENTER = 0.9, 0.15
"""Share of the positions on the screen that are inside of images that filled it, and how far the median may be
from the middle, in sides of the image."""
SCREEN_BORDER, MIN_AT_BORDER = 0.04, 0.01
"""More than this share of the positions is this near to both pairs of sides of a screen that the images filled:
people seldom look beside an image that did not."""
USUAL_SCREEN = "1080x1920"
BORDER = 0.05
"""Share of a side within which positions are at the border of an image, or beside it."""
ONE_SIDED, MIN_ONE_SIDED = 5, 5
"""Positions at the left, and at the top, for each at the right and at the bottom, and at least, that show another
origin."""
NATURAL = (PIXELS, FRACTION)
"""Units that are inferred. For the others the user is asked."""
RARE = -30.0
"""Logarithm of how much less probable the other units are before any position is known."""
SHOWN_BELOW = 4.0
"""A reading is shown if its mean logarithm of the density of a position is at most this far below the best."""


def choose_geometry(
    config: FetchConfig, tables: Sequence[Columns], positions: Positions, images: Sequence[str]
) -> tuple[Geometry, list[str]]:
    """What positions in all tables mean, and sentences that say why they were taken so.

    `images` has the path of the image of each position.

    Raises:
        AmbiguousError: the positions fit no natural unit, or may have another origin.
        UserError: tables have positions of different kinds, or the settings do not fit them.
    """
    units = {table.unit for table in tables} - {""}
    unknown = sorted({table.unknown_unit for table in tables} - {""})
    is_auto = config.coordinates == "auto"
    if is_auto and unknown:
        raise UserError(
            f"the names of the columns give positions in {unknown[0]!r}, which is no unit that can be turned into "
            "pixels of the images; convert them, and correct the names, or set coordinates to what the numbers are"
        )
    if (is_auto and len(units) > 1) or len({table.upwards for table in tables}) > 1:
        raise UserError(
            f"the tables have positions of different kinds (in {' and in '.join(sorted(units))}, y up or down); "
            "prepare each kind by itself"
        )
    screen = parse_screen_size(config.screen_size) if config.screen_size else None
    if screen and any(table.on == IMAGE for table in tables):
        raise UserError(
            "the names of the columns say that positions are on the image, but screen_size is given; leave it "
            "out, or name other columns with `columns`"
        )
    reader = _Reader(config, tables, positions, images)
    unit = min(units) if is_auto and units else config.coordinates
    if unit == DEGREES and not config.pixels_per_degree:
        raise UserError("the positions are in degrees of visual angle; set pixels_per_degree")
    if unit in (FRACTION, PERCENT, THOUSANDTHS) and screen is None and "," in config.image_on_screen:
        raise UserError(f"image_on_screen is given for {unit} of the screen; set screen_size too")
    if unit != "auto":
        geometry, why = reader.geometry(unit), "by the setting" if not is_auto else "by the columns' names"
    else:
        geometry, why = reader.infer(), "by their values"
    if geometry.is_set:
        set_by = "by the tables" if geometry.uses_media else "as set"
        why = "as set" if not is_auto and not geometry.uses_media else f"the unit {why}, the screen {set_by}"
    elif reader.on_screen:
        reader.check_fills_screen(geometry)
    notes = [f"Positions were taken as {geometry.text} ({why})."]
    if reader.on_screen and not geometry.is_set:
        notes.append(
            "The columns' names say that positions are on the screen; they were taken as positions on the image, "
            "which is right only if each image filled the screen: otherwise set screen_size and image_on_screen."
        )
    return geometry, notes


@dataclasses.dataclass(frozen=True)
class _Reader:
    """The positions of all tables, and the readings of them."""

    config: FetchConfig
    tables: Sequence[Columns]
    positions: Positions
    images: Sequence[str]

    @property
    def on_screen(self) -> bool:
        """Whether the names of columns say that positions are on the screen."""
        return any(table.on == SCREEN for table in self.tables)

    def geometry(self, unit: str) -> Geometry:
        """The geometry with a unit, and otherwise as set or as the tables say."""
        config, upwards = self.config, self.tables[0].upwards
        screen = parse_screen_size(config.screen_size) if config.screen_size else None
        is_set = screen is not None or "," in config.image_on_screen
        return Geometry(
            unit,
            upwards if upwards is not None else unit in CENTERED and unit != DEGREES,
            screen,
            config.image_on_screen,
            config.pixels_per_degree,
            uses_media=self.on_screen and self.positions.media is not None and not is_set and unit == PIXELS,
        )

    def infer(self) -> Geometry:
        """The geometry with the natural unit that makes the positions most probable.

        Raises:
            AmbiguousError: a unit other than pixels or 0..1 fits better, the positions fill a corner or one
                side alone, or another origin fits too. Example: values of 0 to 100 may be percent.
        """
        units = [PIXELS, FRACTION, PERCENT, THOUSANDTHS, CENTER_NORM, CENTER_HEIGHT, CENTER_PIXELS]
        if self.config.pixels_per_degree:
            units.append(DEGREES)
        geometries = sorted(map(self.geometry, units), key=self._probability, reverse=True)
        best = geometries[0]
        if any(table.is_centered for table in self.tables):
            centered = [each for each in geometries if each.unit in CENTERED]
            raise self._ambiguous(
                "the positions are from the centre, in a unit that the columns do not name", centered
            )
        if best.unit not in NATURAL:
            raise self._ambiguous("the positions are in a unit that the columns do not name", geometries)
        if self._fills_corner(best):
            raise self._ambiguous("the positions fill the upper left corner of nearly all images", geometries)
        if not best.is_set and best.unit == PIXELS and self._is_one_sided(best, at_end=True):
            raise AmbiguousError(
                "positions are at the right and bottom of images and beside them, not at the left and top",
                [self._reading(best, "coordinates=pixels", best.text), *self._on_screens(best)],
            )
        if centered := self._other_origins(best, geometries):
            raise self._ambiguous("the origin of the positions is not clear", [best, *centered])
        return best

    def check_fills_screen(self, geometry: Geometry) -> None:
        """Raise `AmbiguousError` if positions on the screen show that images did not fill it.

        Example: half of the positions are beside the images, as if these were in the middle of a larger
        screen.
        """
        y, x = geometry.shares(self.positions)
        height, width = self.positions.sizes[0]
        is_one_shape = len(np.unique(self.positions.sizes, axis=0)) == 1
        if geometry.unit == FRACTION and is_one_shape and width > height:
            at_border = [np.mean((side < SCREEN_BORDER) | (side > 1 - SCREEN_BORDER)) for side in (y, x)]
            if min(at_border) > MIN_AT_BORDER:
                return
        if geometry.unit != FRACTION and is_one_shape and not self._fills_corner(geometry):
            inside = np.mean((x >= 0) & (x <= 1) & (y >= 0) & (y <= 1))
            if inside > FULL and max(abs(np.median(x) - 0.5), abs(np.median(y) - 0.5)) < OFF_CENTER:
                return
        readings = self._on_screens(geometry)
        if is_one_shape:
            filled = dataclasses.replace(geometry, screen=(int(height), int(width)), image_on_screen="fit")
            setting = f"screen_size={height}x{width} image_on_screen=fit"
            readings.insert(0, self._reading(filled, setting, "each image filled the screen"))
        raise AmbiguousError(
            "the positions are on the screen, and where it showed the images is not known", readings
        )

    def _on_screens(self, geometry: Geometry) -> list[Reading]:
        """The readings with the image on a screen of a usual size."""
        readings = []
        for how, text in (("fit", "enlarged to fill"), ("center", "in the middle of")):
            on_screen = dataclasses.replace(geometry, screen=parse_screen_size(USUAL_SCREEN), image_on_screen=how)
            setting = f"screen_size={USUAL_SCREEN} image_on_screen={how}"
            text = f"each image was {text} a screen of {USUAL_SCREEN} (set the real size, height x width)"
            readings.append(self._reading(on_screen, setting, text))
        return readings

    def _probability(self, geometry: Geometry) -> float:
        """The logarithm of the density of the positions in their tables' unit, and of how frequent the unit is."""
        prior = 0.0 if geometry.unit in NATURAL else RARE
        return len(self.images) * self._density(geometry) + prior

    def _density(self, geometry: Geometry) -> float:
        """The mean logarithm of the density of the positions in their tables' unit."""
        y, x = geometry.shares(self.positions)
        ahead = np.stack(
            geometry.shares(dataclasses.replace(self.positions, x=self.positions.x + 1, y=self.positions.y + 1))
        )
        per_unit = np.abs(ahead - np.stack([y, x])).prod(axis=0)
        middle = np.exp(-((x - 0.5) ** 2 + (y - 0.5) ** 2) / 2 / CENTER_SIGMA**2) / 2 / np.pi / CENTER_SIGMA**2
        inside = (x >= -0.01) & (x <= 1.01) & (y >= -0.01) & (y <= 1.01)
        far = np.maximum(np.abs(x - 0.5), np.abs(y - 0.5)).clip(0.5, None) * 2
        return float(np.mean(np.log(per_unit * np.where(inside, 0.5 + 0.5 * middle, OUTSIDE / far**2))))

    def _fills_corner(self, geometry: Geometry) -> bool:
        y, x = geometry.shares(self.positions)
        if len(x) < MIN_FOR_CORNER:
            return False
        (low_y, high_y), (low_x, high_x) = (np.quantile(side, (0.01, 0.99)) for side in (y, x))
        # Another unit of length would shrink both sides alike.
        is_small = max(high_x, high_y) < SHRUNK if geometry.unit == PIXELS else high_x * high_y < CORNER
        return bool(is_small and max(low_x, low_y) < FROM_CORNER)

    def _other_origins(self, best: Geometry, geometries: Sequence[Geometry]) -> list[Geometry]:
        """Geometries from the centre with nearly all positions inside.

        None unless positions are at the left and top alone.

        People seldom look at the borders, and no more at one than at the other.
        """
        if not self._is_one_sided(best):
            return []
        centered = [each for each in geometries if each.unit in CENTERED]
        return [each for each in centered if len(each.place(self.positions)[0]) > 0.995 * len(self.images)]

    def _is_one_sided(self, geometry: Geometry, at_end: bool = False) -> bool:
        """Whether people looked at the border of images, and beside it, at the left and top alone.

        With `at_end`: at the right and bottom alone.
        """
        if len(self.images) < MIN_FOR_CORNER:
            return False
        for share in geometry.shares(self.positions):
            sides = int((share < BORDER).sum()), int((share > 1 - BORDER).sum())
            less, more = sides if at_end else sides[::-1]
            if more < max(MIN_ONE_SIDED, ONE_SIDED * less):
                return False
        return True

    def _ambiguous(self, question: str, geometries: Sequence[Geometry]) -> AmbiguousError:
        x, y = self.positions.x, self.positions.y
        values = f"x is {x.min():.4g} to {x.max():.4g}, y is {y.min():.4g} to {y.max():.4g}"
        densities = {each: self._density(each) for each in geometries}
        shown = [each for each in geometries if densities[each] > max(densities.values()) - SHOWN_BELOW]
        readings = [self._reading(each, f"coordinates={each.unit}", each.text) for each in shown]
        if any(each.unit in CENTERED for each in shown) and DEGREES not in {each.unit for each in geometries}:
            setting = f"coordinates={DEGREES} pixels_per_degree=NUMBER"
            readings.append(Reading("degrees from the centre", setting, "depends on the pixels of one degree", {}))
        return AmbiguousError(f"{question} ({values})", readings)

    def _reading(self, geometry: Geometry, setting: str, text: str) -> Reading:
        points, is_inside = geometry.place(self.positions)
        rows = f"{len(points):,} of {len(is_inside):,} fixations inside of their images"
        return Reading(text, setting, rows, _by_image(points, np.array(self.images)[is_inside].tolist()))


def _by_image(points: Points, images: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """The first fixations of the first images, for a drawing. `images` has the image of each point."""
    chosen: dict[str, list[NDArray[np.int64]]] = {}
    for image, point in zip(images, points, strict=True):
        if image in chosen or len(chosen) < DRAWN_IMAGES:
            own = chosen.setdefault(image, [])
            if len(own) < DRAWN_FIXATIONS:
                own.append(point)
    return {image: np.stack(own).astype(np.float64) for image, own in chosen.items()}
