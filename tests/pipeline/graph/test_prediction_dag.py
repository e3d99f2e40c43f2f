"""The graph of a batch prediction as it is compiled, on some tiny pictures.

kfp.local runs it for Kubeflow. For Vertex AI, the commands of its custom jobs are run as they are.
"""

import builtins
import csv
import json
import subprocess
import sys

import numpy as np
import polars
import pytest
import yaml
from kfp import local
from kfp.local.config import LocalExecutionConfig
from PIL import Image

from components.plan_predictions import plan_predictions
from components.predict_shard import predict_shard
from lifecycle.machines import BatchMachines
from pipeline.graph import Environment, Prediction, prediction_dag, shard_loop, write_prediction
from tests.narrow import narrow_pretrained, narrowed
from tests.patches import replace
from trainer.batch import BatchConfig, collect_job, job
from trainer.prediction import PredictConfig

GOOD = [f"{parent}/{index}.png" for parent in ("a", "b") for index in range(3)]
BROKEN = "b/broken.png"
SETTINGS = {"format": "png", "shard_gigabytes": 4e-6, "machines": 2}
"""Each picture has about 1.7 kB, so that there are SHARDS shards, of which two are predicted at a time."""
SHARDS = 3
TYPES = {"NUMBER_INTEGER": int, "LIST": list}
"""Type of a parameter of a compiled pipeline -> its type in Python."""
IMAGES = {"image_repository": "localhost", "image_tag": "here"}
ENVIRONMENTS = {
    "vertex": Environment("v", "vertex", project="p", location="us-central1", bucket="gs://bucket", **IMAGES),
    "kubeflow": Environment("k", "kubeflow", bucket="/data", volume_claim="msinet", **IMAGES),
}


@pytest.fixture(scope="module", autouse=True)
def narrow():
    with narrowed(), narrow_pretrained():
        yield


@pytest.fixture
def source(tmp_path):
    """A folder with the pictures GOOD, of which no two are alike, and a file that is none."""
    random = np.random.default_rng(0)
    for key in GOOD:
        path = tmp_path / "source" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (20, 28, 3), np.uint8)).save(path)
    (tmp_path / "source" / BROKEN).write_bytes(b"no picture")
    return tmp_path / "source"


def asked(source, output):
    parts = (
        part(**{name: value for name, value in SETTINGS.items() if name in part.__dataclass_fields__})
        for part in (PredictConfig, BatchConfig, BatchMachines)
    )
    return Prediction(str(source), str(output), "pretrained", ["logo:0,0,10,10"], *parts)


def assert_complete(output):
    """Assert that the folder has each picture once, its map, and no file beside those that a job leaves."""
    tables = sorted(output.glob("table/*.parquet"))
    assert len(tables) == SHARDS
    rows = polars.concat([polars.read_parquet(path) for path in tables])
    assert rows["key"].to_list() == [*GOOD, BROKEN]
    assert rows["regions"].list.len().to_list() == [1] * len(GOOD) + [None]
    lists = [f"shards/{shard:05}.{ending}" for shard in range(SHARDS) for ending in ("json", "parquet")]
    expected = {"job.json", "summary.json", "unread.csv", *lists, *(f"png/{key}.png" for key in GOOD)}
    files = {path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()}
    assert files == expected | {f"table/{path.name}" for path in tables}
    with (output / "unread.csv").open() as file:
        assert [row["key"] for row in csv.DictReader(file)] == [BROKEN]
    assert json.loads((output / "summary.json").read_text())["unread"] == 1


# It warns of what it ignores: display names, resources, images.
@pytest.mark.filterwarnings("ignore:::kfp.local")
def test_all_shards_are_predicted(source, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalExecutionConfig, "instance", None)
    monkeypatch.setattr(builtins, "print", print)  # the threads of a loop leave one that indents
    replace(monkeypatch, shard_loop, "RETRIES", 0)  # which kfp.local waits minutes for
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "root"), enable_caching=False)
    output = tmp_path / "output"
    prediction_dag.build_prediction(ENVIRONMENTS["kubeflow"], asked(source, output))()
    assert_complete(output)


def planned(source, output):
    """The outputs of the first task: name -> value."""
    given = asked(source, output)
    returned = plan_predictions.python_func(
        source=given.source,
        output_dir=given.output,
        model=given.model,
        registry="",
        model_name="msinet",
        regions=given.regions,
        settings={**SETTINGS, "image": "image"},
    )
    return dict(zip(plan_predictions.component_spec.outputs, returned, strict=True))


def test_custom_jobs_predict_all_shards(source, tmp_path):
    output = tmp_path / "output"
    for (pool,) in planned(source, output)["worker_pools"]:
        assert pool["container_spec"]["image_uri"] == "image"
        container = pool["container_spec"]
        assert container["command"][0] == "python"
        subprocess.run([sys.executable, *container["command"][1:], *container["args"]], check=True)
    collect_job(str(output))
    assert_complete(output)


def test_few_tasks_predict_many_shards(source, tmp_path, monkeypatch):
    replace(monkeypatch, job, "MOST_TASKS", 2)
    output = tmp_path / "output"
    tasks = planned(source, output)["tasks"]
    assert len(tasks) == 2
    for task in tasks:
        predict_shard.python_func(output_dir=str(output), task=task, max_bad_share=0.0)
    collect_job(str(output))
    assert_complete(output)


@pytest.mark.parametrize(("target", "items"), [("kubeflow", "tasks"), ("vertex", "worker_pools")])
def test_items_of_the_loop_have_its_type(source, tmp_path, target, items):
    path = tmp_path / "predict.yaml"
    write_prediction(ENVIRONMENTS[target], asked("gs://bucket/source", "gs://bucket/output"), path)
    spec, *_ = yaml.safe_load_all(path.read_text())
    loop = spec["components"]["comp-shards"]["dag"]["tasks"]["for-loop-1"]
    assert loop["iteratorPolicy"]["parallelismLimit"] == SETTINGS["machines"]
    parameters = spec["components"]["comp-for-loop-1"]["inputDefinitions"]["parameters"]
    kind = TYPES[parameters[loop["parameterIterator"]["itemInput"]]["parameterType"]]
    taken = spec["root"]["dag"]["tasks"]["shards"]["inputs"]["parameters"]["items"]["taskOutputParameter"]
    assert taken == {"producerTask": "plan-predictions", "outputParameterKey": items}
    assert [type(each) for each in planned(source, tmp_path / "output")[items]] == [kind] * SHARDS
