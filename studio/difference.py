"""Compares two designs: which parts get more or less attention in the second, and whether a change is clear."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from rich.table import Table
from rich.text import Text

from trainer.api import (
    CHANGE,
    Change,
    MismatchError,
    Model,
    Region,
    SaliencyMap,
    blend_change,
    compare,
    screens_of,
)
from trainer.tools import Input, check, printable, replacing

Map = npt.NDArray[np.floating]
Pixels = npt.NDArray[np.uint8]
INK, PAPER = (24, 24, 27), (255, 255, 255)
FONT = pathlib.Path(__file__).parent / "DejaVuSans.ttf"
"""Font with the letters of most languages, for the names of files. Pillow's own font has English letters alone."""
MOST_APART = 0.5
"""Largest difference of the `page` of two maps that may be compared: that of a picture and an even mixture."""
CLEAR_MOVED = 0.12
"""Smallest clear change of a whole map, measured as `Change.CLEAR_SHARE` was."""
TEXTS = ("region", "requirement", "verdict")
"""Titles of the columns that have no numbers."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What changes from one design to another."""

    moved: float
    """Share of the attention, 0..1, that is elsewhere in the second."""
    changes: Sequence[Change]
    """The change of each region."""
    kind: str
    """The kind, of KINDS, as which both were predicted."""
    seen_as: str
    """What `Model.seen_as` says of it."""

    @property
    def sentence(self) -> str:
        """How much attention is elsewhere, and whether that means something."""
        if self.moved > CLEAR_MOVED:
            return f"{self.moved:.1%} of the attention is elsewhere in the second design"
        return (
            f"no clear change overall: {self.moved:.1%} of the attention is elsewhere in the second design, and "
            f"saving, scaling or moving one image by 4 pixels already moves up to {CLEAR_MOVED:.0%}"
        )


def read_designs(
    designs: Sequence[Input], regions: Sequence[Region], seconds: Mapping[str, Region], max_pixels: int
) -> list[Pixels]:
    """Read the pixels of two designs, (h, w, 3) each.

    Args:
        designs: the first and the second.
        regions: in pixels of the first.
        seconds: name of a region -> where it is in the second, in its pixels, if it is elsewhere there.
        max_pixels: a larger image is refused.

    Raises:
        UserError: an image cannot be read, the aspect ratios differ, or a region is not inside its design.
    """
    images = [design.open(max_pixels).decode() for design in designs]
    check_aspect_ratios([design.label for design in designs], [image.shape for image in images])
    for design, image, inside in zip(designs, images, (regions, seconds.values()), strict=True):
        for region in inside:
            region.box(image.shape[:2], design.label)
    return images


def check_aspect_ratios(labels: Sequence[str], shapes: Sequence[Sequence[int]]) -> None:
    """Raise `UserError` unless two pictures, (h, w) or more, have the same aspect ratio."""
    (height, width), (other_height, other_width) = shapes[0][:2], shapes[1][:2]
    scale = min(height / other_height, width / other_width)
    # Rounding can change a side by one pixel.
    if max(height - other_height * scale, width - other_width * scale) > 1:
        raise MismatchError(
            f"{labels[0]} is {width} pixels wide and {height} high, {labels[1]} is {other_width} "
            f"wide and {other_height} high. Two designs need the same aspect ratio: crop or pad one of them"
        )


def check_kinds(labels: Sequence[str], maps: Sequence[SaliencyMap], model: Model) -> None:
    """Raise `UserError` if a model saw two designs as two kinds, though not as mixtures that are alike."""
    first, last = maps[0], maps[-1]
    check(
        not model.seen_as(first.page) or abs(first.page - last.page) <= MOST_APART,
        f"{labels[0]} is seen as a {first.kind} and {labels[-1]} as a {last.kind}, and maps of two kinds cannot "
        f"be compared: give two designs of one kind, or have both seen alike with --kind {first.kind}",
        MismatchError,
    )


def compare_designs(
    model: Model,
    designs: Sequence[Input],
    images: Sequence[Pixels],
    regions: Sequence[Region],
    seconds: Mapping[str, Region],
    output: str | os.PathLike[str] | None,
    kind: str = "",
) -> Comparison:
    """Predict two designs and measure where their maps differ.

    Args:
        model: predicts each alone, as the last bits of a map depend on the size of its batch.
        designs: the first and the second. If their sizes differ, the second's map has the size of the first, and
            its screens, if it is a long page.
        images: their pixels, from `read_designs`.
        regions: in pixels of the first.
        seconds: name of a region -> where it is in the second, in its pixels, if it is elsewhere there.
        output: PNG to write, or None: the difference over the second design, after each screen of each map was
            divided by its mean.
        kind: as which both are predicted, of KINDS. Empty to decide by the designs.

    Raises:
        UserError: they are seen as two kinds.
    """
    size = images[0].shape[:2]
    maps = [model.predict(image, kind=kind) for image in images]
    check_kinds([design.label for design in designs], maps, model)
    first = maps[0]
    seen = [(each.page, each.shape, [screen.rows for screen in each.screens]) for each in maps]
    if seen[0] != seen[1]:
        maps[1] = model.predict(images[1], like=first)
    if output is not None:
        second = np.asarray(Image.fromarray(images[1]).resize(size[::-1], Image.Resampling.LANCZOS))
        names = [printable(pathlib.PurePath(design.key).name) for design in designs]
        change = relative(maps[1]) - relative(maps[0])
        with replacing(output) as partial:
            draw_difference(second, change, names).save(partial, "PNG")
    height, width = images[1].shape[:2]
    elsewhere = {name: region.scaled(size[1] / width, size[0] / height) for name, region in seconds.items()}
    changes = compare(maps[0], maps[1], *regions, elsewhere=elsewhere)
    return Comparison(share_moved(*maps), changes, first.kind, model.seen_as(first.page))


def relative(map: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return a map (h, w) divided by its mean. Each screen of a long page is divided by its own mean."""
    return SaliencyMap([each._replace(map=each.map / max(each.map.mean(), 1e-12)) for each in screens_of(map)])


def share_moved(before: npt.NDArray[np.floating], after: npt.NDArray[np.floating]) -> float:
    """Return the share of the attention, 0..1, that is elsewhere in the second of two maps (h, w) of one size.

    For example, it is 0 for two equal maps, and 1 for two maps that are nowhere both above 0.

    Of a long page, it is the mean over its screens.
    """
    shares = []
    for pair in zip(screens_of(before), screens_of(after), strict=True):
        first, second = (each / max(float(each.sum(dtype=np.float64)), 1e-12) for _, each in pair)
        shares.append(float(np.abs(second - first).sum(dtype=np.float64)) / 2)
    return float(np.mean(shares))


# === The drawing ===


def draw_difference(image: Pixels, change: Map, names: Sequence[str]) -> Image.Image:
    """Draw where the second of two designs gets more or less attention, over the second in darker grey.

    Args:
        image: (h, w, 3), the second design.
        change: (h, w), the second map minus the first, each divided by its mean.
        names: of the first and of the second design.

    Returns:
        The drawing above a colour scale, at least as wide as the scale's texts.
    """
    height, width = image.shape[:2]
    font_px = int(np.clip(width / 48, 13, 60))
    font, pad, row = ImageFont.truetype(FONT, font_px), font_px, round(font_px * 1.5)
    page = Image.new("RGB", (max(width, 34 * font_px), height + 3 * row + 2 * pad), PAPER)
    page.paste(Image.fromarray(blend_change(image, change)), ((page.width - width) // 2, 0))
    draw = ImageDraw.Draw(page)
    left, right, top = 2 * pad, page.width - 2 * pad, height + pad
    scale = np.tile(np.linspace(0, 1, right - left), (font_px, 1))
    page.paste(Image.fromarray(CHANGE(scale)), (left, top + row))
    middle, half_px = (left + right) // 2, (right - left) // 2 - pad
    below = top + row + font_px + row // 2
    for x, anchor, title, value in (
        (left, "lm", f"more in {names[0]}", f"-{CHANGE.limit:g} times the mean"),
        (middle, "mm", "", "0"),
        (right, "rm", f"more in {names[1]}", f"+{CHANGE.limit:g} times the mean"),
    ):
        draw.text((x, top + row // 2), shortened(title, font, half_px), INK, font, anchor)
        draw.text((x, below), value, INK, font, anchor)
    return page


def shortened(text: str, font: ImageFont.FreeTypeFont, width_px: int) -> str:
    """Return the text, its middle replaced by an ellipsis if it is wider than `width_px`.

    Example: `a-long-name.png` becomes `a-lo….png`.
    """
    n_kept = len(text)
    short = text
    while font.getlength(short) > width_px and n_kept > 2:
        n_kept -= 1
        short = f"{text[: n_kept // 2]}…{text[len(text) - (n_kept - n_kept // 2) :]}"
    return short


def changes_table(changes: Sequence[Change], names: Sequence[str]) -> Table:
    """Make a table of the regions of two designs, the largest growth of a share first."""
    table = text_table("region", *map(printable, names), "change")
    for change in sorted(changes, key=lambda change: -change.share):
        table.add_row(
            Text(printable(change.first.region.name)),
            f"{change.first.share:.1%}{change.first.of_screen}",
            f"{change.second.share:.1%}{change.second.of_screen}",
            f"{round(100 * change.second.share, 1) - round(100 * change.first.share, 1):+.1f} pp"
            if change.clear
            else "no clear change",
        )
    return table


def text_table(*titles: str) -> Table:
    """Make an empty table without lines, with the numbers to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(Text(title), justify="left" if title in TEXTS else "right", overflow="fold")
    return table
