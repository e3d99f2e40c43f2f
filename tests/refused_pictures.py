"""A picture that must be refused by its head, since decoding it takes memory, and the parts of PNGs."""

import struct
import zlib

PNG = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG, of four letters."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(side_px: int) -> bytes:
    """A square PNG's header, one bit for each pixel."""
    return chunk(b"IHDR", struct.pack(">IIBBBBB", side_px, side_px, 1, 0, 0, 0, 0))


def png(side_px: int) -> bytes:
    """A square black PNG of one bit for each pixel."""
    rows = zlib.compress(bytes((1 + -(-side_px // 8)) * side_px), 9)
    return PNG + png_header(side_px) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


VAST_PNG = png(12_000)
"""144 megapixels, which are more than are read."""
