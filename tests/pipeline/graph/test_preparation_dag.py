"""The graph that prepares a dataset in shards, as it is compiled: it gives the bytes of one process.

kfp.local runs it for Kubeflow. For Vertex AI, the commands of its custom jobs are run as they are.
"""

import builtins
import subprocess
import sys

import pytest
import yaml
from kfp import local
from kfp.local.config import LocalExecutionConfig

from components.decide_dataset import decide_dataset
from lifecycle.machines import BatchMachines
from pipeline.graph import Environment, Preparation, preparation_dag, shard_loop, write_preparation
from tests.patches import replace
from tests.small_sources import files, write_tree
from trainer.data import FetchConfig, PreparedData, fetch_dataset

SHARDS = 3
GIGABYTES = 1e-4
"""Each of the five files has 45 kB at the source."""
IMAGES = {"image_repository": "localhost", "image_tag": "here"}
ENVIRONMENTS = {
    "vertex": Environment("v", "vertex", project="p", location="us-central1", bucket="gs://bucket", **IMAGES),
    "kubeflow": Environment("k", "kubeflow", bucket="/data", volume_claim="msinet", **IMAGES),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return write_tree(tmp_path_factory.mktemp("tree"), 90)


def asked(source, output):
    config = FetchConfig("osie", str(source), "40x64", allow_partial_data=True)
    return Preparation(config, str(output), BatchMachines(machines=2), GIGABYTES)


@pytest.fixture(scope="module")
def whole(tree, tmp_path_factory):
    """The files of the dataset, prepared by one process."""
    folder = tmp_path_factory.mktemp("whole") / "set"
    fetch_dataset(asked(tree, "").config, folder)
    return files(folder)


# It warns of what it ignores: display names, resources, images.
@pytest.mark.filterwarnings("ignore:::kfp.local")
def test_the_graph_prepares_the_dataset_of_one_process(tree, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalExecutionConfig, "instance", None)
    monkeypatch.setattr(builtins, "print", print)  # the threads of a loop leave one that indents
    replace(monkeypatch, shard_loop, "RETRIES", 0)  # which kfp.local waits minutes for
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "root"), enable_caching=False)
    preparation_dag.build_preparation(ENVIRONMENTS["kubeflow"], asked(tree, tmp_path / "set"))()
    assert files(tmp_path / "set") == whole
    assert len(list((tmp_path / "root").rglob("prepare-shard*"))) >= SHARDS


@pytest.fixture
def plan(tree, tmp_path):
    """The outputs of the first task: name -> value."""
    settings = {"image_size": "40x64", "allow_partial_data": True, "machines": 2}
    returned = decide_dataset.python_func(
        dataset="osie",
        source=str(tree),
        output_dir=str(tmp_path / "set"),
        settings={**settings, "shard_gigabytes": GIGABYTES, "test": False, "image": "image"},
    )
    return dict(zip(decide_dataset.component_spec.outputs, returned, strict=True))


def test_custom_jobs_prepare_the_dataset_of_one_process(plan, whole, tmp_path):
    assert len(plan["worker_pools"]) == SHARDS
    for (pool,) in plan["worker_pools"]:
        container = pool["container_spec"]
        assert (container["image_uri"], container["command"][0]) == ("image", "python")
        assert "disk_spec" not in pool
        subprocess.run([sys.executable, *container["command"][1:], *container["args"]], check=True)
    PreparedData(tmp_path / "set").merge()
    assert files(tmp_path / "set") == whole


@pytest.mark.parametrize(("target", "items"), [("kubeflow", "tasks"), ("vertex", "worker_pools")])
def test_the_loop_is_over_the_shards_of_the_plan(tmp_path, target, items):
    path = tmp_path / "prepare.yaml"
    write_preparation(ENVIRONMENTS[target], asked("gs://bucket/source", "gs://bucket/set"), path)
    spec, *_ = yaml.safe_load_all(path.read_text())
    assert spec["components"]["comp-shards"]["dag"]["tasks"]["for-loop-1"]["iteratorPolicy"] == {
        "parallelismLimit": 2
    }
    taken = spec["root"]["dag"]["tasks"]["shards"]["inputs"]["parameters"]["items"]["taskOutputParameter"]
    assert taken == {"producerTask": "decide-dataset", "outputParameterKey": items}
    assert spec["root"]["dag"]["tasks"]["merge-shards"]["dependentTasks"] == ["shards"]
