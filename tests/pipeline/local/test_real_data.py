"""The main job on real images: Cloud Storage, archives of both layouts, VGG16 weights from a file."""

import os
import pathlib
import subprocess
import sys

import pytest

from lifecycle.registry.folder_registry import LocalRegistry
from tests.gcs import upload
from trainer.io import files
from trainer.metrics.metric_table import DENSITY, METRICS, metrics_that_need
from trainer.network import model_folder

SHARED = pathlib.Path(__file__).parents[4] / "shared"
WEIGHTS_SCRIPT = SHARED / "tools" / "vgg16_weights.py"

pytestmark = pytest.mark.skipif(
    not (SHARED / "data" / "salicon").is_dir(), reason=f"the real data is not at {SHARED / 'data'}"
)


@pytest.fixture
def vgg16(tmp_path):
    """A VGG16 no-top file in Keras' layout."""
    path = tmp_path / "vgg16.h5"
    made = subprocess.run([sys.executable, WEIGHTS_SCRIPT, path], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no VGG16 weights without the package index: {made.stderr.strip().splitlines()[-1]}")
    return path


def test_few_real_images_from_a_bucket_come_near_the_centre_bias_and_do_not_beat_pretrained(
    bucket, vgg16, tmp_path
):
    base = upload(bucket, SHARED / "data" / "salicon")
    finetune = upload(bucket, SHARED / "data" / "add1000.tar.gz", "fixation/add1000.tar.gz")
    small = [f"{step}_{it}" for step in ("base", "finetune") for it in ("image_size=72x96", "learning_rate=5e-5")]
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "pipeline", "run", "--run-dir", "run", *small),
            *(f"base_source={base}", f"finetune_source={finetune}", f"initial_weights={vgg16}"),
            *("allow_partial_data=true", "max_examples=8", "base_epochs=1", "finetune_epochs=1"),
            "evaluate_base=true",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
        env=os.environ | {"COLUMNS": "160"},
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert LocalRegistry(tmp_path / "models").aliases("msinet") == {"challenger": 1}
    (path,) = (tmp_path / "run").glob(f"msinet-*/evaluate-model/evaluation/{model_folder.EVALUATION}")
    evaluation = files.read_json(path, "", dict)
    assert list(evaluation["datasets"]) == ["fixationadd1000", "salicon"]
    mouse = evaluation["datasets"]["salicon"]["models"]["candidate"]
    assert set(mouse) == set(METRICS)
    eyes = evaluation["datasets"]["fixationadd1000"]["models"]
    assert set(eyes["candidate"]) == set(metrics_that_need(DENSITY))  # the tarball has densities alone
    # Eight images and an epoch: 3% above it on a CPU without AVX-512, below it on one with bfloat16.
    assert eyes["candidate"]["kld"] < 1.1 * eyes["centre_bias"]["kld"]
