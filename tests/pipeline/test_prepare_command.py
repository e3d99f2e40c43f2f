"""`python -m pipeline prepare`: a dataset in shards here, and the tasks of a service."""

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import yaml

from pipeline.__main__ import main
from tests.refusals import refused
from tests.small_sources import files, write_tree
from tests.vertex import write_config
from trainer.data import FetchConfig, PreparedData, fetch_dataset
from trainer.errors import ConflictError, FailedError, PlaceError, SettingError

ROOT = pathlib.Path(__file__).parents[2]
SETTINGS = ["--image-size", "40x64", "--allow-partial-data", "--shard-gigabytes", "1e-4"]
"""Each file of the 90 images is of 45 kB at the source, so that there are SHARDS shards of two files or one."""
SHARDS = 3


@pytest.fixture
def tree(tmp_path):
    return write_tree(tmp_path / "tree", 90)


def part(folder, shard):
    return folder / "stages" / f"part-{shard:05d}"


def test_a_command_that_was_killed_goes_on_and_prepares_no_shard_twice(tree, tmp_path, capsys):
    fetch_dataset(FetchConfig("osie", str(tree), "40x64", allow_partial_data=True), tmp_path / "whole")
    folder = tmp_path / "set"
    words = ["prepare", "osie", str(tree), str(folder), *SETTINGS]
    process = subprocess.Popen([sys.executable, "-m", "pipeline", *words], cwd=ROOT, start_new_session=True)
    ends = time.monotonic() + 300
    while not part(folder, 0).exists() and time.monotonic() < ends:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = {path.name: path.stat().st_ino for path in part(folder, 0).glob("*.tfrecord")}
    assert len(kept) == 2
    assert not part(folder, SHARDS - 1).exists()
    assert main(words) == 0
    assert "osie" in capsys.readouterr().out
    assert files(folder) == files(tmp_path / "whole")
    assert {name: (folder / name).stat().st_ino for name in kept} == kept
    assert main(words) == 0
    assert files(folder) == files(tmp_path / "whole")
    with refused(ConflictError, folder, "image_size", "(40, 64)", "(48, 64)"):
        main([*words, "--image-size", "48x64"])
    (tree / "stimuli" / "1.png").unlink()
    with refused(ConflictError, folder, "fingerprint"):
        main(words)


def test_merging_goes_on_without_a_new_plan(tree, tmp_path):
    """Some files of the dataset are in place already, and the parts lack them."""
    whole, folder = tmp_path / "whole", tmp_path / "set"
    words = ["prepare", "osie", str(tree), str(folder), *SETTINGS, "--test"]
    config = FetchConfig("osie", str(tree), "40x64", allow_partial_data=True)
    fetch_dataset(config, whole, test_of="osie")
    prepared = PreparedData(folder)
    for shard in range(len(prepared.decide(config, test_of="osie", shard_gigabytes=1e-4))):
        prepared.prepare_shard(shard)
    first = next(part(folder, 0).glob("*.tfrecord"))
    first.rename(folder / first.name)
    assert main(words) == 0
    assert files(folder) == files(whole)


def test_a_shard_that_fails_ends_the_command(tree, tmp_path, capfd):
    words = ["prepare", "osie", str(tree), str(tmp_path / "set"), *SETTINGS]
    image = next((tree / "stimuli").iterdir())
    image.write_bytes(image.read_bytes()[:500])
    with refused(FailedError, f"of {SHARDS}"):
        main([*words, "--max-bad-share", "0"])
    assert image.name in capfd.readouterr().err


def test_a_dry_run_counts_and_writes_nothing(tree, tmp_path, capsys):
    words = ["prepare", "osie", str(tree), str(tmp_path / "set"), "--dry-run", "--machines", "2"]
    assert main([*words, "--shard-gigabytes", "1e-4"]) == 0
    said = capsys.readouterr().out
    assert "180 images" in said
    assert "2 x n1-standard-16" in said
    assert not (tmp_path / "set").exists()
    with refused(SettingError, "sample"):
        main(["prepare", "salicon", "sample", str(tmp_path / "set"), "--dry-run"])


def test_a_run_on_vertex_has_a_job_for_each_shard(vertex, tmp_path, capsys):
    config = write_config(vertex.environment, tmp_path)
    words = ["prepare", "osie", "gs://b/osie", "gs://b/set", "--env", str(config), "--machines", "7"]
    assert main([*words, "--max-examples", "9"]) == 0
    (request,) = vertex.sent("POST", "/pipelineJobs")
    root = request.body["pipelineSpec"]["root"]
    defaults = {name: each.get("defaultValue") for name, each in root["inputDefinitions"]["parameters"].items()}
    assert defaults == {"dataset": "osie", "source": "gs://b/osie", "output_dir": "gs://b/set"}
    (loop,) = [
        task
        for component in request.body["pipelineSpec"]["components"].values()
        for task in component.get("dag", {}).get("tasks", {}).values()
        if "parameterIterator" in task
    ]
    assert loop["iteratorPolicy"]["parallelismLimit"] == 7
    settings = root["dag"]["tasks"]["decide-dataset"]["inputs"]["parameters"]["settings"]
    assert settings["runtimeValue"]["constant"]["max_examples"] == 9
    assert request.query["pipelineJobId"] in capsys.readouterr().out


def test_a_pipeline_for_kubeflow_is_written_with_its_volume(tmp_path):
    file = tmp_path / "prepare.yaml"
    write_prepare(tmp_path, file, "/data/osie", "/data/set")
    spec, platform = yaml.safe_load_all(file.read_text())
    assert "exec-prepare-shard" in spec["deploymentSpec"]["executors"]
    for name in ("decide-dataset", "prepare-shard", "merge-shards"):
        executor = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"][f"exec-{name}"]
        assert [mount["mountPath"] for mount in executor["pvcMount"]] == ["/data"]


def write_prepare(folder, file, source, output, keys=(("bucket", "/data"), ("volume_claim", "msinet"))):
    """Write the pipeline for a Kubeflow environment with these keys."""
    path = folder / "cluster.toml"
    lines = {"target": "kubeflow", "image_repository": "localhost", "image_tag": "1", **dict(keys)}
    path.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items()))
    main(["prepare", "osie", source, output, "--env", str(path), "--write", str(file)])


@pytest.mark.parametrize(
    ("source", "output", "named"),
    [
        ("/else/osie", "/data/set", ("SOURCE", "/else/osie")),
        ("gs://b/osie", "/else/set", ("OUTPUT", "/else/set")),
        ("gs://b/osie", "gs://b/set", ("OUTPUT", "gs://b/set", "volume_claim")),
        ("https://h.org/a.zip?key=secret", "/data/set", ("https://h.org/a.zip",)),
    ],
)
def test_a_place_that_tasks_cannot_have_is_refused(source, output, named, tmp_path):
    with refused(SettingError, *named) as error:
        write_prepare(tmp_path, tmp_path / "prepare.yaml", source, output)
    assert "secret" not in str(error.value)


def test_what_is_refused_here(tree, tmp_path):
    with refused(PlaceError, "gs://b/set"):
        main(["prepare", "osie", str(tree), "gs://b/set"])
    with refused(SettingError, "--shard-gigabytes", 0):
        main(["prepare", "osie", str(tree), str(tmp_path / "set"), "--shard-gigabytes", "0"])
