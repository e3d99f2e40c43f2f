"""Images of every format become RGB as people see them."""

import ast
import io
import pathlib
import re

import numpy as np
import pytest
from PIL import Image

import trainer
from tests.golden.inputs import image
from tests.refusals import refused
from trainer import pictures
from trainer.errors import ContentError
from trainer.pictures import Picture, read_picture

PIXELS = image(1, 1, 30, 44)[0]
ORIENTATIONS = {
    1: PIXELS,
    2: PIXELS[:, ::-1],
    3: PIXELS[::-1, ::-1],
    4: PIXELS[::-1],
    5: PIXELS.swapaxes(0, 1),
    6: PIXELS[::-1].swapaxes(0, 1),
    7: PIXELS[::-1, ::-1].swapaxes(0, 1),
    8: PIXELS[:, ::-1].swapaxes(0, 1),
}
"""EXIF orientation -> the pixels as people see them."""
PACKAGES = ("trainer", "lifecycle", "components", "pipeline", "studio")
LONGEST_NAMES = 60
"""Characters of a text that is a list of formats, and no docstring."""


def encoded(picture, format="PNG", **options):
    buffer = io.BytesIO()
    (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).save(buffer, format, **options)
    return buffer.getvalue()


def read(data, **options):
    return read_picture(data, "x.png", **options)


def test_the_formats_are_in_one_table():
    """Each list of its own would lack what is added to the others, as one once lacked .jfif."""
    suffixes = {*pictures.PICTURE_SUFFIXES}
    root = pathlib.Path(trainer.__file__).parent.parent
    listing = []
    for path in (path for package in PACKAGES for path in (root / package).rglob("*.py")):
        nodes = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        texts = {text for text in nodes if isinstance(text, str) and len(text) < LONGEST_NAMES}
        if len(texts & suffixes) > 2 or any("WebP" in text and "BMP" in text for text in texts):
            listing.append(path.relative_to(root).as_posix())
    assert listing == ["trainer/pictures.py"]


def test_what_is_read_and_what_browsers_decode_is_said():
    assert pictures.FORMATS.names == "JPEG, PNG, WebP, GIF, TIFF or BMP"
    assert pictures.FORMATS.browser_names == "JPEG, PNG, WebP, GIF, AVIF or BMP"
    assert set(pictures.SUFFIXES) > {".jpg", ".jfif", ".tiff"}
    assert not set(pictures.SUFFIXES) & set(pictures.OTHER_SUFFIXES)
    assert set(pictures.PICTURE_SUFFIXES) == {*pictures.SUFFIXES, *pictures.OTHER_SUFFIXES}


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA"])
@pytest.mark.parametrize("format", ["PNG", "TIFF", "GIF"])
def test_every_mode_becomes_rgb(mode, format):
    white = Image.new("RGB", (9, 5), "white").convert(mode)
    np.testing.assert_array_equal(read(encoded(white, format)), np.full((5, 9, 3), 255))


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP"])
def test_photographs_are_upright(orientation, format):
    tags = Image.Exif()
    tags[0x0112] = orientation
    options = {"lossless": True} if format == "WEBP" else {}
    data = encoded(PIXELS, format, exif=tags.tobytes(), **options)
    np.testing.assert_array_equal(read(data), ORIENTATIONS[orientation])
    assert Picture(data, "x").size == ORIENTATIONS[orientation].shape[:2]


@pytest.mark.parametrize("format", ["PNG", "WEBP", "TIFF"])
def test_transparent_pixels_are_blended_with_white(format):
    pixels = np.zeros((2, 3, 4), np.uint8)
    pixels[..., 3] = [[0, 51, 255]] * 2
    options = {"lossless": True, "exact": True} if format == "WEBP" else {}
    decoded = read(encoded(pixels, format, **options))
    np.testing.assert_array_equal(decoded[0, :, 0], [255, 204, 0])


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_sixteen_bits_are_divided_by_257(format):
    values = np.array([[0, 257, 25700, 65535, 128]], np.uint16)
    decoded = read(encoded(values, format))
    np.testing.assert_array_equal(decoded[0], np.repeat([[0], [1], [100], [255], [0]], 3, axis=1))


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_other_ranges_are_scaled_to_their_maximum(dtype):
    values = np.array([[-5, 0, 500, 1000]], dtype)
    np.testing.assert_array_equal(read(encoded(values, "TIFF"))[0, :, 0], [0, 0, 128, 255])


@pytest.mark.parametrize("format", ["GIF", "TIFF"])
def test_of_an_animation_the_first_frame_is_read(format):
    frames = [Image.new("RGB", (8, 6), color) for color in ("white", "black", "red")]
    options = {"lossless": True} if format == "WEBP" else {}
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:], **options)
    np.testing.assert_array_equal(read(data), np.full((6, 8, 3), 255))


def test_an_image_larger_than_allowed_is_refused_with_numbers():
    data = encoded(PIXELS)
    assert read(data, max_pixels=30 * 44).shape == PIXELS.shape
    with refused(ContentError, "x.png", 44, 30, "0.001319"):
        read(data, max_pixels=30 * 44 - 1)


def test_cut_file_is_said_in_a_sentence_with_its_name():
    for kind in ("PNG", "JPEG"):
        with refused(ContentError, "x.png"):
            read(encoded(PIXELS, kind)[:-200])
    with refused(ContentError, "x.png"):
        read(encoded(PIXELS, "PPM"))


def test_one_place_opens_files_with_pillow():
    """It has the list of formats; others would run Ghostscript and the rarest of Pillow's decoders."""
    root = pathlib.Path(trainer.__file__).parent.parent
    files = [
        path
        for package in ("trainer", "lifecycle", "components", "pipeline", "studio")
        for path in (root / package).rglob("*.py")
    ]
    opening = [path.name for path in files if re.search(r"\bImage\.open\(|imread|plt\.im", path.read_text())]
    assert opening == ["pictures.py"]
