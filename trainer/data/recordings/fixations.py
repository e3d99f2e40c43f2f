"""From tables of fixations to the fixations of each image, and what was left out on the way.

Rows of fixations are a frame with the columns of `COLUMNS`.
"""

import collections
import dataclasses
import re
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trainer.data.recordings.columns import DEGREES, FRACTION, IMAGE, PIXELS, SCREEN, Columns, ImageNames
from trainer.data.recordings.tables import NUMBERS, Source, read_table
from trainer.data.settings import FetchConfig, parse_screen_size
from trainer.data.source_layout import Points, inside
from trainer.errors import UserError, some

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
LABELS = ("observer", "trial", "fixation", "split", "group", "owner")
"""Columns of names. `owner` is that of the row's table (see `Source.owner`)."""
COLUMNS = {
    "image": pl.Int32(),
    **dict.fromkeys(NUMBERS, pl.Float64()),
    **dict.fromkeys(LABELS, pl.Categorical()),
}
"""Columns of rows of fixations: the position of the image, numbers, and labels; null for an empty cell."""
NEARLY_ALL = 0.9
"""Share of the fixations outside of their images that exchanged x and y must explain to be named."""
FIXATION_EVENT = "fix"
"""Prefix of the names of fixations in a column of events, in lower case."""
TRUE, FALSE = ("1", "1.0", "true", "yes", "valid"), ("0", "0.0", "false", "no", "invalid", "not mapped")
"""Values of a column that says whether a row is valid, in lower case."""
LeftOut = collections.Counter[str]
"""The reason why rows are left out -> their number, in the order in which they were found."""
PART_ROWS = 5_000_000
"""Rows that are moved to pixels at once, to bound the memory."""


# === Positions ===


@dataclasses.dataclass(frozen=True)
class Geometry:
    """How positions become pixels of their image."""

    unit: str
    """PIXELS, FRACTION or DEGREES."""
    upwards: bool
    """Whether y grows upwards."""
    screen: tuple[int, int] | None
    """(height, width) of the screen in pixels; None if it is not known or positions are on the image."""
    image_on_screen: str
    """Where the image is on the screen, in the form of the setting `image_on_screen`."""
    pixels_per_degree: float

    def pixels(self, x: Floats, y: Floats, sizes: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """(y, x) in pixels of the images of `sizes` (n, 2), (height, width), whose upper left corner is (0, 0)."""
        height, width = sizes.T.astype(np.float64)
        area_height, area_width = self.screen or (height, width)
        if self.unit == FRACTION:
            x, y = x * area_width, y * area_height
        elif self.unit == DEGREES:
            # The origin is the centre.
            x, y = x * self.pixels_per_degree, y * self.pixels_per_degree
            x, y = x + np.divide(area_width, 2), (-y if self.upwards else y) + np.divide(area_height, 2)
        if self.upwards and self.unit != DEGREES:
            y = area_height - y
        top, left, scale_y, scale_x = self._box(height, width)
        return (y - top) / scale_y, (x - left) / scale_x

    def _box(self, height: Floats, width: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The top and left of images on the screen, pixels, and their scales there (y, x)."""
        one = np.ones_like(height)
        if match := re.fullmatch(r"(-?\d+),(-?\d+)(?:,(\d+)x(\d+))?", self.image_on_screen):
            left, top = float(match[1]) * one, float(match[2]) * one
            if match[3]:
                return top, left, float(match[3]) / height, float(match[4]) / width
            return top, left, one, one
        if self.screen is None:
            return 0 * one, 0 * one, one, one
        scale = (
            np.minimum(self.screen[0] / height, self.screen[1] / width) if self.image_on_screen == "fit" else one
        )
        return (self.screen[0] - scale * height) / 2, (self.screen[1] - scale * width) / 2, scale, scale

    @property
    def is_set(self) -> bool:
        """Whether the settings say where images are on the screen."""
        return self.screen is not None or "," in self.image_on_screen

    @property
    def text(self) -> str:
        """A description for people, such as `pixels of the image`."""
        left, top, size = (*self.image_on_screen.split(","), "", "")[:3]
        area = "the screen" if self.unit == PIXELS and top else "the image"
        if self.screen is not None:
            area = f"a screen {self.screen[0]} pixels high and {self.screen[1]} wide"
        names = {
            PIXELS: f"pixels of {area}",
            FRACTION: f"fractions of {area}",
            DEGREES: f"degrees from the centre of {area}, {self.pixels_per_degree:g} pixels each",
        }
        where = ""
        if top:
            where = f"; the image's upper left corner there is at x {left}, y {top}"
            where += f", its size there is {size}" if size else ""
        elif self.screen is not None:
            where = "; the image is in its middle"
            where += ", enlarged to fill it" if self.image_on_screen == "fit" else ""
        return f"{names[self.unit]}{', y upwards' if self.upwards else ''}{where}"


def guess_unit(x: Floats, y: Floats) -> str:
    """Guess the unit of positions: FRACTION if nearly all are near 0..1, else PIXELS.

    Raises:
        UserError: the positions can only be degrees.
    """
    low, high = (np.quantile(np.concatenate([x, y]), share) for share in (0.01, 0.99))
    if low >= -1 and high <= 2 and (x != np.floor(x)).any():
        return FRACTION
    if np.mean(x < 0) > 0.2 and np.mean(y < 0) > 0.2 and max(-low, high) < 90:
        raise UserError(
            f"the positions (x {x.min():.4g} to {x.max():.4g}, y {y.min():.4g} to {y.max():.4g}) look like "
            "degrees of visual angle; set coordinates=degrees and pixels_per_degree, or coordinates=pixels"
        )
    return PIXELS


def geometry_of(
    config: FetchConfig, tables: Sequence[Columns], x: Floats, y: Floats
) -> tuple[Geometry, list[str]]:
    """The geometry of the positions (x, y) in all tables, and sentences that say why they were taken so.

    Raises:
        UserError: tables have positions of different kinds, or the settings do not fit them.
    """
    units = {table.unit for table in tables} - {""}
    unit, why = config.coordinates, "by the setting"
    unknown = sorted({table.unknown_unit for table in tables} - {""})
    if unit == "auto" and unknown:
        raise UserError(
            f"the names of the columns give positions in {unknown[0]!r}, which is no unit that can be turned into "
            "pixels of the images; convert them, and correct the names, or set coordinates to what the numbers are"
        )
    if unit == "auto":
        unit, why = (min(units), "by the columns' names") if units else (guess_unit(x, y), "by their values")
    if (config.coordinates == "auto" and len(units) > 1) or len({table.upwards for table in tables}) > 1:
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
    if unit == DEGREES and not config.pixels_per_degree:
        raise UserError("the positions are in degrees of visual angle; set pixels_per_degree")
    if unit == FRACTION and screen is None and "," in config.image_on_screen:
        raise UserError("image_on_screen is given for fractions of the screen; set screen_size too")
    geometry = Geometry(unit, tables[0].upwards, screen, config.image_on_screen, config.pixels_per_degree)
    if geometry.is_set:
        why = "as set" if unit == config.coordinates else f"the unit {why}, the screen as set"
    notes = [f"Positions were taken as {geometry.text} ({why})."]
    if any(table.on == SCREEN for table in tables) and not geometry.is_set:
        notes.append(
            "The columns' names say that positions are on the screen; they were taken as positions on the image, "
            "which is right only if each image filled the screen: otherwise set screen_size and image_on_screen."
        )
    return geometry, notes


# === Read ===


def read_rows(sources: Sequence[Source], names: ImageNames, left_out: LeftOut) -> pl.DataFrame:
    """The rows of all tables that hold a fixation of an image; the others are counted in `left_out`.

    Raises:
        UserError: a cell cannot be read, or no row is left.
    """
    unknown: LeftOut = collections.Counter()
    rows = pl.concat([_read_one(source, names, left_out, unknown) for source in sources])
    if unknown:
        labels = some([repr(label[:60]) for label in unknown])
        left_out[f"of images that are not there ({labels})"] += unknown.total()
    if rows.is_empty():
        what = f"{sources[0].origin} has" if len(sources) == 1 else f"the {len(sources)} tables have"
        why = f": {left_out_text(left_out)}" if left_out.total() else ", only a header"
        hint = f"; the source has images such as {names.paths[0]}" if unknown else ""
        raise UserError(
            f"{what} no row that can be used{why}{hint}; correct the table, or name other columns with `columns`"
        )
    return rows


def left_out_text(left_out: LeftOut) -> str:
    """The reasons with their numbers."""
    return "; ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)


def _read_one(source: Source, names: ImageNames, left_out: LeftOut, unknown: LeftOut) -> pl.DataFrame:
    rows, n_ragged = read_table(source.path, source.origin, source.head, source.columns.index)
    left_out["with more cells than the header"] += n_ragged
    rows = _usable(rows, source, names, left_out, unknown)
    # Programs write 1 as 1.0 where a cell of the column is empty.
    labels = pl.col([role for role in LABELS if role in rows.columns]).cast(pl.String)
    rows = rows.with_columns(labels.str.replace(r"^(\d+)[.,]0+$", "${1}").cast(pl.Categorical))
    rows = rows.with_columns(owner=pl.lit(source.owner, pl.Categorical()))
    absent = [pl.lit(None, kind).alias(role) for role, kind in COLUMNS.items() if role not in rows.columns]
    return rows.with_columns(absent).select(*COLUMNS)


def _usable(
    rows: pl.DataFrame, source: Source, names: ImageNames, left_out: LeftOut, unknown: LeftOut
) -> pl.DataFrame:
    """The rows that are a fixation of an image, with its position; the others are counted.

    `unknown` counts the rows of each image that is not there.
    """

    def keep(condition: pl.Expr, reason: str) -> None:
        nonlocal rows
        rows, n_dropped = _filtered(rows, rows.select(condition.fill_null(value=False)).to_series())
        left_out[reason] += n_dropped

    def labels(role: str) -> list[str]:
        return rows[role].drop_nulls().unique(maintain_order=True).to_list() if role in rows.columns else []

    events, valid, images = labels("event"), labels("valid"), labels("image")
    fixations = [each for each in events if each.lower().startswith(FIXATION_EVENT)]
    if fixations:  # else the column is about something else
        keep(pl.col("event").is_in(fixations), f"that are no fixations (column {source.names['event']!r})")
    if valid and all(each.lower() in TRUE + FALSE for each in valid):
        true = [each for each in valid if each.lower() in TRUE]
        keep(pl.col("valid").is_in(true), f"that are not valid (column {source.names['valid']!r})")
    keep(pl.col("x").is_finite() & pl.col("y").is_finite(), "without a position")
    if source.image is not None:
        return rows.with_columns(image=pl.lit(source.image, pl.Int32))
    keep(pl.col("image").is_not_null(), "without the name of an image")
    positions = names.find_all(images, source.origin)
    position = rows["image"].replace_strict(images, positions, default=None, return_dtype=pl.Int32)
    unknown.update(rows["image"].filter(position.is_null()))
    return _filtered(rows.with_columns(image=position), position.is_not_null())[0]


def _filtered(rows: pl.DataFrame, kept: pl.Series) -> tuple[pl.DataFrame, int]:
    """The rows of a mask, without a copy if these are all, and the number of the others."""
    if kept.all():
        return rows, 0
    filtered = rows.filter(kept)
    return filtered, len(rows) - len(filtered)


# === Count each fixation once ===


def once(rows: pl.DataFrame, left_out: LeftOut) -> pl.DataFrame:
    """The rows without repetitions, in their order.

    Of rows with the same content one is left. Of rows of one observer, trial and image the last is left if they
    have the same number of a fixation, and the same time or follow one another: software that writes a row for
    each sample of the gaze repeats the fixation to which it belongs, and its position is final in the last row.
    The same number elsewhere in a table is another fixation, because numbers may begin again.
    """
    # Rows of a table that name no observer have one and the same.
    rows = rows.with_columns(table=pl.when(pl.col("observer").is_null()).then(pl.col("owner")))
    numbered = ("image", "observer", "table", "trial", "fixation")
    rows, n_dropped = _filtered(rows, _hashes(rows, *numbered, *NUMBERS).is_last_distinct())
    left_out["that repeat another row in all columns"] += n_dropped
    n_before = len(rows)
    has_both = pl.col("fixation").is_not_null() & pl.col("time").is_not_null()
    is_last = _hashes(rows, *numbered, "time").is_last_distinct()
    rows, _ = _filtered(rows, is_last | ~rows.select(has_both).to_series())
    follows = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(-1)) for name in numbered)
    rows, _ = _filtered(rows, rows.select(pl.col("fixation").is_null() | ~follows).to_series())
    reason = "that repeat a fixation (the same observer, trial, image and number), of which the last is counted"
    left_out[reason] += n_before - len(rows)
    return rows.drop("table", "trial", "fixation", "time", "duration")


def _hashes(rows: pl.DataFrame, *names: str) -> pl.Series:
    """A number of 64 bits for each row, the same for rows that are equal in the columns `names`."""
    return rows.select(names).hash_rows()


# === Move to pixels ===


def placed(
    rows: pl.DataFrame, geometry: Geometry, sizes: Points, left_out: LeftOut
) -> tuple[pl.DataFrame, Points, str]:
    """The rows inside of their images (see `layout.inside`), and their (n, 2) pixels (y, x); others are counted.

    `sizes` are (height, width) of all images. The last value says so if exchanged x and y explain the others;
    else it is empty.

    Raises:
        UserError: most positions are outside.
    """
    points, is_inside = _pixels(rows, geometry, sizes)
    n_outside = len(rows) - len(points)
    exchanged = _exchanged(rows, geometry, sizes, n_outside)
    if 2 * n_outside > len(rows):
        remedy = exchanged or "correct coordinates, or screen_size and image_on_screen"
        x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
        raise UserError(
            f"{n_outside:,} of {len(rows):,} fixations are outside of their images, taken as {geometry.text}: x "
            f"is {x.min():.4g} to {x.max():.4g}, y is {y.min():.4g} to {y.max():.4g}, the "
            f"largest image is {sizes[:, 0].max()} x {sizes[:, 1].max()} pixels (height x width); {remedy}"
        )
    share = n_outside / len(rows)
    percent = f"{share:.0%}" if share >= 0.01 else "less than 1%"
    left_out[f"of {len(rows):,} outside of their images ({percent})"] += n_outside
    return _filtered(rows, pl.Series(is_inside))[0], points, exchanged


def _exchanged(rows: pl.DataFrame, geometry: Geometry, sizes: Points, n_outside: int) -> str:
    """A remedy if exchanging x and y would bring nearly all rows inside of their images; else empty."""
    if not n_outside:
        return ""
    points, _ = _pixels(rows.rename({"x": "y", "y": "x"}), geometry, sizes)
    still_outside = len(rows) - len(points)
    if still_outside > (1 - NEARLY_ALL) * n_outside:
        return ""
    return (
        f"{still_outside:,} would be outside if x and y were exchanged; if they are, exchange the columns with "
        "`columns`, as x=NAME,y=NAME"
    )


def _pixels(rows: pl.DataFrame, geometry: Geometry, sizes: Points) -> tuple[Points, Mask]:
    """The pixels (y, x) of the rows inside of their images, and which rows these are."""
    parts = []
    for part in rows.select("image", "x", "y").iter_slices(PART_ROWS):
        own = sizes[part["image"].to_numpy()]
        y_and_x = geometry.pixels(part["x"].to_numpy(), part["y"].to_numpy(), own)
        parts.append(inside(np.stack(y_and_x, axis=1), own))
    points, is_inside = zip(*parts, strict=True)
    return np.concatenate(points), np.concatenate(is_inside)
