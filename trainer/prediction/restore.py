"""A predicted map at the size of its image, as `preprocess.resize_back` makes it, for images of any shape.

TensorFlow resizes the whole frame and then cuts the image out: for a banner of 20,000 x 10 pixels it makes 300
million values of which 200,000 are kept. Here each axis is a product with a sparse matrix of those rows or columns
that are kept: memory grows with the image alone, it is faster, and the bits are the same (docs/log.md).
"""

import numpy as np
import numpy.typing as npt
from scipy import sparse

from trainer import preprocess

Map = npt.NDArray[np.float32]

CUBIC = -0.75
"""The parameter of TensorFlow 1's bicubic kernel."""
FRACTIONS = 1024
"""TensorFlow looks the kernel up in a table with so many steps from one pixel to the next."""
BAND_VALUES = 2**16
"""So many values are transposed at once, which stay in a processor's cache."""


def restore(prediction: Map, size: tuple[int, int]) -> Map:
    """A prediction at the size of its image.

    Args:
        prediction: (H, W), 0..1, of the padded image.
        size: (h, w) of the image, pixels.

    Returns:
        (h, w) float32, unrounded, clipped to 0..1, which bicubic interpolation overshoots.
    """
    ratio = max(size[0] / prediction.shape[0], size[1] / prediction.shape[1])
    # Half to even, as the reference rounds; the sides of the frame before the image is cut out of it.
    whole = [max(1, round(side * ratio)) for side in prediction.shape]
    if ratio <= 1:
        restored = preprocess.resize_back(prediction, size)
    else:
        starts = [(side - kept) // 2 for side, kept in zip(whole, size, strict=True)]
        rows, columns = (_weights(*axis) for axis in zip(prediction.shape, whole, starts, size, strict=True))
        tall = rows @ prediction  # (h, W)
        restored = np.empty(size, np.float32)
        band = max(16, BAND_VALUES // size[1])
        for top in range(0, size[0], band):
            restored[top : top + band] = (columns @ np.ascontiguousarray(tall[top : top + band].T)).T
    clipped: Map = np.clip(restored, 0, 1, out=restored)
    return clipped


def _weights(length: int, whole: int, start: int, kept: int) -> sparse.csr_matrix:
    """(kept, length): what each of `kept` values, from `start` on, of a line resized to `whole` is made of."""
    step = np.float32((length - 1) / (whole - 1)) if whole > 1 else np.float32(0)
    at = np.arange(start, start + kept, dtype=np.float32) * step
    first = np.floor(at)
    x = np.round((at - first) * FRACTIONS).astype(np.float64) / FRACTIONS
    weights = np.stack([_far(x + 1), _near(x), _near(1 - x), _far(2 - x)], axis=1).astype(np.float32)
    taken = np.clip(first.astype(np.int32)[:, None] + np.arange(-1, 3, dtype=np.int32), 0, length - 1)
    return sparse.csr_matrix((weights.ravel(), taken.ravel(), np.arange(0, 4 * kept + 1, 4)), (kept, length))


def _near(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The kernel (Keys 1981) at a distance of 0 to 1."""
    return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1


def _far(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The same at a distance of 1 to 2."""
    return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC
