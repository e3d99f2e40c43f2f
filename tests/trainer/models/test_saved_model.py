"""The SavedModel: its signatures give the maps of the network, in a process without this project."""

import errno
import io
import json
import pathlib
import re
import resource
import subprocess
import sys

import h5py
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.golden.inputs import image
from tests.golden.weights import set_golden_weights
from trainer import preprocess
from trainer.artifacts import MODEL_CONFIG, SAVED_MODEL, WEIGHTS
from trainer.errors import UserError
from trainer.model import build_model
from trainer.models import saved_model
from trainer.models.load import load_model
from trainer.picture import MAX_SIDE_PX, read_picture

GOLDEN = np.load("tests/golden/msinet_reference.npz")
SIZE = (64, 80)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder with the golden weights."""
    folder = tmp_path_factory.mktemp("model")
    network = build_model((None, None), "float32")
    set_golden_weights(network)
    saved_model.write_model(network, folder, SIZE, {"image_size": SIZE})
    return folder


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
        expected = preprocess.restore_map(
            network(preprocess.prepare_stimulus(each, SIZE)[None]).numpy()[0], each.shape[:2]
        )
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


def test_map_of_a_turned_photograph_is_upright(folder, serve_bytes):
    tags = Image.Exif()
    tags[0x0112] = 6
    content = io.BytesIO()
    Image.fromarray(image(1, 1, 40, 96)[0]).save(content, "JPEG", exif=tags, quality=95)
    (answer,) = serve_bytes(content.getvalue())
    network = load_model(folder)
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


def test_export_with_other_maps_is_not_written(folder, tmp_path, monkeypatch):
    network = load_model(folder).network
    load = tf.saved_model.load

    def load_with_another_bias(path):
        loaded = load(path)
        for variable in loaded._variables[-4:]:
            variable.assign_add(tf.random.stateless_normal(variable.shape, (1, 2)))
        return loaded

    monkeypatch.setattr(tf.saved_model, "load", load_with_another_bias)
    with pytest.raises(UserError, match="nothing was exported"):
        saved_model.write_model(network, tmp_path, SIZE, {})
    assert [path.name for path in tmp_path.iterdir()] == [WEIGHTS]


def test_model_config_holds_the_summary(folder):
    assert json.loads((folder / MODEL_CONFIG).read_text()) == {"image_size": [64, 80]}


def test_weights_that_do_not_fit_leave_no_file_to_hdf5(folder, tmp_path):
    """HDF5 closes its files at the end of the process, which crashes if one cannot be written."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    network, before = load_model(folder).network, open_files_of_hdf5()
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            saved_model.write_model(network, tmp_path, SIZE, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert open_files_of_hdf5() == before


def open_files_of_hdf5():
    return h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)


def test_full_disk_is_named_and_leaves_nothing(folder, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    network = load_model(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, limits[1]))
    try:
        with pytest.raises(
            UserError, match=r"cannot write .*export \(.*\); free some space, or name another folder"
        ):
            saved_model.write_saved_model(network, SIZE, tmp_path / "export")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())
