"""Colours of heat maps, and how a map is drawn over its stimulus.

The colour maps are matplotlib's `inferno` and Crameri's `managua`, which colour-blind people can tell apart.
"""

from collections.abc import Iterator, Sequence

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.colors import to_hex

from trainer.config import PREDICT_DEFAULTS

HEAT = matplotlib.colormaps["inferno"]
CHANGE = matplotlib.colormaps["managua"]
"""For signed values; dark at 0."""
HEAT_STOPS = [to_hex(HEAT(stop)) for stop in np.linspace(0, 1, 9)]
"""The colour map for a CSS gradient."""
OPACITY = PREDICT_DEFAULTS.opacity
"""Opacity of the map's largest value over its stimulus."""
DIMMED = 0.62
"""The stimulus under a map keeps this part of its brightness."""
BAND_PIXELS = 2**16
"""Pixels in a band of rows."""


def blend(
    stimulus: npt.NDArray[np.uint8], density: npt.NDArray[np.floating], opacity: float = OPACITY
) -> npt.NDArray[np.uint8]:
    """Draw a map in heat colours over its stimulus, which becomes grey and darker.

    Args:
        stimulus: (h, w, 3) RGB.
        density: (h, w), 0..1.
        opacity: of the value 1; the stimulus shows through if it is below 1.

    Returns:
        (h, w, 3) RGB.
    """
    values = np.linspace(0, 1, 256)[:, None]
    # The square root makes small values visible.
    alpha = opacity * np.sqrt(values)
    kept = ((1 - alpha) * DIMMED / 3)[:, 0].astype(np.float32)
    added = (255 * alpha * HEAT(values[:, 0])[:, :3] + 0.5).astype(np.float32)
    blended = np.empty(stimulus.shape, np.uint8)
    for rows in bands(density.shape):
        levels = np.rint(np.clip(density[rows], 0, 1) * 255).astype(np.uint8)
        grey = stimulus[rows].sum(axis=-1, dtype=np.uint16) * kept[levels]
        blended[rows] = grey[..., None] + added[levels]
    return blended


def bands(size: Sequence[int]) -> Iterator[slice]:
    """The rows of an image of `size` (h, w) in bands that fit into the CPU's cache."""
    step = max(1, BAND_PIXELS // size[1])
    return (slice(top, min(size[0], top + step)) for top in range(0, size[0], step))
