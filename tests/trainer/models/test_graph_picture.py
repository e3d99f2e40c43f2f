"""Graph operations decode images as Pillow does; an invalid image is empty instead of an error."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import ExifTags, Image

from tests.refused_pictures import LARGE, PNG, chunk, png_header
from trainer import picture
from trainer.models import saved_model

RANDOM = np.random.default_rng(0)
NOISE = RANDOM.integers(0, 256, (24, 36, 4), np.uint8)
SMOOTH = np.asarray(Image.fromarray(NOISE[:6, :9, :3]).resize((36, 24)))
DEEP = RANDOM.integers(0, 65536, (24, 36), np.uint16)
NOT_DECODED = "Input is empty"
"""TensorFlow's message for an empty string."""


def encode(image, kind, **options):
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def jpeg(orientation=None, endian="<", **options):
    tags = Image.Exif()
    tags.endian = endian
    tags[0x010F] = "a maker, so that the orientation is not the first tag"
    if orientation is not None:
        tags[ExifTags.Base.Orientation] = orientation
    return encode(Image.fromarray(SMOOTH), "JPEG", exif=tags, **options)


PICTURES = {
    "grey PNG": encode(Image.fromarray(NOISE[..., 0]), "PNG"),
    "grey PNG with alpha": encode(Image.fromarray(NOISE[..., :2], "LA"), "PNG"),
    "PNG with alpha": encode(Image.fromarray(NOISE), "PNG"),
    "PNG with one bit": encode(Image.fromarray(NOISE[..., 0] > 99), "PNG"),
    "PNG with a palette": encode(Image.fromarray(SMOOTH).quantize(16), "PNG"),
    "PNG with a transparent palette": encode(Image.fromarray(SMOOTH).quantize(16), "PNG", transparency=3),
    "BMP": encode(Image.fromarray(NOISE[..., :3]), "BMP"),
    "BMP of 32 bits, whose last byte is no alpha": encode(Image.fromarray(NOISE), "BMP"),
    "grey JPEG": encode(Image.fromarray(SMOOTH[..., 0]), "JPEG"),
    "CMYK JPEG": encode(Image.fromarray(SMOOTH).convert("CMYK"), "JPEG"),
    "progressive JPEG behind an ICC profile": jpeg(6, progressive=True, icc_profile=bytes(70_000)),
}
BAD = {
    "nothing": b"",
    "one byte": b"\xff",
    "text": b"no picture",
    "a cut JPEG": jpeg()[:400],
    "the start of a JPEG": jpeg()[:4],
    "a cut PNG": PICTURES["PNG with alpha"][:100],
    "a WebP": encode(Image.fromarray(SMOOTH), "WEBP"),
    "a GIF, whose frames may be larger than it announces": encode(Image.fromarray(SMOOTH).quantize(64), "GIF"),
    "a BMP with a palette": encode(Image.fromarray(SMOOTH).quantize(64), "BMP"),
    "a PNG that announces 4 gigapixels": PNG + png_header(2**16),
    "a PNG with a chunk before its header": PNG + chunk(b"abCd", b"") + PICTURES["grey PNG"][len(PNG) :],
}


@pytest.fixture(scope="module")
def read():
    compiled = tf.function(saved_model.decode_picture, [tf.TensorSpec((), tf.string)])
    traced = compiled.get_concrete_function()  # now, with the current limits
    return lambda content: traced(tf.constant(content)).numpy()


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("orientation", [None, *range(10), 700])
def test_jpegs_are_turned_as_pillow_turns_them(read, orientation, endian):
    content = jpeg(orientation, endian)
    expected = picture.read_picture(content, "it")
    assert expected.shape[:2] == ((36, 24) if orientation in (5, 6, 7, 8) else (24, 36))
    np.testing.assert_array_equal(read(content), expected)


@pytest.mark.parametrize("kind", PICTURES)
def test_pixels_of_each_format_are_those_of_pillow(read, kind):
    np.testing.assert_array_equal(read(PICTURES[kind]), picture.read_picture(PICTURES[kind], kind))


def test_sixteen_bits_become_eight_within_one_level(read):
    content = encode(Image.fromarray(DEEP), "PNG")
    expected = picture.read_picture(content, "it").astype(int)
    assert np.abs(read(content) - expected).max() <= 1


@pytest.mark.parametrize("kind", BAD)
def test_invalid_images_are_empty(read, kind):
    assert read(BAD[kind]).shape == (0, 0, 3)


def test_exif_is_searched_at_the_start_only(read):
    start = jpeg(6)
    segment = b"\xff\xfe\0\2"  # an empty comment
    near, far = (start[:2] + segment * count + start[2:] for count in (40, 65))
    assert (read(near).shape, read(far).shape) == ((36, 24, 3), (24, 36, 3))


def test_damaged_exif_does_not_turn_the_image(read):
    whole = jpeg(6)
    start = whole.index(b"Exif")
    upright = read(jpeg(1))
    for at in range(start, start + 60):
        damaged = whole[:at] + b"\xff" + whole[at + 1 :]
        assert read(damaged).shape in {(24, 36, 3), (36, 24, 3)}
    np.testing.assert_array_equal(read(whole.replace(b"Exif", b"Exit")), upright)


@pytest.mark.parametrize(("limit", "value"), [("MAX_PIXELS", 24 * 36 - 1), ("MAX_SIDE_PX", 35)])
def test_size_limits_are_those_of_predict(read, monkeypatch, limit, value):
    monkeypatch.setattr(saved_model, limit, value)
    limited = tf.function(saved_model._decode.python_function, [tf.TensorSpec((), tf.string)])
    for content in (jpeg(), *(PICTURES[kind] for kind in ("grey PNG", "BMP"))):
        assert read(content).size
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_DECODED):
            limited(content)


@pytest.mark.parametrize("kind", LARGE)
def test_decoder_gets_no_bytes_of_refused_images(kind):
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_DECODED):
        saved_model._decode(tf.constant(LARGE[kind]))
