"""Write a model's folder, and its network as a SavedModel for servers.

The SavedModel decodes images itself, in TensorFlow operations, as `trainer.pictures` does. It uses only
operations that TensorFlow 2.15 has on CPUs. Unlike there:

- WebP, TIFF and GIF are not read. Of a GIF TensorFlow decodes every frame at any size, without a limit.
- BMPs with a palette are not read. TensorFlow takes their indices for grey levels.
- A PNG's tRNS colour key is ignored unless it has a palette.
- An orientation outside a JPEG's EXIF is ignored.
"""

import importlib.util
import pathlib
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from PIL.ExifTags import Base

from trainer.errors import MismatchError, PlaceError
from trainer.io import replacing, write_json
from trainer.network import hdf5_files, load, preprocess, tensorflow_preprocess
from trainer.network.load import Trained
from trainer.network.model_folder import ASSETS_EXTRA, MODEL_CONFIG, MODEL_WEIGHTS, SAVED_MODEL, SIGNATURES
from trainer.pictures import MAX_PIXELS, MAX_SIDE_PX
from trainer.texts import first_line

TOLERANCE = 1e-5
"""Maximum difference allowed between the model and its reloaded export."""
NOTICE = "NOTICE.txt"
PREPARED = tf.TensorSpec((None, None, None, 3), tf.float32, "input")
ENCODED = tf.TensorSpec((None,), tf.string, "image_bytes")
HEADER_BYTES = 2**18
"""The part of a JPEG that is searched for EXIF. A segment of a JPEG has at most a quarter of this size."""
MAX_SEGMENTS = 64
"""Segments of a JPEG that are searched for EXIF, which should be the first."""
EXIF, LITTLE_ENDIAN = 0x45786966, 0x4949  # "Exif", "II"
HEADER_CHUNK = 0x49484452  # "IHDR", with which a PNG must begin
SEGMENT, APP1, START_OF_SCAN = 0xFF, 0xFFE1, 0xFFDA


def write_model(
    model: keras.Model,
    folder: pathlib.Path,
    image_size: tuple[int, int],
    summary: dict[str, Any],
    saved_model: bool = True,
) -> None:
    """Write WEIGHTS, SAVED_MODEL and MODEL_CONFIG into `folder`.

    Args:
        model: in float32 and of free size. After the call it has the weights that were read back from the file.
        folder: an existing folder.
        image_size: (H, W) to which `serve_bytes` fits an image.
        summary: content of MODEL_CONFIG.
        saved_model: whether to write SAVED_MODEL, too.

    Raises:
        UserError: as `write_saved_model`.
    """
    arrays = {f"{layer.name}/{weight.name}": weight.numpy() for layer in model.layers for weight in layer.weights}
    (folder / MODEL_WEIGHTS).write_bytes(hdf5_files.encode_hdf5(arrays))
    load.assign_arrays(model, hdf5_files.read_hdf5(folder / MODEL_WEIGHTS)[1], str(folder / MODEL_WEIGHTS))
    if saved_model:
        write_saved_model(load.trained_network(model, summary), image_size, folder / SAVED_MODEL)
    write_json(folder / MODEL_CONFIG, summary)


def write_saved_model(
    model: Trained,
    image_size: tuple[int, int],
    path: pathlib.Path,
    default: str = SIGNATURES[0],
    notice: str = "",
) -> None:
    """Write a SavedModel with both SIGNATURES, reload it, and compare it with the network.

    Args:
        model: as `load_model` returns it.
        image_size: (H, W) to which `serve_bytes` fits an image.
        path: folder to write. It is written only if the comparison succeeds.
        default: which of the SIGNATURES `serving_default` is, for requests that name no signature. With
            `serve_bytes` the export accepts encoded images only.
        notice: what users of the export must know, for the file NOTICE in its extra assets. Empty for none.

    Raises:
        UserError: it cannot be written, or the reloaded export gives other maps than the network.
    """
    servable = _Servable(model, image_size)
    signatures = {name: getattr(servable, name) for name in SIGNATURES}
    with replacing(path) as partial:
        try:
            tf.saved_model.save(servable, str(partial), signatures | {SIGNATURES[0]: signatures[default]})
        except tf.errors.OpError as error:
            raise PlaceError(
                f"cannot write {path} ({first_line(error)}). Free some space, or name another folder"
            ) from None
        finally:
            _remove_generated_code()
        if notice:
            (partial / ASSETS_EXTRA).mkdir()
            (partial / ASSETS_EXTRA / NOTICE).write_text(f"{notice}\n")
        _verify(model, partial, image_size, default)


def _remove_generated_code() -> None:
    """Remove the modules that AutoGraph has written for the save, and their bytecode, which it would leave."""
    for name, module in list(sys.modules.items()):
        if name.startswith("__autograph_generated_file") and module.__file__:
            for file in (module.__file__, importlib.util.cache_from_source(module.__file__)):
                pathlib.Path(file).unlink(missing_ok=True)


def _verify(model: Trained, path: pathlib.Path, image_size: tuple[int, int], default: str) -> None:
    signatures = tf.saved_model.load(str(path)).signatures
    stimulus = np.random.default_rng(0).integers(0, 256, (1, *image_size, 3)).astype(np.float32)
    expected = model(stimulus).numpy()
    difference = 0.0
    if default == SIGNATURES[0]:
        exported = signatures[default](input=tf.constant(stimulus))["output"].numpy()
        difference = float(np.abs(exported - expected).max())
    encoded = tf.io.encode_png(tf.cast(stimulus[0], tf.uint8))
    served = signatures["serve_bytes"](image_bytes=encoded[None])["saliency_bytes"][0]
    levels = tf.io.decode_png(served).numpy().astype(int)
    level_difference = np.abs(levels - preprocess.restore_map(expected[0], image_size)).max()
    if not (difference <= TOLERANCE and level_difference <= 1):
        raise MismatchError(
            f"the export gives other maps than the network: they differ by up to {difference:.2g} on 0..1, or "
            f"{level_difference} grey levels. Nothing was exported to {path.parent}"
        )


class _Servable(tf.Module):  # type: ignore[misc]
    """The export's signatures around a network of free size."""

    def __init__(self, model: Trained, image_size: tuple[int, int]) -> None:
        super().__init__(name="msinet")
        self._image_size = image_size
        self._variables = [variable.value for variable in model.network.variables]  # tracked, hence saved
        self._network = model  # not tracked, or every variable would be saved twice

    @tf.function(input_signature=[PREPARED], autograph=False)  # type: ignore[untyped-decorator]
    def serving_default(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Prepared images (N, H, W, 3), 0..255, to maps (N, H, W, 1) in [0, 1].

        H and W are divisible by the network's stride.
        """
        return {"output": self._network(images)}

    @tf.function(input_signature=[ENCODED], autograph=False)  # type: ignore[untyped-decorator]
    def serve_bytes(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Encoded images to 8-bit PNG maps of the upright images' own sizes. An invalid image has an empty string.

        Two run at a time: memory does not grow with their number, and one is decoded while another is predicted.
        """
        return {"saliency_bytes": tf.map_fn(self._serve_one, image_bytes, parallel_iterations=2)}

    def _serve_one(self, encoded: tf.Tensor) -> tf.Tensor:
        image = decode_picture(encoded)
        return tf.cond(tf.size(image) > 0, lambda: self._encoded_map(image), lambda: tf.constant(b""))

    def _encoded_map(self, image: tf.Tensor) -> tf.Tensor:
        # The other signature is called, since to trace the network takes longer than all else of an export.
        prediction = self.serving_default(tensorflow_preprocess.prepare_stimulus(image, self._image_size)[None])[
            "output"
        ][0]
        return tf.io.encode_png(tensorflow_preprocess.restore_map(prediction, tf.shape(image)[:2]))


def decode_picture(encoded: tf.Tensor) -> tf.Tensor:
    """Decode a JPEG, PNG or BMP.

    Args:
        encoded: scalar string, a file's content.

    Returns:
        (h, w, 3) uint8 RGB, upright by its EXIF orientation. Transparent pixels are blended with white. (0, 0, 3)
        if the image has another format, is damaged, or exceeds MAX_PIXELS or MAX_SIDE_PX: an error would fail
        the whole batch, and a server puts the requests of several callers into one.
    """
    nothing = tf.data.Dataset.from_tensors(tf.zeros((0, 0, 3), tf.uint8))
    # A graph has no other way to continue after an error.
    decoded = tf.data.Dataset.from_tensors(encoded).map(_decode).ignore_errors()
    return decoded.concatenate(nothing).take(1).get_single_element()


@tf.function(autograph=False)  # type: ignore[untyped-decorator]
def _decode(encoded: tf.Tensor) -> tf.Tensor:
    header = _Bytes(encoded)
    height, width = _size(encoded, header)
    sides_fit = tf.maximum(height, width) <= MAX_SIDE_PX
    fits = sides_fit & (height * width > 0) & (height * width <= MAX_PIXELS)
    # TensorFlow may run a decoder before an assertion, because decoders have no state. So the check is made by the
    # data: of a refused image the decoders get an empty string, on which they fail without decoding anything.
    encoded = tf.where(fits, encoded, b"")
    picture = tf.cond(
        header.is_jpeg,
        lambda: tf.io.decode_jpeg(encoded, dct_method="INTEGER_ACCURATE"),  # as Pillow does
        lambda: tf.io.decode_image(encoded, expand_animations=False),
    )
    picture.set_shape((None, None, None))
    return _upright(_rgb(picture, header), _orientation(header))


class _Bytes:
    """The numbers in a file's header, and zeros after its end."""

    def __init__(self, encoded: tf.Tensor) -> None:
        content = tf.io.decode_raw(tf.strings.substr(encoded, 0, HEADER_BYTES), tf.uint8)
        self._bytes = tf.pad(tf.cast(content, tf.int64), [[0, 1]])

    def number(self, at: tf.Tensor, length: int, little: bool | tf.Tensor = False) -> tf.Tensor:
        """The unsigned numbers of `length` bytes at the places `at`, in its shape, int64."""
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
        # libpng skips unknown chunks before the header, so that other numbers could stand where `_size` reads it.
        return (self.number(0, 4) == 0x89504E47) & (self.number(12, 4) == HEADER_CHUNK)


def _size(encoded: tf.Tensor, header: _Bytes) -> tuple[tf.Tensor, tf.Tensor]:
    """(h, w) from the image's header, int64. Both are 0 for an unknown format, such as WebP."""

    def of_jpeg() -> tf.Tensor:
        return tf.cast(tf.image.extract_jpeg_shape(encoded)[:2], tf.int64)

    def of_png() -> tf.Tensor:
        return tf.stack([header.number(20, 4), header.number(16, 4)])

    def of_bmp() -> tf.Tensor:
        height = header.number(22, 4, True)
        # A negative height means that rows begin at the top.
        return tf.stack([tf.minimum(height, 2**32 - height), header.number(18, 4, True)])

    is_bmp = (header.number(0, 2) == 0x424D) & (header.number(28, 2, True) >= 24)  # one without a palette
    kinds = [(header.is_jpeg, of_jpeg), (header.is_png, of_png), (is_bmp, of_bmp)]
    height, width = tf.unstack(tf.case(kinds, lambda: tf.zeros(2, tf.int64)))
    return height, width


def _rgb(picture: tf.Tensor, header: _Bytes) -> tf.Tensor:
    """(h, w, c) with any channels to (h, w, 3): grey repeated, a PNG's transparent pixels blended with white."""
    channels = tf.shape(picture)[2]
    colours = tf.where(channels < 3, 1, 3)
    rgb = picture[..., :colours]

    def over_white() -> tf.Tensor:
        opacity = tf.cast(picture[..., -1:], tf.float32) / 255
        return tf.cast(tf.round(255 - (255 - tf.cast(rgb, tf.float32)) * opacity), tf.uint8)

    rgb = tf.cond(header.is_png & (channels % 2 == 0), over_white, lambda: rgb)
    return tf.ensure_shape(tf.tile(rgb, [1, 1, 3 // colours]), (None, None, 3))


def _orientation(header: _Bytes) -> tf.Tensor:
    """The EXIF orientation of a JPEG, 1 to 8. It is 1 without one, if it is damaged, and for other formats.

    Example: a picture with 6 must be turned to the right by a quarter.
    """

    def continues(at: tf.Tensor) -> tf.Tensor:
        marker, is_exif = header.number(at, 2), header.number(at + 4, 4) == EXIF
        is_segment = header.number(at, 1) == SEGMENT
        return is_segment & (marker != START_OF_SCAN) & ~((marker == APP1) & is_exif)

    def after(at: tf.Tensor) -> tuple[tf.Tensor]:
        return (at + 2 + header.number(at + 2, 2),)

    # A segment consists of marker, length and content.
    (at,) = tf.while_loop(continues, after, (tf.constant(2, tf.int64),), maximum_iterations=MAX_SEGMENTS)
    tiff = at + 10
    little = header.number(tiff, 2) == LITTLE_ENDIAN
    directory = tiff + header.number(tiff + 4, 4, little)
    entries = directory + 2 + 12 * tf.range(header.number(directory, 2, little))
    is_orientation = header.number(entries, 2, little) == Base.Orientation
    values = header.number(tf.boolean_mask(entries, is_orientation) + 8, 2, little)
    orientation = tf.concat([values, [1]], axis=0)[0]
    is_valid = (header.number(at + 4, 4) == EXIF) & (orientation >= 1) & (orientation <= 8)
    return tf.where(is_valid, orientation, 1)


def _upright(picture: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """(h, w, 3) turned and mirrored by the EXIF orientation. From 5 on it is transposed first."""

    def transposed() -> tf.Tensor:
        # By a gather: of a transposition of integers, TensorFlow prints an error on a CPU without AVX-512.
        height, width = tf.unstack(tf.shape(picture)[:2])
        return tf.gather(tf.reshape(picture, (-1, 3)), tf.range(width)[:, None] + width * tf.range(height))

    picture = tf.cond(orientation >= 5, transposed, lambda: picture)
    mirrored = tf.stack([tf.reduce_any(orientation == [3, 4, 7, 8]), tf.reduce_any(orientation == [2, 3, 6, 7])])
    upright = tf.reverse(picture, tf.where(mirrored)[:, 0])
    return tf.ensure_shape(upright, (None, None, 3))
