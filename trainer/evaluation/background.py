"""The context of the metrics of one image: the centre bias, and the fixations of the other images."""

import collections
import functools
import pathlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from PIL import Image

from trainer import artifacts, metrics, preprocess
from trainer.data.tfrecords import Example
from trainer.files import read_map

Size = tuple[int, int]
Map = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]


def content(example: Example) -> tuple[slice, slice]:
    """Rows and columns of the image in its padded frame."""
    top, left, height, width = preprocess.content_box(example.original_size, example.density.shape)
    return slice(top, top + height), slice(left, left + width)


class Background:
    """The centre bias of the training images and the fixations of some images, at any size.

    Args:
        folder: A prepared dataset, for its centre bias.
        examples: The images whose fixations count; they may be of different sizes, or have no fixations.
    """

    def __init__(self, folder: pathlib.Path, examples: Iterable[Example]) -> None:
        self._center_bias = Image.fromarray(read_map(folder / artifacts.CENTER_BIAS, artifacts.PREPARE_AGAIN))
        points = collections.defaultdict(list)
        for example in examples:
            points[example.original_size].append(np.asarray(example.fixations, np.int64).reshape(-1, 2))
        self._fixations = {size: np.concatenate(those) for size, those in points.items()}
        # Computed once per image size.
        self.center_bias = functools.lru_cache(16)(self._resize_center_bias)
        self._all_counts = functools.lru_cache(16)(self._count_all_fixations)

    def other_counts(self, example: Example, size: Size) -> Counts:
        """Fixations of all images but this one per pixel of it, when it has the `size` (h, w)."""
        own = metrics.scale_points(example.fixations, example.original_size, size)
        # The image's own fixations are scaled in the same way in both, so they cancel exactly.
        return self._all_counts(size) - metrics.count_points(own, size)

    def _resize_center_bias(self, size: Size) -> Map:
        return np.asarray(self._center_bias.resize(size[::-1], Image.Resampling.BILINEAR))

    def _count_all_fixations(self, size: Size) -> Counts:
        scaled = [metrics.scale_points(points, other, size) for other, points in self._fixations.items()]
        return metrics.count_points(np.concatenate(scaled), size)
