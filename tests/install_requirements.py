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
PIP = ("-m", "pip", "--disable-pip-version-check")
PROGRAM = """
import keras, tensorflow
import components.train_model, pipeline.dag
import trainer.evaluation.evaluate, trainer.serving.export, trainer.training.train
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
    """The interpreter of an environment with pip alone; removed afterwards, since pytest keeps folders."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    yield folder / "bin" / "python"
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["cpu", "tpu", "gpu"])
def test_set_installs_and_loads_the_training_step(variant, empty, tmp_path):
    def run(*arguments, **environment):
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [empty, *arguments]
        finished = subprocess.run(
            command, cwd=tmp_path, env=inherited | environment, capture_output=True, text=True, timeout=3600
        )
        assert finished.returncode == 0, f"{command}\n{finished.stdout[-2000:]}{finished.stderr[-4000:]}"
        return finished.stdout

    run(*PIP, "install", "--no-cache-dir", "--requirement", ROOT / "requirements" / f"{variant}.txt")
    run(*PIP, "install", "--no-deps", "--no-build-isolation", "--editable", ROOT)
    run(*PIP, "check")
    # In the image a link leads from the path that the variable names to this library.
    library = run("-c", "import libtpu; print(libtpu.get_library_path())").strip() if variant == "tpu" else ""
    variables = environment_of(variant) | (
        OFF_HOST | {"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": library} if variant == "tpu" else {}
    )
    assert run("-c", PROGRAM, **variables).split() == ["2.20.0", "6.0"]
    assert "train" in run("-m", "trainer", "--help", **variables)
