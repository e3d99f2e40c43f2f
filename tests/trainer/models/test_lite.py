"""TFLite files give the maps of the network, with built-in operations; quantized ones nearly do."""

import os
import pathlib
import re
import runpy
import sys
import warnings

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from trainer import preprocess
from trainer.__main__ import main
from trainer.errors import UserError
from trainer.models import lite, load

GOLDEN = np.load("tests/golden/msinet_reference.npz")
SIZE = (64, 80)
IMAGE = np.random.default_rng(1).integers(0, 256, (1, *SIZE, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def written(golden_model, tmp_path_factory):
    """The files that the command writes with the tested quantizations, and `stderr`, what was said meanwhile."""
    place = tmp_path_factory.mktemp("lite")
    stderr = os.dup(2)
    with (place / "stderr").open("wb") as said:
        os.dup2(said.fileno(), 2)
        try:
            for quantization in ("none", "dynamic"):
                arguments = ["--format", "tflite", "--quantization", quantization]
                output = ["--output", str(place / quantization)]
                main(["export", "--model", str(golden_model), *arguments, *output])
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    return place


def test_libraries_say_nothing_of_their_own(written):
    assert "absl" not in (written / "stderr").read_text()
    assert not re.search(r"^[IWE]\d{4} |INFO: |MLIR", (written / "stderr").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def expected(golden_model):
    return load.load_model(golden_model)(IMAGE).numpy()


def operations(path):
    """Names of a file's built-in operations; custom ones have names of their own."""
    with pytest.warns(UserWarning, match=r"tf\.lite\.Interpreter is deprecated"):
        runner = tf.lite.Interpreter(str(path))
    return {each["op_name"] for each in runner._get_ops_details()}


def test_float32_gives_the_maps_of_the_network_and_of_the_reference(written, expected):
    run = lite.interpreter((written / "none").read_bytes())
    prediction = run(IMAGE)
    assert prediction.shape == (1, *SIZE, 1)
    assert np.abs(prediction - expected).max() < 1e-4
    # The reference ran in TensorFlow 1.
    for image, reference in zip(GOLDEN["small_image"], GOLDEN["small_prediction"], strict=True):
        assert np.abs(run(image[None].astype(np.float32))[0] - reference).max() < 1e-3


def test_dynamic_range_is_a_quarter_as_large_and_nearly_the_same(written, expected):
    sizes = {name: (written / name).stat().st_size for name in ("none", "dynamic")}
    assert sizes["none"] < 100.5e6
    assert sizes["dynamic"] < sizes["none"] / 3.9
    prediction = lite.interpreter((written / "dynamic").read_bytes())(IMAGE)
    assert 1e-4 < np.abs(prediction - expected).max() < 0.2
    assert np.corrcoef(prediction.ravel(), expected.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("quantization", ["none", "dynamic"])
def test_operations_are_built_in(written, quantization):
    plain = r"ADD|CONV_2D|MAX_POOL_2D|CONCATENATION|MEAN|RESIZE_BILINEAR|REDUCE_MIN|REDUCE_MAX|SUB|DIV|DELEGATE"
    found = operations(written / quantization)
    assert "RESIZE_BILINEAR" in found  # and no operations of the decoder's phases
    assert all(re.fullmatch(plain, each) for each in found), found


def test_file_with_other_maps_is_not_written(golden_model, tmp_path, monkeypatch):
    monkeypatch.setattr(lite, "convert", lambda *_: b"")
    monkeypatch.setattr(lite, "interpreter", lambda _: lambda image: np.full((1, *SIZE, 1), np.nan, np.float32))
    with pytest.raises(UserError, match=r"by nan on 0\.\.1; .*it is not written"):
        lite.write_lite(load.load_model(golden_model), SIZE, tmp_path / "it", "none")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "there"], "error: there exists already"),
        (["--quantization", "dynamic"], "--quantization is for the format tflite, but --format is saved-model"),
        (["--format", "tflite", "--default-signature", "serve_bytes"], "--default-signature is for the format"),
        (["--format", "tflite", "--image-size", "60x80"], "the nearest size is 64x80"),
        (["--model", "nowhere"], "error: there is no model at"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_loaded(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    with pytest.raises(SystemExit, match=message):
        main(["export", "--output", "new", *arguments])
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("size", [SIZE, (120, 100), (30, 70)])
def test_client_of_the_guide_prepares_and_restores_as_the_trainer(
    written, golden_model, tmp_path, monkeypatch, size
):
    (tmp_path / "model.tflite").hardlink_to(written / "none")
    pixels = np.asarray(
        Image.fromarray(IMAGE[0, :8, :10].astype(np.uint8)).resize(size[::-1], Image.Resampling.BICUBIC)
    )
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    program = pathlib.Path("docs/serving/client_tflite.py").absolute()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program), "model.tflite", "photo.png", "map.png"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*tf.lite.Interpreter is deprecated", UserWarning)
        runpy.run_path(str(program), run_name="__main__")
    levels = np.asarray(Image.open(tmp_path / "map.png")).astype(float)
    network = load.load_model(golden_model)
    expected = preprocess.restore_map(
        network(preprocess.prepare_stimulus(pixels, SIZE)[None]).numpy()[0, ..., 0], size
    )
    assert levels.shape == size
    if size == SIZE:
        assert np.abs(levels - expected).mean() < 0.2
    else:  # Pillow resizes slightly differently from TensorFlow 1
        assert np.corrcoef(levels.ravel(), expected.ravel())[0, 1] > 0.97
