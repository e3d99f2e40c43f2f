"""Draws saliency maps, alone and over their images. Needs no TensorFlow."""

import pathlib
from collections.abc import Sequence

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from trainer.config import PREDICT_DEFAULTS
from trainer.heat import CHANGE, HEAT, bands, blend_change, color_scale, furthest, tint
from trainer.picture import Pixels

Map = npt.NDArray[np.floating]
Color = tuple[int, int, int]

LEVELS = PREDICT_DEFAULTS.levels
"""Percentages of the attention that contours enclose."""
INK, PAPER = (24, 24, 27), (255, 255, 255)
FONT = pathlib.Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
"""It has the letters of most languages, for the names of files; Pillow's own font has only those of English."""
SUMMED_VALUES = 2**16
"""`thresholds` adds up so many values at a time."""
THUMBNAIL_PX = 240
"""Longer side of the images on a contact sheet."""
COLUMNS = 3
"""Number of images side by side on a contact sheet."""
HALO = 0.7
"""Opacity of the dark rim around a line, which makes it visible on any image."""


def draw_grey(map: Map, largest: int = 255) -> Image.Image:
    """Draw a map (h, w), 0..1, in grey levels 0..`largest`, rounded as in `preprocess.restore_map`.

    The image has 8 bits per pixel if `largest` is at most 255, else 16.
    """
    levels = np.empty(map.shape, np.uint8 if largest <= 255 else np.uint16)
    for rows in bands(map.shape):
        levels[rows] = np.rint(map[rows] * np.float32(largest))
    return Image.fromarray(levels)


# === Contours ===


def draw_contours(image: Pixels, map: Map, levels: Sequence[float] = LEVELS) -> Pixels:
    """Draw lines over an image that enclose percentages of the attention, and a legend.

    Each line encloses the smallest part of the image that holds this percentage of the map's sum. Its width grows
    with the image. Its edges are antialiased: the distance of a pixel from the line is the difference of its value
    from the threshold, divided by the map's slope there.

    Args:
        image: (h, w, 3) RGB.
        map: (h, w), 0 or above.
        levels: percentages, between 0 and 100.

    Returns:
        (h, w, 3) RGB.
    """
    width_px = max(1.5, min(map.shape) / 220)
    colors = level_colors(levels)
    # The line that encloses least is drawn last, on top.
    lines = sorted(zip(levels, thresholds(map, levels), colors, strict=True), reverse=True)
    drawn = image.copy()
    for rows in bands(map.shape):
        values, slope = _slope(map, rows)
        for _, threshold, color in lines:
            distance_px = np.where(slope > 0, np.abs(values - threshold) / np.maximum(slope, 1e-12), np.inf)
            for half_px, ink, opacity in ((width_px, INK, HALO), (width_px / 2, color, 1.0)):
                _paint(drawn[rows], np.clip(half_px + 0.5 - distance_px, 0, 1) * opacity, ink)
    _draw_legend(drawn, map, [(f"{level:g}%", color) for level, color in zip(levels, colors, strict=True)])
    return drawn


def thresholds(map: Map, levels: Sequence[float]) -> list[float]:
    """For each percentage: the value for which the pixels above it hold this percentage of the map's sum."""
    values = np.sort(map, axis=None)
    # In parts: all cumulative sums in float64 would take twice the memory of the values.
    parts = [values[start : start + SUMMED_VALUES] for start in range(0, values.size, SUMMED_VALUES)]
    ends = np.cumsum([part.sum(dtype=np.float64) for part in parts])
    thresholds = []
    for level in levels:
        outside = (1 - level / 100) * ends[-1]
        index = np.searchsorted(ends[:-1], outside)
        before = ends[index - 1] if index else 0
        sums = before + np.cumsum(parts[index], dtype=np.float64)
        thresholds.append(float(parts[index][min(np.searchsorted(sums, outside), len(sums) - 1)]))
    return thresholds


def level_colors(levels: Sequence[float]) -> list[Color]:
    """Colours of contours, the brightest for the line that encloses least."""
    stops = np.linspace(0.95, 0.55, len(levels))
    ranks = np.argsort(np.argsort(levels))
    return [tuple(round(255 * part) for part in HEAT(float(stops[rank]))[:3]) for rank in ranks]  # type: ignore[misc]


def _slope(map: Map, rows: slice) -> tuple[Map, Map]:
    """The values in some rows, and the map's slope there, per pixel."""
    above, below = max(0, rows.start - 1), min(len(map), rows.stop + 1)
    missing = (above - rows.start + 1, rows.stop + 1 - below)
    padded = np.pad(map[above:below], (missing, (1, 1)), mode="edge")
    down, right = padded[2:, 1:-1] - padded[:-2, 1:-1], padded[1:-1, 2:] - padded[1:-1, :-2]
    return map[rows], np.hypot(down, right) / 2


def _paint(pixels: Pixels, opacity: Map, color: Color) -> None:
    """Blend a colour into pixels (h, w, 3), in place, with an opacity (h, w) for each pixel."""
    where = opacity > 0
    alpha = opacity[where][:, None]
    pixels[where] = np.rint(pixels[where] * (1 - alpha) + np.array(color) * alpha).astype(np.uint8)


def _draw_legend(pixels: Pixels, map: Map, entries: Sequence[tuple[str, Color]]) -> None:
    """Draw, in place, what each line encloses, in the corner with the least attention; small images get none."""
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
    """Draw where the second of two designs gets more or less attention, over the second in darker grey.

    Args:
        image: (h, w, 3), the second design.
        change: (h, w), the second map minus the first, each divided by its mean.
        names: of the first and of the second design.

    Returns:
        (h + scale, w, 3): below the image is a colour scale; the image is padded if it is narrower than the scale.
    """
    return _add_scale(blend_change(image, change), furthest(change), names)


def _add_scale(pixels: Pixels, largest: float, names: Sequence[str]) -> Pixels:
    """The pixels on a page with a scale from -`largest` to `largest` below them."""
    height, width = pixels.shape[:2]
    font_px = int(np.clip(width / 48, 13, 60))
    font, pad, row = ImageFont.truetype(FONT, font_px), font_px, round(font_px * 1.5)
    page = Image.new("RGB", (max(width, 34 * font_px), height + 3 * row + 2 * pad), PAPER)
    page.paste(Image.fromarray(pixels), ((page.width - width) // 2, 0))
    draw = ImageDraw.Draw(page)
    left, right, top = 2 * pad, page.width - 2 * pad, height + pad
    page.paste(Image.fromarray(color_scale(right - left, font_px, CHANGE)), (left, top + row))
    middle, half_px = (left + right) // 2, (right - left) // 2 - pad
    below = top + row + font_px + row // 2
    for x, side, title, value in (
        (left, "l", f"more in {names[0]}", f"-{largest:.2g} times the mean"),
        (middle, "m", "", "0"),
        (right, "r", f"more in {names[1]}", f"+{largest:.2g} times the mean"),
    ):
        draw.text((x, top + row // 2), shortened(title, font, half_px), INK, font, anchor=f"{side}m")
        draw.text((x, below), value, INK, font, anchor=f"{side}m")
    return np.asarray(page)


# === Contact sheets ===


def draw_contact_sheet(entries: Sequence[tuple[str, Pixels, Map]], title: str = "", note: str = "") -> Pixels:
    """Draw a page of images, each next to its overlay and above its name, below a head with a colour legend.

    Args:
        entries: name, image (h, w, 3) and map (h, w) of each; no side is longer than THUMBNAIL_PX.
        title: what the page shows, in the head.
        note: more about it in smaller letters, such as the model's name.

    Returns:
        (h, w, 3).
    """
    gap, line, font = 16, 22, ImageFont.truetype(FONT, 13)
    cell_px = 2 * THUMBNAIL_PX + gap // 4
    columns = min(COLUMNS, len(entries))
    rows = [entries[start : start + columns] for start in range(0, len(entries), columns)]
    heights = [max(len(image) for _, image, _ in row) + line + gap for row in rows]
    width = columns * (cell_px + gap) + gap
    head = _draw_head(width, gap, title, note)
    page = Image.new("RGB", (width, head.height + sum(heights)), PAPER)
    page.paste(head)
    draw = ImageDraw.Draw(page)
    tops = np.cumsum([head.height, *heights[:-1]]).tolist()
    for row, top in zip(rows, tops, strict=True):
        for left, (name, image, values) in zip(range(gap, page.width, cell_px + gap), row, strict=False):
            for x, pixels in ((left, image), (left + image.shape[1] + gap // 4, tint(image, values))):
                page.paste(Image.fromarray(pixels), (x, top))
            middle = top + len(image) + line // 2
            draw.text((left, middle), shortened(name, font, cell_px), INK, font, anchor="lm")
    return np.asarray(page)


def _draw_head(width: int, gap: int, title: str, note: str) -> Image.Image:
    """The head of a contact sheet: title, note, and the colours from low to high attention."""
    large, small = ImageFont.truetype(FONT, 22), ImageFont.truetype(FONT, 13)
    room = width - 2 * gap
    lines = [(title, large, 32)] if title else []
    lines += [(line, small, 20) for line in _wrapped(note, small, room)]
    page = Image.new("RGB", (width, gap + sum(height for *_, height in lines) + 32 + gap // 2), PAPER)
    draw = ImageDraw.Draw(page)
    top = gap
    for text, font, height in lines:
        draw.text((gap, top + height // 2), shortened(text, font, room), INK, font, anchor="lm")
        top += height
    top += 6
    x = gap
    draw.text((x, top + 10), "low", INK, small, anchor="lm")
    x += round(small.getlength("low")) + 8
    page.paste(Image.fromarray(color_scale(160, 12)), (x, top + 4))
    draw.text((x + 168, top + 10), "high attention", INK, small, anchor="lm")
    return page


def _wrapped(text: str, font: ImageFont.FreeTypeFont, width_px: int) -> list[str]:
    """The words of a text in lines that are not wider than this, if no word is."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width_px:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def shortened(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width_px: int) -> str:
    """The text, with an ellipsis for its middle if it is too wide."""
    n_kept = len(text)
    short = text
    while font.getlength(short) > width_px and n_kept > 2:
        n_kept -= 1
        short = f"{text[: n_kept // 2]}…{text[len(text) - (n_kept - n_kept // 2) :]}"
    return short
