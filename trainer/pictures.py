"""Decode image files to RGB pixels as people see them.

Published datasets are read by `trainer.data.decode` as the reference reads them: without orientation tags and
transparency.
"""

import dataclasses
import io
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from trainer.errors import ContentError
from trainer.io import MOST_MEGAPIXELS
from trainer.texts import first_line

__all__ = [
    "FORMATS",
    "MAX_PIXELS",
    "MAX_SIDE_PX",
    "OTHER_SUFFIXES",
    "PICTURE_SUFFIXES",
    "SUFFIXES",
    "Picture",
    "Pixels",
    "as_seen",
    "open_header",
    "read_picture",
    "upright",
]

Pixels = npt.NDArray[np.uint8]


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of pictures."""

    name: str
    suffixes: tuple[str, ...]
    """File name endings, in lower case."""
    is_read: bool = True
    is_in_browsers: bool = True
    """Whether all current browsers decode it."""


@dataclasses.dataclass(frozen=True)
class Formats:
    """The formats of pictures that anything here knows of. Others are no pictures."""

    rows: tuple[Format, ...]

    @property
    def names(self) -> str:
        """The formats that are read, for sentences, such as `JPEG, PNG, WebP, GIF, TIFF or BMP`."""
        return _listed([each.name for each in self.rows if each.is_read])

    @property
    def browser_names(self) -> str:
        """The formats that browsers decode, for sentences."""
        return _listed([each.name for each in self.rows if each.is_in_browsers])

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File name endings of the formats that are read."""
        return tuple(suffix for each in self.rows if each.is_read for suffix in each.suffixes)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


FORMATS = Formats(
    (
        Format("JPEG", (".jpg", ".jpeg", ".jpe", ".jfif")),
        Format("PNG", (".png",)),
        Format("WebP", (".webp",)),
        Format("GIF", (".gif",)),
        Format("TIFF", (".tif", ".tiff"), is_in_browsers=False),
        Format("AVIF", (".avif",), is_read=False),
        Format("BMP", (".bmp",)),
        Format("HEIC", (".heic", ".heif"), is_read=False, is_in_browsers=False),
    )
)
SUFFIXES = FORMATS.suffixes
"""File name endings of the formats that are read."""
OTHER_SUFFIXES = tuple(suffix for each in FORMATS.rows if not each.is_read for suffix in each.suffixes)
"""File name endings of the formats that are not read."""
PICTURE_SUFFIXES = (*SUFFIXES, *OTHER_SUFFIXES)
"""File name endings of all formats. A file or a name in a table with one of them is a picture's, wherever it is: a
picture of a format that is not read is refused by name."""
PILLOW_FORMATS = tuple(each.name.upper() for each in FORMATS.rows if each.is_read)
"""The only formats that Pillow may decode."""
REMEDY = "download or export it again"
OTHER_FORMATS = {
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "HEIC"),
}
"""Brand, bytes 8 to 11 of an ISO media file (ISO/IEC 23008-12, AV1 Image File Format) -> the name of its format,
which is not read."""
MAX_PIXELS = int(MOST_MEGAPIXELS * 10**6)
"""Pixels of the largest image that is read by default."""
MAX_SIDE_PX = 65_535
"""JPEG's limit. Memory grows with the sides, too."""
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> the operation that turns the pixels upright."""
Image.MAX_IMAGE_PIXELS = None  # `Picture` checks the size itself, before decoding and with a limit that users set

# What is wrong with the pixels is raised too, and nothing else concerns people. Warnings that are ignored
# around each call would be so in all threads.
logging.getLogger("PIL").addHandler(logging.NullHandler())
warnings.filterwarnings("ignore", module=r"PIL\.")


def read_picture(data: bytes, origin: str, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Decode a JPEG, PNG, WebP, GIF, TIFF or BMP.

    Example:
        >>> pixels = read_picture(pathlib.Path("photo.jpg").read_bytes(), "photo.jpg")

    Args:
        data: the file's content.
        origin: the file's name in error messages.
        max_pixels: a larger image is refused before it is decoded.

    Returns:
        (h, w, 3) uint8 RGB, upright by its EXIF orientation. Transparent pixels are blended with white. Of an
        animation it is the first frame. 16-bit grey levels are divided by 257, 32-bit and float levels by their
        maximum.

    Raises:
        ContentError: the data is not such an image, is damaged, or too large.
    """
    return Picture(data, origin, max_pixels).decode()


def as_seen(picture: Image.Image) -> Image.Image:
    """An opened image in mode RGB, as `read_picture` decodes it. Raises whatever Pillow raises."""
    return _rgb(upright(picture))


def upright(picture: Image.Image) -> Image.Image:
    """An opened image in its own mode, turned by its EXIF orientation. Raises whatever Pillow raises."""
    picture.load()
    method = UPRIGHT.get(orientation_of(picture))
    return picture if method is None else picture.transpose(method)


class Picture:
    """An image with its header read. Its pixels are decoded later, unless a PNG has EXIF tags behind them.

    Raises:
        ContentError: the data is not an image of PILLOW_FORMATS, or it is damaged or too large.
    """

    def __init__(self, data: bytes, origin: str, max_pixels: int = MAX_PIXELS) -> None:
        self._origin = origin
        self._picture = _open(data, origin)
        width, height = self._picture.size
        shape = f"{origin} is {width:,} pixels wide and {height:,} high"
        if width * height > max_pixels:
            megapixels = f"{width * height / 10**6:,.0f} megapixels"
            allowed = f"{max_pixels / 10**6:,g}"
            raise ContentError(
                f"{shape}, {megapixels}. At most {allowed} are allowed: shrink it, or allow more megapixels"
            )
        if max(width, height) > MAX_SIDE_PX:
            raise ContentError(f"{shape}. A side has at most {MAX_SIDE_PX:,}: cut it into parts")
        if self._picture.format == "PNG" and "exif" not in self._picture.info and b"eXIf" in data:
            self._load()

    @property
    def size(self) -> tuple[int, int]:
        """(h, w) of the upright pixels."""
        width, height = self._picture.size
        return (width, height) if orientation_of(self._picture) >= 5 else (height, width)

    @property
    def format(self) -> str:
        """Pillow's name of the format."""
        return self._picture.format or ""

    def decode(self, convert: Callable[[Image.Image], Image.Image] = as_seen) -> npt.NDArray[Any]:
        """(h, w, 3) uint8 RGB, or the pixels of the image that `convert` makes of the opened one.

        Can be called once, because it frees the decoder's memory.
        """
        self._load()
        try:
            return np.asarray(convert(self._picture))
        except Exception as error:
            raise _undecodable(self._origin, error, self._picture.format) from None
        finally:
            self._picture.close()

    def _load(self) -> None:
        try:
            self._picture.load()
        except Exception as error:  # Pillow's decoders raise whatever their parsing meets, down to struct.error
            self._picture.close()
            raise _undecodable(self._origin, error, self._picture.format) from None


def open_header(data: bytes) -> ImageFile:
    """Open an image of PILLOW_FORMATS without decoding it. Raises whatever Pillow raises."""
    return Image.open(io.BytesIO(data), formats=PILLOW_FORMATS)


def _open(data: bytes, origin: str) -> ImageFile:
    if not data:
        raise ContentError(f"{origin} is empty (0 bytes): {REMEDY}")
    try:
        return open_header(data)
    except UnidentifiedImageError:
        other = OTHER_FORMATS.get(data[8:12], "") if data[4:8] == b"ftyp" else ""
        if other:
            raise ContentError(f"{origin} is {other}, which is not read. Save it as PNG") from None
        raise ContentError(f"{origin} is not a {FORMATS.names}, or its header is damaged") from None
    except Exception as error:
        raise _undecodable(origin, error) from None


def _undecodable(origin: str, error: Exception, format: str | None = None) -> ContentError:
    """The error about a file from which Pillow decodes no pixels."""
    reason = first_line(error)
    if format == "PNG" or "truncated" in reason.lower():  # Pillow has a dozen texts for a cut or damaged PNG
        return ContentError(f"{origin} is cut short or damaged: {REMEDY}")
    return ContentError(f"{origin} does not decode{f' as {format}' if format else ''} ({reason}): {REMEDY}")


def orientation_of(picture: Image.Image) -> int:
    """The EXIF orientation, without decoding the pixels. 1 if there is none, or if Pillow applies it itself.

    Example: 6 for a photograph that is turned by 90 degrees.
    """
    if picture.format == "TIFF" or (picture.format == "PNG" and "exif" not in picture.info):
        return 1  # Pillow turns a TIFF itself, and would decode a PNG to look for tags behind its pixels
    try:
        orientation = int(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        return 1  # a damaged tag says nothing about the pixels
    return orientation if orientation in UPRIGHT else 1


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith(("I", "F")):
        return Image.fromarray(_eight_bits(np.asarray(picture), picture.mode)).convert("RGB")
    if picture.has_transparency_data:
        # `convert` would copy an RGBA image, and a variable would keep the white one: each takes 4 bytes a pixel.
        rgba = picture if picture.mode == "RGBA" else picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), rgba).convert("RGB")
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _eight_bits(values: npt.NDArray[Any], mode: str) -> Pixels:
    finite = np.nan_to_num(values.astype(np.float32), copy=False, nan=0, posinf=0, neginf=0)
    maximum = 65535.0 if mode.startswith("I;16") else max(float(finite.max()), 1e-12)
    levels: Pixels = np.round(np.clip(finite, 0, maximum) / maximum * 255).astype(np.uint8)
    return levels
