"""A predicted map at the size of its image: `preprocess.resize_back` in a third of its processor time.

Each axis is a product with a sparse matrix; the bits are the same (docs/log.md). A graph has no such product that
is as fast, so that an exported model goes `resize_back`'s way.
"""

import numpy as np
import numpy.typing as npt
from scipy import sparse

Map = npt.NDArray[np.float32]

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
        from trainer import preprocess  # imports TensorFlow, as `bicubic` does

        restored = preprocess.resize_back(prediction, size)
    else:
        starts = [(side - kept) // 2 for side, kept in zip(whole, size, strict=True)]
        rows, columns = (_matrix(*axis) for axis in zip(prediction.shape, whole, starts, size, strict=True))
        tall = rows @ prediction  # (h, W)
        restored = np.empty(size, np.float32)
        band = max(16, BAND_VALUES // size[1])
        for top in range(0, size[0], band):
            restored[top : top + band] = (columns @ np.ascontiguousarray(tall[top : top + band].T)).T
    clipped: Map = np.clip(restored, 0, 1, out=restored)
    return clipped


def _matrix(length: int, whole: int, start: int, kept: int) -> sparse.csr_matrix:
    """(kept, length), whose product with a line is the part of the resized line."""
    from trainer.bicubic import taps

    places, weights = (each.numpy().T.ravel() for each in taps(length, whole, start, kept))
    return sparse.csr_matrix((weights, places, np.arange(0, 4 * kept + 1, 4)), (kept, length))
