"""TensorFlow takes seconds to load: it is loaded for what needs it alone, after all checks, and it is said."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.prepared import evaluation_of, write_prepared
from trainer.data import prepared_data
from trainer.evaluation import per_image
from trainer.evaluation.evaluation import Role
from trainer.evaluation.per_image import PerImage
from trainer.io import files
from trainer.machine import runtime
from trainer.machine.runtime import LOADING, TPU_LOCKED_BYTES
from trainer.metrics.metric_table import METRICS
from trainer.network import model_folder

WANTED = ["--output-dir=new"]
TRAINER = [
    (["fetch", "--dataset=salicn", *WANTED], "'salicn'"),
    (["fetch", "--image-size=241x320", *WANTED], "240x320"),
    (["fetch", "--source=nowhere", *WANTED], "nowhere"),
    (["train", "--dataset-dir=nowhere", *WANTED], "nowhere"),
    (["train", "--dataset-dir=no-valid", *WANTED], "osie has no validation images"),
    (["train", "--dataset-dir=data", "--base-model=nosuch", *WANTED], "models/nosuch"),
    (["train", "--dataset-dir=data", "--initial-weights=nosuch.h5", *WANTED], "nosuch.h5 does not exist"),
    (["evaluate", "--model=model", "--dataset-dir=nowhere", *WANTED], "nowhere"),
    (["evaluate", "--model=model", "--dataset-dir=data", "--gate=klt", *WANTED], "Did you mean 'kld'?"),
    (["evaluate", "--model=model", "--dataset-dir=maps", "--gate=nss", *WANTED], "the gate nss needs fixations"),
    (["compare", "one", "nosuch"], "nosuch cannot be compared"),
    (["compare", "one", "model"], "model is a model without scores"),
    (["compare", "one", "two", "--json=compared.json", "--html=compared.html"], ""),
    (["predict", "pictures/a.png", "--model=nosuch", "--json=-"], "models/nosuch"),
    (["predict", "nosuch.png", "--model=model", "--json=-"], "cannot read nosuch.png"),
    (["import-weights", "nosuch.h5", *WANTED], "nosuch.h5 does not exist"),
    (["export", "--model=nosuch", "--output=new"], "models/nosuch"),
]
"""Arguments of `python -m trainer`, and what they are answered with; nothing for a success."""
PIPELINE = [
    (["run", "base_source=nowhere"], "source nowhere does not exist"),
    (["run", "--env=nosuch"], "unknown environment 'nosuch'"),
    (["run", "base_epocs=3"], "unknown parameter 'base_epocs'"),
    (["plan"], ""),
]
"""Arguments of `python -m pipeline`, likewise."""
STUDIO = [
    (["compare", "wide.png", "pictures/a.png", "--model=model", "--json=-"], "the same aspect ratio"),
    (["check", "pictures/a.png", "--region=a:0,0,5,5", "--require=a>=800%", "--model=model"], "2"),
    (["check", "pictures/a.png", "--region=a:0,0,5,5", "--require=a>=8%", "--model=nosuch"], "2"),
    (["predict", "pictures/a.png", "--model=model"], "neither an address nor an HTML file"),
    (["demo", "--model=nosuch", "--port=0"], "models/nosuch"),
    (["demo", "--model=model", "--port=70000"], "port 70000"),
]
"""Arguments of `python -m studio`, likewise."""
SCRIPT = """
import contextlib, io, json, sys
from trainer.errors import reported
import pipeline.__main__, studio.__main__, trainer.__main__
answers = []
def note(what, call):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            with reported():
                call()
            code = ""
        except SystemExit as end:
            code = end.code or ""
    answers.append([what, str(code), said.getvalue(), "tensorflow" in sys.modules])

cases = json.load(sys.stdin)
for each in cases["trainer"]:
    note(each, lambda: trainer.__main__.main(each))
for each in cases["studio"]:
    note(each, lambda: studio.__main__.main(each))
for each in cases["pipeline"]:
    note(each, lambda: pipeline.__main__.main(each))
json.dump(answers, sys.stdout)
"""
STUB = "import sys; print('imported', 'matplotlib.pyplot' in sys.modules)"


def write_model(folder: pathlib.Path) -> None:
    """Everything of a model but its weights."""
    (folder / model_folder.SAVED_MODEL).mkdir(parents=True)
    (folder / model_folder.SAVED_MODEL / "saved_model.pb").touch()
    (folder / model_folder.MODEL_WEIGHTS).touch()
    known = {"dataset": "osie", "best_epoch": 1, "valid_loss": 1.0, "image_size": [32, 40], "identity": {}}
    files.write_json(folder / model_folder.MODEL_CONFIG, known)
    row = {"best": True, "loss": 1, "valid_loss": 1, "seconds": 1, "steps": 1, "images_per_s": 1, "epoch": 1}
    (folder / model_folder.HISTORY).write_text(json.dumps(row))


def write_evaluation(folder: pathlib.Path, data: pathlib.Path, seed: int) -> None:
    """What an evaluation of some network leaves."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    columns = [{metric: random.random(8) for metric in METRICS} for _ in range(2)]
    table = PerImage(
        [f"{index}.jpg" for index in range(8)], dict(zip((Role.CANDIDATE, Role.CENTER_BIAS), columns, strict=True))
    )
    per_image.append_scores(folder / model_folder.PER_IMAGE, "osie", table)
    evaluation = evaluation_of(
        {Role.CANDIDATE: table.means(Role.CANDIDATE)}, model_folders={Role.CANDIDATE: "gone"}
    )
    scored = dataclasses.replace(
        evaluation.deciding,
        folder="gone",
        manifest=prepared_data.Manifest.load(data),
        image_sizes={Role.CANDIDATE: [32, 40]},
    )
    dataclasses.replace(evaluation, datasets={"osie": scored}).write(folder)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What one process answers to all cases, and whether TensorFlow was loaded by then."""
    folder = tmp_path_factory.mktemp("loading")
    data = write_prepared(folder / "data")
    write_prepared(folder / "no-valid", n_valid=0)
    write_prepared(folder / "maps", n_fixations=0)
    for name in ("model", "other"):
        write_model(folder / name)
    for seed, name in enumerate(("one", "two")):
        write_evaluation(folder / name, data, seed)
    (folder / "pictures").mkdir()
    Image.new("RGB", (40, 32)).save(folder / "pictures" / "a.png")
    Image.new("RGB", (80, 32)).save(folder / "wide.png")
    programs = {"trainer": TRAINER, "studio": STUDIO, "pipeline": PIPELINE}
    cases = {name: [each for each, _ in rows] for name, rows in programs.items()}
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[1])},
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    return {str(what): rest for what, *rest in json.loads(finished.stdout)}


@pytest.mark.parametrize(("what", "answer"), [*TRAINER, *STUDIO, *PIPELINE])
def test_mistake_is_answered_and_light_work_is_done_without_tensorflow(answers, what, answer):
    said, stderr, loaded = answers[str(what)]
    assert answer in said
    assert answer or not said
    assert LOADING not in stderr
    assert not loaded


# === Loading it ===


def load(folder, code="pass", stub=STUB, prefix=()):
    """What a process says that loads a package called tensorflow, twice."""
    (folder / "tensorflow.py").write_text(stub)
    call = f"import sys; {code}; from trainer.machine.runtime import load_tensorflow as load; load(); load()"
    return subprocess.run(
        [*prefix, sys.executable, "-c", f"{call}; print(sys.modules.get('matplotlib.pyplot', 'free'))"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{folder}:{pathlib.Path(__file__).parents[1]}"},
        timeout=60,
    )


def test_loading_is_said_once_on_stderr_and_leaves_pyplot_as_it_was(tmp_path):
    finished = load(tmp_path)
    assert (finished.stdout, finished.stderr) == ("imported True\nfree\n", f"{LOADING} ...\n")


def test_tensorflow_writes_nothing_itself(monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    code = "from trainer.machine.runtime import load_tensorflow as load; load(); import keras; keras.ops.zeros(1)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (finished.stdout, finished.stderr) == ("", f"{LOADING} ...\n")


LIMITS = "import resource; print(resource.getrlimit(resource.RLIMIT_MEMLOCK))"
SYS_RESOURCE = 24
"""Number of the capability to raise hard limits (capabilities(7))."""
STATUS = pathlib.Path("/proc/self/status")
CAPABILITIES = re.search(r"CapEff:\s*(\w+)", STATUS.read_text() if STATUS.exists() else "CapEff: 0")[1]
ABLE = bool(int(CAPABILITIES, 16) >> SYS_RESOURCE & 1)


@pytest.mark.parametrize(
    ("prefix", "raised"),
    [
        (("setpriv", "--bounding-set=-sys_resource") if ABLE else (), 2**17),
        pytest.param((), TPU_LOCKED_BYTES, marks=pytest.mark.skipif(not ABLE, reason="needs a capability")),
    ],
)
def test_memory_can_be_locked_for_a_tpu_before_tensorflow_starts(tmp_path, monkeypatch, prefix, raised):
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    lower = "import resource; resource.setrlimit(resource.RLIMIT_MEMLOCK, (2**16, 2**17))"
    finished = load(tmp_path, lower, LIMITS, prefix)
    assert finished.stderr == f"{LOADING} ...\n", finished.stderr
    assert finished.stdout.splitlines()[0] == str((raised, raised))


NAMESPACE = ("unshare", "--user", "--map-root-user")
"""Makes a process root in a user namespace, as in a pod with `hostUsers: false`: with all capabilities there."""


@functools.cache
def why_no_namespace():
    """Why this machine makes no user namespaces; empty if it makes them."""
    if not shutil.which(NAMESPACE[0]):
        return "there is no unshare"
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True).stderr


def test_root_in_a_user_namespace_knows_that_it_cannot_lock_memory_for_a_tpu(tmp_path, monkeypatch):
    if why := why_no_namespace():
        pytest.skip(f"no user namespaces here: {why}")
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    lower = "import resource; resource.setrlimit(resource.RLIMIT_MEMLOCK, (2**16, 2**17))"
    ask = "from trainer.machine import runtime; print(runtime.has_own_users(), runtime.locked_memory_is_low())"
    finished = load(tmp_path, lower, ask, NAMESPACE)
    assert finished.stdout.splitlines()[0] == "True True", finished.stderr
    assert not runtime.has_own_users()
