"""Fixated pixels as points (y, x), their counts on a grid, and the density that a Gaussian makes of them.

Example: [[0, 0], [0, 0], [1, 2]] are three fixations, two of them in the upper left pixel.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.integer[Any]]
GREY_LEVELS = (np.linspace(0, 1, 256) * 255).astype(np.uint8)
"""matplotlib's colours `gray`. Rounding down makes 24 of them one level darker (matplotlib 3.7 to 3.11)."""


def scale_points(points: Points, size: tuple[int, int], new_size: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Scale points (n, 2) of an image of `size` (height, width) to an image of `new_size`, rounded down.

    Example: (3, 5) of 10 x 10 pixels becomes (1, 2) of 5 x 5.
    """
    # Integers, because a float quotient can end just below an integer and round down to the wrong pixel.
    return np.asarray(points, np.int64).reshape(-1, 2) * np.array(new_size, np.int64) // np.array(size, np.int64)


def count_points(points: Points, size: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Count the points (n, 2) in each pixel of an image of `size` (height, width): (height, width)."""
    flat = flat_indices("points", points, size)
    return np.bincount(flat, minlength=size[0] * size[1]).reshape(size)


def flat_indices(name: str, points: Points, size: tuple[int, ...]) -> npt.NDArray[np.int64]:
    points = np.asarray(points)
    if points.ndim != 2 or points.shape[1] != 2 or not np.issubdtype(points.dtype, np.integer):
        raise ValueError(f"{name} have shape {points.shape} and type {points.dtype}. They must be (n, 2) integers")
    if not len(points):
        raise ValueError(f"{name} are empty. The metric needs at least one point")
    outside = ((points < 0) | (points >= size)).any(axis=1)
    if outside.any():
        first = tuple(points[outside][0].tolist())
        raise ValueError(
            f"{outside.sum()} of {len(points)} {name} are outside the {size} map. The first (y, x) is {first}"
        )
    return points[:, 0].astype(np.int64) * size[1] + points[:, 1]


def blur(points: Points, size: tuple[int, int], sigma_px: float) -> npt.NDArray[np.uint8]:
    """Density (h, w) of fixated pixels, uint8, from 0 to 255: the binary map, blurred.

    These are the reference's levels (Kroner et al., download.py): `gaussian_filter` of the binary map, which
    matplotlib's `imsave` writes.
    """
    from scipy import ndimage  # takes long to import, and metrics do without

    marked = np.zeros(size)
    marked[tuple(points.T)] = 1
    blurred: npt.NDArray[np.float64] = ndimage.gaussian_filter(marked, sigma_px)
    lowest, highest = blurred.min(), blurred.max()
    if lowest == highest:
        return np.full(size, 255, np.uint8)
    blurred -= lowest
    blurred *= 256 / (highest - lowest)
    return GREY_LEVELS[np.minimum(blurred, 255).astype(np.uint8)]
