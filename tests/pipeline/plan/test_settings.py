import pytest

from pipeline.plan.settings import AcceleratorConfig, JobConfig, parse_labels
from trainer.errors import UserError


def test_accelerator_of_one_training_overrides_that_of_both():
    assert AcceleratorConfig(accelerator="v5e-4").row.name == "v5e-4"
    assert AcceleratorConfig(accelerator="v5e-4", step_accelerator="l4", workers=2).row.name == "l4"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"accelerator": "v5e-3"}, "'v5e-3'; did you mean 'v5e-"),
        ({"step_accelerator": "l44"}, "'l44'; did you mean 'l4"),
        ({"workers": 2}, "workers is 2, but cpu"),
        ({"accelerator": "v5e-4", "workers": 2}, "workers is 2, but v5e-4 .*v5e-8 for more chips"),
        ({"accelerator": "h100-4"}, "h100-4 .*standard; set provisioning to spot or flex-start"),
        ({"accelerator": "t4", "provisioning": "flex-start"}, "t4 .*set provisioning to standard or spot"),
    ],
)
def test_machines_that_do_not_fit_together_are_refused(settings, named):
    with pytest.raises(UserError, match=named):
        AcceleratorConfig(**settings)


def test_setting_of_a_job_that_vertex_ai_would_reject_is_refused():
    with pytest.raises(UserError, match="training_service_account is empty"):
        JobConfig(tensorboard="projects/p/locations/l/tensorboards/1")
    with pytest.raises(UserError, match="training_labels has 'Team=Vision'"):
        JobConfig(training_labels="Team=Vision")


def test_labels_are_read():
    assert parse_labels("") == {}
    assert parse_labels("team=vision, run=a_1-b,empty=") == {"team": "vision", "run": "a_1-b", "empty": ""}


@pytest.mark.parametrize(
    "text",
    ["team", "1team=x", "=x", "team=" + "x" * 64],
)
def test_label_that_vertex_ai_would_reject_is_refused(text):
    with pytest.raises(UserError, match="training_labels has"):
        parse_labels(text)
