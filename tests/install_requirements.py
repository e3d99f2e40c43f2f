"""Each pinned set of requirements installs into an empty environment, where the training step can be loaded.

Minutes and up to 8 GB of disk for each set, and it needs a package index: `make test-requirements` runs it; the
file's name keeps it out of the other runs. The environment is what images/Dockerfile makes of the set, with its
variables; the wheels for NVIDIA and TPU machines import on any machine, as long as no device is touched.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.images import environment_of

ROOT = pathlib.Path(__file__).parent.parent
UV = (sys.executable, ROOT / "requirements" / "uv.py", "pip")
PROGRAM = """
import keras, tensorflow
import components.train_model, pipeline.graph.dag
import trainer.evaluation.evaluate, trainer.models.saved_model, trainer.training.train
print(tensorflow.__version__, float(keras.ops.sum(tensorflow.ones((2, 3)))))
"""
OFF_HOST = {
    # libtpu asks a metadata server what it runs on, and waits for one where there is none.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}


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
        sets = [part for name in (variant, "dev") for part in ("--requirement", f"requirements/{name}.txt")]
        place = ["--target", tmp_path, "--python-platform", platform, "--python-version", python]
        wheels = ["--only-binary", ":all:", "--no-binary", "kfp-server-api"]  # which has its source alone
        command = [*UV, "install", "--dry-run", "--require-hashes", "--no-deps", *place, *wheels, *sets]
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert finished.returncode == 0, finished.stderr


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["cpu", "tpu", "gpu"])
def test_set_installs_and_loads_the_training_step(variant, empty, tmp_path):
    def run(*command, **environment):
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        finished = subprocess.run(
            command, cwd=tmp_path, env=inherited | environment, capture_output=True, text=True, timeout=3600
        )
        assert finished.returncode == 0, f"{command}\n{finished.stdout[-2000:]}{finished.stderr[-4000:]}"
        return finished.stdout

    run(*UV, "sync", "--python", empty, "--require-hashes", ROOT / "requirements" / f"{variant}.txt")
    run(
        *UV, "install", "--python", empty, "--no-index", "--no-build-isolation", "--editable", f"{ROOT}[{variant}]"
    )
    run(*UV, "check", "--python", empty)
    # In the image a link leads from the path that the variable names to this library.
    library = (
        run(empty, "-c", "import libtpu; print(libtpu.get_library_path())").strip() if variant == "tpu" else ""
    )
    variables = environment_of(variant) | (
        OFF_HOST | {"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": library} if variant == "tpu" else {}
    )
    assert run(empty, "-c", PROGRAM, **variables).split() == ["2.20.0", "6.0"]
    assert "train" in run(empty, "-m", "trainer", "--help", **variables)
