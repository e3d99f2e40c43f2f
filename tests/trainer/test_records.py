"""Damaged JSON files are refused in a sentence that names them, wherever they are read."""

import ast
import copy
import json
import pathlib
import random
import shutil

import pytest

from pipeline.local.prepare import Run
from pipeline.registry.folder import LocalRegistry
from tests.prepared import write_prepared
from trainer import artifacts
from trainer.artifacts import ALIASES, EVALUATION, MANIFEST, MODEL_CONFIG, RUN_FILE, VERSION_EXTRA, Manifest
from trainer.config import TrainConfig
from trainer.errors import UserError
from trainer.evaluation.contestants import find_contestants
from trainer.generated import of_folder
from trainer.models.find import find_model, image_size_of
from trainer.models.registry_layout import VERSION
from trainer.training.checks import check_training
from trainer.training.lineage import lineage

SETTINGS = TrainConfig(initial_weights="none")
ROOT = pathlib.Path(__file__).parents[2]
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
WRONG = [None, True, 1, -1, 0.5, "x", "", [], {}, [1], {"x": 1}, [[]], 10**9, float("nan")]
"""Values of which one is of the right kind, mostly."""
MOST = 200
"""Damages that are tried of a file."""


def paths(value, path=()):
    """The place of each value in JSON."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield from paths(below, (*path, key))


def damaged(content):
    """The content of a file with one value replaced or left out, and other contents that are no JSON."""
    cases = [
        (path, wrong) for path in paths(content) for wrong in (*WRONG, KeyError) if path or wrong is not KeyError
    ]
    for path, wrong in cases if len(cases) < MOST else random.Random(0).sample(cases, MOST):
        changed = copy.deepcopy({"root": content})
        place = changed
        keys = ["root", *path]
        for key in keys[:-1]:
            place = place[key]
        if wrong is KeyError:
            del place[keys[-1]]
        else:
            place[keys[-1]] = wrong
        yield json.dumps(changed["root"])
    whole = json.dumps(content)
    yield from (whole[: len(whole) // 2], "", "\0", "\xff" * 9, "[" * 100_000, "1" * 5000)


@pytest.fixture(scope="module")
def files(tmp_path_factory, evaluated):
    """Path of a file -> its content; and everything around it that its readers need."""
    root = tmp_path_factory.mktemp("files")
    folder = root / "models" / "msinet" / "1" / VERSION_EXTRA
    folder.mkdir(parents=True)
    (folder / artifacts.WEIGHTS).touch()
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


MODEL = f"models/msinet/1/{VERSION_EXTRA}"
READERS = {
    (f"{MODEL}/{MODEL_CONFIG}", "size"): lambda root: image_size_of(root / MODEL),
    (f"{MODEL}/{MODEL_CONFIG}", "origin"): lambda root: of_folder(root / MODEL),
    (f"{MODEL}/{MODEL_CONFIG}", "base"): lambda root: (
        check_training(SETTINGS, root / "data", root / "new", root / MODEL),
        lineage(SETTINGS, Manifest.load(root / "data"), "float32", root / MODEL),
    ),
    (f"{MODEL}/{VERSION}", "versions"): lambda root: [
        (each.model_config, each.record) for each in LocalRegistry(root / "models").versions("msinet")
    ],
    (f"models/msinet/{ALIASES}", "name"): lambda root: find_model(str(root / "models" / "msinet@1")),
    (f"models/msinet/{ALIASES}", "registry"): lambda root: LocalRegistry(root / "models").default("msinet"),
    (f"run/{RUN_FILE}", "run"): lambda root: Run.load(root / "run"),
    (f"run/{RUN_FILE}", "attempt"): lambda root: artifacts.latest_attempt(root / "run"),
    (f"data/{MANIFEST}", "manifest"): lambda root: Manifest.load(root / "data"),
    (f"evaluation/{EVALUATION}", "contestant"): lambda root: find_contestants(
        [str(root / "evaluation"), str(root / "other")]
    ),
}


@pytest.mark.parametrize(("name", "reader"), READERS)
def test_damaged_file_is_read_or_refused_in_a_sentence_with_its_name(name, reader, files):
    path, read = files / name, READERS[name, reader]
    whole = path.read_text()
    read(files)
    refused = 0
    try:
        for content in damaged(json.loads(whole)):
            path.write_text(content, encoding="latin-1")
            try:
                read(files)
            except UserError as error:
                refused += 1
                message = str(error)
                assert "\n" not in message, message
                assert len(message) < 600
    finally:
        path.write_text(whole)
    assert refused > 10


def test_message_names_the_file_the_place_and_the_remedy(files):
    path = files / MODEL / MODEL_CONFIG
    whole = path.read_text()
    try:
        path.write_text(json.dumps({**CONFIG, "image_size": [30_000, 30_000]}))
        with pytest.raises(UserError) as error:
            image_size_of(path.parent)
    finally:
        path.write_text(whole)
    assert str(error.value) == (
        f"{path} is damaged (image_size is [30000, 30000], a side of the network's input has 4,096 pixels at "
        "most, for which it takes gigabytes): give the folder of a model that `train` wrote"
    )


def test_every_file_is_read_with_what_it_holds():
    calls = []
    for package in ("trainer", "pipeline", "components"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                    "read_json",
                    "parse_json",
                ):
                    calls.append((path.name, node))
    assert len(calls) > 20
    assert [name for name, node in calls if len(node.args) < (4 if "parse" in ast.unparse(node.func) else 3)] == []
