"""Damaged JSON files are refused in a sentence that names them, wherever they are read."""

import json
import shutil

import pytest

from lifecycle.registry.folder_registry import LocalRegistry
from pipeline.local.run_folder import Run
from tests.prepared import write_prepared
from trainer.data.prepared_data import MANIFEST, Manifest
from trainer.errors import UserError
from trainer.evaluation.compare import find_contestants
from trainer.evaluation.run_folders import RUN_FILE, RunFolder
from trainer.io import files
from trainer.models.find import find_model
from trainer.models.provenance import Provenance
from trainer.models.registry_layout import ALIASES, VERSION
from trainer.network import model_folder
from trainer.network.model_folder import ASSETS_EXTRA, EVALUATION, MODEL_CONFIG, ModelConfig, ModelFolder
from trainer.training.settings import TrainConfig
from trainer.training.start import check_training

SETTINGS = TrainConfig(initial_weights="none")
CONFIG = {
    "image_size": [64, 80],
    "source": "gs://data",
    "dataset": "osie",
    "fingerprint": "abc",
    "test_share": 0.5,
    "best_epoch": 2,
    "identity": {"epochs": 3},
    "base_model": {"image_size": [64, 80], "identity": {}, "best_epoch": 1},
}
RUN = {"environment": "sample", "parameters": {"base_epochs": 3}, "finished": True, "earlier": ["msinet-1"]}
RECORD = {
    "version": 1,
    "created": "2026-01-01T00:00:00+00:00",
    "reason": "It is the first.",
    "metrics": {"osie": {"kld": 0.5, "cc": None}},
    "lineage": {"run": "r", "folder": "f", "model": CONFIG},
}
NO_CONTENT = ("{", "[]")


@pytest.fixture(scope="module")
def stored(tmp_path_factory, evaluated):
    """A folder with one whole file of each kind, and everything around it that its readers need."""
    root = tmp_path_factory.mktemp("files")
    folder = root / "models" / "msinet" / "1" / ASSETS_EXTRA
    folder.mkdir(parents=True)
    (folder / model_folder.MODEL_WEIGHTS).touch()
    data = write_prepared(root / "data")
    for name in ("evaluation", "other"):
        shutil.copytree(evaluated, root / name)
    contents = {
        folder / MODEL_CONFIG: CONFIG,
        folder / VERSION: RECORD,
        root / "models" / "msinet" / ALIASES: {"default": 1, "challenger": 1},
        root / "run" / RUN_FILE: RUN,
        data / MANIFEST: json.loads((data / MANIFEST).read_text()),
        root / "evaluation" / EVALUATION: json.loads((evaluated / EVALUATION).read_text()),
    }
    for path, content in contents.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    return root


MODEL = f"models/msinet/1/{ASSETS_EXTRA}"
READERS = {
    (f"{MODEL}/{MODEL_CONFIG}", "size"): lambda root: ModelFolder(root / MODEL).image_size,
    (f"{MODEL}/{MODEL_CONFIG}", "origin"): lambda root: Provenance.of_folder(root / MODEL),
    (f"{MODEL}/{MODEL_CONFIG}", "base"): lambda root: (
        check_training(SETTINGS, root / "data", root / "new", root / MODEL),
        ModelFolder(root / MODEL).config_of_base(),
    ),
    (f"{MODEL}/{VERSION}", "versions"): lambda root: [
        (each.model_config, each.record) for each in LocalRegistry(root / "models").versions("msinet")
    ],
    (f"models/msinet/{ALIASES}", "name"): lambda root: find_model(str(root / "models" / "msinet@1")),
    (f"models/msinet/{ALIASES}", "registry"): lambda root: LocalRegistry(root / "models").default("msinet"),
    (f"run/{RUN_FILE}", "run"): lambda root: Run.load(root / "run"),
    (f"run/{RUN_FILE}", "attempt"): lambda root: RunFolder(root / "run").latest_attempt,
    (f"data/{MANIFEST}", "manifest"): lambda root: Manifest.load(root / "data"),
    (f"evaluation/{EVALUATION}", "contestant"): lambda root: find_contestants(
        [str(root / "evaluation"), str(root / "other")]
    ),
}


@pytest.mark.parametrize(("name", "reader"), READERS)
@pytest.mark.parametrize("content", NO_CONTENT)
def test_damaged_file_is_refused_in_a_sentence_with_its_name(name, reader, content, stored):
    path, read = stored / name, READERS[name, reader]
    whole = path.read_text()
    read(stored)
    path.write_text(content)
    try:
        with pytest.raises(UserError, match=path.name):
            read(stored)
    finally:
        path.write_text(whole)


def test_keys_of_other_versions_stay_where_they_are(tmp_path):
    content = {"later": 1, **CONFIG, "settings": {"epochs": 3, "flip_prediction": True}}
    path = tmp_path / MODEL_CONFIG
    files.write_json(path, content)
    found = files.read_json(path, "none", ModelConfig)
    assert json.dumps(found) == json.dumps(content)
    data = write_prepared(tmp_path / "data")
    manifest = Manifest.load(data)
    files.write_json(data / MANIFEST, {"later": 1, **json.loads((data / MANIFEST).read_text())})
    assert Manifest.load(data) == manifest
