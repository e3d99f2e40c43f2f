"""Grey maps as PNG, in half of the time that libraries take: maps are smooth, and one filter is enough."""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from trainer.heat import bands
from trainer.prediction.restore import Map

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY = 0
"""The PNG colour type."""
UP = 2
"""The filter that writes each row as its difference from the row above."""


def grey_levels(map: Map, largest: int) -> npt.NDArray[np.integer]:
    """A map, 0..1, on 0..`largest`, rounded as `preprocess.restore_map` does; uint8 up to 255, else uint16."""
    scaled = map * np.float32(largest)
    levels: npt.NDArray[np.integer] = np.rint(scaled).astype(np.uint8 if largest <= 255 else np.uint16)
    return levels


def encode_map(map: Map, largest: int = 255) -> bytes:
    """A map (h, w), 0..1, as a grey PNG of 8 bits, or of 16 with a `largest` level of 65535."""
    height, width = map.shape
    header = struct.pack(">IIBBBBB", width, height, 8 if largest <= 255 else 16, GREY, 0, 0, 0)
    return b"".join((SIGNATURE, _chunk(b"IHDR", header), _chunk(b"IDAT", b"".join(_packed(map, largest))), _END))


def _packed(map: Map, largest: int) -> Iterator[bytes]:
    # Differences of smooth maps are runs: nothing else is looked for.
    packer = zlib.compressobj(strategy=zlib.Z_RLE)
    above = np.zeros((1, map.shape[1] * (1 if largest <= 255 else 2)), np.uint8)
    for rows in bands(map.shape):
        levels = grey_levels(map[rows], largest)
        values = levels.astype(levels.dtype.newbyteorder(">"), copy=False).view(np.uint8)
        filtered = np.empty((len(values), values.shape[1] + 1), np.uint8)
        filtered[:, 0] = UP
        np.subtract(values, np.concatenate([above, values[:-1]]), out=filtered[:, 1:])
        above = values[-1:]
        yield packer.compress(filtered.data)
    yield packer.flush()


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return b"".join((struct.pack(">I", len(content)), kind, content, struct.pack(">I", checksum)))


_END = _chunk(b"IEND", b"")
