"""How positions are read, and the error for recordings that can be read in several ways.

A reading is one of these:
- known, by the header of a known export, or a setting,
- inferred, because it fits all evidence, and no other does,
- one of several. Then the user has to choose, and `AmbiguousReadingsError` shows them side by side.

The evidence on positions is how probable they are. People look at the middle more than at the borders, seldom
beside the image, and never at one corner of all images. Example: positions of 0.1 to 0.9 are fractions, since in
pixels they would all be in one corner. `image_readings` has the evidence on what names the image of a row.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainer.data.recordings.columns import CENTERED, IMAGE, SCREEN, Columns
from trainer.data.recordings.geometry import Geometry, Positions
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
from trainer.data.source_layout import Points
from trainer.errors import AmbiguousError, ContentError, SettingError
from trainer.pictures import Pixels

DRAWN_FIXATIONS = 60
DRAWN_IMAGES = 3
SHOWN_FIXATIONS = 3
"""Fixations of a reading that its line in an error shows, each of another image."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """One way to read the recordings."""

    text: str
    """What it takes the data for."""
    setting: str
    """The setting that chooses it, or what to do."""
    rows: str
    """How many rows it would use, of how many."""
    fixations: dict[str, NDArray[np.float64]]
    """Path of an image -> some of its fixations, (n, 2) of (y, x): in pixels, or as the tables have them if what
    they mean is not known yet."""


class AmbiguousReadingsError(AmbiguousError):
    """Recordings that can be read in several ways, with the readings side by side.

    `pictures` has some images for a page that draws the readings: path -> (h, w, 3) uint8 RGB.
    """

    def __init__(self, question: str, readings: Sequence[Reading]) -> None:
        super().__init__("\n".join([f"{question}:", *(f"- {_line(reading)}" for reading in readings)]))
        self.question = question
        self.readings = readings
        self.pictures: dict[str, Pixels] = {}


def _line(reading: Reading) -> str:
    first = [(image, points[0].tolist()) for image, points in reading.fixations.items() if len(points)]
    where = " and ".join(f"x {x:g}, y {y:g} of {image}" for image, (y, x) in first[:SHOWN_FIXATIONS])
    return f"{reading.text}: {reading.rows}{f', such as at {where}' if where else ''} -> {reading.setting}"


# === Where positions are ===

CENTER_SIGMA = 0.2
"""Standard deviation of where people look, in sides of the image."""
OUTSIDE = 0.0005
"""Density of positions outside of the image. Inside it is 1."""
CORNER, SHRUNK = 0.45, 0.65
"""Positions fill the upper left corner alone if they span less than `CORNER` of the area of the images. Pixels
fill it if they span less than `SHRUNK` of both sides."""
FROM_CORNER = 0.3
"""Positions that fill the corner begin within this share of both sides."""
MIN_FOR_CORNER = 30
"""Number of fixations from which it is improbable that people look at one corner alone."""
FULL, OFF_CENTER = 0.9, 0.15
"""If images filled the screen, more than `FULL` of the positions are inside of them, and the median is less than
`OFF_CENTER` from the middle, in sides of the image."""
SCREEN_BORDER, MIN_AT_BORDER = 0.04, 0.01
"""If images filled the screen, more than `MIN_AT_BORDER` of the positions are within `SCREEN_BORDER` of both pairs
of its sides. Around smaller images, people seldom look at the border of the screen."""
USUAL_SCREEN = "1080x1920"
BORDER = 0.05
"""Share of a side within which positions are at the border of an image, or beside it."""
ONE_SIDED, MIN_ONE_SIDED = 5, 5
"""The origin may be another one if at least `ONE_SIDED` positions are at the left and top border for each at the
right and bottom, and at least `MIN_ONE_SIDED` in all."""
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
        AmbiguousReadingsError: the positions fit no natural unit, or may have another origin.
        UserError: tables have positions of different kinds, or the settings do not fit them.
    """
    units = {table.unit for table in tables} - {""}
    unknown = sorted({table.unknown_unit for table in tables} - {""})
    is_auto = config.coordinates == "auto"
    if is_auto and unknown:
        raise ContentError(
            f"the names of the columns give positions in {unknown[0]!r}, which is no unit that can be turned into "
            "pixels of the images. Convert them, and correct the names, or set coordinates to what the numbers are"
        )
    if (is_auto and len(units) > 1) or len({table.upwards for table in tables}) > 1:
        raise ContentError(
            f"the tables have positions of different kinds (in {' and in '.join(sorted(units))}, y up or down). "
            "Prepare each kind by itself"
        )
    screen = parse_screen_size(config.screen_size) if config.screen_size else None
    if screen and any(table.on == IMAGE for table in tables):
        raise SettingError(
            "the names of the columns say that positions are on the image, but screen_size is given. Leave it "
            "out, or name other columns with `columns`"
        )
    reader = _Reader(config, tables, positions, images)
    unit = min(units) if is_auto and units else config.coordinates
    if unit == DEGREES and not config.pixels_per_degree:
        raise SettingError("the positions are in degrees of visual angle. Set pixels_per_degree")
    if unit in (FRACTION, PERCENT, THOUSANDTHS) and screen is None and "," in config.image_on_screen:
        raise SettingError(f"image_on_screen is given for {unit} of the screen. Set screen_size too")
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
            "The columns' names say that positions are on the screen. They were taken as positions on the image, "
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
            AmbiguousReadingsError: a unit other than pixels or 0..1 fits better, the positions fill a corner or
                one side alone, or another origin fits too. Example: values of 0 to 100 may be percent.
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
            raise AmbiguousReadingsError(
                "positions are at the right and bottom of images and beside them, not at the left and top",
                [self._reading(best, "coordinates=pixels", best.text), *self._on_screens(best)],
            )
        if centered := self._other_origins(best, geometries):
            raise self._ambiguous("the origin of the positions is not clear", [best, *centered])
        return best

    def check_fills_screen(self, geometry: Geometry) -> None:
        """Raise `AmbiguousReadingsError` if positions on the screen show that images did not fill it.

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
        raise AmbiguousReadingsError(
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

    def _ambiguous(self, question: str, geometries: Sequence[Geometry]) -> AmbiguousReadingsError:
        x, y = self.positions.x, self.positions.y
        values = f"x is {x.min():.4g} to {x.max():.4g}, y is {y.min():.4g} to {y.max():.4g}"
        densities = {each: self._density(each) for each in geometries}
        shown = [each for each in geometries if densities[each] > max(densities.values()) - SHOWN_BELOW]
        readings = [self._reading(each, f"coordinates={each.unit}", each.text) for each in shown]
        if any(each.unit in CENTERED for each in shown) and DEGREES not in {each.unit for each in geometries}:
            setting = f"coordinates={DEGREES} pixels_per_degree=NUMBER"
            readings.append(Reading("degrees from the centre", setting, "depends on the pixels of one degree", {}))
        return AmbiguousReadingsError(f"{question} ({values})", readings)

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
