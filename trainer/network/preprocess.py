"""Resize and pad images and maps to the network's input size, and resize predictions back.

The arithmetic is the reference's (alexanderkroner/saliency, data.py): the aspect ratio is kept, sizes are
rounded, and padding is symmetric. Shrinking averages areas, enlarging is bicubic. Both compute in NumPy what
TensorFlow 1 does with aligned corners.
"""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

STIMULUS_PADDING = 126.0
MAP_PADDING = 0.0
SHARPNESS = -0.75
"""The parameter *a* of TensorFlow 1's kernel (Keys 1981, "Cubic convolution interpolation", equation 15)."""
STEPS = 1024
"""Steps from one pixel to the next in the table from which TensorFlow reads the kernel."""
BAND_PIXELS = 2**16
"""Pixels in a band of rows that is resized at a time, so that it stays in the CPU's cache."""

Size = tuple[int, int]
Floats = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Frame:
    """The input of a network, into which images and maps of any size are fitted, with padding.

    Example: `Frame((240, 320)).box((600, 600))` is (0, 40, 240, 240), the part that a square image fills.
    """

    size: Size
    """(H, W), pixels."""

    def image(self, pixels: npt.ArrayLike) -> Floats:
        """Fit an image into the frame.

        Args:
            pixels: (h, w, 3) RGB, 0..255, any numeric type.

        Returns:
            (H, W, 3) float32 in 0..255, padded with 126.
        """
        return self._fit(np.asarray(pixels), STIMULUS_PADDING)

    def map(self, values: npt.ArrayLike) -> Floats:
        """Fit a saliency map into the frame.

        Args:
            values: (h, w) or (h, w, 1), 0..255.

        Returns:
            (H, W) or (H, W, 1) like the input, float32 in 0..255, padded with 0.
        """
        return self._fit(np.asarray(values), MAP_PADDING)

    def map_inside(self, values: npt.ArrayLike, original_size: Size) -> Floats:
        """Fit a saliency map into the frame, without the padding.

        Args:
            values: (h, w), 0..255, of an image of any size in these proportions.
            original_size: height and width of the image, pixels, which say what part of the frame it fills.

        Returns:
            (h', w') float32 in 0..255, with h' = H or w' = W.
        """
        top, left, height, width = self.box(original_size)
        return self.map(values)[top : top + height, left : left + width]

    def box(self, original_size: Size) -> tuple[int, int, int, int]:
        """The part of the frame that an image fills.

        Args:
            original_size: (h, w) of the image, pixels.

        Returns:
            (top, left, height, width), pixels of the frame.
        """
        height, width = _scaled(original_size, min(_ratios(original_size, self.size)))
        return (self.size[0] - height) // 2, (self.size[1] - width) // 2, height, width

    @staticmethod
    def back(values: npt.ArrayLike, size: Size) -> Floats:
        """Resize a predicted map, of any frame, to the size of its image in float32.

        It is neither scaled, clipped nor rounded. It is resized until both sides cover `size`, and its centre is
        kept: the inverse of fitting and padding.

        Example: a map of 240 x 320 for an image of 600 x 600 becomes 600 x 800, and its middle 600 columns are
        kept.

        Args:
            values: (H, W) or (H, W, 1), 0..1, the network's output.
            size: (h, w) of the image, pixels.

        Returns:
            (h, w) or (h, w, 1) like the input. Bicubic interpolation overshoots, so values may leave 0..1.
        """
        levels = np.asarray(values, np.float32)
        ratio = max(_ratios(levels.shape[:2], size))
        whole = _scaled(levels.shape[:2], ratio)
        top, left = ((side - kept) // 2 for side, kept in zip(whole, size, strict=True))
        if ratio < 1:
            return _resize(levels, whole)[top : top + size[0], left : left + size[1]]
        return resize_part(levels, whole, (top, left), size)

    def _fit(self, image: npt.NDArray[Any], padding: float) -> Floats:
        top, left, height, width = self.box((image.shape[0], image.shape[1]))
        fitted = np.full((*self.size, *image.shape[2:]), padding, np.float32)
        resized = _resize(image, (height, width))
        np.clip(resized, 0, 255, out=fitted[top : top + height, left : left + width])
        return fitted


def _ratios(original_size: Any, size: Any) -> list[float]:
    return [int(side) / int(original) for side, original in zip(size, original_size, strict=True)]


def _scaled(original_size: Any, ratio: float) -> Size:
    """The size times the ratio, rounded (half to even, as NumPy and TensorFlow 1 do), at least one pixel.

    Example: (3, 5) times 0.5 is (2, 2).
    """
    height, width = (max(1, round(int(side) * ratio)) for side in original_size)
    return height, width


def _resize(image: npt.NDArray[Any], size: Size) -> Floats:
    """(h, w) or (h, w, c) to this size: area averaging if it shrinks, else bicubic. Corners are aligned."""
    before = image.shape[:2]
    if size != before and size[0] <= before[0] and size[1] <= before[1]:
        lower = np.ascontiguousarray(_averaged(image, size[0]).swapaxes(0, 1))
        return _averaged(lower, size[1]).swapaxes(0, 1)
    return resize_part(image.astype(np.float32), size, (0, 0), size)


# === TensorFlow 1's area averaging with aligned corners ===


def _averaged(image: npt.NDArray[Any], n: int) -> Floats:
    """Shrink the first axis to `n` pixels. Each is the mean of the pixels that it covers, wholly or in part."""
    length = len(image)
    step = np.float32(length - 1) / np.float32(n - 1) if n > 1 else np.float32(length)
    edges = np.arange(n + 1, dtype=np.float32) * step
    starts, ends = np.floor(edges[:-1]).astype(int), np.minimum(np.ceil(edges[1:]).astype(int), length)
    # The parts of the first and the last pixel that are not covered. Beyond the border the last pixel goes on.
    before, after = edges[:-1] - starts, (ends - edges[1:]).astype(np.float32)
    total = np.uint32 if image.dtype == np.uint8 else np.float32
    averaged = np.empty((n, *image.shape[1:]), np.float32)
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        averaged[index] = image[start:end].sum(axis=0, dtype=total)
        averaged[index] -= before[index] * image[start] + after[index] * image[end - 1]
    return np.divide(averaged, step, out=averaged)


# === TensorFlow 1's bicubic interpolation with aligned corners, for a part of the resized map ===
#
# Only the part is computed: of a banner of 20,000 x 10 pixels, the resized map has 300 million values, of which
# 200,000 are kept.


def resize_part(values: Floats, whole: Size, start: Size, size: Size) -> Floats:
    """Resize a map or an image and keep a part of it.

    Args:
        values: (H, W) or (H, W, C) float32.
        whole: (height, width) of the resized map, pixels.
        start: first row and column of the part.
        size: (h, w) of the part.

    Returns:
        (h, w) or (h, w, C) float32, the same bits as TensorFlow's. The kernel overshoots, so values can be outside
        the map's range.
    """
    across = [1] * (values.ndim - 1)
    rows, row_weights = taps(values.shape[0], whole[0], start[0], size[0])
    columns, column_weights = taps(values.shape[1], whole[1], start[1], size[1])
    resized = np.empty((*size, *values.shape[2:]), np.float32)
    row_weights, column_weights = (each.reshape(4, -1, *across) for each in (row_weights, column_weights))
    step = max(1, BAND_PIXELS // size[1])
    for top in range(0, size[0], step):
        band = slice(top, top + step)
        lines = _sum_of_taps(values, rows[:, band], row_weights[:, band])
        # Columns as rows: whole rows are copied three times as fast as single pixels.
        lines = np.ascontiguousarray(lines.swapaxes(0, 1))
        resized[band] = _sum_of_taps(lines, columns, column_weights).swapaxes(0, 1)
    return resized


def _sum_of_taps(values: Floats, places: npt.NDArray[np.int64], weights: Floats) -> Floats:
    resized: Floats = weights[0] * values[places[0]]
    for tap in range(1, 4):
        part = values[places[tap]]
        part *= weights[tap]
        resized += part
    return resized


def taps(length: int, whole: int, start: int, kept: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """Source indices and weights of `kept` values, from `start` on, of a line resized from `length` to `whole`.

    Returns:
        Indices in the line, (4, kept), and the weights of the values there, (4, kept) float32.
    """
    step = np.float32(length - 1) / np.float32(whole - 1) if whole > 1 else np.float32(0)
    at = np.arange(start, start + kept).astype(np.float32) * step
    first = np.floor(at)
    # In single precision the weights, and some grey levels with them, would differ from TensorFlow's.
    x = np.rint((at - first) * np.float32(STEPS)).astype(np.float64) / STEPS
    weights = np.stack([_far(x + 1), _near(x), _near(1 - x), _far(2 - x)])
    places = first.astype(int) + np.arange(-1, 3)[:, None]
    return np.clip(places, 0, length - 1), weights.astype(np.float32)


def _near(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The kernel at a distance of 0 to 1 pixel."""
    return ((SHARPNESS + 2) * x - (SHARPNESS + 3)) * x * x + 1


def _far(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The kernel at a distance of 1 to 2 pixels."""
    return ((SHARPNESS * x - 5 * SHARPNESS) * x + 8 * SHARPNESS) * x - 4 * SHARPNESS
