"""Draws a design's map with its regions, their shares, and which of them meet what is required."""

import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from trainer.attention.check import Checked, Measured
from trainer.attention.page import Design
from trainer.attention.requirements import SHARE, Verdict, shown
from trainer.errors import printable
from trainer.files import replacing
from trainer.heat import tint
from trainer.picture import Pixels
from trainer.prediction.predict import protect
from trainer.prediction.regions import Measure
from trainer.prediction.render import FONT, INK, PAPER, Color, shortened

PASSED, FAILED, PLAIN = (122, 220, 250), (255, 138, 76), PAPER
"""Colours of regions that pass, that fail, and without a requirement; colour-blind people tell them apart."""

MOST_FONT_PX = 28
"""Largest height of a label's font; larger labels hide what is beside a small region."""

ROLES = ("design", "baseline")
ATTENTION, PAGE = "attention", "page"
"""Suffixes of the pictures' names: the map with its regions, and the page."""

Box = tuple[int, int, int, int]
"""The sides (left, top, right, bottom) of a rectangle in pixels."""


def name_pictures(folder: str | os.PathLike[str], designs: Sequence[Design]) -> dict[str, pathlib.Path]:
    """Name the files that `write_pictures` writes: name without a suffix -> path.

    Raises:
        UserError: one of them is a design.
    """
    names = [f"{role}-{ATTENTION}" for role, _ in zip(ROLES, designs, strict=False)]
    names += [f"{role}-{PAGE}" for role, design in zip(ROLES, designs, strict=False) if design.png]
    paths = {name: pathlib.Path(folder, f"{name}.png") for name in names}
    protect([design.input for design in designs if design.input], {"--output-dir": paths.values()})
    return paths


def write_pictures(paths: Mapping[str, pathlib.Path], checked: Checked) -> None:
    """Write to `paths` the map of each design with its regions, and the unchanged picture of each page."""
    for role, measured in zip(ROLES, (checked.design, checked.baseline), strict=True):
        if measured is None:
            continue
        if path := paths.get(f"{role}-{ATTENTION}"):
            drawn = draw(measured, checked.verdicts if measured is checked.design else ())
            with replacing(path) as partial:
                Image.fromarray(drawn).save(partial, "PNG")
        if measured.design.png and (path := paths.get(f"{role}-{PAGE}")):
            with replacing(path) as partial:
                partial.write_bytes(measured.design.png)


def draw(measured: Measured, verdicts: Sequence[Verdict] = ()) -> Pixels:
    """Draw a map over its design, with the regions on top.

    Args:
        measured: the design.
        verdicts: on its regions; none for a baseline, whose regions are drawn with their shares alone.

    Returns:
        (h, w, 3) RGB, of the design's size.
    """
    picture = Image.fromarray(tint(measured.design.resized, measured.map))
    draw = ImageDraw.Draw(picture)
    font_px = int(np.clip(min(picture.size) / 55, 11, MOST_FONT_PX))
    font = ImageFont.truetype(FONT, font_px)
    line_px = max(2, font_px // 7)
    boxes = [_box(measure, measured.design.size) for measure in measured.measures]
    placed: list[Box] = []
    tags: list[tuple[Box, list[str], Color]] = []
    for box, measure in zip(boxes, measured.measures, strict=True):
        own = [verdict for verdict in verdicts if verdict.requirement.region == measure.region.name]
        color = PLAIN if not own else PASSED if all(verdict.passed for verdict in own) else FAILED
        left, top, right, bottom = box
        for grown, ink in ((line_px // 2, INK), (0, color)):
            outside = (left - grown, top - grown, right - 1 + grown, bottom - 1 + grown)
            draw.rectangle(outside, outline=ink, width=line_px + 2 * grown)
        lines = [f"{printable(measure.region.name)} {shown(SHARE, measure.share)}{' pass' * (color == PASSED)}"]
        lines += [f"FAIL: {_required(verdict)}" for verdict in own if not verdict.passed]
        lines = [shortened(line, font, picture.width - 2 * font_px) for line in lines]
        placed.append(_label_box(box, lines, font, font_px, picture.size, [*boxes, *placed]))
        tags.append((placed[-1], lines, color))
    for label_box, lines, color in tags:
        _draw_label(draw, label_box, lines, color, font, font_px)
    return np.asarray(picture)


def _required(verdict: Verdict) -> str:
    """Return the line of a region's label that says which requirement it does not meet."""
    required = verdict.requirement
    if required.measure == SHARE:
        return f"needs {required.in_words}"
    return f"{required.measure} {verdict.value_text}, needs {required.in_words}"


def _box(measure: Measure, size: tuple[int, int]) -> Box:
    rows, columns = measure.region.box(size)
    return columns.start, rows.start, columns.stop, rows.stop


def _label_box(
    box: Box,
    lines: Sequence[str],
    font: ImageFont.FreeTypeFont,
    font_px: int,
    size: tuple[int, int],
    others: Sequence[Box],
) -> Box:
    """The box of a label above, below or inside its region that covers least of the other boxes."""
    width = round(max(map(font.getlength, lines))) + font_px
    height = round(1.35 * font_px * len(lines)) + font_px // 2
    left, top, right, bottom = box
    gap = font_px // 3
    across = (left, right - width)
    down = (top - height - gap, bottom + gap, top + gap, bottom - height - gap)
    candidates = []
    for y in down:
        for x in across:
            x_inside = min(max(x, 0), max(0, size[0] - width))
            y_inside = min(max(y, 0), max(0, size[1] - height))
            candidates.append((x_inside, y_inside, x_inside + width, y_inside + height))
    return min(candidates, key=lambda candidate: sum(_overlap(candidate, other) for other in others))


def _overlap(one: Box, other: Box) -> int:
    """Return the area in pixels of the intersection of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0, width) * max(0, height)


def _draw_label(
    draw: ImageDraw.ImageDraw,
    box: Box,
    lines: Sequence[str],
    color: Color,
    font: ImageFont.FreeTypeFont,
    font_px: int,
) -> None:
    draw.rounded_rectangle(box, font_px // 3, fill=INK, outline=color, width=max(1, font_px // 12))
    for number, line in enumerate(lines):
        y = box[1] + font_px // 4 + round(1.35 * font_px * (number + 0.5))
        draw.text((box[0] + font_px // 2, y), line, PAPER if number == 0 else color, font, anchor="lm")
