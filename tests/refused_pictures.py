"""Pictures that an exported model must refuse by their heads: decoding them takes memory, or breaks TensorFlow."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

PNG = b"\x89PNG\r\n\x1a\n"
SIDE_PX = 12_000
"""Of a picture with more pixels than are read."""


def animation() -> bytes:
    """A WebP of six frames: TensorFlow 2.20 writes outside its buffer when it decodes one."""
    y, x = np.mgrid[:60, :80]
    first = Image.fromarray(np.stack([x * 3, y * 4, x + y], -1).astype(np.uint8))
    content = io.BytesIO()
    first.save(content, "WEBP", save_all=True, append_images=[first.rotate(90)] * 5)
    return content.getvalue()


def gif(n_frames: int, side_px: int) -> bytes:
    """A GIF of equal frames; decoding takes three bytes for each pixel of each frame."""
    file = io.BytesIO()
    Image.new("P", (side_px, side_px)).save(file, "GIF")
    one = file.getvalue()
    start = one.index(struct.pack("<cHHHH", b",", 0, 0, side_px, side_px))
    return one[:start] + one[start:-1] * n_frames + one[-1:]


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG, of four letters."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(side_px: int, kind: bytes = b"IHDR") -> bytes:
    """A square PNG's header, one bit for each pixel; as a chunk of another `kind` libpng skips it."""
    return chunk(kind, struct.pack(">IIBBBBB", side_px, side_px, 1, 0, 0, 0, 0))


def png(side_px: int, before: bytes = b"") -> bytes:
    """A square black PNG of one bit for each pixel, with chunks before its header."""
    rows = zlib.compress(bytes((1 + -(-side_px // 8)) * side_px), 9)
    return PNG + before + png_header(side_px) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


LARGE = {
    "a GIF of 150 frames of 9 megapixels": gif(150, 3000),
    "a PNG of 144 megapixels": png(SIDE_PX),
    "a PNG of 144 megapixels that seems to have 100": png(SIDE_PX, png_header(10, b"abCd")),
}
