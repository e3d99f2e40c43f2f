"""Draws the verdicts of a check into the pictures of the designs."""

import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from studio.designs import Design
from studio.difference import FONT, INK, PAPER, Pixels, shortened
from studio.verdicts import FAILED, PASSED, SHARE, CheckResult, MeasuredDesign, Verdict, region_share_text
from trainer.api import blend
from trainer.tools import printable, replacing

PASSED_COLOR, FAILED_COLOR, PLAIN_COLOR = (122, 220, 250), (255, 138, 76), PAPER
"""Colours of regions that pass, that fail, and without a requirement. Colour-blind people tell them apart."""
MOST_FONT_PX = 28
"""Largest height of a label's font. Larger labels hide what is beside a small region."""
ROLES = ("design", "baseline")
Box = tuple[int, int, int, int]
"""The sides (left, top, right, bottom) of a rectangle in pixels."""


def name_pictures(folder: str | os.PathLike[str], designs: Sequence[Design]) -> dict[str, pathlib.Path]:
    """Name the files that `write_pictures` writes: name without a suffix -> path.

    Raises:
        UserError: one of them is a design.
    """
    names = [f"{role}-attention" for role, _ in zip(ROLES, designs, strict=False)]
    names += [f"{role}-page" for role, design in zip(ROLES, designs, strict=False) if design.png]
    paths = {name: pathlib.Path(folder, f"{name}.png") for name in names}
    for design in designs:
        if design.input:
            design.input.protect(paths.values())
    return paths


def write_pictures(paths: Mapping[str, pathlib.Path], checked: CheckResult) -> None:
    """Write to `paths` the map of each design with its regions, and the unchanged picture of each page."""
    for name, path in paths.items():
        role, _, kind = name.partition("-")
        measured = checked.design if role == ROLES[0] else checked.baseline
        assert measured is not None
        with replacing(path) as partial:
            if kind == "page":
                assert measured.design.png is not None
                partial.write_bytes(measured.design.png)
            else:
                drawn = draw_design(measured, checked.verdicts if measured is checked.design else ())
                Image.fromarray(drawn).save(partial, "PNG")


def draw_design(measured: MeasuredDesign, verdicts: Sequence[Verdict] = ()) -> Pixels:
    """Draw a map over its design, with the regions on top.

    Args:
        measured: the design.
        verdicts: on its regions. None for a baseline: its regions are drawn with their shares alone.

    Returns:
        (h, w, 3) RGB, of the design's size.
    """
    picture = Image.fromarray(blend(measured.design.resized, measured.map))
    pen = ImageDraw.Draw(picture)
    font_px = int(np.clip(min(picture.size) / 55, 11, MOST_FONT_PX))
    font = ImageFont.truetype(FONT, font_px)
    line_px = max(2, font_px // 7)
    boxes: list[Box] = []
    for each in measured.measures:
        rows, columns = each.region.box(measured.design.size)
        boxes.append((columns.start, rows.start, columns.stop, rows.stop))
    labels = []
    for (left, top, right, bottom), each in zip(list(boxes), measured.measures, strict=True):
        own = [verdict for verdict in verdicts if verdict.requirement.region == each.region.name]
        failed = [verdict for verdict in own if not verdict.passed]
        color = PLAIN_COLOR if not own else FAILED_COLOR if failed else PASSED_COLOR
        for grown, ink in ((line_px // 2, INK), (0, color)):
            outside = (left - grown, top - grown, right - 1 + grown, bottom - 1 + grown)
            pen.rectangle(outside, outline=ink, width=line_px + 2 * grown)
        passes = f" {PASSED}" if own and not failed else ""
        lines = [f"{printable(each.region.name)} {region_share_text(each)}{passes}"]
        lines += [f"{FAILED}: {_required(verdict)}" for verdict in failed]
        lines = [shortened(line, font, picture.width - 2 * font_px) for line in lines]
        size = round(max(map(font.getlength, lines))) + font_px, round(1.35 * font_px * len(lines)) + font_px // 2
        label = _place_label((left, top, right, bottom), size, font_px // 3, picture.size, boxes)
        boxes.append(label)
        labels.append((label, lines, color))
    for label, lines, color in labels:
        pen.rounded_rectangle(label, font_px // 3, fill=INK, outline=color, width=max(1, font_px // 12))
        for number, line in enumerate(lines):
            position = label[0] + font_px // 2, label[1] + font_px // 4 + round(1.35 * font_px * (number + 0.5))
            pen.text(position, line, PAPER if number == 0 else color, font, anchor="lm")
    return np.asarray(picture)


def _required(verdict: Verdict) -> str:
    """Return the line of a region's label that says which requirement it does not meet."""
    required = verdict.requirement
    value = "" if required.measure == SHARE else f"{required.measure} {verdict.value_text}, "
    return f"{value}needs {required.in_words}"


def _place_label(
    box: Box, size: tuple[int, int], gap: int, picture: tuple[int, int], others: Sequence[Box]
) -> Box:
    """Return the box of a label above, below or inside its region that covers least of the other boxes.

    `size` and `picture` are (width, height) in pixels, of the label and of the picture that it must not leave.
    """
    (left, top, right, bottom), (width, height) = box, size
    candidates = []
    for y in (top - height - gap, bottom + gap, top + gap, bottom - height - gap):
        for x in (left, right - width):
            x_inside = min(max(x, 0), max(0, picture[0] - width))
            y_inside = min(max(y, 0), max(0, picture[1] - height))
            candidates.append((x_inside, y_inside, x_inside + width, y_inside + height))

    def covered(candidate: Box) -> int:
        pixels = 0
        for other in others:
            across = min(candidate[2], other[2]) - max(candidate[0], other[0])
            down = min(candidate[3], other[3]) - max(candidate[1], other[1])
            pixels += max(0, across) * max(0, down)
        return pixels

    return min(candidates, key=covered)
