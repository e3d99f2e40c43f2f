"""Colours of heat maps, and how a map is drawn, alone and over its stimulus. Needs no TensorFlow.

The colour maps are matplotlib's `inferno` and Crameri's `managua`, which colour-blind people can tell apart.
"""

import csv
import pathlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from trainer.prediction.saliency_map import Map
from trainer.prediction.settings import PREDICT_DEFAULTS

Pixels = npt.NDArray[np.uint8]
Levels = Callable[[slice], npt.NDArray[np.integer]]
"""Returns the level of each pixel in some rows of a map."""

COLOR_MAPS = pathlib.Path(__file__).parent / "color_maps.csv"


class ColorMap:
    """A table of colours for values in 0..1.

    Example:
        >>> HEAT([0, 1]).tolist()
        [[0, 0, 4], [252, 255, 164]]
    """

    def __init__(self, name: str, limit: float = 1.0) -> None:
        """Read the column `name` of COLOR_MAPS. `limit` is the value of a map that gets the last colour."""
        self.limit = limit
        lines = (line for line in COLOR_MAPS.read_text().splitlines() if not line.startswith("#"))
        colors = [tuple(bytes.fromhex(row[name])) for row in csv.DictReader(lines)]
        self._colors = np.array(colors, np.float64) / 255

    def __call__(self, values: npt.ArrayLike) -> Pixels:
        """Look up the colours of values (...), 0..1: (..., 3) RGB."""
        pixels: Pixels = np.rint(255 * self.exact(values)).astype(np.uint8)
        return pixels

    def exact(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Look up the colours of values (...), 0..1, without rounding: (..., 3) RGB in 0..1."""
        n = len(self._colors)
        colors: npt.NDArray[np.float64] = self._colors[np.clip(np.multiply(values, n), 0, n - 1).astype(int)]
        return colors

    def stops(self, n: int) -> list[str]:
        """List `n` colours at equal distances from 0 to 1, as CSS has them."""
        return ["#" + bytes(color).hex() for color in self(np.linspace(0, 1, n))]


HEAT = ColorMap("inferno")
"""Colours of a saliency map, dark at 0."""
CHANGE = ColorMap("managua", limit=5.0)
"""Colours of the difference of two maps, each divided by its mean: of -5 at 0, of 5 at 1, and dark at 0.5."""
OPACITY = PREDICT_DEFAULTS.opacity
"""Opacity of the map's largest value over its stimulus."""
GROUND = 70, 230
"""Grey levels of black and of white under a map. So the heat stands out from whatever is below it."""
VALUES = np.linspace(0, 1, 256)
"""Value in 0..1 of each level of a heat map."""
STRENGTHS = 1.25 * VALUES / (VALUES + 0.25)
"""How much of its colour each level of a heat map shows, 0..1. It grows fast at first, and without a step at 0."""
BAND_PIXELS = 2**16
"""Pixels in a band of rows."""


def draw_grey(map: Map, largest: int = 255) -> Image.Image:
    """Draw a map (h, w), 0..1, in grey levels 0..`largest`, rounded to the nearest.

    Example:
        >>> draw_grey(saliency).save("map.png")

    The image has 8 bits per pixel if `largest` is at most 255, else 16.
    """
    levels = np.empty(map.shape, np.uint8 if largest <= 255 else np.uint16)
    for rows in _bands(map.shape):
        levels[rows] = np.rint(map[rows] * np.float32(largest))
    return Image.fromarray(levels)


def blend(stimulus: Pixels, density: Map, opacity: float = OPACITY) -> Pixels:
    """Draw a map in heat colours over its stimulus in grey, with less contrast (`GROUND`).

    Example:
        >>> Image.fromarray(blend(pixels, saliency)).save("overlay.png")

    Args:
        stimulus: (h, w, 3) RGB.
        density: (h, w), 0..1.
        opacity: of the value 1. The stimulus shows through if it is below 1. Below OPACITY, it also gets its own
            colours back, up to the unchanged stimulus at 0.

    Returns:
        (h, w, 3) RGB.
    """
    greyness = min(1.0, opacity / OPACITY)
    return _blend(stimulus, _heat_levels(density), STRENGTHS, HEAT.exact(VALUES), opacity, greyness)


def _heat_levels(density: Map) -> Levels:
    """Return the function of the index in VALUES of each pixel of a map (h, w), 0..1."""
    return lambda rows: np.rint(np.clip(density[rows], 0, 1) * 255).astype(np.uint8)


def blend_change(image: Pixels, change: Map) -> Pixels:
    """Draw a signed map (h, w) over an image in grey, on a fixed scale from -5 to 5 (`CHANGE.limit`).

    Example:
        >>> Image.fromarray(blend_change(pixels, after / after.mean() - before / before.mean())).save("change.png")

    The opacity grows in proportion to the change, so that small changes, which mean nothing, stay faint.
    """
    stops = np.linspace(-1, 1, 255)
    return _blend(
        image,
        lambda rows: np.rint(np.clip(change[rows] / CHANGE.limit, -1, 1) * 127).astype(np.int16) + 127,
        np.abs(stops),
        CHANGE.exact(stops / 2 + 0.5),
        OPACITY,
        greyness=1,
    )


def _blend(
    image: Pixels,
    levels: Levels,
    strengths: npt.NDArray[np.floating],
    colors: npt.NDArray[np.floating],
    opacity: float,
    greyness: float,
) -> Pixels:
    """Draw a map of n levels in colours over an image: the rule of all overlays.

    Args:
        image: (h, w, 3) RGB.
        levels: the level, 0..n - 1, of each pixel in some rows.
        strengths: (n,), 0..1, how much of its colour each level shows.
        colors: (n, 3) RGB, 0..1, the colour of each level.
        opacity: of the strength 1. The image shows through if it is below 1.
        greyness: 0..1, how much of the image becomes GROUND. At 0 it keeps its colours.
    """
    alpha = opacity * strengths
    black, white = GROUND
    kept = ((1 - alpha) * greyness * (white - black) / (255 * 3)).astype(np.float32)
    tinted = ((1 - alpha) * (1 - greyness)).astype(np.float32)
    added = (255 * alpha[:, None] * colors + ((1 - alpha) * greyness * black)[:, None] + 0.5).astype(np.float32)
    blended = np.empty(image.shape, np.uint8)
    for rows in _bands(image.shape):
        indices = levels(rows)
        part = (image[rows].sum(axis=-1, dtype=np.uint16) * kept[indices])[..., None] + added[indices]
        if greyness < 1:
            part += image[rows] * tinted[indices][..., None]
        blended[rows] = part
    return blended


def _bands(size: Sequence[int]) -> Iterator[slice]:
    """Return the rows of an image of `size` (h, w) in bands that fit into the CPU's cache."""
    step = max(1, BAND_PIXELS // size[1])
    return (slice(top, min(size[0], top + step)) for top in range(0, size[0], step))
