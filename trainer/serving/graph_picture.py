"""What `trainer.prediction.picture` does, in TensorFlow's operations, for an exported model that reads by itself.

Only operations that TensorFlow 2.15 has on processors. Other than there, WebP, TIFF and GIF are not read (of a GIF
TensorFlow decodes every frame at whatever size it has, without a limit); nor are BMPs with a palette, whose
numbers TensorFlow takes for shades of grey. Ignored are the transparent colour of a PNG without a palette, and an
orientation outside a JPEG's EXIF.
"""

import tensorflow as tf

from trainer.prediction.picture import MOST_PIXELS, MOST_SIDE_PX, ORIENTATION

HEADER_BYTES = 2**18
"""How far into a JPEG its EXIF is looked for; a segment of a JPEG has at most a quarter of it."""
MOST_SEGMENTS = 64
"""After so many segments of a JPEG its EXIF, which is to be the first, is looked for no more."""
EXIF, LITTLE_ENDIAN = 0x45786966, 0x4949  # "Exif", "II"
SEGMENT, APP1, START_OF_SCAN = 0xFF, 0xFFE1, 0xFFDA


def read_picture(encoded: tf.Tensor) -> tf.Tensor:
    """Decode a JPEG, PNG or BMP.

    Args:
        encoded: scalar string, a file's content.

    Returns:
        (h, w, 3) uint8 RGB, upright by its EXIF orientation; transparency is over white. (0, 0, 3) of anything
        else, of what is damaged, and of more than MOST_PIXELS or MOST_SIDE_PX: an error would be that of all
        pictures of a batch, which a server makes of several callers' requests.
    """
    nothing = tf.data.Dataset.from_tensors(tf.zeros((0, 0, 3), tf.uint8))
    # A graph has no other way to go on after an error.
    decoded = tf.data.Dataset.from_tensors(encoded).map(_decode).ignore_errors()
    return decoded.concatenate(nothing).take(1).get_single_element()


@tf.function  # type: ignore[untyped-decorator]
def _decode(encoded: tf.Tensor) -> tf.Tensor:
    header = _Bytes(encoded)
    height, width = _size(encoded, header)
    sides_fit = tf.maximum(height, width) <= MOST_SIDE_PX
    fits = sides_fit and height * width > 0 and height * width <= MOST_PIXELS
    # TensorFlow may run a decoder before an assertion, because decoders have no state. The data itself makes them
    # wait: they get no bytes of a picture that is refused, and each fails on that without decoding anything.
    encoded = tf.where(fits, encoded, b"")
    if header.is_jpeg:
        picture = tf.io.decode_jpeg(encoded, dct_method="INTEGER_ACCURATE")  # as Pillow does
    else:
        picture = tf.io.decode_image(encoded, expand_animations=False)
    picture.set_shape((None, None, None))
    return _upright(_rgb(picture, header), _orientation(header))


class _Bytes:
    """The numbers in a file's header; zeros behind its end."""

    def __init__(self, encoded: tf.Tensor) -> None:
        content = tf.io.decode_raw(tf.strings.substr(encoded, 0, HEADER_BYTES), tf.uint8)
        self._bytes = tf.pad(tf.cast(content, tf.int64), [[0, 1]])

    def number(self, at: tf.Tensor, length: int, little: bool | tf.Tensor = False) -> tf.Tensor:
        """The unsigned number of `length` bytes at each place of `at`, of its shape, int64."""
        places = tf.cast(at, tf.int64)[..., None] + tf.range(length, dtype=tf.int64)
        digits = tf.gather(self._bytes, tf.minimum(places, tf.size(self._bytes, tf.int64) - 1))
        weights = [256**power for power in range(length)]
        ordered = tf.where(little, tf.constant(weights, tf.int64), tf.constant(weights[::-1], tf.int64))
        return tf.reduce_sum(digits * ordered, axis=-1)

    @property
    def is_jpeg(self) -> tf.Tensor:
        return self.number(0, 2) == 0xFFD8

    @property
    def is_png(self) -> tf.Tensor:
        return self.number(0, 4) == 0x89504E47


def _size(encoded: tf.Tensor, header: _Bytes) -> tuple[tf.Tensor, tf.Tensor]:
    """(h, w) that the picture's header announces, int64, 0 where it is of no known kind."""
    if header.is_jpeg:
        height, width = tf.unstack(tf.cast(tf.image.extract_jpeg_shape(encoded)[:2], tf.int64))
    elif header.is_png:
        height, width = header.number(20, 4), header.number(16, 4)
    elif header.number(0, 2) == 0x424D and header.number(28, 2, True) >= 24:  # a BMP without a palette
        # A negative height begins at the top.
        height, width = header.number(22, 4, True), header.number(18, 4, True)
        height = tf.minimum(height, 2**32 - height)
    else:
        height, width = tf.constant(0, tf.int64), tf.constant(0, tf.int64)
    return height, width


def _rgb(picture: tf.Tensor, header: _Bytes) -> tf.Tensor:
    """(h, w, c) with any channels to (h, w, 3): grey repeated, a PNG's transparency over white."""
    channels = tf.shape(picture)[2]
    colours = tf.where(channels < 3, 1, 3)
    rgb = picture[..., :colours]
    if header.is_png and channels % 2 == 0:
        opacity = tf.cast(picture[..., -1:], tf.float32) / 255
        rgb = tf.cast(tf.round(255 - (255 - tf.cast(rgb, tf.float32)) * opacity), tf.uint8)
    return tf.ensure_shape(tf.tile(rgb, [1, 1, 3 // colours]), (None, None, 3))


def _orientation(header: _Bytes) -> tf.Tensor:
    """The EXIF orientation of a JPEG, 1 to 8; 1 where it has none, or a damaged one, or is no JPEG."""
    at, segments = tf.constant(2, tf.int64), 0  # of a segment: marker, length, content
    while (
        segments < MOST_SEGMENTS
        and header.number(at, 1) == SEGMENT
        and header.number(at, 2) != START_OF_SCAN
        and not (header.number(at, 2) == APP1 and header.number(at + 4, 4) == EXIF)
    ):
        at, segments = at + 2 + header.number(at + 2, 2), segments + 1
    tiff = at + 10
    little = header.number(tiff, 2) == LITTLE_ENDIAN
    directory = tiff + header.number(tiff + 4, 4, little)
    entries = directory + 2 + 12 * tf.range(header.number(directory, 2, little))
    has_it = header.number(entries, 2, little) == ORIENTATION
    orientation = tf.concat([header.number(tf.boolean_mask(entries, has_it) + 8, 2, little), [1]], axis=0)[0]
    is_one = header.number(at + 4, 4) == EXIF and orientation >= 1 and orientation <= 8
    return tf.where(is_one, orientation, 1)


def _upright(picture: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """(h, w, 3) turned and mirrored as the EXIF orientation asks: transposed first from 5 on."""
    order = tf.where(orientation >= 5, [1, 0, 2], [0, 1, 2])
    mirrored = tf.stack([tf.reduce_any(orientation == [3, 4, 7, 8]), tf.reduce_any(orientation == [2, 3, 6, 7])])
    upright = tf.reverse(tf.transpose(picture, order), tf.where(mirrored)[:, 0])
    return tf.ensure_shape(upright, (None, None, 3))
