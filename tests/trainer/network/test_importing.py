"""Models of published weights: an imported network gives the maps of the reference."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests import reference_graph, weight_files as written
from tests.gcs import upload
from tests.narrow import narrowed, unexported
from tests.refusals import refused
from trainer.errors import ContentError, NotFoundError, SettingError
from trainer.models.weight_sources import WeightSource
from trainer.network import tensorflow_files
from trainer.network.importing import convert_weights
from trainer.network.load import load_model
from trainer.network.model_folder import ASSETS_EXTRA, HISTORY, MODEL_CONFIG, MODEL_WEIGHTS

GOLDEN = np.load("tests/golden/msinet_reference.npz")
SIZE = (32, 40)


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "msi-net"
    return reference_graph.write_saved_model(folder, reference_graph.frozen())


@pytest.fixture(scope="module")
def imported(saved_model, tmp_path_factory):
    """The folder that the import of the frozen SavedModel writes, but for its export, and its result."""
    folder = tmp_path_factory.mktemp("imported") / "model"
    with unexported():
        return folder, converted(saved_model, folder)


def converted(source, folder):
    """What an import does in a process of its own."""
    with WeightSource(str(source)).opened() as local:
        return convert_weights(local, str(source), folder, "salicon", SIZE)


def test_maps_of_the_imported_model_are_the_golden_ones(imported):
    maps = load_model(imported[0])(GOLDEN["small_image"].astype(np.float32)).numpy()
    np.testing.assert_allclose(maps, GOLDEN["small_prediction"], atol=1e-4)


def test_imported_model_is_a_model_folder_with_its_origin(imported, saved_model):
    folder, done = imported
    assert {each.name for each in folder.iterdir()} == {MODEL_WEIGHTS, MODEL_CONFIG, HISTORY}
    config = json.loads((folder / MODEL_CONFIG).read_text())
    assert config == done.summary
    assert (config["dataset"], config["image_size"], config["best_epoch"]) == ("salicon", [32, 40], 0)
    assert config["imported"] == {
        "source": str(saved_model),
        "kind": "frozen SavedModel",
        "fingerprint": WeightSource(str(saved_model)).fingerprint(),
    }


def test_a_graph_is_read_and_never_run(tmp_path):
    written_by_graph = tmp_path / "written"
    with written.narrow_weights(), unexported():
        with tf.Graph().as_default() as graph:
            (maps,) = tf.import_graph_def(reference_graph.frozen(), return_elements=["output:0"], name="")
            with tf.control_dependencies([tf.io.write_file(str(written_by_graph), "x")]):
                tf.identity(maps, "maps")
            path = reference_graph.write_graph(tmp_path / "model.pb", graph.as_graph_def())
        done = converted(path, tmp_path / "model")
    assert done.summary["imported"]["kind"] == "frozen graph"
    assert "46 arrays" in done.report
    assert not written_by_graph.exists()


def test_encoder_alone_is_refused_with_its_use(tmp_path):
    encoder = {layer: pair for layer, pair in written.by_layer().items() if layer.startswith("conv")}
    path = written.write_legacy(tmp_path / "encoder.h5", encoder)
    with refused(ContentError, path, "initial_weights"):
        converted(path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


# === Sources ===


def test_sources_on_cloud_storage_have_the_fingerprint_of_local_ones(bucket, tmp_path):
    for name, content in {
        "saved/saved_model.pb": b"graph",
        "model.ckpt.index": b"index",
        "model.ckpt.data-00000-of-00001": b"data",
        "model.ckpt-2.index": b"another",
        "model.pb": b"bare",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
        upload(bucket, tmp_path / name, f"deep/{name}")
    for name in ("saved", "model.ckpt", "model.ckpt.index", "model.pb"):
        address = f"gs://{bucket.name}/deep/{name}"
        with (
            WeightSource(address).opened() as there,
            WeightSource(str(tmp_path / name)).opened() as here,
        ):
            assert there.fingerprint == here.fingerprint == WeightSource(address).fingerprint()
            assert there.path != here.path
            kept = there.path.parent
        assert not kept.exists()
    for address, kind in (
        (f"gs://{bucket.name}/deep/other.pb", NotFoundError),
        (f"gs://{bucket.name}/", SettingError),
    ):
        with refused(kind, address):
            WeightSource(address).fingerprint()


def test_models_of_a_registry_are_found_by_name(imported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    version = tmp_path / "models" / "msinet" / "3"
    (version / ASSETS_EXTRA).mkdir(parents=True)
    (version / "saved_model.pb").touch()
    for name in (MODEL_WEIGHTS, MODEL_CONFIG):
        (version / ASSETS_EXTRA / name).write_bytes((imported[0] / name).read_bytes())
    (tmp_path / "models" / "msinet" / "aliases.json").write_text('{"default": 3}')
    for source in ("msinet", "msinet@3", str(version), "models/msinet"):
        WeightSource(source).check_local()
        with WeightSource(source).opened() as local:
            assert local.model.resolve() == version / ASSETS_EXTRA
    with refused(NotFoundError, "models/msinet", 4, "0, 3"):
        WeightSource("msinet@4").check_local()


def test_imported_model_of_this_project_keeps_its_configuration(narrow_model, tmp_path):
    with narrowed(), unexported():
        again = converted(narrow_model, tmp_path / "again").summary
    assert again == json.loads((narrow_model / MODEL_CONFIG).read_text())
    ours, theirs = (
        tensorflow_files.read_contents(folder / MODEL_WEIGHTS).arrays
        for folder in (narrow_model, tmp_path / "again")
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.read(), other.read())
