"""Pictures of saliency maps over their images. No TensorFlow needed."""

import pathlib
from collections.abc import Sequence

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from trainer.config import PREDICT_DEFAULTS
from trainer.heat import CHANGE, DIMMED, HEAT, OPACITY, bands, blend

Pixels = npt.NDArray[np.uint8]
Map = npt.NDArray[np.floating]
Color = tuple[int, int, int]

LEVELS = PREDICT_DEFAULTS.levels
"""Shares of the attention, percent, that contours enclose."""
INK, PAPER = (24, 24, 27), (255, 255, 255)
FONT = pathlib.Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
"""It has the letters of most languages, for the names of files; Pillow's own has English."""
SUMMED_VALUES = 2**16
"""So many are added up at once for thresholds."""
HALO = 0.7
"""Opacity of the dark rim that lets a line be seen on any image."""


def draw_grey(map: Map, largest: int = 255) -> Image.Image:
    """A map (h, w), 0..1, as grey levels 0..`largest`, rounded as `preprocess.restore_map` rounds.

    The picture has 8 bits a pixel if `largest` is at most 255, else 16.
    """
    levels = np.empty(map.shape, np.uint8 if largest <= 255 else np.uint16)
    for rows in bands(map.shape):
        levels[rows] = np.rint(map[rows] * np.float32(largest))
    return Image.fromarray(levels)


# === Contours ===


def draw_contours(image: Pixels, map: Map, levels: Sequence[float] = LEVELS) -> Pixels:
    """Lines over an image (h, w, 3) that enclose the given percentages of its map (h, w): (h, w, 3).

    A legend says which. Each line encloses the smallest part of the image with so much of the map's sum. It is as
    wide as suits the image, and has soft edges: a pixel's distance from it is what its value lacks over the slope.
    """
    width_px = max(1.5, min(map.shape) / 220)
    colors = level_colors(levels)
    # The one that encloses least is the last, and lies on top.
    lines = sorted(zip(levels, thresholds(map, levels), colors, strict=True), reverse=True)
    drawn = image.copy()
    for rows in bands(map.shape):
        values, slope = _slope(map, rows)
        for _, threshold, color in lines:
            distance_px = np.where(slope > 0, np.abs(values - threshold) / np.maximum(slope, 1e-12), np.inf)
            for half_px, ink, opacity in ((width_px, INK, HALO), (width_px / 2, color, 1.0)):
                _paint(drawn[rows], np.clip(half_px + 0.5 - distance_px, 0, 1) * opacity, ink)
    _legend(drawn, map, [(f"{level:g}%", color) for level, color in zip(levels, colors, strict=True)])
    return drawn


def thresholds(map: Map, levels: Sequence[float]) -> list[float]:
    """For each percentage: the value so that the pixels above it hold so much of the map's sum."""
    values = np.sort(map, axis=None)
    # Part by part: all sums in float64 would take twice the memory of the values.
    parts = [values[start : start + SUMMED_VALUES] for start in range(0, values.size, SUMMED_VALUES)]
    ends = np.cumsum([part.sum(dtype=np.float64) for part in parts])
    found = []
    for level in levels:
        wanted = (1 - level / 100) * ends[-1]
        index = np.searchsorted(ends[:-1], wanted)
        before = ends[index - 1] if index else 0
        sums = before + np.cumsum(parts[index], dtype=np.float64)
        found.append(float(parts[index][min(np.searchsorted(sums, wanted), len(sums) - 1)]))
    return found


def level_colors(levels: Sequence[float]) -> list[Color]:
    """Colours of contours, the brightest for the one that encloses least."""
    stops = np.linspace(0.95, 0.55, len(levels))
    ranks = np.argsort(np.argsort(levels))
    return [tuple(round(255 * part) for part in HEAT(float(stops[rank]))[:3]) for rank in ranks]  # type: ignore[misc]


def _slope(map: Map, rows: slice) -> tuple[Map, Map]:
    """The values in some rows, and how steep the map is there, per pixel."""
    above, below = max(0, rows.start - 1), min(len(map), rows.stop + 1)
    missing = (above - rows.start + 1, rows.stop + 1 - below)
    padded = np.pad(map[above:below], (missing, (1, 1)), mode="edge")
    down, right = padded[2:, 1:-1] - padded[:-2, 1:-1], padded[1:-1, 2:] - padded[1:-1, :-2]
    return map[rows], np.hypot(down, right) / 2


def _paint(pixels: Pixels, opacity: Map, color: Color) -> None:
    """Lay a colour over pixels (h, w, 3), in place, where its opacity (h, w) is above 0."""
    where = opacity > 0
    covered = opacity[where][:, None]
    pixels[where] = np.rint(pixels[where] * (1 - covered) + np.array(color) * covered).astype(np.uint8)


def _legend(pixels: Pixels, map: Map, entries: Sequence[tuple[str, Color]]) -> None:
    """What each line encloses, in the corner with the least attention; nothing where an image is too small."""
    height, width = pixels.shape[:2]
    font_px = int(np.clip(min(height, width) / 34, 11, 60))
    font = ImageFont.truetype(FONT, font_px)
    title = "Attention inside"
    row, pad = round(font_px * 1.35), round(font_px * 0.5)
    size = (round(font.getlength(title)) + 2 * pad, row * (len(entries) + 1) + 2 * pad)
    if size[0] > width / 2 or size[1] > height / 2:
        return
    corners = [
        (slice(top, top + size[1]), slice(left, left + size[0]))
        for top in (height - size[1] - pad, pad)
        for left in (pad, width - size[0] - pad)
    ]
    box = pixels[min(corners, key=lambda corner: map[corner].sum(dtype=np.float64))]
    box[:] = box * 0.2 + np.array(INK) * 0.8
    picture = Image.fromarray(box)
    draw = ImageDraw.Draw(picture)
    for line, (text, color) in enumerate(entries):
        middle = pad + (line + 1) * row + row // 2
        draw.line((pad, middle, pad + 2 * font_px, middle), color, max(2, font_px // 6))
        draw.text((2 * pad + 2 * font_px, middle), text, PAPER, font, anchor="lm")
    draw.text((pad, pad + row // 2), title, PAPER, font, anchor="lm")
    box[:] = np.asarray(picture)


# === Differences ===


def draw_difference(image: Pixels, change: Map, names: Sequence[str]) -> Pixels:
    """Where one design gets more or less attention than another, over the grey and dimmed second one.

    Args:
        image: (h, w, 3), the second design.
        change: (h, w), what the second has more than the first, in means of a map.
        names: of the first and of the second.

    Returns:
        (h + legend, w, 3): a signed scale lies below the image, which is padded where it is narrower than that.
    """
    largest = max(float(np.abs(change).max()), 1e-12)
    stops = np.linspace(-1, 1, 255)
    cover = OPACITY * np.sqrt(np.abs(stops))
    kept = ((1 - cover) * DIMMED / 3).astype(np.float32)
    added = (255 * cover[:, None] * CHANGE(stops / 2 + 0.5)[:, :3] + 0.5).astype(np.float32)
    drawn = np.empty(image.shape, np.uint8)
    for rows in bands(change.shape):
        steps = np.rint(change[rows] / largest * 127).astype(np.int16) + 127
        drawn[rows] = (image[rows].sum(axis=-1, dtype=np.uint16) * kept[steps])[..., None] + added[steps]
    return _with_scale(drawn, largest, names)


def _with_scale(pixels: Pixels, largest: float, names: Sequence[str]) -> Pixels:
    height, width = pixels.shape[:2]
    font_px = int(np.clip(width / 48, 13, 60))
    font, pad, row = ImageFont.truetype(FONT, font_px), font_px, round(font_px * 1.5)
    page = Image.new("RGB", (max(width, 34 * font_px), height + 3 * row + 2 * pad), PAPER)
    page.paste(Image.fromarray(pixels), ((page.width - width) // 2, 0))
    draw = ImageDraw.Draw(page)
    left, right, top = 2 * pad, page.width - 2 * pad, height + pad
    ramp = np.rint(255 * CHANGE(np.linspace(0, 1, right - left))[None, :, :3]).astype(np.uint8)
    page.paste(Image.fromarray(np.repeat(ramp, font_px, axis=0)), (left, top + row))
    middle, half_px = (left + right) // 2, (right - left) // 2 - pad
    below = top + row + font_px + row // 2
    for x, side, title, value in (
        (left, "l", f"more in {names[0]}", f"-{largest:.2g} times the mean"),
        (middle, "m", "", "0"),
        (right, "r", f"more in {names[1]}", f"+{largest:.2g} times the mean"),
    ):
        draw.text((x, top + row // 2), _shortened(title, font, half_px), INK, font, anchor=f"{side}m")
        draw.text((x, below), value, INK, font, anchor=f"{side}m")
    return np.asarray(page)


# === Contact sheets ===


def draw_contact_sheet(
    entries: Sequence[tuple[str, Pixels, Map]], thumbnail_px: int = 240, columns: int = 3
) -> Pixels:
    """A page of images beside their overlays, with their names.

    Args:
        entries: name, image (h, w, 3) and map (h, w) of each.
        thumbnail_px: longer side of the pictures; smaller ones are not enlarged.
        columns: images side by side.

    Returns:
        (h, w, 3).
    """
    gap, line, font = 16, 22, ImageFont.truetype(FONT, 13)
    cell_px = 2 * thumbnail_px + gap // 4
    columns = min(columns, len(entries))
    cells = [
        (name, [_small(each, thumbnail_px) for each in (image, blend(image, values))])
        for name, image, values in entries
    ]
    rows = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    heights = [max(pair[0].height for _, pair in row) + line + gap for row in rows]
    page = Image.new("RGB", (columns * (cell_px + gap) + gap, sum(heights) + gap), PAPER)
    draw = ImageDraw.Draw(page)
    for row, height, top in zip(rows, heights, np.cumsum([gap, *heights[:-1]]).tolist(), strict=True):
        for left, (name, pair) in zip(range(gap, page.width, cell_px + gap), row, strict=False):
            for side, picture in enumerate(pair):
                bottom = top + height - line - gap
                page.paste(picture, (left + side * (picture.width + gap // 4), bottom - picture.height))
            draw.text((left, bottom + line // 2), _shortened(name, font, cell_px), INK, font, anchor="lm")
    return np.asarray(page)


def _small(pixels: Pixels, longer_px: int) -> Image.Image:
    small = Image.fromarray(pixels)
    small.thumbnail((longer_px, longer_px))
    return small


def _shortened(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width_px: int) -> str:
    """The text, without its middle where it is too wide."""
    kept = len(text)
    short = text
    while font.getlength(short) > width_px and kept > 2:
        kept -= 1
        short = f"{text[: kept // 2]}…{text[len(text) - (kept - kept // 2) :]}"
    return short
