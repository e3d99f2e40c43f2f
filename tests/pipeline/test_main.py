import pytest

from pipeline.__main__ import main
from trainer.errors import UserError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty working directory, in which tests check that nothing was written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base-epocs", "3"], "unknown flag '--base-epocs'; did you mean '--base-epochs'"),
        (["learning_rate=3"], "'learning_rate'; did you mean 'base_learning_rate' or 'finetune_learning_rate'"),
        (["base_epocs=3"], "unknown parameter 'base_epocs'; did you mean 'base_epochs'"),
        (["base_epochs=three"], r"base_epochs is 'three'; it must be an integer"),
        (["base_epochs"], "unknown argument 'base_epochs'; write a parameter as"),
        (["base_epochs=3", "base_epochs=4"], "base_epochs is given twice, as 3 and as 4"),
        (["--base-epochs", "3", "base_epochs=3"], "base_epochs is given twice"),
        (["base_model_uri=pretrained", "base_epochs=9"], "base_epochs would have no effect: base_model_uri=pre"),
        (["base_batch_size=-1"], "base training: batch_size is -1; it must be at least 0"),
        (["base_source=ftp://h.org/a.zip"], "ftp://h.org/a.zip' is no address that can be fetched"),
        (["--env", "smple"], "unknown environment 'smple'; did you mean 'sample'"),
        (["--env", "vertex"], "environment vertex is for target vertex"),
        (["--resume", "nowhere"], "nowhere is not a run"),
        (["--resume"], "there is no run to resume below"),
        (["finetune_source=."], r"finetune_source is '\.': source \. is an empty folder; put the dataset's"),
        (["initial_weights=~/nothing.h5"], "initial_weights is '~/nothing.h5': ~/nothing.h5 does not exist; give"),
    ],
)
def test_mistake_is_reported_before_anything_is_written(elsewhere, arguments, message):
    with pytest.raises(UserError, match=message):
        main(["run", *arguments])
    assert not list(elsewhere.iterdir())


def test_compile_refuses_a_target_it_does_not_know():
    with pytest.raises(UserError, match=r"target is 'vertx'.*did you mean 'vertex'"):
        main(["compile", "--target", "vertx"])
    with pytest.raises(UserError, match="environment local is for target local, not vertex"):
        main(["compile", "--env", "local"])


@pytest.mark.parametrize(
    "command",
    ["run", "submit", "schedule apply", "runs list", "publish"],
    ids=lambda text: text.split()[0],
)
def test_other_commands_say_how_a_run_on_kubeflow_is_started(elsewhere, command):
    how = "write its file with `python -m pipeline compile --env kubeflow --output kubeflow.yaml`, and upload it"
    with pytest.raises(UserError, match=f"environment kubeflow is for target kubeflow, not .*; {how}"):
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
