"""The author's weights by one word, from archives as his code writes them, on a server that plays Google Drive."""

import json
import os
import pathlib
import re
import tempfile

import numpy as np
import pytest
from kfp import dsl
from PIL import Image

from components.import_model import import_model
from pipeline.local.run_folder import prepare_run
from tests import drive, patches, reference_graph
from tests.narrow import narrowed
from tests.narrow_tasks import sitecustomize
from tests.refusals import refused
from tests.small_sources import zipped
from trainer.__main__ import main
from trainer.datasets import table as datasets
from trainer.errors import ConflictError, ContentError, UnknownNameError
from trainer.io.files import read_json
from trainer.machine import untrusted
from trainer.models import author
from trainer.models.find import find_model
from trainer.models.weight_sources import WeightSource
from trainer.network import tensorflow_files
from trainer.network.load import load_model
from trainer.network.model_folder import MODEL_CONFIG
from trainer.network.msinet.keras_model import build_model

NARROW = str(pathlib.Path(sitecustomize.__file__).parent)
ROOT = str(pathlib.Path(__file__).parents[3])


@pytest.fixture(scope="module", autouse=True)
def narrow():
    with narrowed():
        yield


@pytest.fixture(autouse=True)
def cached(monkeypatch, tmp_path):
    """The folder of the cache; other processes have the narrow network too."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((NARROW, ROOT)))
    monkeypatch.setenv("MSINET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module", autouse=True)
def one_worker():
    """Import in one worker that keeps TensorFlow, since to load it takes seconds."""
    untrusted.end_untrusted()  # one that other tests have begun has the network at its full width
    with pytest.MonkeyPatch.context() as patch:
        patches.replace(patch, untrusted, "end_untrusted", lambda: None)
        yield
    untrusted.end_untrusted()


@pytest.fixture(scope="module")
def network(narrow):
    return build_model((None, None), "float32", seed=7)


@pytest.fixture(scope="module")
def definition(network):
    """The graph as the author's code writes it for publication."""
    return reference_graph.optimized(reference_graph.frozen(weights=reference_graph.weights_of(network)))


@pytest.fixture(scope="module")
def graph(definition):
    return definition.SerializeToString()


def publish(site, dataset, content, **settings):
    """Let Google Drive have an archive; a dictionary of files is packed."""
    row = author.get_author_weights(f"author:{dataset}")
    packed = content if isinstance(content, bytes) else zipped(content)
    drive.serve_large(site, packed, row.drive_id, f"{row.stem}.zip", **settings)


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# === Names ===


def test_every_row_is_of_a_dataset_and_has_a_place_of_its_own():
    assert len(author.AUTHOR_WEIGHTS) == 7
    assert len({row.drive_id for row in author.ROWS}) == 7
    for name, row in author.AUTHOR_WEIGHTS.items():
        assert name == f"author:{row.dataset}"
        assert row.dataset in datasets.DATASETS
        assert re.fullmatch(r"[\w-]{33}", row.drive_id)


def test_an_unknown_name_is_refused_with_the_nearest_one_before_anything_is_asked(internet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for look in (
        find_model,
        lambda name: WeightSource(name).check_local(),
        lambda name: WeightSource(name).fingerprint(),
    ):
        with refused(UnknownNameError, "author:salicn", "author:salicon"):
            look("author:salicn")
    for name in ("base_model_uri", "initial_weights"):
        with refused(UnknownNameError, name, "author:salicn", "author:salicon"):
            prepare_run("", "", "", {name: "author:salicn"})
        assert prepare_run("", "", "", {name: "author:mit1003"}).parameters[name] == "author:mit1003"
    assert not internet.requests
    assert not list(tmp_path.iterdir())


# === The archive ===


def test_graph_saved_model_and_checkpoint_are_found_among_other_files(internet, definition, graph, tmp_path):
    saved = reference_graph.write_saved_model(tmp_path / "saved", definition)
    reference_graph.write_checkpoint(tmp_path / "model.ckpt")
    saved_files = {f"msi/{path.name}": path.read_bytes() for path in saved.glob("*.pb")}
    parts = {f"best/{path.name}": path.read_bytes() for path in tmp_path.glob("model.ckpt.*")}
    rubbish = {"__MACOSX/best/._model.pb": b"x", "best/.DS_Store": b"x", "README.txt": b"x"}
    forms = {
        "salicon": ({"model_salicon_cpu.pb": graph}, "frozen graph"),
        "mit1003": ({"weights/model_mit1003_cpu.pb": graph, "weights/model_mit1003_gpu.pb": b"x"}, "frozen graph"),
        "cat2000": (saved_files | {"msi/fingerprint.pb": b"x"}, "frozen SavedModel"),
        "osie": (parts, "TensorFlow checkpoint"),
        "fiwi": ({"model_fiwi_cpu.pb": graph, **parts}, "frozen graph"),
    }
    for dataset, (held, kind) in forms.items():
        publish(internet, dataset, held | rubbish)
        with author.unpacked_weights(f"author:{dataset}") as local:
            folder = pathlib.Path(tempfile.gettempdir(), local.path.relative_to(tempfile.gettempdir()).parts[0])
            unpacked = files_in(folder)
            contents = tensorflow_files.read_contents(local.path)
        assert contents.kind == kind
        assert len(contents.arrays) >= 46
        assert not {"README.txt", ".DS_Store", "._model.pb", f"model_{dataset}_gpu.pb"} & set(unpacked)
        assert not folder.exists()


def nothing_is_kept(cached):
    return not [path for path in cached.rglob("*") if path.is_file() and path.name != "lock"]


@pytest.mark.parametrize(
    ("held", "named"),
    [
        ({"a/notes.txt": b"1", "b.png": b"2"}, ("a/notes.txt", "b.png")),
        ({}, ()),
        ({"a.pb": b"1", "b.pb": b"2"}, ("model_osie_cpu/a.pb",)),
        ({"../a.pb": b"1"}, ("../a.pb",)),
        (b"PK\3\4 not a zip", ()),
        ({"model_osie_cpu.pb": b"no graph"}, ("model_osie_cpu.pb",)),
    ],
)
def test_an_archive_with_other_files_is_refused_and_not_kept(internet, cached, held, named):
    publish(internet, "osie", held)
    with refused(ContentError, "model_osie_cpu.zip", *named):
        find_model("author:osie")
    assert nothing_is_kept(cached)


# === Models ===


def test_the_first_use_imports_and_the_second_needs_no_network(internet, network, graph, cached, tmp_path, capfd):
    publish(internet, "osie", {"model_osie_cpu.pb": graph}, cuts=[0, 100_000])
    Image.fromarray(np.full((60, 80, 3), 90, np.uint8)).save(tmp_path / "photo.png")
    predict = ["predict", str(tmp_path / "photo.png"), "--model", "author:osie", "--output-dir"]
    main([*predict, str(tmp_path / "first")])
    said = capfd.readouterr().out
    assert "Licence: MIT License.\nPlease cite: Alexander Kroner, " in said
    assert "download model_osie_cpu.zip from drive:1JD1tvAqZGxj_gEGmIfoxb9dTe5HOaHj1, 6.3 MB" in said
    asked = len(internet.requests)
    internet.paths.clear()
    main([*predict, str(tmp_path / "second")])
    assert len(internet.requests) == asked
    assert "author:osie" not in capfd.readouterr().out
    first, second = (tmp_path / name / "photo.png" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    model = find_model("author:osie")
    config = read_json(model / MODEL_CONFIG, "", dict)
    assert (config["dataset"], config["image_size"]) == ("osie", [240, 320])
    assert config["imported"]["source"] == "author:osie"
    image = np.random.default_rng(1).integers(0, 256, (1, 48, 64, 3)).astype(np.float32)
    np.testing.assert_allclose(load_model(model)(image), network(image), atol=1e-6)
    assert sorted(path.name for path in cached.iterdir())[-1] == model.parent.name


# === Trainings and the pipeline ===


def test_tasks_on_different_machines_agree_on_the_fingerprint(internet, graph, cached, tmp_path, monkeypatch):
    """Whatever Google Drive says of the file: its servers do not always say the same."""
    publish(internet, "mit1003", {"model_mit1003_cpu.pb": graph})
    digest = WeightSource("author:mit1003").fingerprint()
    (tmp_path / "own.pb").write_bytes(graph)
    assert author.fetched("author:mit1003").path.exists()
    monkeypatch.setenv("MSINET_CACHE", str(tmp_path / "another"))
    publish(internet, "mit1003", {"model_mit1003_cpu.pb": graph})
    row = author.get_author_weights("author:mit1003")
    internet.paths[drive.confirmed(row.drive_id)].modified = "Wed, 03 Jan 2024 00:00:00 GMT"
    imported = dsl.Model(name="model", uri=str(tmp_path / "model"), metadata={})
    import_model.python_func("author:mit1003", "salicon", "32x40", digest, imported)
    config = json.loads((tmp_path / "model" / MODEL_CONFIG).read_text())
    assert (config["dataset"], config["image_size"]) == ("mit1003", [32, 40])
    assert imported.metadata["fingerprint"] == digest
    changed = {"weights/model_mit1003_cpu.pb": graph + b"\x12\0"}  # an empty library of functions
    publish(internet, "mit1003", changed)
    monkeypatch.setenv("MSINET_CACHE", str(tmp_path / "third"))
    with refused(ConflictError, "author:mit1003"):
        import_model.python_func(
            "author:mit1003", "salicon", "32x40", digest, dsl.Model(name="m", uri=str(tmp_path / "m"), metadata={})
        )
