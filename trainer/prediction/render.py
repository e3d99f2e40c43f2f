"""Draws saliency maps, alone and over their images. Needs no TensorFlow."""

import pathlib
from collections.abc import Sequence

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from trainer.heat import CHANGE, bands, blend_change, color_scale, furthest
from trainer.picture import Pixels

Map = npt.NDArray[np.floating]
Color = tuple[int, int, int]

INK, PAPER = (24, 24, 27), (255, 255, 255)
FONT = pathlib.Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
"""Font with the letters of most languages, for the names of files; Pillow's own font has only those of English."""


def draw_grey(map: Map, largest: int = 255) -> Image.Image:
    """Draw a map (h, w), 0..1, in grey levels 0..`largest`, rounded as in `preprocess.restore_map`.

    The image has 8 bits per pixel if `largest` is at most 255, else 16.
    """
    levels = np.empty(map.shape, np.uint8 if largest <= 255 else np.uint16)
    for rows in bands(map.shape):
        levels[rows] = np.rint(map[rows] * np.float32(largest))
    return Image.fromarray(levels)


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
    """Put the pixels on a page with a scale from -`largest` to `largest` below them."""
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


def shortened(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width_px: int) -> str:
    """Return the text, its middle replaced by an ellipsis if it is wider than `width_px`."""
    n_kept = len(text)
    short = text
    while font.getlength(short) > width_px and n_kept > 2:
        n_kept -= 1
        short = f"{text[: n_kept // 2]}…{text[len(text) - (n_kept - n_kept // 2) :]}"
    return short
