"""Which model answers without a name, with which line, and what is named `pretrained`."""

import pathlib
import shutil

import pytest

from tests.trainer import predictable
from trainer.artifacts import ALIASES, MODEL_CONFIG, VERSION_EXTRA, WEIGHTS
from trainer.errors import UserError
from trainer.files import read_json, write_json
from trainer.models import compact, find, weight_sources
from trainer.models.find import PHOTOGRAPHS, find_answering, find_model, find_opponent

OSIE = {"dataset": "osie", "source": "gs://data/osie", "image_size": [64, 80]}
SALICON = {"dataset": "salicon", "source": ""}
SHAPES = {"dataset": "salicon", "source": "sample"}


@pytest.fixture(scope="module")
def small(narrow, tmp_path_factory):
    """A narrow model in compact form."""
    folder = tmp_path_factory.mktemp("small") / "model"
    compact.write_compact(predictable.network(3), (16, 16), folder, OSIE)
    return folder


@pytest.fixture(autouse=True)
def shipped(small, tmp_path, monkeypatch):
    """The folder in place of the one that comes with the package; the working directory is empty."""
    folder = tmp_path / "package" / "pretrained"
    shutil.copytree(small, folder)
    monkeypatch.setattr(find, "PRETRAINED_FOLDER", folder)
    monkeypatch.setenv("MSINET_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


def register(config, number=1):
    folder = pathlib.Path("models", "msinet", str(number), VERSION_EXTRA)
    folder.mkdir(parents=True)
    (folder / WEIGHTS).touch()
    write_json(folder / MODEL_CONFIG, config)
    write_json(pathlib.Path("models", "msinet", ALIASES), {"default": number})
    return folder


def answer(name, capsys):
    found = find_answering(name)
    out, err = capsys.readouterr()
    assert out == ""
    return found, err


def test_without_a_registry_the_model_of_the_package_answers(capsys):
    found, said = answer("", capsys)
    assert found.folder == find_model("pretrained")
    assert found.name == "pretrained"
    assert said == "model: pretrained (MSI-Net, trained on osie; there is no model in models/msinet)\n"


def test_the_model_of_the_package_has_seen_photographs_only_and_says_so(capsys):
    found, _ = answer("", capsys)
    assert found.description == "pretrained (MSI-Net, trained on osie)"
    assert found.tell() == found.hint == PHOTOGRAPHS
    assert capsys.readouterr().err == f"note: {PHOTOGRAPHS}\n"
    register(OSIE)
    found, _ = answer("", capsys)
    assert found.description == "msinet (MSI-Net, trained on osie; version 1, the default of models/msinet)"
    assert found.tell() == ""
    assert capsys.readouterr().err == ""


def test_default_of_real_data_answers(capsys):
    folder = register({**OSIE, "base_model": SALICON}, 4)
    found, said = answer("", capsys)
    assert found.folder == folder
    assert said == (
        "model: msinet (MSI-Net, trained on salicon, then on osie; version 4, the default of models/msinet)\n"
    )


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({**SHAPES, "base_model": SHAPES}, "trained on generated shapes only"),
        ({**SHAPES, "base_model": OSIE}, "last trained on generated shapes"),
    ],
)
def test_default_of_the_sample_set_answers_only_where_nothing_else_can(config, reason, shipped, capsys):
    register(config)
    found, said = answer("", capsys)
    assert found.name == "pretrained"
    assert said == f"model: pretrained (MSI-Net, trained on osie; the default of models/msinet was {reason})\n"
    found, said = answer("msinet", capsys)
    assert said == f"model: msinet (MSI-Net, {reason})\n"
    shutil.rmtree(shipped)
    found, said = answer("", capsys)
    assert said == f"model: msinet (MSI-Net, {reason}; version 1, the default of models/msinet)\n"


def test_without_the_folder_of_the_package_the_error_is_the_one_of_the_registry(shipped):
    shutil.rmtree(shipped)
    with pytest.raises(UserError, match="there is no model at models/msinet; make one with `make run-pipeline`"):
        find_answering("")
    with pytest.raises(
        UserError, match=r"this installation has no model pretrained, because .* is missing; get it"
    ):
        find_answering("pretrained")


def test_damaged_registry_is_not_replaced_in_silence():
    (register(OSIE) / WEIGHTS).unlink()
    with pytest.raises(UserError, match=r"has no model\.weights\.h5"):
        find_answering("")


def test_damaged_model_of_the_package_says_where_another_is(shipped, tmp_path):
    (shipped / "weights.int8.npz").write_bytes(b"")
    for name in ("", "pretrained"):
        with pytest.raises(
            UserError, match=r"pretrained/weights.int8.npz is damaged.*: get it again with `git che"
        ):
            find_answering(name)
    for use in (weight_sources.check_local, weight_sources.fingerprint):
        with pytest.raises(UserError, match=r"is damaged.* or install msinet-pipelines again$"):
            use("pretrained")
    assert not (tmp_path / "cache").exists()


def test_word_wins_over_a_folder_of_its_name_which_a_path_names(capsys):
    pathlib.Path("pretrained").mkdir()
    for name in (WEIGHTS, MODEL_CONFIG):
        pathlib.Path("pretrained", name).write_text("{}")
    assert find_model("pretrained").is_relative_to(find.PRETRAINED_FOLDER.parents[1] / "cache")
    with weight_sources.opened("pretrained") as local:
        assert local.model == find_model("pretrained")
    assert find_model("./pretrained") == pathlib.Path("pretrained")


def test_expanded_model_says_its_name(capsys):
    config = read_json(find_model("pretrained") / MODEL_CONFIG, "", dict)
    assert config["name"] == "pretrained"
    assert OSIE.items() <= config.items()


def test_model_alone_is_compared_with_the_default_or_with_pretrained(capsys, shipped):
    assert find_opponent("runs/mine") == "pretrained"
    assert capsys.readouterr().err == (
        "model: runs/mine is compared with pretrained (MSI-Net, trained on osie; there is no model in "
        "models/msinet)\n"
    )
    assert find_opponent("pretrained") == ""
    register(SALICON)
    assert find_opponent("pretrained") == "msinet"
    assert find_opponent("runs/mine") == "msinet"
    assert find_opponent("msinet@1") == "pretrained"
    shutil.rmtree(shipped)
    assert find_opponent("msinet") == ""
    shutil.rmtree("models")
    assert find_opponent("runs/mine") == ""
