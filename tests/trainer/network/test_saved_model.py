"""The SavedModel: its signatures give the maps of the network, in a process without this project.

Its decoder gives the pixels that Pillow gives; an invalid image is empty instead of an error.
"""

import io
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import ExifTags, Image

from tests.golden.inputs import image
from tests.golden.weights import set_golden_weights
from tests.narrow import narrowed
from tests.refusals import refused
from tests.refused_pictures import LARGE, PNG, chunk, png_header
from trainer.errors import MismatchError
from trainer.network import preprocess, saved_model
from trainer.network.load import load_model
from trainer.network.model_folder import MODEL_WEIGHTS, SAVED_MODEL
from trainer.network.msinet.keras_model import build_model
from trainer.network.preprocess import Frame
from trainer.pictures import MAX_SIDE_PX, read_picture

GOLDEN = np.load("tests/golden/msinet_reference.npz")
SIZE = (64, 80)
RANDOM = np.random.default_rng(0)
NOISE = RANDOM.integers(0, 256, (24, 36, 4), np.uint8)
SMOOTH = np.asarray(Image.fromarray(NOISE[:6, :9, :3]).resize((36, 24)))
NOT_DECODED = "Input is empty"
"""TensorFlow's message for an empty string."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder with the golden weights; no file of AutoGraph is left, nor its bytecode."""
    folder, scratch = tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("scratch")
    network = build_model((None, None), "float32")
    set_golden_weights(network)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(scratch))
        patch.setattr("sys.dont_write_bytecode", False)
        saved_model.write_model(network, folder, SIZE, {"image_size": SIZE})
    assert not list(scratch.rglob("__autograph_generated_file*"))
    return folder


def test_no_integers_are_transposed_of_which_tensorflow_would_print_an_error():
    graph = saved_model._decode.get_concrete_function(tf.TensorSpec((), tf.string)).graph.as_graph_def()
    assert graph.library.function
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    assert "Transpose" not in {node.op for node in nodes}


@pytest.fixture(scope="module")
def serve_bytes(folder):
    """A function from encoded images to the maps of the reloaded export."""
    signature = tf.saved_model.load(str(folder / SAVED_MODEL)).signatures["serve_bytes"]
    return lambda *contents: list(
        signature(image_bytes=tf.constant(contents, tf.string))["saliency_bytes"].numpy()
    )


def test_export_gives_the_maps_of_the_reference_without_this_project(folder, tmp_path):
    np.save(tmp_path / "in.npy", GOLDEN["small_image"].astype(np.float32))
    code = (
        "import sys, numpy as np, tensorflow as tf\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "answer = model.signatures['serving_default'](input=tf.constant(np.load(sys.argv[2])))['output']\n"
        "np.save(sys.argv[3], answer.numpy())\n"
        "assert not [name for name in sys.modules if name.startswith('trainer')]\n"
    )
    paths = [str(folder / SAVED_MODEL), str(tmp_path / "in.npy"), str(tmp_path / "out.npy")]
    subprocess.run([sys.executable, "-P", "-c", code, *paths], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), GOLDEN["small_prediction"], atol=1e-4)


def test_served_bytes_are_the_restored_maps_of_images_of_several_sizes(folder, serve_bytes):
    images = [image(1, 1, 97, 131)[0], image(2, 1, 40, 200)[0]]
    maps = serve_bytes(*(tf.io.encode_png(each).numpy() for each in images))
    network = load_model(folder)
    for each, answer in zip(images, maps, strict=True):
        expected = preprocess.restore_map(network(Frame(SIZE).image(each)[None]).numpy()[0], each.shape[:2])
        levels = tf.io.decode_png(answer).numpy()
        assert levels.shape == expected.shape == (*each.shape[:2], 1)
        assert np.abs(levels.astype(int) - expected).max() <= 1


def peak_memory_kb():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="the peak is measured on Linux")
@pytest.mark.parametrize("size", [(10, 20_000), (20_000, 10), (1, MAX_SIDE_PX)])
def test_map_of_a_strip_needs_memory_for_its_own_size_only(serve_bytes, size):
    strip = tf.io.encode_png(np.full((*size, 3), 90, np.uint8)).numpy()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the current memory
    before = peak_memory_kb()
    (answer,) = serve_bytes(strip)
    assert tf.io.decode_png(answer).shape == (*size, 1)
    # The frame from which such a strip is cropped has at least 1.2 GB.
    assert peak_memory_kb() - before < 500_000


def test_invalid_image_loses_only_its_own_map(serve_bytes):
    good = tf.io.encode_png(image(1, 1, 33, 41)[0]).numpy()
    alone = serve_bytes(good)
    assert serve_bytes(b"no image", good, good[:50], good) == [b"", *alone, b"", *alone]
    assert serve_bytes() == []


def test_weights_are_in_the_export_once(folder):
    saved = sum(path.stat().st_size for path in (folder / SAVED_MODEL).rglob("*") if path.is_file())
    assert saved < 1.02 * 4 * 24_934_209


def test_export_with_other_maps_is_not_written(tmp_path, monkeypatch):
    load = tf.saved_model.load

    def load_with_another_bias(path):
        loaded = load(path)
        for variable in loaded._variables[-4:]:
            variable.assign_add(tf.random.stateless_normal(variable.shape, (1, 2)))
        return loaded

    monkeypatch.setattr(tf.saved_model, "load", load_with_another_bias)
    with narrowed(), refused(MismatchError, tmp_path):
        saved_model.write_model(build_model((None, None), "float32"), tmp_path, SIZE, {})
    assert [path.name for path in tmp_path.iterdir()] == [MODEL_WEIGHTS]


# === The decoder ===


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
def decode():
    compiled = tf.function(saved_model.decode_picture, [tf.TensorSpec((), tf.string)])
    traced = compiled.get_concrete_function()  # now, with the current limits
    return lambda content: traced(tf.constant(content)).numpy()


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("orientation", [None, *range(10), 700])
def test_jpegs_are_turned_as_pillow_turns_them(decode, orientation, endian):
    content = jpeg(orientation, endian)
    expected = read_picture(content, "it")
    assert expected.shape[:2] == ((36, 24) if orientation in (5, 6, 7, 8) else (24, 36))
    np.testing.assert_array_equal(decode(content), expected)


@pytest.mark.parametrize("kind", PICTURES)
def test_pixels_of_each_format_are_those_of_pillow(decode, kind):
    np.testing.assert_array_equal(decode(PICTURES[kind]), read_picture(PICTURES[kind], kind))


@pytest.mark.parametrize("kind", BAD)
def test_invalid_images_are_empty(decode, kind):
    assert decode(BAD[kind]).shape == (0, 0, 3)


@pytest.mark.parametrize(("limit", "value"), [("MAX_PIXELS", 24 * 36 - 1), ("MAX_SIDE_PX", 35)])
def test_size_limits_are_those_of_predict(decode, monkeypatch, limit, value):
    monkeypatch.setattr(saved_model, limit, value)
    limited = tf.function(saved_model._decode.python_function, [tf.TensorSpec((), tf.string)])
    for content in (jpeg(), *(PICTURES[kind] for kind in ("grey PNG", "BMP"))):
        assert decode(content).size
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_DECODED):
            limited(content)


@pytest.mark.parametrize("kind", LARGE)
def test_decoder_gets_no_bytes_of_refused_images(kind):
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_DECODED):
        saved_model._decode(tf.constant(LARGE[kind]))
