"""The SavedModel: its signatures answer as the network does, in a process that knows nothing of this project."""

import io
import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.golden.inputs import image
from tests.golden.weights import set_golden_weights
from trainer import export, preprocess
from trainer.__main__ import main
from trainer.artifacts import MODEL_CONFIG, SAVED_MODEL, WEIGHTS
from trainer.errors import UserError
from trainer.model import build_model
from trainer.picture import read_picture
from trainer.predict import predict

GOLDEN = np.load("tests/golden/msinet_reference.npz")
SIZE = (64, 80)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder with the golden weights."""
    folder = tmp_path_factory.mktemp("model")
    network = build_model((None, None), "float32")
    set_golden_weights(network, GOLDEN["variables"])
    network.save_weights(folder / WEIGHTS)
    export.write_model(folder, SIZE, {"image_size": SIZE})
    return folder


@pytest.fixture(scope="module")
def serve_bytes(folder):
    """From encoded images to what the reloaded export answers."""
    signature = tf.saved_model.load(str(folder / SAVED_MODEL)).signatures["serve_bytes"]
    return lambda *contents: list(
        signature(image_bytes=tf.constant(contents, tf.string))["saliency_bytes"].numpy()
    )


def test_export_answers_as_the_reference_without_this_project(folder, tmp_path):
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
    answers = serve_bytes(*(tf.io.encode_png(each).numpy() for each in images))
    network = export.load_model(folder)
    for each, answer in zip(images, answers, strict=True):
        expected = preprocess.restore_map(
            network(preprocess.prepare_stimulus(each, SIZE)[None]).numpy()[0], each.shape[:2]
        )
        levels = tf.io.decode_png(answer).numpy()
        assert levels.shape == expected.shape == (*each.shape[:2], 1)
        assert np.abs(levels.astype(int) - expected).max() <= 1


def test_bad_image_costs_its_own_map_only(serve_bytes):
    good = tf.io.encode_png(image(1, 1, 33, 41)[0]).numpy()
    alone = serve_bytes(good)
    assert serve_bytes(b"no image", good, good[:50], good) == [b"", *alone, b"", *alone]
    assert serve_bytes() == []


def test_map_of_a_turned_photograph_is_upright(folder, serve_bytes):
    tags = Image.Exif()
    tags[0x0112] = 6
    content = io.BytesIO()
    Image.fromarray(image(1, 1, 40, 96)[0]).save(content, "JPEG", exif=tags, quality=95)
    (answer,) = serve_bytes(content.getvalue())
    network = export.load_model(folder)
    upright = read_picture(content.getvalue(), "it")
    expected = preprocess.restore_map(
        network(preprocess.prepare_stimulus(upright, SIZE)[None]).numpy()[0], (96, 40)
    )
    levels = tf.io.decode_png(answer).numpy()
    assert levels.shape == (96, 40, 1)
    assert np.abs(levels.astype(int) - expected).max() <= 1


def test_weights_are_in_the_export_once(folder):
    saved = sum(path.stat().st_size for path in (folder / SAVED_MODEL).rglob("*") if path.is_file())
    assert saved < 1.02 * 4 * 24_934_209


def test_export_can_answer_encoded_images_by_default(folder, serve_bytes, tmp_path):
    path = tmp_path / "export"
    export.write_saved_model(export.load_model(folder), SIZE, path, default="serve_bytes")
    loaded = tf.saved_model.load(str(path))
    good = tf.io.encode_png(image(1, 1, 33, 41)[0]).numpy()
    answers = [loaded.signatures[name](image_bytes=tf.constant([good])) for name in export.SIGNATURES]
    assert [each["saliency_bytes"].numpy()[0] for each in answers] == serve_bytes(good) * 2


def test_export_that_answers_otherwise_does_not_count(folder, tmp_path, monkeypatch):
    (tmp_path / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes())
    load = tf.saved_model.load

    def load_with_another_bias(path):
        loaded = load(path)
        for variable in loaded._variables[-4:]:
            variable.assign_add(tf.random.stateless_normal(variable.shape, (1, 2)))
        return loaded

    monkeypatch.setattr(tf.saved_model, "load", load_with_another_bias)
    with pytest.raises(UserError, match="it does not count as exported"):
        export.write_model(tmp_path, SIZE, {})
    assert [path.name for path in tmp_path.iterdir()] == [WEIGHTS]


def test_predict_writes_maps_of_the_images_own_sizes(folder, tmp_path):
    sources = []
    for name, size in (("wide.png", (40, 100)), ("tall.jpg", (120, 50))):
        encode = tf.io.encode_png if name.endswith("png") else tf.io.encode_jpeg
        (tmp_path / name).write_bytes(encode(image(3, 1, *size)[0]).numpy())
        sources.append(str(tmp_path / name))
    written = predict(folder, sources, tmp_path / "maps")
    assert [path.name for path in written] == ["wide.png", "tall.png"]
    expected = export.load_model(folder)(preprocess.prepare_stimulus(image(3, 1, 40, 100)[0], SIZE)[None])[0]
    levels = tf.io.decode_png(written[0].read_bytes()).numpy()
    assert np.abs(levels.astype(int) - preprocess.restore_map(expected.numpy(), (40, 100))).max() <= 1
    assert tf.io.decode_png(written[1].read_bytes()).shape == (120, 50, 1)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a/one.png", "b/one.png"], "error: several images are called one"),
        (["missing.png"], "error: cannot read missing.png: No such file or directory"),
        (["text.png"], "error: text.png does not decode as a picture"),
    ],
)
def test_predict_says_what_is_wrong_with_an_image(folder, tmp_path, monkeypatch, names, message):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("text.png").write_text("no picture")
    with pytest.raises(SystemExit, match=message):
        main(["predict", *names, "--model", str(folder), "--output-dir", "maps"])
    assert not list(pathlib.Path().glob("maps/*"))


@pytest.mark.parametrize(
    ("place", "message"), [(".", "would take the place of the image"), ("one.png", "one.png is a file")]
)
def test_predict_never_writes_over_a_file_that_is_not_a_map(folder, tmp_path, monkeypatch, place, message):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("one.png").write_bytes(tf.io.encode_png(image(1, 1, 16, 16)[0]).numpy())
    before = pathlib.Path("one.png").read_bytes()
    with pytest.raises(UserError, match=message):
        predict(folder, ["one.png"], place)
    assert pathlib.Path("one.png").read_bytes() == before


def test_model_config_holds_the_summary(folder):
    assert json.loads((folder / MODEL_CONFIG).read_text()) == {"image_size": [64, 80]}


def test_free_size_network_is_loaded_in_the_precision_asked_for(folder):
    assert export.load_model(folder).dtype_policy.name == keras.config.dtype_policy().name
    assert export.load_model(folder, "mixed_bfloat16").get_layer("aspp_conv2").compute_dtype == "bfloat16"
