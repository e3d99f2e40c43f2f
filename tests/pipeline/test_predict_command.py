"""`python -m pipeline predict`: the plan, a job here, and the tasks of a service."""

import json

import polars as pl
import pytest
import yaml

from pipeline.__main__ import main
from tests.narrow import narrow_pretrained, narrowed
from tests.predicting import write_photos
from tests.refusals import refused
from tests.vertex import write_config
from trainer.errors import SettingError


@pytest.fixture
def photos(tmp_path):
    return str(tmp_path / "photos"), write_photos(tmp_path / "photos", 6)


def test_a_dry_run_says_what_machines_take_and_writes_nothing(photos, tmp_path, capsys):
    source, _ = photos
    assert main(["predict", source, str(tmp_path / "out"), "--dry-run", "--machines", "3"]) == 0
    said = capsys.readouterr().out
    assert "6 images" in said
    assert {line.split(":")[0] for line in said.splitlines() if " x " in line} == {"cpu", "cpu-amx"}
    assert "1 x c3-standard-22" in said
    assert not (tmp_path / "out").exists()


def test_a_job_here_writes_maps_and_the_table(photos, tmp_path, capsys):
    source, keys = photos
    with narrowed(), narrow_pretrained():
        arguments = [
            source,
            str(tmp_path / "out"),
            "--model",
            "pretrained",
            "--format",
            "npy",
            "--region",
            "a:0,0,9,9",
        ]
        assert main(["predict", *arguments]) == 0
    table = pl.read_parquet(tmp_path / "out/table/*.parquet")
    assert sorted(table["key"]) == keys
    assert all(len(regions) == 1 for regions in table["regions"])
    assert "6 images" in capsys.readouterr().out


def test_a_run_on_vertex_has_a_job_for_each_shard(vertex, tmp_path, capsys):
    config = write_config(vertex.environment, tmp_path)
    arguments = ["gs://b/photos", "gs://b/out", "--env", str(config), "--machines", "7", "--format", "png"]
    assert main(["predict", *arguments, "--max-bad-share", "0.2"]) == 0
    (request,) = vertex.sent("POST", "/pipelineJobs")
    job = request.body
    root = job["pipelineSpec"]["root"]
    defaults = {name: each.get("defaultValue") for name, each in root["inputDefinitions"]["parameters"].items()}
    assert (defaults["source"], defaults["output_dir"]) == ("gs://b/photos", "gs://b/out")
    loops = [
        task
        for component in job["pipelineSpec"]["components"].values()
        for task in component.get("dag", {}).get("tasks", {}).values()
        if "parameterIterator" in task
    ]
    assert [loop["iteratorPolicy"]["parallelismLimit"] for loop in loops] == [7]
    settings = json.dumps(root["dag"]["tasks"]["plan-predictions"])
    assert "max_bad_share" in settings
    assert job["serviceAccount"] == vertex.environment.service_account
    assert request.query["pipelineJobId"] in capsys.readouterr().out


def test_a_machine_that_vertex_does_not_have_is_refused(vertex, tmp_path):
    config = write_config(vertex.environment, tmp_path)
    with refused(SettingError, "cpu-amx", "c3-standard-22"):
        main(["predict", "gs://b/photos", "gs://b/out", "--env", str(config), "--accelerator", "cpu-amx"])
    assert not vertex.sent("POST", "/pipelineJobs")


def test_a_folder_of_this_machine_is_refused_on_a_service(vertex, tmp_path, photos):
    config = write_config(vertex.environment, tmp_path)
    with refused(SettingError, "SOURCE", photos[0]):
        main(["predict", photos[0], "gs://b/out", "--env", str(config)])


def test_a_pipeline_for_kubeflow_is_written_with_its_machine(tmp_path):
    output = tmp_path / "predict.yaml"
    arguments = ["predict", "gs://b/photos", "gs://b/out", "--env", "kubeflow", "--accelerator", "cpu-amx"]
    assert main([*arguments, "--write", str(output)]) == 0
    spec, platform = yaml.safe_load_all(output.read_text())
    shard = spec["deploymentSpec"]["executors"]["exec-predict-shard"]["container"]
    assert shard["resources"]["memoryLimit"] > 60
    executor = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-predict-shard"]
    assert executor["nodeSelector"] == {"labels": {"cloud.google.com/machine-family": "c3"}}
    with refused(SettingError, "kubeflow", "--write"):
        main(arguments)
