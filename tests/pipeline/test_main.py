import pytest

from pipeline.__main__ import main
from tests.refusals import refused
from trainer.errors import (
    AmbiguousError,
    MismatchError,
    NotFoundError,
    SettingError,
    UnknownNameError,
    UsageError,
    UserError,
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty working directory, in which tests check that nothing was written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--base-epocs", "3"], (UsageError, "'--base-epocs'", "'--base-epochs'")),
        (["learning_rate=3"], (UnknownNameError, "learning_rate", "base_learning_rate", "finetune_learning_rate")),
        (["base_epocs=3"], (UnknownNameError, "base_epocs", "base_epochs")),
        (["base_epochs=three"], (SettingError, "base_epochs", "three", "integer")),
        (["base_epochs"], (UnknownNameError, "argument", "base_epochs")),
        (["base_epochs=3", "base_epochs=4"], (AmbiguousError, "base_epochs", 3, 4)),
        (["--base-epochs", "3", "base_epochs=3"], (AmbiguousError, "base_epochs", 3)),
        (
            ["base_model_uri=pretrained", "base_epochs=9"],
            (SettingError, "base_epochs", "base_model_uri=pretrained"),
        ),
        (["base_batch_size=-1"], (SettingError, "base training", "batch_size", "-1", 0)),
        (["base_source=ftp://h.org/a.zip"], (UserError, "source", "ftp://h.org/a.zip")),
        (["--env", "smple"], (UnknownNameError, "environment", "smple", "sample")),
        (["--env", "vertex"], (MismatchError, "environment vertex", "target vertex")),
        (["--resume", "nowhere"], (UserError, "nowhere")),
        (["--resume"], (NotFoundError, "run", "resume")),
        (["finetune_source=."], (UserError, "finetune_source", "'.'")),
        (["initial_weights=~/nothing.h5"], (UserError, "initial_weights", "~/nothing.h5")),
    ],
)
def test_mistake_is_reported_before_anything_is_written(elsewhere, arguments, named):
    with refused(*named):
        main(["run", *arguments])
    assert not list(elsewhere.iterdir())


def test_compile_refuses_a_target_it_does_not_know():
    with refused(SettingError, "target", "vertx", "vertex"):
        main(["compile", "--target", "vertx"])
    with refused(MismatchError, "environment local", "target local", "vertex"):
        main(["compile", "--env", "local"])


@pytest.mark.parametrize(
    "command",
    ["run", "submit", "schedule apply", "runs list", "publish"],
    ids=lambda text: text.split()[0],
)
def test_other_commands_say_how_a_run_on_kubeflow_is_started(elsewhere, command):
    with refused(MismatchError, "environment kubeflow", "target kubeflow", "compile --env kubeflow --output"):
        main([*command.split(), "--env", "kubeflow"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["finetune_source=http://h.org/no.zip?sig=a SECRET77"],
        ["finetune_source=HtTp:/h.org/no.zip?sig=SECRET77"],
        ["--finetune-source", "//h.org/no.zip?sig=SECRET77"],
        ["recipe=https://h.org/no.zip?sig=SECRET77"],
        ["--env", "https://h.org/no.zip?sig=SECRET77"],
    ],
)
def test_an_error_repeats_no_query_of_an_address(arguments):
    with pytest.raises(UserError) as caught:
        main(["run", *arguments])
    assert "SECRET" not in str(caught.value)
