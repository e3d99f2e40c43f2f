"""From the bytes of any picture that people have to RGB pixels as they see them.

Data sets are read by `decode.py`, as the reference reads them: without orientation tags and transparency.
"""

import io
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from trainer.config import MEGAPIXEL, PREDICT_DEFAULTS
from trainer.errors import UserError, first_line

Pixels = npt.NDArray[np.uint8]

READERS: dict[str, type[ImageFile]] = {
    "JPEG": JpegImageFile,
    "PNG": PngImageFile,
    "WEBP": WebPImageFile,
    "GIF": GifImageFile,
    "TIFF": TiffImageFile,
    "BMP": BmpImageFile,
}
"""Called themselves: Image.open has limits of its own, and for a JPEG looks for more pictures in it."""
SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp")
"""What names of such files end with."""
MOST_PIXELS = PREDICT_DEFAULTS.most_pixels
"""Pixels of the largest picture that is read unless told otherwise."""
MOST_SIDE_PX = 65_535
"""JPEG's; what is made of a picture grows with its sides, too."""
ORIENTATION = 0x0112
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> what makes it upright."""
OTHER_FORMATS = {
    b"%pdf": "a PDF; export its pages as pictures",
    b"<!doctype html": "a web page; save the picture itself",
    b"<html": "a web page; save the picture itself",
    b"<svg": "an SVG drawing; export it as PNG",
    b"<?xml": "XML, perhaps an SVG drawing; export it as PNG",
    b"pk\3\4": "a ZIP archive or an office document; export its pictures",
}
"""What other files begin with, in lower case -> what they are and what to do."""
logging.getLogger("PIL").addHandler(logging.NullHandler())  # what it says is raised, too
_filters = threading.Lock()
"""Held while warnings are ignored, which is a state of the whole process."""


def read_picture(data: bytes, origin: str, most_pixels: int = MOST_PIXELS) -> Pixels:
    """Decode a JPEG, PNG, WebP, GIF, TIFF or BMP.

    Args:
        data: the file's content.
        origin: what to call it in a message.
        most_pixels: a larger picture is refused before it is decoded.

    Returns:
        (h, w, 3) uint8 RGB, upright by its EXIF orientation; transparency is over white, of an animation it is the
        first frame, grey of 16 bits is divided by 257, of 32 bits or floats by its largest value.

    Raises:
        UserError: the data is not such a picture, is damaged, or too large.
    """
    return Picture(data, origin, most_pixels).decode()


class Picture:
    """A picture of which only the header is read yet; arguments and errors are `read_picture`'s."""

    def __init__(self, data: bytes, origin: str, most_pixels: int = MOST_PIXELS) -> None:
        self._origin = origin
        self._picture = _open(data, origin)
        width, height = self._picture.size
        found = f"{origin} is {width:,} pixels wide and {height:,} high"
        if width * height > most_pixels:
            megapixels = f"{width * height / MEGAPIXEL:,.0f} megapixels"
            allowed = f"{most_pixels / MEGAPIXEL:,g}"
            raise UserError(
                f"{found}, {megapixels}; at most {allowed} are allowed: shrink it (`predict --most-megapixels` "
                "takes larger ones)"
            )
        if max(width, height) > MOST_SIDE_PX:
            raise UserError(f"{found}; a side has at most {MOST_SIDE_PX:,}: cut it into parts")
        if min(width, height) < 1:
            raise UserError(f"{found}, so it has no pixels; get it again")
        self._orientation = _orientation(self._picture, data)

    @property
    def size(self) -> tuple[int, int]:
        """(h, w) of the pixels as they will be decoded."""
        width, height = self._picture.size
        return (width, height) if self._orientation >= 5 else (height, width)

    def decode(self) -> Pixels:
        """(h, w, 3) uint8 RGB; once only, since the decoder's memory goes with it."""
        try:
            upright = UPRIGHT.get(self._orientation)
            picture = _rgb(self._picture)
            pixels = np.asarray(picture if upright is None else picture.transpose(upright))
        except Exception as error:  # each format of Pillow's raises what its parsing meets, down to struct.error
            raise _damaged(self._origin, self._picture.format or "a picture", error) from None
        finally:
            self._picture.close()
        return pixels


def _open(data: bytes, origin: str) -> ImageFile:
    if not data:
        raise UserError(f"{origin} is empty (0 bytes); get it again")
    for name, reader in READERS.items():
        accepts = Image.OPEN[name][1]
        if accepts is None or accepts(data[:16]) is not True:
            continue
        try:
            with _quiet():
                if name == "PNG":
                    reader(io.BytesIO(data)).verify()  # checksums, which decoding does not look at
                return reader(io.BytesIO(data))
        except Exception as error:
            raise _damaged(origin, name, error) from None
    start = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    known = next((f" but {what}" for magic, what in OTHER_FORMATS.items() if start.startswith(magic)), "")
    if data[4:8] == b"ftyp":
        known = " but perhaps HEIC, AVIF or a video; export it as JPEG"
    raise UserError(f"{origin} is not a JPEG, PNG, WebP, GIF, TIFF or BMP{known}")


def _damaged(origin: str, format: str, error: Exception) -> UserError:
    text = first_line(error)
    if "this driver" in text:  # Pillow's word for any other parsing that failed
        text = "its header is damaged"
    return UserError(f"{origin} does not decode as {format} ({text}); get it again")


def _orientation(picture: ImageFile, data: bytes) -> int:
    """The EXIF orientation, without decoding the pixels; 1 where there is none, or Pillow turns them itself."""
    tags = Image.Exif()
    try:
        with _quiet():
            if picture.format == "PNG":  # of which Pillow reads the tags by decoding all of it
                start = data.rfind(b"eXIf")
                if start > 0:
                    length = int.from_bytes(data[start - 4 : start])
                    tags.load(data[start + 4 : start + 4 + length])
            elif picture.format != "TIFF":
                tags = picture.getexif()
            found = int(tags.get(ORIENTATION, 1))
    except Exception:
        found = 1  # a damaged tag says nothing about the pixels
    return found if found in UPRIGHT else 1


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Pillow's warnings of tags that do not concern the pixels."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith(("I", "F")):
        return Image.fromarray(_eight_bits(np.asarray(picture), picture.mode)).convert("RGB")
    if picture.has_transparency_data:
        # `convert` would copy what is RGBA already, and a name would keep the white: each takes 4 bytes a pixel.
        rgba = picture if picture.mode == "RGBA" else picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), rgba).convert("RGB")
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _eight_bits(values: npt.NDArray[Any], mode: str) -> Pixels:
    finite = np.nan_to_num(values.astype(np.float32), copy=False, nan=0, posinf=0, neginf=0)
    largest = 65535.0 if mode.startswith("I;16") else max(float(finite.max()), 1e-12)
    levels: Pixels = np.round(np.clip(finite, 0, largest) / largest * 255).astype(np.uint8)
    return levels
