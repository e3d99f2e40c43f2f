"""Tell maps of attention from other grey pictures: by their border, their darkest level and their picture's edges.

One map proves little: a person may look at a border. So what most maps of a set have is judged.

Example: a plotting library saves maps with white margins. Their border is the brightest part of every one.
"""

import collections
import zlib
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from trainer import witness
from trainer.data.decode import MOST_STEP, Pixels, darkest_level
from trainer.errors import ContentError
from trainer.texts import some

SIDE_PX = 256
"""Longer side of the pictures and maps that are compared, pixels. Smaller ones stay as they are."""
BORDER = 1 / 64
"""Width of the border, as a share of the sides: the 0.1 inches that Matplotlib leaves around a cut figure,
which has 640 pixels in 6.4 inches."""
MOST_BRIGHTER = 0.6
"""Largest `Traits.border` of a map. In the middle of 10 maps of SALICON, or of ADD1000 with a blur of 1/60 to 1/8
of the width, it is at most .38, and for 99 of 100 sets of fixations that are spread evenly up to the border, .58.
Of the inverted maps of both datasets it is .59 or more, and 1 with white margins."""
DETAIL_PX = 2
"""Standard deviation of the Gaussian whose blur is subtracted to keep fine detail, pixels."""
MOST_EDGES = 0.2
"""Largest `Traits.edges` of a map. In the middle of a set it is .01 for SALICON and ADD1000, and at most .16 for
drawn dots that people look straight at. It is .68 or more with a tenth of the grey picture in the map, .59 for the
picture's edges, and .32 for these with a blur of 6 pixels."""
BLURS_PX = (0, 4, 8, 16)
"""Standard deviations of the Gaussians that blur a picture, pixels."""
MOST_LIKE = 0.7
"""Largest `Traits.like` of a map. In the middle of 10 of ADD1000 it is at most .37. A blurred picture has 1."""
MOST_STEP_SHARE = 0.35
"""Largest `Traits.step` of a map. It is .05 for SALICON, .09 at most for ADD1000, and .27 for a few fixations with
a blur of 1/120 of the width. It is .8 to 1 for masks, labels, text and noise."""
LEAST_FLAT = 0.05
"""Share of the pixels at the darkest level from which this is a background. It is at most .045 for evenly spread
fixations whose maps are above level 8 everywhere, and .19 or more in the middle of maps of SALICON and ADD1000
to which 20, 64 or 128 was added."""
MOST_FLOOR = 127
"""Highest darkest level of a map without a background. In the middle of maps of 100 fixations that are spread
evenly and blurred by 1/8 of the width, the brightest honest ones, it is 99."""


@dataclass(frozen=True)
class Traits:
    """What a map is like, and what it has of its picture."""

    border: float
    """Of all pairs of a pixel at the border and one inside that differ, the share, 0 to 1, in which the pixel at
    the border is brighter. 0.5 without such pairs."""
    edges: float
    """Correlation, 0 to 1, of the map's fine detail with the detail of its picture or of the picture's edges."""
    like: float
    """Correlation, 0 to 1, of the map with its picture, or with this after a blur."""
    step: float
    """How much neighbouring pixels differ, as a share, 0 to 1, of the range of levels: 999 of 1,000 by no more."""
    digest: int
    """The same for equal maps, and for few others."""
    darkest: int
    """`decode.darkest_level`."""
    flat: float
    """Share of the pixels, 0 to 1, that are at most one level brighter."""

    @classmethod
    def of(cls, map: Pixels, stimulus: Pixels) -> "Traits":
        """Measure a map (h, w) and its stimulus (h', w', 3) RGB, of the same aspect ratio."""
        shrunk = _shrunk(Image.fromarray(map))
        grey = Image.fromarray(stimulus).convert("L").resize(shrunk.size, Image.Resampling.BOX)
        levels, luma = np.asarray(shrunk), np.asarray(grey, np.float64)
        darkest = darkest_level(map)
        return cls(
            border=_brighter_at_border(levels),
            edges=max(
                _correlation(_detail(levels.astype(np.float64)), _detail(of_picture))
                for of_picture in (luma, ndimage.gaussian_gradient_magnitude(luma, 1))
            ),
            like=max(
                _correlation(_centred(levels), _centred(ndimage.gaussian_filter(luma, px))) for px in BLURS_PX
            ),
            step=_step(levels.astype(np.float64)),
            digest=zlib.crc32(map.tobytes()),
            darkest=darkest,
            flat=float(np.mean(map <= darkest + 1)),
        )

    @property
    def has_pedestal(self) -> bool:
        """Whether the map has a background, and it is not black."""
        return self.darkest > MOST_STEP and self.flat >= LEAST_FLAT


def pedestal_of(maps: Collection[tuple[str, Traits]]) -> int:
    """Judge a set of maps, by the origin and the traits of each.

    Returns:
        If most have a background that is not black, the middle one of their darkest levels, 9 to 255: then the
            darkest level of each map is to be subtracted. Else 0.

    Raises:
        ContentError: most maps follow the edges of their picture, are brightest at their border, are not smooth,
            are equal, or are so bright everywhere that a pedestal cannot be told from attention.
    """
    alike = collections.Counter(traits.digest for _, traits in maps)
    for odd, what, remedy in (
        (
            [origin for origin, traits in maps if traits.edges > MOST_EDGES or traits.like > MOST_LIKE],
            "follow the edges, or the light, of their own images",
            "are they drawn over them, or made from them? Export the density of the gaze alone",
        ),
        (
            [origin for origin, traits in maps if traits.border > MOST_BRIGHTER],
            "are brighter at their border than inside, where people look more",
            "do they have white margins, as plotting libraries add, or are they black where people looked? Save "
            "the density itself as pixels, without axes and margins, white where people looked most",
        ),
        (
            [origin for origin, traits in maps if traits.step > MOST_STEP_SHARE],
            "are not smooth, as masks, labels, text and noise are not",
            "are they something else than a density of gaze? Fixated pixels belong into a folder named fixations",
        ),
        (
            [origin for origin, traits in maps if len(maps) > 1 and alike[traits.digest] > 1],
            "are one and the same",
            "give each image a map of its own",
        ),
        (
            [origin for origin, traits in maps if traits.darkest > MOST_FLOOR and not traits.has_pedestal],
            f"are above level {MOST_FLOOR} of 255 everywhere, and without a background",
            "was something added to the density? Subtract it, so that 0 is where nobody looked",
        ),
    ):
        if 2 * len(odd) > len(maps):
            raise ContentError(f"{len(odd):,} of {len(maps):,} maps {what} ({some(odd)}): {remedy}")
    levels = sorted(traits.darkest for _, traits in maps if traits.has_pedestal)
    return levels[len(levels) // 2] if 2 * len(levels) > len(maps) else 0


def check_fixations(images: Collection[tuple[witness.Grid, witness.Looked]]) -> None:
    """Check that people looked where the maps of the same images have it.

    Raises:
        ContentError: on `witness.FEWEST` images or more, fixations agree with the maps no more than by chance, or
            better if they are read otherwise.
    """
    if len(images) < witness.FEWEST:
        return
    maps, looked = zip(*images, strict=True)
    testimony = witness.judge(maps, looked)
    if testimony.better is not None or testimony.agreement < witness.LEAST:
        better = f", and would agree {testimony.better}" if testimony.better else ""
        raise ContentError(
            f"the fixations of {len(images):,} images agree with the maps of the same images by "
            f"{testimony.agreement:.2f} standard deviations, and honest ones by {witness.LEAST:g} or more"
            f"{better}. Are maps or fixations of other images? Correct one of the two, or remove it"
        )


def _shrunk(picture: Image.Image) -> Image.Image:
    scale = min(1, SIDE_PX / max(picture.size))
    width, height = (max(1, round(side * scale)) for side in picture.size)
    return picture.resize((width, height), Image.Resampling.BOX)


def _centred(values: npt.ArrayLike) -> NDArray[np.float64]:
    """An array less its mean."""
    levels = np.asarray(values, np.float64)
    centred: NDArray[np.float64] = levels - levels.mean()
    return centred


def _step(levels: NDArray[np.float64]) -> float:
    """`Traits.step` of a map (h, w)."""
    if min(levels.shape) < 2 or not np.ptp(levels):
        return 0.0
    steps = np.concatenate([np.abs(np.diff(levels, axis=axis)).ravel() for axis in (0, 1)])
    return float(np.quantile(steps, 0.999) / np.ptp(levels))


def _brighter_at_border(map: Pixels) -> float:
    """`Traits.border` of a map (h, w)."""
    is_border = np.ones(map.shape, bool)
    top, left = (max(1, round(side * BORDER)) for side in map.shape)
    is_border[top:-top, left:-left] = False
    border, inside = (np.bincount(map[where], minlength=256).astype(float) for where in (is_border, ~is_border))
    brighter = float(border @ (np.cumsum(inside) - inside))
    darker = float(inside @ (np.cumsum(border) - border))
    return brighter / (brighter + darker) if brighter + darker else 0.5


def _detail(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What of an image (h, w) is finer than `DETAIL_PX`."""
    return _centred(values - ndimage.gaussian_filter(values, DETAIL_PX))


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Correlation, 0 to 1 without its sign, of arrays with the mean 0. 0 if one is constant."""
    norm = np.linalg.norm(first) * np.linalg.norm(second)
    return float(abs(np.vdot(first, second)) / norm) if norm else 0.0
