"""From the bytes of any picture that people have to RGB pixels as they see them.

Data sets are read by `decode.py`, as the reference reads them: without orientation tags and transparency.
"""

import io
import threading
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from trainer.errors import UserError, first_line

Pixels = npt.NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")
SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp")
MEGAPIXEL = 10**6
MOST_PIXELS = 100 * MEGAPIXEL
"""Pixels of the largest picture that is read unless told otherwise."""
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
    b"%PDF": "a PDF; export its pages as pictures",
    b"<!doctype html": "a web page; save the picture itself",
    b"<html": "a web page; save the picture itself",
    b"<svg": "an SVG drawing; export it as PNG",
    b"<?xml": "XML, perhaps an SVG drawing; export it as PNG",
    b"\x00\x00\x00": "perhaps HEIC, AVIF or a video; export it as JPEG",
    b"PK\x03\x04": "a ZIP archive or an office document; unpack or export it",
}
_header = threading.Lock()
"""For what sets the interpreter's filters of warnings, which all threads share."""


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
    picture = _open(data, origin)
    width, height = picture.size
    if width * height > most_pixels:
        raise UserError(
            f"{origin} is {height} x {width} pixels (height x width), {width * height / MEGAPIXEL:,.0f} megapixels; "
            f"at most {most_pixels / MEGAPIXEL:,.0f} are allowed: shrink it, or allow more"
        )
    try:
        return np.asarray(_upright(_rgb(picture), _orientation(picture)))
    except Exception as error:  # each format of Pillow's raises what its parsing meets, down to struct.error
        raise _damaged(origin, picture.format or "a picture", error) from None


def _open(data: bytes, origin: str) -> Image.Image:
    if not data:
        raise UserError(f"{origin} is empty (0 bytes); get it again")
    Image.preinit()
    Image.init()
    for name in FORMATS:
        factory, accepts = Image.OPEN[name]
        if accepts is None or accepts(data[:16]) is not True:
            continue
        try:
            with _header, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # Not Image.open, which has limits of its own, nor the factory, which looks for further pictures.
                return JpegImageFile(io.BytesIO(data)) if name == "JPEG" else factory(io.BytesIO(data), "")
        except Exception as error:
            raise _damaged(origin, name, error) from None
    start = data[:64].lstrip().lower()
    known = next((what for magic, what in OTHER_FORMATS.items() if start.startswith(magic.lower())), "")
    raise UserError(f"{origin} is not a JPEG, PNG, WebP, GIF, TIFF or BMP" + (f" but {known}" if known else ""))


def _damaged(origin: str, format: str, error: Exception) -> UserError:
    return UserError(f"{origin} does not decode as {format} ({first_line(error)}); get it again")


def _orientation(picture: Image.Image) -> int:
    try:
        with _header, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return int(picture.getexif().get(ORIENTATION, 1))
    except Exception:
        return 1  # a damaged tag says nothing about the pixels


def _upright(picture: Image.Image, orientation: int) -> Image.Image:
    method = UPRIGHT.get(orientation)
    return picture if method is None else picture.transpose(method)


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith(("I", "F")):
        return Image.fromarray(_eight_bits(np.asarray(picture), picture.mode)).convert("RGB")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(white, picture).convert("RGB")
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _eight_bits(values: npt.NDArray[Any], mode: str) -> Pixels:
    finite = np.nan_to_num(values.astype(np.float32), nan=0, posinf=0, neginf=0)
    largest = 65535.0 if mode.startswith("I;16") else max(float(finite.max()), 1e-12)
    levels: Pixels = np.round(np.clip(finite, 0, largest) / largest * 255).astype(np.uint8)
    return levels
