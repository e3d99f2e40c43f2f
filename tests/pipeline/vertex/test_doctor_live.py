"""The job of `doctor --live`, on the server of the tests; its report is written by the real command."""

import json
import re

import pytest
from google.cloud.aiplatform_v1 import CustomJob

from pipeline.__main__ import main
from pipeline.vertex.doctor import live
from tests.vertex import DROP, SERVICE_ACCOUNT, write_config
from tests.vertex_project import furnish
from trainer import probe, storage
from trainer.errors import UserError
from trainer.probe import BAD, Fact

L4 = ("base_accelerator=l4", "base_batch_size=0")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(live, "POLL_S", 0.0)


@pytest.fixture
def job(vertex, tmp_path, monkeypatch):
    """A project whose jobs run the command of their container here, without its training."""
    furnish(vertex).quotas["custom_model_training_nvidia_l4_gpus"] = {"": 1}
    trained = [Fact("training", "one step on 8 images, loss 2.250, 20 s with the start")]
    monkeypatch.setattr(storage, "MOUNT", tmp_path / "gcs")
    monkeypatch.setattr(probe, "train_a_step", lambda *arguments: trained[-1])

    def run(command):
        assert command[:3] == ["python", "-m", "trainer.probe"]
        try:
            probe.main(command[3:])
        except UserError:
            return "QUEUED", "PENDING", "RUNNING", "FAILED"
        return "QUEUED", "PENDING", "PENDING", "RUNNING", "SUCCEEDED"

    vertex.state["job"] = run
    return trained


def doctor(vertex, tmp_path, *arguments):
    return main(["doctor", "--env", write_config(vertex.environment, tmp_path), "--live", *arguments, *L4])


def sent(vertex):
    return [request.body for request in vertex.sent("POST", "/customJobs")]


def test_job_says_what_it_found(vertex, job, tmp_path, capsys):
    assert doctor(vertex, tmp_path, "--yes") == 0
    out = capsys.readouterr().out
    offer = (
        r"One custom job on 1 x l4 \(g2-standard-8, standard\) takes about \d+ minutes, .* about 0\.\d\d USD\.\n"
    )
    assert re.search(offer, out)
    assert re.findall(r"(?m)^Job (\w+)$", out) == ["queued", "pending", "running", "succeeded"]
    assert "Job: https://console.cloud.google.com/vertex-ai/locations/us-central1/training/1?project=proj\n" in out
    assert "\nJob on the accelerator\n  ✓ machine: " in out
    for name in ("user", "locked memory", "devices", "mkdir", "rename a folder", "chmod", "training"):
        assert f"  ✓ {name}: " in out
    (body,) = sent(vertex)
    job_spec = CustomJob.from_json(json.dumps(body)).job_spec
    (pool,) = job_spec.worker_pool_specs
    machine, container = pool.machine_spec, pool.container_spec
    assert (machine.machine_type, machine.accelerator_type.name) == ("g2-standard-8", "NVIDIA_L4")
    assert (machine.accelerator_count, pool.replica_count) == (1, 1)
    assert container.image_uri == vertex.environment.image_of("gpu")
    assert re.fullmatch(rf"--folder={vertex.environment.bucket}/doctor/\d{{14}}", container.args[0])
    assert container.args[1] == "--accelerator=l4"
    assert job_spec.service_account == SERVICE_ACCOUNT
    assert job_spec.scheduling.strategy.name == "STANDARD"
    assert job_spec.scheduling.timeout.seconds == live.TIMEOUT_S


@pytest.mark.parametrize("answer", ["no", "", "y", EOFError])
def test_job_is_run_only_after_yes(vertex, job, tmp_path, capsys, monkeypatch, answer):
    def asked(question):
        if answer is EOFError:
            raise EOFError
        return answer

    monkeypatch.setattr("builtins.input", asked)
    assert doctor(vertex, tmp_path) == 0
    assert "No job is run.\n" in capsys.readouterr().out
    assert not sent(vertex)
    monkeypatch.setattr("builtins.input", lambda question: "Yes ")
    assert doctor(vertex, tmp_path) == 0
    assert len(sent(vertex)) == 1


def test_machine_that_cannot_train_is_a_finding(vertex, job, tmp_path, capsys):
    job.append(Fact("training", "`train` ended with status 1", BAD, "its messages are above"))
    assert doctor(vertex, tmp_path, "--yes") == 1
    out = capsys.readouterr().out
    assert "  ✗ training: `train` ended with status 1 (its messages are above)\n      https://console" in out
    assert "\nJob failed\n" in out


def test_job_without_a_report_refers_to_its_log(vertex, job, tmp_path, capsys):
    vertex.state["job"] = lambda command: ("PENDING", "FAILED")
    assert doctor(vertex, tmp_path, "--yes") == 1
    assert "  ✗ the job ended as failed, without a report (" in capsys.readouterr().out


def test_job_that_is_refused_is_one_sentence(vertex, job, tmp_path):
    vertex.fail(
        429, method="POST", path="customJobs", message="The following quota metrics exceed quota limits: x"
    )
    with pytest.raises(Exception, match=r"the job: too many requests, or no quota: The following quota"):
        doctor(vertex, tmp_path, "--yes")
    assert len(sent(vertex)) == 1


def test_outage_while_it_runs_is_survived(vertex, job, tmp_path):
    vertex.fail(DROP, times=2, method="GET", path="customJobs/")
    assert doctor(vertex, tmp_path, "--yes") == 0


def test_dearest_machine_of_the_plans_is_tried(vertex, job, tmp_path, capsys):
    assert doctor(vertex, tmp_path, "--yes", "finetune_accelerator=v5e-4", "finetune_batch_size=0") == 0
    assert "1 x v5e-4 (ct5lp-hightpu-4t, standard)" in capsys.readouterr().out
