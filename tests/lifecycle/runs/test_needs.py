"""One list of needs: what it has, and that `doctor`, `submit`, `sweep` and the first task ask for the same."""

import dataclasses

import pytest

from components.check_run import check_run
from lifecycle.machines.plan import DataSize, make_plan
from lifecycle.machines.settings import AcceleratorConfig
from lifecycle.runs.needs import Bucket, Image, PlannedRun, Quota, Source, State, ask_all
from lifecycle.runs.parameters import CONSOLE_FIELDS, DEFAULTS, Values
from lifecycle.vertex.api import Api
from pipeline.__main__ import main
from tests.refusals import assert_named, refused
from tests.vertex import write_config
from trainer.errors import NotFoundError, UserError
from trainer.places.bucket_place import BucketPlace
from trainer.training.settings import TrainConfig

PATTERN = "us-central1-docker.pkg.dev/proj/msinet/msinet-{}:v1"
SWEEP = """
[parameters]
base_model_uri = "pretrained"
accelerator = "l4"
finetune_dataset = "osie"
finetune_source = "gs://data/osie"

[search]
finetune_learning_rate = [1e-5, 1e-4]
"""
L4 = {"base_model_uri": "pretrained", "accelerator": "l4", "finetune_batch_size": 0}


def plan(accelerator, workers=1):
    machines = AcceleratorConfig(accelerator=accelerator, workers=workers)
    return make_plan(machines, TrainConfig(batch_size=0), DataSize(9_000, 1_000, (240, 320)))


def planned(**changes):
    values = Values(
        {
            **DEFAULTS,
            "base_model_uri": "gs://models/mine",
            "checkpoint_dir": "gs://runs/checkpoints",
            "finetune_dataset": "osie",
            "finetune_source": "/gcs/data/osie.zip",
            "registry": f"vertex://proj/us-central1?serving={PATTERN.format('serving')}&staging=gs://versions",
        }
    )
    run = PlannedRun(PATTERN, {"finetune": plan("l4")}, values, "gs://runs/msinet", "prod")
    return dataclasses.replace(run, **changes)


def test_list_has_each_bucket_source_image_and_quota_once():
    assert planned().needs == [
        Bucket("runs", is_written=True, before_start=True),
        Bucket("versions", is_written=True, before_start=False, region="us-central1"),
        Bucket("models", is_written=False, before_start=False),
        Bucket("data", is_written=False, before_start=False),
        Source("base_model_uri", BucketPlace("gs://models/mine")),
        Source("finetune_source", BucketPlace("gs://data/osie.zip")),
        *(Image(PATTERN.format(kind), "prod") for kind in ("cpu", "gpu", "serving")),
        Quota("custom_model_training_nvidia_l4_gpus", 1),
    ]


@pytest.mark.parametrize(
    ("registry", "served"),
    [
        ("gs://versions", []),
        ("vertex://proj/us-central1", []),  # which check_serving refuses
        ("vertex://proj/us-central1?serving=host/own:v2", ["host/own:v2"]),
    ],
)
def test_serving_image_is_the_one_that_the_registry_names(registry, served):
    run = planned()
    images = dataclasses.replace(run, values={**run.values, "registry": registry}).images
    assert images[2:] == served


def test_jobs_at_the_same_time_take_their_quota_together_and_steps_only_the_most():
    plans = {"base": plan("l4-2", workers=2), "finetune": plan("l4-4")}
    assert PlannedRun("", plans).quotas == [Quota("custom_model_training_nvidia_l4_gpus", 4)]
    assert PlannedRun("", {"finetune": plan("l4-4")}, jobs=3).quotas == [
        Quota("custom_model_training_nvidia_l4_gpus", 12)
    ]


def test_pipeline_of_others_needs_its_bucket_alone():
    assert PlannedRun("", {}, bucket="gs://runs/theirs").needs == [Bucket("runs", True, True)]


def test_no_answer_is_unknown_and_names_its_subject(vertex):
    vertex.fail(403, times=99, path="/storage/", message="storage.buckets.get denied")
    (found,) = ask_all([Bucket("runs", True, True)], Api(vertex.environment))
    assert found.state == State.UNKNOWN
    assert found.text == "bucket gs://runs: storage.buckets.get denied (403)"


# === Who asks ===


def ask_doctor(vertex, tmp_path, capsys):
    main(["doctor", "--env", write_config(vertex.environment, tmp_path), *(f"{k}={v}" for k, v in L4.items())])
    return capsys.readouterr().out


def ask_submit(vertex, tmp_path, capsys):
    return said_of("submit", "--env", write_config(vertex.environment, tmp_path), *arguments())


def ask_sweep(vertex, tmp_path, capsys):
    vertex.environment.parameters.clear()
    (tmp_path / "mine.toml").write_text(SWEEP)
    where = ("--env", write_config(vertex.environment, tmp_path), "--sweep-dir", str(tmp_path / "sweep"))
    return said_of("sweep", str(tmp_path / "mine.toml"), *where, "--yes")


def ask_first_task(vertex, tmp_path, capsys):
    environment = vertex.environment
    registry = f"{environment.derived['registry']}&endpoint={environment.endpoint}"
    given = {**L4, "finetune_dataset": "osie", "finetune_source": "sample", "registry": registry}
    form = Values({**{name: DEFAULTS[name] for name in CONSOLE_FIELDS}, **given}).form
    place = {"platform": "vertex", "location": environment.location, "image_pattern": environment.image_of("{}")}
    with refused(UserError) as ended:
        check_run.python_func(**place, run="run", compiled={}, **{"settings": {}, **form})
    return str(ended.value) + capsys.readouterr().err


def arguments():
    return [f"{name}={value}" for name, value in L4.items()]


def said_of(*words):
    with refused(NotFoundError) as caught:
        main([*words])
    return str(caught.value)


ASKERS = (ask_doctor, ask_submit, ask_sweep, ask_first_task)


@pytest.mark.parametrize("kind", ["cpu", "gpu", "serving"])
@pytest.mark.parametrize("ask", ASKERS)
def test_missing_image_is_named_by_all(vertex, bucket, tmp_path, capsys, ask, kind):
    if (ask, kind) == (ask_sweep, "serving"):
        pytest.skip("a sweep registers no version")
    vertex.state["project"].repositories["msinet"]["tags"].remove(f"msinet-{kind}/v1")
    assert_named(ask(vertex, tmp_path, capsys), vertex.environment.image_of(kind))
    assert not vertex.sent("POST", "/pipelineJobs")
    assert not vertex.sent("POST", "/customJobs")


@pytest.mark.parametrize("ask", [ask_doctor, ask_submit, ask_sweep])
def test_missing_quota_is_named_before_a_run_by_all(vertex, bucket, tmp_path, capsys, ask):
    vertex.state["project"].quotas["custom_model_training_nvidia_l4_gpus"] = {"": 0}
    assert_named(ask(vertex, tmp_path, capsys), "custom_model_training_nvidia_l4_gpus", "us-central1", 0, 1)
