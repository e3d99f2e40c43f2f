"""`doctor` compares the quota of the region with what the plans take."""

import pytest

from pipeline.vertex.doctor.questions import MISSING, OK, UNKNOWN
from tests.pipeline.vertex.doctoring import found, only

L4 = {"base_accelerator": "l4", "base_batch_size": 0}


@pytest.mark.parametrize(
    ("parameters", "metric", "count"),
    [
        (L4, "custom_model_training_nvidia_l4_gpus", 1),
        ({**L4, "base_workers": 4}, "custom_model_training_nvidia_l4_gpus", 4),
        ({**L4, "base_accelerator": "l4-2", "base_workers": 2}, "custom_model_training_nvidia_l4_gpus", 4),
        ({**L4, "base_accelerator": "v5e-4"}, "custom_model_training_tpu_v5e", 4),
        (
            {**L4, "finetune_accelerator": "l4-8", "finetune_batch_size": 0},
            "custom_model_training_nvidia_l4_gpus",
            8,
        ),
    ],
)
def test_quota_of_the_plan_is_compared(vertex, project, parameters, metric, count):
    project.quotas[metric] = {"": 0, "us-central1": count - 1, "europe-west4": 99}
    finding = only(found(vertex, **parameters), MISSING)
    assert finding.text.startswith(f"quota {metric} in us-central1 is {count - 1}, but the plan takes {count}")
    assert finding.remedy.endswith(f"iam-admin/quotas?project=proj&metric=aiplatform.googleapis.com/{metric}")
    project.quotas[metric] = {"": 0, "us-central1": count}
    assert {finding.state for finding in found(vertex, **parameters)} == {OK}


@pytest.mark.parametrize("provisioning", ["spot", "flex-start"])
def test_spot_and_flex_start_take_preemptible_quota(vertex, project, provisioning):
    project.quotas.clear()
    project.quotas["custom_model_training_cpus"] = {"": 64}
    both = {**L4, "finetune_accelerator": "l4", "finetune_batch_size": 0, "provisioning": provisioning}
    short = [finding.text for finding in found(vertex, **both) if finding.state == MISSING]
    assert [text.split()[1] for text in short] == [
        "custom_model_training_preemptible_nvidia_l4_gpus",
        "custom_model_training_preemptible_cpus",
    ]
    assert "is 0, but the plan takes 8" in short[1]


def test_limits_are_read_as_the_api_writes_them(vertex, project):
    metric = "custom_model_training_nvidia_l4_gpus"
    for limits, state in (({"": -1}, OK), ({"": 8}, OK), ({"": 8, "us-central1": 0}, MISSING)):
        project.quotas[metric] = limits
        states = {each.state for each in found(vertex, **L4) if metric in each.text}
        assert states == {state}, limits


def test_metric_that_google_does_not_have_is_unknown(vertex, project, monkeypatch):
    monkeypatch.setattr("tests.vertex_project.METRICS", [])
    del project.quotas["custom_model_training_nvidia_l4_gpus"]
    assert "Google names no limit; the plan takes 1" in only(found(vertex, **L4), UNKNOWN).text
