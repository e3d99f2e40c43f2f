import pytest

from pipeline.plan.settings import AcceleratorConfig, JobConfig, parse_labels
from trainer.errors import UserError


def test_defaults_are_valid():
    AcceleratorConfig()
    JobConfig()


@pytest.mark.parametrize(
    "settings",
    [
        {"accelerator": "l4-4", "workers": 3},
        {"accelerator": "a100", "workers": 2, "provisioning": "flex-start"},
        {"accelerator": "h100", "provisioning": "spot"},
        {"accelerator": "v5e-8", "provisioning": "spot"},
    ],
)
def test_machines_that_vertex_ai_offers_are_accepted(settings):
    AcceleratorConfig(**settings)


def test_accelerator_of_one_training_overrides_that_of_both():
    assert AcceleratorConfig(accelerator="v5e-4").row.name == "v5e-4"
    assert AcceleratorConfig(accelerator="v5e-4", step_accelerator="l4", workers=2).row.name == "l4"
    with pytest.raises(UserError, match="unknown accelerator 'l44'; did you mean 'l4"):
        AcceleratorConfig(accelerator="cpu", step_accelerator="l44")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"accelerator": "v5e-3"}, "unknown accelerator 'v5e-3'; did you mean 'v5e-"),
        ({"workers": 2}, "workers is 2, but cpu trains on one machine; set it to 1, or choose GPUs"),
        (
            {"accelerator": "v5e-4", "workers": 2},
            "workers is 2, but v5e-4 trains on one machine; set it to 1, or choose v5e-4 or v5e-8 for more chips",
        ),
        (
            {"accelerator": "h100-4"},
            r"h100-4 \(a3-highgpu-4g\) is not offered as standard; set provisioning to spot or flex-start",
        ),
        (
            {"accelerator": "t4", "provisioning": "flex-start"},
            r"t4 \(n1-standard-8\) is not offered as flex-start; set provisioning to standard or spot",
        ),
        ({"accelerator": "v5e-1", "provisioning": "flex-start"}, "is not offered as flex-start"),
    ],
)
def test_machines_that_do_not_fit_together_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        AcceleratorConfig(**settings)


def test_settings_of_a_job_are_accepted():
    JobConfig(
        timeout_hours=0.5,
        max_wait_hours=0.0,
        persistent_resource="gpus-1",
        training_service_account="trainer@proj.iam.gserviceaccount.com",
        training_network="projects/123/global/networks/default",
        training_labels="team=vision,cost-centre=42",
    )


def test_setting_of_a_job_that_vertex_ai_would_reject_is_refused():
    with pytest.raises(UserError, match="tensorboard is set, but training_service_account is empty"):
        JobConfig(tensorboard="projects/p/locations/l/tensorboards/1")
    with pytest.raises(UserError, match="training_labels has 'Team=Vision'; write key=value"):
        JobConfig(training_labels="Team=Vision")


def test_labels_are_read():
    assert parse_labels("") == {}
    assert parse_labels("team=vision, run=a_1-b,empty=") == {"team": "vision", "run": "a_1-b", "empty": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("team", "has 'team'; write key=value"),
        ("1team=x", "has '1team=x'"),
        ("=x", "has '=x'"),
        ("team=" + "x" * 64, "at most 63"),
        ("team=a,team=b", "has 'team' twice"),
        (",".join(f"k{number}=x" for number in range(65)), "has 65 labels; Vertex AI accepts at most 64"),
    ],
)
def test_label_that_vertex_ai_would_reject_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        parse_labels(text)
