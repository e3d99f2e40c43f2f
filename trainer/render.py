"""Pictures of a saliency map over its image. No TensorFlow needed."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from trainer.charts import HEAT

Pixels = npt.NDArray[np.uint8]
Map = npt.NDArray[np.floating]

OPACITY = 0.6
LEVELS = (25, 50, 75)
"""Shares of the attention, percent, that contours enclose."""
COLORS = np.round(HEAT(np.arange(256))[:, :3] * 255).astype(np.uint8)
"""(256, 3): the colour of each grey level."""


def overlay(image: Pixels, map: Map, opacity: float = OPACITY) -> Pixels:
    """A map (h, w), 0..1, in heat colours over its image (h, w, 3): (h, w, 3).

    The colours cover the more of the image the larger the map is, at most `opacity` (0..1) of it.
    """
    levels = np.round(np.clip(map, 0, 1) * 255).astype(np.uint8)
    # The root lets weak values be seen.
    cover = (opacity * np.sqrt(np.arange(256) / 255)).astype(np.float32)[levels][..., None]
    return np.asarray(np.round(image * (1 - cover) + COLORS[levels] * cover), np.uint8)


def contour(image: Pixels, map: Map, levels: Sequence[float] = LEVELS) -> Pixels:
    """Lines over an image (h, w, 3) that enclose the given percentages of its map's (h, w) sum: (h, w, 3)."""
    drawn = image.copy()
    for level, threshold in zip(levels, thresholds(map, levels), strict=True):
        inside = map >= threshold
        edge = np.zeros_like(inside)
        edge[:-1] |= inside[:-1] != inside[1:]
        edge[:, :-1] |= inside[:, :-1] != inside[:, 1:]
        drawn[edge] = COLORS[round(255 * (1 - level / 100))]
    return drawn


def thresholds(map: Map, levels: Sequence[float]) -> list[float]:
    """For each percentage: the value so that the pixels of at least this value hold so much of the map's sum."""
    values = np.sort(map.ravel())[::-1]
    sums = np.cumsum(values, dtype=np.float64)
    found = np.searchsorted(sums, [level / 100 * sums[-1] for level in levels])
    return [float(values[min(index, len(values) - 1)]) for index in found]


def contact_sheet(entries: Sequence[tuple[str, Pixels, Map]], thumbnail_px: int = 240, columns: int = 3) -> Pixels:
    """A page of images beside their overlays, with names: (h, w, 3)."""
    font, gap, line = ImageFont.load_default(14), 12, 22
    cell = (2 * thumbnail_px + gap, thumbnail_px + line)
    rows = -(-len(entries) // columns)
    page = Image.new("RGB", (columns * (cell[0] + gap) + gap, rows * (cell[1] + gap) + gap), "white")
    draw = ImageDraw.Draw(page)
    for index, (name, image, values) in enumerate(entries):
        left, top = gap + index % columns * (cell[0] + gap), gap + index // columns * (cell[1] + gap)
        for side, picture in enumerate((image, overlay(image, values))):
            small = Image.fromarray(picture)
            small.thumbnail((thumbnail_px, thumbnail_px))
            page.paste(small, (left + side * (thumbnail_px + 4), top))
        draw.text((left, top + thumbnail_px + 2), name, "black", font)
    return np.asarray(page)
