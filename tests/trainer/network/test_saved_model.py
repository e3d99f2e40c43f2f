"""The SavedModel: its signature gives the maps of the network, in a process without this project."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.golden.weights import set_golden_weights
from tests.narrow import narrowed
from tests.refusals import refused
from trainer.errors import MismatchError
from trainer.network import saved_model
from trainer.network.model_folder import MODEL_WEIGHTS, SAVED_MODEL
from trainer.network.msinet.keras_model import build_model

GOLDEN = np.load("tests/golden/msinet_reference.npz")
SIZE = (64, 80)


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
