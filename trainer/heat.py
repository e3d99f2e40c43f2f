"""Heat maps: the colours, and a map over its stimulus.

The colours are matplotlib's `inferno` and Crameri's `managua`, which colour-blind people can tell apart.
"""

from collections.abc import Iterator, Sequence

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.colors import to_hex

from trainer.config import PREDICT_DEFAULTS

HEAT = matplotlib.colormaps["inferno"]
CHANGE = matplotlib.colormaps["managua"]
"""For signed values, dark at 0 (Crameri's, whose ends colour-blind people tell apart)."""
HEAT_STOPS = [to_hex(HEAT(stop)) for stop in np.linspace(0, 1, 9)]
"""The colour map for a CSS gradient."""
OPACITY = PREDICT_DEFAULTS.opacity
"""Of a map's largest value over its stimulus."""
DIMMED = 0.62
"""What is left of the stimulus' brightness below a map."""
BAND_PIXELS = 2**16


def blend(
    stimulus: npt.NDArray[np.uint8], density: npt.NDArray[np.floating], opacity: float = OPACITY
) -> npt.NDArray[np.uint8]:
    """A map (h, w), 0..1, in heat colours over its dimmed grey stimulus (h, w, 3): (h, w, 3).

    `opacity`, 0..1, is that of the largest value. Short of opaque, the object shows through.
    """
    values = np.linspace(0, 1, 256)[:, None]
    # The root lets weak values be seen.
    cover = opacity * np.sqrt(values)
    kept = ((1 - cover) * DIMMED / 3)[:, 0].astype(np.float32)
    added = (255 * cover * HEAT(values[:, 0])[:, :3] + 0.5).astype(np.float32)
    blended = np.empty(stimulus.shape, np.uint8)
    for rows in bands(density.shape):
        levels = np.rint(np.clip(density[rows], 0, 1) * 255).astype(np.uint8)
        grey = stimulus[rows].sum(axis=-1, dtype=np.uint16) * kept[levels]
        blended[rows] = grey[..., None] + added[levels]
    return blended


def bands(size: Sequence[int]) -> Iterator[slice]:
    """The rows of an image of `size` (h, w) in parts that a processor's cache holds."""
    step = max(1, BAND_PIXELS // size[1])
    return (slice(top, min(size[0], top + step)) for top in range(0, size[0], step))
