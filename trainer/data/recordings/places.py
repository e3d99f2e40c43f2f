"""What positions in tables mean: their unit, their origin, and where the screen showed the image.

A meaning is known, by the columns of an export or a setting. Or it is proven, by the pictures: the maps of a model
agree with it, and with no other. Else it is asked. The numbers alone prove nothing: positions on a screen that is
a fifth wider than its images lie inside of these, too.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from trainer.data.recordings.columns import CENTERED, IMAGE, SCREEN, Columns
from trainer.data.recordings.geometry import Geometry, Positions
from trainer.data.recordings.questions import AmbiguousReadingsError, Option, drawn
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
from trainer.errors import AmbiguousError, ContentError, SettingError
from trainer.witness import Testimony, Verdict

USUAL_SCREEN = "1080x1920"
LEAST_SCORE = 0.02
"""A reading is shown if its score is at least this share of the best one's (see `_Reader.score`). Percent that are
read as pixels of images of 640 x 480 have .03, and such pixels that are read as percent have 0."""
Asked = Callable[[Geometry], Testimony]
"""What the pictures say about positions that are read so."""


@dataclasses.dataclass
class Meaning:
    """What positions mean, and how that is known."""

    geometry: Geometry
    why: str
    """What proves it. Empty if nothing does."""
    doubt: AmbiguousReadingsError | None = None


def meaning_of(
    config: FetchConfig, tables: Sequence[Columns], positions: Positions, images: Sequence[str], ask: Asked | None
) -> Meaning:
    """What positions in all tables mean, and a doubt if nothing proves it.

    Args:
        config: The settings, which are the word of a person.
        tables: The columns of each table.
        positions: The positions.
        images: The path of the image of each position.
        ask: The witness. None not to ask it.

    Raises:
        UserError: tables have positions of different kinds, or the settings do not fit them.
    """
    units = {table.unit for table in tables} - {""}
    is_set = config.coordinates != "auto"
    screen = parse_screen_size(config.screen_size) if config.screen_size else None
    _check(config, tables, units)
    reader = _Reader(config, tables, positions, images)
    unit = config.coordinates if is_set else min(units, default="")
    if unit == DEGREES and not config.pixels_per_degree:
        raise SettingError("the positions are in degrees of visual angle. Set pixels_per_degree")
    if unit in (FRACTION, PERCENT, THOUSANDTHS) and screen is None and "," in config.image_on_screen:
        raise SettingError(f"image_on_screen is given for {unit} of the screen. Set screen_size too")
    if unit:
        geometry = reader.geometry(unit)
        why = "as set" if is_set else "by the columns' names"
        if geometry.is_set:
            where = "the screen by the tables" if geometry.uses_media else "the screen as set"
            return Meaning(geometry, why if is_set and not geometry.uses_media else f"the unit {why}, {where}")
        if not reader.on_screen and (is_set or all(each.on == IMAGE or each.is_mapped for each in tables)):
            sizes = None if is_set or unit != PIXELS else reader.other_sizes()
            return Meaning(geometry, why) if sizes is None else reader.scaled(geometry, sizes)
        candidates = [geometry]
    else:
        candidates = reader.candidates()
    return reader.proven(candidates, ask)


def _check(config: FetchConfig, tables: Sequence[Columns], units: set[str]) -> None:
    unknown = sorted({table.unknown_unit for table in tables} - {""})
    is_auto = config.coordinates == "auto"
    if is_auto and unknown:
        raise ContentError(
            f"the names of the columns give positions in {unknown[0]!r}, which is no unit that can be turned into "
            "pixels of the images. Convert them, and correct the names, or set coordinates to what the numbers are"
        )
    if (is_auto and len(units) > 1) or len({table.upwards for table in tables}) > 1:
        raise AmbiguousError(
            f"the tables have positions of different kinds (in {' and in '.join(sorted(units))}, y up or down). "
            "Prepare each kind by itself"
        )
    if not is_auto and units and config.coordinates not in units:
        raise SettingError(
            f"the names of the columns give positions in {' and '.join(sorted(units))}, but coordinates is "
            f"{config.coordinates}. Leave it out, or correct the names"
        )
    if config.screen_size and any(table.on == IMAGE for table in tables):
        raise SettingError(
            "the names of the columns say that positions are on the image, but screen_size is given. Leave it "
            "out, or name other columns with `columns`"
        )


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

    def candidates(self) -> list[Geometry]:
        """The geometries that the positions may have, the likeliest first."""
        units = [PIXELS, FRACTION, PERCENT, THOUSANDTHS, CENTER_NORM, CENTER_HEIGHT, CENTER_PIXELS]
        if self.config.pixels_per_degree:
            units.append(DEGREES)
        if any(table.is_centered for table in self.tables):
            units = [unit for unit in units if unit in CENTERED]
        scores = {geometry: self.score(geometry) for geometry in map(self.geometry, units)}
        least = LEAST_SCORE * max(scores.values())
        shown = [geometry for geometry, score in scores.items() if score > least] or list(scores)
        return sorted(shown, key=lambda geometry: -scores[geometry])

    def other_sizes(self) -> tuple[str, str] | None:
        """The size at which the tables say that an image was shown, and the size of its file, if widths differ.

        A page may be longer in one recording than in another. Then equal widths show that its scale is 1.
        Example: (`600 x 800`, `300 x 400`), height x width.
        """
        if self.positions.media is None:
            return None
        shown = self.positions.media[:, 2:]
        differs = np.abs(shown - self.positions.sizes)[:, 1] > 1
        if not differs.any():
            return None
        pair = shown[differs][0], self.positions.sizes[differs][0]
        first, second = ("{:.0f} x {:.0f}".format(*each) for each in pair)
        return first, second

    def scaled(self, geometry: Geometry, sizes: tuple[str, str]) -> Meaning:
        """The doubt whether positions are pixels of images as they were shown, or as the files have them."""
        question = f"the tables say that an image was shown at {sizes[0]}, and its file has {sizes[1]} pixels"
        own = self._option(geometry, "coordinates=pixels", "positions are pixels of the files")
        other = Option(
            "positions are pixels of the images as shown", "scale the positions, or the images", "all rows"
        )
        return Meaning(geometry, "", AmbiguousReadingsError(question, [own, other]))

    def score(self, geometry: Geometry) -> float:
        """The share of positions inside of their images, times the share of the images' area that they span.

        Example: fractions that are read as pixels all lie inside, and span nothing.
        """
        _, is_inside = geometry.place(self.positions)
        y, x = geometry.shares(self.positions)
        spans = [np.ptp(np.quantile(side[is_inside], (0.05, 0.95))) if is_inside.any() else 0.0 for side in (y, x)]
        return float(np.mean(is_inside) ** 2 * spans[0] * spans[1])

    def proven(self, candidates: Sequence[Geometry], ask: Asked | None) -> Meaning:
        """The first geometry that the pictures prove. Else the likeliest one, with the doubt."""
        testimony = None
        for geometry in candidates[:2]:
            if ask is None:
                break
            said = ask(geometry)
            testimony = testimony or said
            if said.verdict is Verdict.AGREES:
                return Meaning(geometry, said.text.rstrip("."))
        x, y = self.positions.x, self.positions.y
        question = "what the positions mean is not proven"
        if self.on_screen:
            question = "the positions are on the screen, and where it showed the images is not proven"
        elif any(table.is_centered for table in self.tables):
            question = "the positions are from the centre, in a unit that the columns do not name"
        options = [self._option(each, f"coordinates={each.unit}", each.text) for each in candidates]
        if self.on_screen:
            options = [self._filled(each, is_only=len(candidates) == 1) for each in candidates]
        if candidates[0].unit in (PIXELS, FRACTION) and not self.config.screen_size:
            options += self._on_screens(candidates[0])
        if any(each.unit in CENTERED for each in candidates) and DEGREES not in {each.unit for each in candidates}:
            setting = f"coordinates={DEGREES} pixels_per_degree=NUMBER"
            options.append(Option("degrees from the centre", setting, "depends on the pixels of one degree"))
        values = f"x is {x.min():.4g} to {x.max():.4g}, y is {y.min():.4g} to {y.max():.4g}"
        said_text = f". {testimony.text.rstrip('.')}" if testimony is not None and testimony.n_images else ""
        return Meaning(candidates[0], "", AmbiguousReadingsError(f"{question} ({values}{said_text})", options))

    def _filled(self, geometry: Geometry, is_only: bool) -> Option:
        """The reading that each image filled the screen. `is_only`: the unit is known."""
        height, width = self.positions.sizes[0].tolist()
        filled = dataclasses.replace(geometry, screen=(height, width), image_on_screen="fit")
        setting = f"screen_size={height}x{width} image_on_screen=fit"
        text = f"each image filled a screen of {height}x{width}"
        if not is_only:
            setting, text = f"coordinates={geometry.unit} {setting}", f"{geometry.text}: {text}"
        return self._option(filled, setting, text)

    def _on_screens(self, geometry: Geometry) -> list[Option]:
        """The readings with the image on a screen of a usual size."""
        options = []
        for how, text in (("fit", "enlarged to fill"), ("center", "in the middle of")):
            on_screen = dataclasses.replace(geometry, screen=parse_screen_size(USUAL_SCREEN), image_on_screen=how)
            setting = f"screen_size={USUAL_SCREEN} image_on_screen={how}"
            text = f"each image was {text} a screen of {USUAL_SCREEN} (set the real size, height x width)"
            options.append(self._option(on_screen, setting, text))
        return options

    def _option(self, geometry: Geometry, setting: str, text: str) -> Option:
        points, is_inside = geometry.place(self.positions)
        rows = f"{len(points):,} of {len(is_inside):,} fixations inside of their images"
        return Option(text, setting, rows, drawn(points, np.array(self.images)[is_inside].tolist()))
