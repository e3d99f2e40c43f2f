"""Sweeps against a project on loopback: the job that fetches the data, and the tuning job."""

import json
import os
import pathlib
import re
import subprocess
import time

import pytest
from google.cloud.aiplatform_v1 import CustomJob, HyperparameterTuningJob, StudySpec

from pipeline.__main__ import main
from pipeline.local.run import locked_run
from pipeline.sweep import vertex as sweeps
from tests.refusals import refused
from tests.vertex import DROP, NOW, SERVICE_ACCOUNT, write_config
from trainer.errors import (
    ConflictError,
    FailedError,
    MismatchError,
    NotFoundError,
    SettingError,
    UnreachableError,
    UserError,
)
from trainer.network.model_folder import MODEL_CONFIG, MODEL_WEIGHTS
from trainer.places import buckets
from trainer.training.hypertune import TUNED_METRIC

EVALUATION = pathlib.Path(__file__).parents[2] / "trainer" / "evaluation" / "evaluations" / "first.json"

SWEEP = """
[parameters]
base_model_uri = "pretrained"
finetune_dataset = "osie"
finetune_source = "gs://data/osie"
finetune_epochs = 4
finetune_batch_size = 0
accelerator = "l4"

[search]
finetune_learning_rate = { min = 1e-6, max = 1e-4, log = true }
patience = { min = 1, max = 2 }
flip = [true, false]
learning_rate_schedule = ["constant", "cosine"]
"""


def trial(number, state, losses, flip="true"):
    """A trial as the API returns it."""
    parameters = {"learning-rate": 2e-5, "patience": 2.0, "flip": flip, "schedule": "cosine"}
    return {
        "id": str(number),
        "state": state,
        "parameters": [{"parameterId": name, "value": value} for name, value in parameters.items()],
        "measurements": [
            {"stepCount": str(epoch), "metrics": [{"metricId": TUNED_METRIC, "value": loss}]}
            for epoch, loss in enumerate(losses, start=1)
        ],
        "startTime": NOW,
        **({} if state == "ACTIVE" else {"endTime": NOW}),
    }


def write_models(job, *numbers):
    """Put what trials with these numbers write at their end into the bucket."""
    root = job["trialJobSpec"]["baseOutputDirectory"]["outputUriPrefix"]
    for number in numbers:
        buckets.write_object(f"{root}/{number}/model/{MODEL_CONFIG}", b"{}", buckets.storage_client(write=True))


@pytest.fixture
def project(vertex, tmp_path, monkeypatch):
    """A project whose jobs succeed; the second trial is the best."""
    monkeypatch.setattr(sweeps, "POLL_S", 0.0)
    monkeypatch.chdir(tmp_path)
    vertex.environment.parameters.clear()
    vertex.state["job"] = lambda command: ("QUEUED", "RUNNING", "SUCCEEDED")
    trials = [
        trial(1, "SUCCEEDED", [0.9, 0.8]),
        trial(2, "SUCCEEDED", [0.7, 0.5, 0.6], "false"),
        trial(3, "INFEASIBLE", []),
    ]

    def tuned(job):
        write_models(job, 1, 2)
        return [
            {"state": "JOB_STATE_RUNNING", "trials": [trials[0], trial(2, "ACTIVE", [0.7])]},
            {"state": "JOB_STATE_SUCCEEDED", "trials": trials},
        ]

    vertex.state["tuning"] = tuned
    (tmp_path / "mine.toml").write_text(SWEEP)
    return vertex


def sweep(vertex, *arguments):
    return main(["sweep", "mine.toml", "--env", write_config(vertex.environment, pathlib.Path.cwd()), *arguments])


def test_data_is_fetched_once_and_the_tuning_job_has_the_ranges_and_the_machines_of_a_training(project):
    assert sweep(project, "--trials", "6", "--parallel", "2", "--hours", "3", "--yes") == 0
    (fetch,) = (CustomJob.from_json(json.dumps(each.body)) for each in project.sent("POST", "/customJobs"))
    (pool,) = fetch.job_spec.worker_pool_specs
    assert pool.container_spec.image_uri == project.environment.image
    assert list(pool.container_spec.args[:-1]) == ["--dataset=osie", "--source=gs://data/osie"]
    folder = pool.container_spec.args[-1].removeprefix("--output-dir=/gcs/")
    (request,) = project.sent("POST", "/hyperparameterTuningJobs")
    job = HyperparameterTuningJob.from_json(json.dumps(request.body))
    assert (job.max_trial_count, job.parallel_trial_count) == (6, 2)
    study = job.study_spec
    assert [(each.metric_id, each.goal.name) for each in study.metrics] == [("valid_loss", "MINIMIZE")]
    assert study.measurement_selection_type == StudySpec.MeasurementSelectionType.BEST_MEASUREMENT
    assert "median_automated_stopping_spec" in study
    assert study.study_stopping_config.maximum_runtime_constraint.max_duration.total_seconds() == 3 * 3600
    rate, patience, flip, schedule = study.parameters
    assert (rate.parameter_id, rate.scale_type.name) == ("learning-rate", "UNIT_LOG_SCALE")
    assert (rate.double_value_spec.min_value, rate.double_value_spec.max_value) == (1e-6, 1e-4)
    assert (patience.parameter_id, patience.scale_type.name) == ("patience", "UNIT_LINEAR_SCALE")
    assert (patience.integer_value_spec.min_value, patience.integer_value_spec.max_value) == (1, 2)
    assert (flip.parameter_id, list(flip.categorical_value_spec.values)) == ("flip", ["true", "false"])
    assert (schedule.parameter_id, list(schedule.categorical_value_spec.values)) == (
        "schedule",
        ["constant", "cosine"],
    )
    specification = job.trial_job_spec
    assert specification.service_account == SERVICE_ACCOUNT
    assert specification.base_output_directory.output_uri_prefix == f"gs://{folder.removesuffix('data')}trials"
    assert specification.scheduling.restart_job_on_worker_restart
    (pool,) = specification.worker_pool_specs
    assert (pool.machine_spec.machine_type, pool.replica_count) == ("g2-standard-8", 1)
    assert pool.container_spec.image_uri == project.environment.image_of("gpu")
    assert set(pool.container_spec.args) == {
        *("--epochs=4", "--batch-size=0", f"--dataset-dir=/gcs/{folder}", "--accelerator=l4"),
        "--base-model=pretrained",
    }


def test_flags_of_vizier_follow_those_of_the_job_and_outputs_are_in_the_folders_of_the_trial(tmp_path):
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    folders = {
        "AIP_MODEL_DIR": "gs://bucket/sweeps/a b/trials/7/model/",
        "AIP_CHECKPOINT_DIR": "gs://bucket/sweeps/a b/trials/7/checkpoints/",
    }
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **folders}
    command = [*sweeps.TRAIN, "--epochs=4", "--source=a b", "--learning-rate=1e-05"]
    finished = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert finished.stdout.splitlines() == [
        *("-m", "trainer", "train", "--epochs=4", "--source=a b", "--learning-rate=1e-05"),
        "--output-dir=/gcs/bucket/sweeps/a b/trials/7/model/",
        "--checkpoint-dir=gs://bucket/sweeps/a b/trials/7/checkpoints",
    ]


def test_trials_are_shown_with_the_best_settings_for_the_next_run(project, tmp_path, capsys):
    assert sweep(project, "--yes") == 0
    out = capsys.readouterr().out
    assert re.search(r"Trials: +20 on Vertex AI, one after another, each on 1 x l4, standard", out)
    assert re.search(r"Time: +at most about \d+ h \d+ min \(up to \d+ min a trial, estimated\)", out)
    assert re.search(r"Cost: +at most about \d+\.\d\d USD, and that of a CPU while data is fetched\n", out)
    assert "console.cloud.google.com/vertex-ai/locations/us-central1/training/1?project=proj" in out
    assert out.index("Trial 1: ") < out.index("Trial 2: ")
    assert out.count("Trial 1: ") == 1
    best = "finetune_learning_rate=2e-05 patience=2 flip=false learning_rate_schedule=cosine"
    where = f"TARGET=vertex ENV={tmp_path}/prod.toml"
    assert re.search(rf"(?m)^Next run: make run-pipeline {where} base_model_uri=pretrained .*{best}$", out)
    assert "The validation loss of trial 2 is 0.5000" in out
    assert "It was not scored on a test set" in out
    assert re.search(r"(?m)^ +3 .* failed *$", out)
    assert re.search(r"(?m)^Model: +gs://bucket-\S+/msinet/sweeps/mine-\w+/trials/2/model$", out)
    assert "flip=false" in (tmp_path / "sweeps" / "mine-prod" / "sweep.html").read_text()


def test_checkpoints_and_all_models_but_the_best_are_removed(project, bucket):
    def tuned(job):
        root = job["trialJobSpec"]["baseOutputDirectory"]["outputUriPrefix"]
        connected = buckets.storage_client(write=True)
        for name in ("1/model/a", "2/model/a", "2/model/b/c", "2/checkpoints/x", "1/logs/e"):
            buckets.write_object(f"{root}/{name}", b"content", connected)
        return finish(job)

    finish, project.state["tuning"] = project.state["tuning"], tuned
    assert sweep(project, "--yes") == 0
    left = [blob.name.partition("/trials/")[2] for blob in buckets.list_blobs(f"gs://{bucket.name}", "msinet/")]
    assert sorted(left) == [
        "1/logs/e",
        f"1/model/{MODEL_CONFIG}",
        "2/model/a",
        "2/model/b/c",
        f"2/model/{MODEL_CONFIG}",
    ]


def test_trial_that_was_stopped_is_not_the_best_however_low_its_loss_was(project, bucket, capsys):
    def tuned(job):
        write_models(job, 2, 3)
        trials = [
            trial(1, "SUCCEEDED", [0.1, 0.9]),
            trial(2, "SUCCEEDED", [0.7, 0.5, 0.6, 0.6], "false"),
            trial(3, "SUCCEEDED", [0.8, 0.7, 0.6, 0.6]),
        ]
        return [{"state": "JOB_STATE_SUCCEEDED", "trials": trials}]

    project.state["tuning"] = tuned
    for _ in range(2):  # the second time, models are removed
        assert sweep(project, "--yes") == 0
        out = capsys.readouterr().out
        assert re.search(r"(?m)^ +1 .* pruned *$", out)
        assert re.search(r"(?m)^ +2 .* best *$", out)
        assert len(re.findall(" pruned", out)) == 1
        assert "/trials/2/model\n" in out


def test_interrupted_watching_goes_on_with_the_same_jobs(project, monkeypatch, capsys):
    interrupt_at_first_look(project, monkeypatch)
    assert not project.sent("POST", "/hyperparameterTuningJobs")
    assert sweep(project) == 0  # asks for nothing again
    assert sweep(project) == 0
    assert len(project.sent("POST", "/customJobs")) == len(project.sent("POST", "/hyperparameterTuningJobs")) == 1
    assert capsys.readouterr().out.count("Best: ") == 2


def test_epochs_count_also_if_the_last_alone_is_reported(project, tmp_path):
    def tuned(job):
        write_models(job, 1)
        reported = trial(1, "SUCCEEDED", [0.9, 0.8, 0.7])
        reported["finalMeasurement"] = reported.pop("measurements")[-1]
        return [{"state": "JOB_STATE_SUCCEEDED", "trials": [reported]}]

    project.state["tuning"] = tuned
    assert sweep(project, "--yes") == 0
    page = (tmp_path / "sweeps" / "mine-prod" / "sweep.html").read_text()
    assert re.search(r"Epochs</\w+>\s*<[^>]*>3<", page)


@pytest.mark.parametrize("kind", ["customJobs", "hyperparameterTuningJobs"])
def test_job_whose_answer_is_lost_is_found_by_the_same_command(project, kind):
    project.fail(DROP, method="POST", path=kind, after=True)
    with refused(UnreachableError):
        sweep(project, "--yes")
    assert sweep(project) == 0
    assert len(project.sent("POST", "/customJobs")) == len(project.sent("POST", "/hyperparameterTuningJobs")) == 1


def test_scoring_job_whose_answer_is_lost_is_found_by_the_same_command(project, tmp_path):
    test_set = 'test_dataset = "osie"\ntest_share = 0.5\ntest_source = "gs://data/osie"\n'
    (tmp_path / "mine.toml").write_text(SWEEP.replace("[search]", f"{test_set}[search]"))
    tuned = project.state["tuning"]

    def drop_next(job):
        project.fail(DROP, method="POST", path="customJobs", after=True)
        return tuned(job)

    project.state["tuning"] = drop_next
    with refused(UnreachableError):
        sweep(project, "--yes")
    assert sweep(project) == 0
    names = [each.body["displayName"] for each in project.sent("POST", "/customJobs")]
    assert names == ["msinet-sweep-mine-data", "msinet-sweep-mine-score"]


@pytest.mark.parametrize("state", ["job", "tuning"])
def test_job_that_cannot_be_saved_is_found_by_the_same_command(project, tmp_path, state):
    jobs, created = tmp_path / "sweeps" / "mine-prod" / "jobs.json", project.state[state]

    def block(job):
        jobs.rename(tmp_path / "kept.json")
        jobs.mkdir()
        return created(job)

    project.state[state] = block
    with pytest.raises((OSError, UserError)):
        sweep(project, "--yes")
    jobs.rmdir()
    (tmp_path / "kept.json").rename(jobs)
    assert sweep(project) == 0
    assert len(project.sent("POST", "/customJobs")) == len(project.sent("POST", "/hyperparameterTuningJobs")) == 1


def test_weights_in_a_bucket_that_are_no_model_are_refused_before_a_job_starts(project, tmp_path, bucket):
    address = f"gs://{bucket.name}/bases/mine"
    (tmp_path / "mine.toml").write_text(SWEEP.replace('"pretrained"', f'"{address}"'))
    connected = buckets.storage_client(write=True)
    buckets.write_object(f"{address}/mine.weights.h5", b"content", connected)
    with refused(SettingError, "base_model_uri", address):
        sweep(project, "--yes")
    assert not project.sent("POST", "/customJobs")
    buckets.write_object(f"{address}/{MODEL_WEIGHTS}", b"content", connected)
    assert sweep(project, "--yes") == 0
    (request,) = project.sent("POST", "/hyperparameterTuningJobs")
    assert f"--base-model={address}" in json.dumps(request.body)


@pytest.mark.parametrize("flag", ["trials", "parallel", "hours"])
def test_numbers_of_a_started_sweep_cannot_change(project, monkeypatch, flag):
    interrupt_at_first_look(project, monkeypatch)
    project.requests.clear()
    with refused(MismatchError, f"--{flag}", 7):
        sweep(project, f"--{flag}=7")
    assert not project.requests


def test_sweep_that_is_followed_is_not_followed_twice(project, monkeypatch):
    interrupt_at_first_look(project, monkeypatch)
    with locked_run(pathlib.Path("sweeps/mine-prod"), "sweep"), refused(ConflictError, "sweep", "mine-prod"):
        sweep(project)
    assert not project.sent("POST", "/hyperparameterTuningJobs")


def test_best_model_is_scored_on_the_test_set_by_another_job(project, tmp_path, bucket, capsys):
    test_set = 'test_dataset = "osie"\ntest_share = 0.5\ntest_source = "gs://data/osie"\n'
    (tmp_path / "mine.toml").write_text(SWEEP.replace("[search]", f"{test_set}[search]"))
    evaluation = json.loads(EVALUATION.read_text())
    (scores,) = evaluation["datasets"].values()
    scores["n_images"] = 9
    scores["models"] |= {"candidate": {"kld": 0.4}, "centre_bias": {"kld": 0.7}}

    def run(command):
        if command[0] == "sh":
            folder = re.search(r"--output-dir=/gcs/(\S+/evaluation)", command[2])[1]
            content = json.dumps(evaluation).encode()
            buckets.write_object(f"gs://{folder}/evaluation.json", content, buckets.storage_client(write=True))
        return "RUNNING", "SUCCEEDED"

    project.state["job"] = run
    assert sweep(project, "--yes") == 0
    _, score = (CustomJob.from_json(json.dumps(each.body)) for each in project.sent("POST", "/customJobs"))
    (pool,) = score.job_spec.worker_pool_specs
    assert pool.machine_spec.accelerator_count == 0
    fetch, evaluate = pool.container_spec.args[0].split(" && ")
    flags = ["--dataset=osie", "--source=gs://data/osie", "--test-share=0.5", "--test", "--output-dir=/tmp/test"]
    assert set(fetch.split()) == {"python", "-m", "trainer", "fetch", *flags}
    assert "--dataset-dir=/tmp/test" in evaluate
    assert re.search(r"--model=/gcs/\S+/trials/2/model ", evaluate)
    assert "On the 9 images of the test set, its KLD is 0.4000 (centre bias: 0.7000)." in capsys.readouterr().out
    assert sweep(project) == 0
    assert len(project.sent("POST", "/customJobs")) == 2
    address = next(
        blob for blob in buckets.list_blobs(f"gs://{bucket.name}", "msinet/") if "/evaluation/" in blob.name
    )
    buckets.remove_object(f"gs://{bucket.name}/{address.name}", buckets.storage_client(write=True))
    capsys.readouterr()
    assert sweep(project) == 0
    assert "not scored on a test set: the job that scores it wrote no result, see https" in capsys.readouterr().out


def test_dry_run_names_the_price_and_sends_nothing(project, tmp_path, capsys):
    assert sweep(project, "--dry-run") == 0
    assert "Nothing was started." in capsys.readouterr().out
    assert not project.requests
    assert not (tmp_path / "sweeps").exists()


def interrupt_at_first_look(project, monkeypatch):
    """Start a sweep, whose watching ends while its data is fetched."""

    def interrupt(seconds):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", interrupt)
        with refused(UserError, "job", "trials"):
            sweep(project, "--yes")


def test_dry_run_of_a_started_sweep_shows_its_jobs_and_sends_nothing(project, monkeypatch, capsys):
    interrupt_at_first_look(project, monkeypatch)
    project.requests.clear()
    assert sweep(project, "--dry-run") == 0
    assert not project.requests
    out = capsys.readouterr().out
    assert "Started:  20 trials, 1 at a time, below gs://" in out
    assert "/training/1?project=proj" in out


def test_quota_for_all_trials_at_once_is_asked_for_before_anything_starts(project):
    project.state["project"].quotas["custom_model_training_nvidia_l4_gpus"] = {"": 3}
    with refused(NotFoundError, "custom_model_training_nvidia_l4_gpus", "us-central1", 3, 4):
        sweep(project, "--parallel", "4", "--yes")
    assert not project.sent("POST", "/customJobs")


def test_job_that_fails_is_named_and_the_same_command_starts_another(project):
    states = iter([("FAILED",), ("SUCCEEDED",)])
    project.state["job"] = lambda command: next(states)
    project.kept("errors")["1"] = "no such source"
    with refused(FailedError, "data", "failed", "no such source", "https"):
        sweep(project, "--yes")
    project.state["tuning"] = lambda job: [
        {"state": "JOB_STATE_FAILED", "error": {"message": "Too many trials failed"}, "trials": []}
    ]
    with refused(FailedError, "tuning job", "Too many trials failed", "sweeps/mine-prod"):
        sweep(project, "--yes")
    assert len(project.sent("POST", "/customJobs")) == 2


def test_tuning_job_without_a_complete_trial_is_an_error(project):
    project.state["tuning"] = lambda job: [
        {"state": "JOB_STATE_SUCCEEDED", "trials": [trial(1, "INFEASIBLE", [])]}
    ]
    with refused(FailedError, 1, "trials"):
        sweep(project, "--yes")


def test_batch_that_one_listed_accumulation_does_not_divide_is_refused(project, tmp_path):
    search = "[search]\nfinetune_batch_size = [4, 6]\naccumulation = [1, 2, 4]\n"
    (tmp_path / "mine.toml").write_text(
        SWEEP.partition("[search]")[0].replace("finetune_batch_size = 0\n", "") + search
    )
    with refused(UserError, "batch_size", 6, "accumulation", 4):
        sweep(project, "--yes")
    assert not project.requests


def test_recipe_that_takes_settings_of_the_environment_out_is_refused(project, tmp_path):
    project.environment.parameters["finetune_epochs"] = 4
    (tmp_path / "mine.toml").write_text(
        SWEEP.partition("[search]")[0].replace("finetune_epochs = 4\n", "")
        + '[search]\nrecipe = ["paper", "small"]\n'
    )
    with refused(SettingError, "prod", "--epochs=4", "recipe"):
        sweep(project, "--yes")
    assert not project.sent("POST")
