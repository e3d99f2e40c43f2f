"""The centre bias of a dataset: where its observers look whatever the image shows, the baseline of every model.

It is the mean histogram of the images' fixations, in relative coordinates, smoothed by a Gaussian and mixed with a
uniform map. The Gaussian and the share of the uniform map are those under which left-out images are most likely,
as the MIT/Tuebingen saliency benchmark makes its centre bias (Kümmerer, Wallis and Bethge, ECCV 2018). Data
without fixations has the mean of the images' maps in place of the histogram.

A prepared dataset stores the histogram in `FOLDS` parts, each of every tenth image. An image of the dataset itself
is compared with the centre bias of the other parts: its own fixations help to choose the smoothing, and are not in
the map.
"""

import base64
import dataclasses
import functools
import itertools
import pathlib
import zlib
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from trainer.data.prepared_data import CENTER_BIAS, PREPARE_AGAIN
from trainer.errors import ContentError
from trainer.metrics import Points, count_points, scale_points
from trainer.texts import first_line

SIZE = (120, 160)
"""Height and width of the histogram."""
FOLDS = 10
SIGMAS = tuple(0.2 * 0.75**step for step in range(12))
"""Standard deviations of the Gaussian, divided by the sides of the image: 0.2 down to 0.008."""
UNIFORM_SHARES = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
"""Shares of the uniform map that are tried."""

FloatMap = NDArray[np.float64]


def histogram_of(fixations: Points, size: tuple[int, int], density: NDArray[np.uint8] | None) -> FloatMap:
    """What an image adds to the centre bias, of `SIZE`: the histogram of its fixations.

    Args:
        fixations: (n, 2) of (y, x) in an image of `size` (height, width), pixels.
        size: as above.
        density: (h, w), not all 0, of the whole image: taken if fixations are not known, else None.

    Returns:
        It sums to 1, or to 0 for an image without fixations in data that has some.
    """
    if density is None:
        points = scale_points(fixations, size, SIZE)
        histogram = count_points(points, SIZE).astype(np.float64)
    else:
        image = Image.fromarray(density.astype(np.float32))
        histogram = np.asarray(image.resize(SIZE[::-1], Image.Resampling.BOX), np.float64)
    return histogram / max(float(histogram.sum()), 1e-9)


@dataclasses.dataclass(frozen=True)
class Share:
    """What an image adds to the centre bias, in a form that is small and that JSON holds."""

    cells: list[int]
    """For each fixation its cell in a map of `SIZE`, counted row by row. Empty if fixations are not known."""
    density: str = ""
    """The levels of the density, compressed and in Base64. Empty if fixations are known."""
    size: tuple[int, int] = (0, 0)
    """(h, w) of the density, pixels."""

    @classmethod
    def of(cls, fixations: Points, size: tuple[int, int], density: NDArray[np.uint8] | None) -> Self:
        """The share of an image. Arguments are as in `histogram_of`."""
        if density is None:
            y, x = scale_points(fixations, size, SIZE).T
            return cls((y * SIZE[1] + x).tolist())
        packed = base64.b64encode(zlib.compress(density.tobytes()))
        return cls([], packed.decode(), (density.shape[0], density.shape[1]))

    def histogram(self) -> FloatMap:
        """`histogram_of` the image."""
        points = np.stack(np.divmod(np.array(self.cells, np.int64), SIZE[1]), axis=1)
        if not self.density:
            return histogram_of(points, SIZE, None)
        levels = np.frombuffer(zlib.decompress(base64.b64decode(self.density)), np.uint8)
        return histogram_of(points, SIZE, levels.reshape(self.size))


class CenterBias:
    """The centre bias of a dataset, as maps of `SIZE` that sum to 1.

    Args:
        folds: (FOLDS, *SIZE): the sum of the histograms of the images in each fold, each histogram with the sum 1.
    """

    def __init__(self, folds: NDArray[np.floating]) -> None:
        self._folds = folds.astype(np.float64)
        self._total: FloatMap = self._folds.sum(axis=0)
        self.without = functools.cache(self._without)

    @classmethod
    def read(cls, folder: pathlib.Path) -> "CenterBias":
        """Read the centre bias of the prepared dataset in `folder`. Raises `ContentError` if it is damaged."""
        return cls(_read_maps(folder / CENTER_BIAS, (FOLDS, *SIZE), PREPARE_AGAIN))

    @staticmethod
    def fold_of(index: int) -> int:
        """The fold of the image with this index in its split. Example: 3 for the images 3, 13 and 23."""
        return index % FOLDS

    @property
    def histogram(self) -> FloatMap:
        """The mean histogram of all images, not smoothed."""
        return _distribution(self._total)

    def _without(self, fold: int | None) -> FloatMap:
        """The centre bias of all images, or without the images of a `fold`."""
        left = self._total if fold is None else self._total - self._folds[fold]
        sigma, share = self._chosen
        return _mixed(_distribution(_smoothed(left, sigma)), share)

    @functools.cached_property
    def _chosen(self) -> tuple[float, float]:
        """The Gaussian and the uniform share under which the images of a fold are most likely, given the others.

        With one fold alone nothing can be compared, and the first choice, the uniform map, is taken.
        """
        folds = [fold for fold in self._folds if fold.any() and not np.array_equal(fold, self._total)]
        likelihood = dict.fromkeys(itertools.product(SIGMAS, UNIFORM_SHARES), 0.0)
        for sigma in SIGMAS:
            total = _smoothed(self._total, sigma)
            for fold in folds:
                others = _distribution(np.maximum(total - _smoothed(fold, sigma), 0))
                for share in UNIFORM_SHARES:
                    likelihood[sigma, share] += float((fold * np.log(_mixed(others, share))).sum())
        return max(likelihood, key=likelihood.__getitem__)


def _smoothed(histogram: FloatMap, sigma: float) -> FloatMap:
    smoothed: FloatMap = ndimage.gaussian_filter(histogram, [sigma * side for side in SIZE], mode="reflect")
    return smoothed


def _mixed(distribution: FloatMap, uniform_share: float) -> FloatMap:
    """A mixture of a distribution with the uniform one."""
    return (1 - uniform_share) * distribution + uniform_share / distribution.size


def _distribution(histogram: FloatMap) -> FloatMap:
    """A histogram divided by its sum. Uniform if it is empty."""
    total = histogram.sum()
    distribution: FloatMap = histogram / total if total > 0 else np.full_like(histogram, 1 / histogram.size)
    return distribution


def _read_maps(path: pathlib.Path, shape: tuple[int, ...], remedy: str) -> NDArray[np.float32]:
    """Read maps of the `shape` (n, h, w), float32, finite and not negative.

    Raises:
        ContentError: the file is missing or holds something else. The message ends with `remedy`.
    """
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        if (
            array.shape != shape
            or array.dtype != np.float32
            or not (array >= 0).all()
            or not np.isfinite(array).all()
        ):
            raise ValueError(f"it is {array.dtype} {list(array.shape)}, or has values that are none of a map's")
    except Exception as error:  # NumPy raises different errors for damaged bytes, some from Python's tokenizer
        raise ContentError(f"{path} is missing or damaged ({first_line(error)}): {remedy}") from None
    result: NDArray[np.float32] = array
    return result
