"""`benchmark` against a project on loopback: jobs that work, lack quota, fail, or leave no result in their log."""

import dataclasses
import datetime
import json
import os
import pathlib
import re

import pytest
from google.cloud.aiplatform_v1 import CustomJob

from lifecycle.machines import benchmark_results
from lifecycle.machines.benchmark_results import Measurement
from lifecycle.machines.plan import DataSize, make_plan
from lifecycle.machines.settings import AcceleratorConfig
from pipeline.__main__ import main
from pipeline.vertex import benchmark
from tests.narrow_tasks import sitecustomize
from tests.refusals import refused
from tests.vertex import SERVICE_ACCOUNT, write_config
from tests.vertex_project import CALLER
from trainer.commands.benchmark import RESULT
from trainer.errors import ContentError, SettingError, UnknownNameError, UnreachableError
from trainer.training.settings import TrainConfig

SALICON = DataSize(images=10_000, valid_images=0, image_size=(240, 320))
PRINTED = {
    "images_per_s": 160.0,
    "memory_bytes": 5_000_000_000,
    "first_step_at": "2026-03-02T10:03:20+00:00",  # 200 s after the start of the job
    "steps": 100,
    "image_size": [240, 320],
    "batch_size": 32,
    "accumulation": 1,
    "precision": "bfloat16",
    "devices": "1 x NVIDIA L4",
    "versions": "0.1.0, TensorFlow 2.20.0",
}
MEASURED = Measurement(
    **{name: value for name, value in PRINTED.items() if name not in ("first_step_at", "image_size")},
    image_size=(240, 320),
    accelerator="l4",
    date="2026-03-02",
    start_s=200.0,
)


@pytest.fixture
def jobs(vertex, monkeypatch):
    """A project whose jobs print a result, and the command line for it; entries are as Vertex AI writes them."""
    monkeypatch.setattr(benchmark, "POLL_S", 0.0)
    monkeypatch.setattr(benchmark, "LOG_S", 0.0)

    def run(command):
        number = str(len(vertex.kept("jobs")) + 1)
        (batch,) = (int(word.partition("=")[2]) for word in command if word.startswith("--batch-size"))
        line = f"{RESULT}{json.dumps({**PRINTED, 'batch_size': batch})}"
        payloads = ({"textPayload": line}, {"jsonPayload": {"message": line, "levelname": "INFO"}})
        vertex.kept("log")[number] = [{"textPayload": "loading"}, payloads[len(vertex.kept("jobs")) % 2]]
        return "QUEUED", "PENDING", "RUNNING", "SUCCEEDED"

    vertex.state["job"] = run
    return vertex


def run(vertex, tmp_path, *arguments):
    return main(["benchmark", "--env", write_config(vertex.environment, tmp_path), *arguments])


def created(vertex):
    return [CustomJob.from_json(json.dumps(each.body)) for each in vertex.sent("POST", "/customJobs")]


def test_each_accelerator_is_measured_by_a_job_like_a_training(jobs, tmp_path, capsys):
    assert run(jobs, tmp_path, "--accelerators", "l4,v5e-1", "--yes") == 0
    first, second = created(jobs)
    (pool,) = first.job_spec.worker_pool_specs
    assert (pool.machine_spec.machine_type, pool.replica_count) == ("g2-standard-8", 1)
    assert pool.container_spec.image_uri == jobs.environment.image_of("gpu")
    assert [*pool.container_spec.command, *pool.container_spec.args] == [
        *("python", "-m", "trainer", "benchmark", "--accelerator=l4", "--image-size=240x320", "--batch-size=32"),
        *("--accumulation=1", "--precision=bfloat16", "--steps=100"),
    ]
    assert first.job_spec.service_account == SERVICE_ACCOUNT
    assert second.job_spec.worker_pool_specs[0].machine_spec.machine_type == "ct5lp-hightpu-1t"
    assert {each.accelerator for each in Measurement.all()} == {"l4", "v5e-1"}
    assert MEASURED in Measurement.all()
    out = capsys.readouterr().out
    assert re.search(
        r"l4: 160 images/s \(planned 76 to 190\), memory 5\.0 GB, first step after 3 min, kept in ", out
    )
    assert len(jobs.sent("POST", "/v2/entries:list")) == 3


def test_dry_run_names_the_price_and_sends_nothing(jobs, tmp_path, capsys):
    assert run(jobs, tmp_path, "--accelerators", "l4,a100", "--dry-run") == 0
    out = capsys.readouterr().out
    assert re.search(
        r"a100: 100 steps of batch 32 at 240x320 in bfloat16 on 1 x a2-highgpu-1g, standard: .*USD", out
    )
    assert re.search(r"2 custom jobs at the same time, up to 0\.\d\d USD together\. None was started\.", out)
    assert not jobs.requests


def test_one_without_quota_or_image_or_region_does_not_stop_the_others(jobs, tmp_path, capsys):
    project = jobs.state["project"]
    project.quotas["custom_model_training_nvidia_a100_gpus"] = {"": 0}
    project.repositories["msinet"]["tags"].discard("msinet-tpu/v1")
    assert run(jobs, tmp_path, "--accelerators", "a100,v5e-1,h100,l4", "--yes") == 1
    assert [each.accelerator for each in Measurement.all()] == ["l4"]
    out = capsys.readouterr().out
    assert re.search(r"(?m)^a100: not measured: quota \S+nvidia_a100_gpus in us-central1 is 0, ", out)
    assert re.search(r"(?m)^v5e-1: not measured: image .*msinet-tpu:v1 does not exist$", out)
    assert re.search(r"(?m)^h100: h100 .* is not offered as standard", out)


def test_job_that_is_refused_or_fails_is_named_with_googles_reason(jobs, tmp_path, capsys):
    works = jobs.state["job"]
    states = iter([("PENDING", "FAILED"), None])
    jobs.state["job"] = lambda command: next(states) or works(command)
    jobs.kept("errors")["1"] = "Resources are insufficient in region"
    jobs.fail(429, method="POST", path="/customJobs", message="The following quota metrics exceed quota limits")
    assert run(jobs, tmp_path, "--accelerators", "t4,a100,l4", "--yes") == 1
    assert [each.accelerator for each in Measurement.all()] == ["l4"]
    out = capsys.readouterr().out
    assert "t4: not measured: The following quota metrics exceed quota limits (429)" in out
    assert "a100: not measured: the job ended as failed (Resources are insufficient in region)" in out


DAMAGED = "the result of the benchmark is damaged"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("benchmark started", "the log of the job has no result"),
        (f"{RESULT}{{}}", f"{DAMAGED} (first_step_at"),
        (RESULT + '{"first_step_at": "2026-03-02T10:03:20+00:00"}', f"{DAMAGED} (images_per_s"),
        (RESULT + json.dumps({**PRINTED, "first_step_at": "soon"}), f"{DAMAGED} (first_step_at"),
    ],
)
def test_log_without_a_result_is_said(jobs, tmp_path, capsys, line, said):
    def run_job(command):
        jobs.kept("log")["1"] = [{"textPayload": line}]
        return ("SUCCEEDED",)

    jobs.state["job"] = run_job
    assert run(jobs, tmp_path, "--accelerators", "l4", "--yes") == 1
    assert f"l4: not measured: {said}" in capsys.readouterr().out
    assert Measurement.all() == []


def test_log_that_cannot_be_read_is_found_before_a_job_costs(jobs, tmp_path):
    jobs.state["project"].denied.add((f"user:{CALLER}", "logging.logEntries.list"))
    with refused(UnreachableError, "Permission denied", "roles/logging.viewer"):
        run(jobs, tmp_path, "--accelerators", "l4", "--yes")
    assert not created(jobs)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--accelerators", "l4,v5e-3"], (UnknownNameError, "v5e-3", "v5e-4")),
        ([], (SettingError, "--accelerators")),
        (["--target", "local", "--accelerators", "l4"], (SettingError, "--target local")),
        (["--accelerators", "l4", "--steps", "0"], (SettingError, "steps", 0, 1)),
    ],
)
def test_mistake_is_reported(jobs, tmp_path, arguments, named):
    with refused(*named):
        run(jobs, tmp_path, *arguments)
    assert not jobs.requests


def test_this_machine_is_measured_by_the_same_command(capfd, monkeypatch):
    paths = str(pathlib.Path(sitecustomize.__file__).parent), str(pathlib.Path(__file__).parents[3])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))  # its process has the narrow network
    flags = ("--image-size", "32x40", "--batch-size", "2", "--steps", "3", "--precision", "float32")
    assert main(["benchmark", "--target", "local", *flags]) == 0
    (kept,) = Measurement.all()
    assert (kept.accelerator, kept.image_size, kept.batch_size, kept.steps) == ("this machine", (32, 40), 2, 3)
    assert kept.images_per_s > 0
    assert 0 < kept.start_s < 600
    assert kept.date == f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    assert "measuring: 3/3 steps" in capfd.readouterr().out
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["plan", "--image-size", "32x40"]) == 0
    said = " ".join(
        capfd.readouterr().out.split()
    )  # its lines break elsewhere by the length of a processor's name
    assert re.search(r"This machine \(\d+ x .*\), batch 2 in float32: about ", said)


# === The plan ===


def planned(**changes):
    data = dataclasses.replace(SALICON, image_size=changes.pop("image_size", SALICON.image_size))
    machines = AcceleratorConfig(accelerator="l4", workers=changes.pop("workers", 1))
    return make_plan(machines, TrainConfig(**{"batch_size": 32, **changes}), data)


def test_plan_prefers_what_was_measured_at_its_settings():
    """160 images/s are 0.2 s a step of 32 images; 312 steps an epoch, 10 epochs, 200 s for the start."""
    MEASURED.keep()
    plan = planned()
    assert plan.most_seconds_per_step == pytest.approx(0.2)
    assert plan.most_hours == pytest.approx((200 + 3120 * 0.2) / 3600)
    assert plan.memory_bytes == 5e9
    page = plan.markdown()
    assert "| Speed | measured 2026-03-02 |" in page
    assert "160 images/s at 240x320, measured 2026-03-02 over 100 steps with 0.1.0, TensorFlow 2.20.0." in page
    assert "an assumption" not in page


@pytest.mark.parametrize(
    "changes",
    [{"batch_size": 16}, {"precision": "float32"}, {"accumulation": 2}, {"workers": 2, "batch_size": 32}],
)
def test_plan_at_other_settings_is_estimated(changes):
    estimated = planned(**changes)
    MEASURED.keep()
    assert planned(**changes) == estimated
    assert planned(**changes).time_basis == "estimated"


def test_time_at_another_image_size_is_scaled_by_pixels_until_that_is_measured():
    MEASURED.keep()
    plan, estimated = planned(image_size=(360, 360)), 398.88e6 + 4.0e9 * 1.6875
    assert plan.most_seconds_per_step == pytest.approx(0.2 * 1.6875)
    assert plan.memory_bytes == pytest.approx(estimated)
    assert "scaled by pixels" in plan.basis[0]
    dataclasses.replace(MEASURED, image_size=(360, 360), images_per_s=64.0).keep()
    MEASURED.keep()  # in the place of the one before
    assert len(Measurement.all()) == 2
    assert planned(image_size=(360, 360)).most_seconds_per_step == pytest.approx(0.5)


def test_table_marks_what_was_measured(capsys, monkeypatch):
    MEASURED.keep()
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["plan"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "measured 2026-03-02" in rows["l4"]
    assert "measured" not in rows["l4-2"]


def test_damaged_file_is_named():
    benchmark_results.FILE.write_text('{"measurements": [{"accelerator": "l4"}]}')
    with refused(ContentError, "measured.json", "measurements.0.date"):
        planned()
