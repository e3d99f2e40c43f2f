"""Which model a name means, which one answers without a name, and the errors if there is none."""

import pathlib
import shutil

import pytest

from tests.gcs import upload
from tests.narrow import weights_of
from tests.refusals import refused
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.errors import ContentError, NotFoundError
from trainer.io.files import read_json, write_json
from trainer.models import registry_layout
from trainer.models.answering import HINT
from trainer.models.find import choose_model, find_model, find_opponent
from trainer.models.registry_layout import ALIASES
from trainer.models.weight_sources import WeightSource
from trainer.network import compact, model_folder
from trainer.network.model_folder import ASSETS_EXTRA, COMPACT_WEIGHTS, MODEL_CONFIG, MODEL_WEIGHTS
from trainer.network.weights import read_weights

OSIE = {"dataset": "osie", "source": "gs://data/osie", "image_size": [64, 80]}
SALICON = {"dataset": "salicon", "source": ""}
SHAPES = {"dataset": "salicon", "source": "sample"}


@pytest.fixture(scope="module")
def small(narrow, tmp_path_factory):
    """A narrow model in compact form."""
    folder = tmp_path_factory.mktemp("small") / "model"
    compact.write_compact(weights_of(predictable.network(3)), folder, OSIE)
    return folder


@pytest.fixture(autouse=True)
def shipped(small, tmp_path, monkeypatch):
    """The folder in place of the one that comes with the package; the working directory is empty."""
    folder = tmp_path / "package" / "pretrained"
    shutil.copytree(small, folder)
    monkeypatch.setattr(model_folder, "PRETRAINED_FOLDER", folder)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


def write_model(folder, config):
    folder.mkdir(parents=True)
    (folder / MODEL_WEIGHTS).write_text(str(folder))
    write_json(folder / MODEL_CONFIG, config)


def register(config, *numbers, **aliases):
    """Versions in `models/msinet` below the working directory; the first is the default."""
    folders = [pathlib.Path("models", "msinet", str(number), ASSETS_EXTRA) for number in numbers]
    for folder in folders:
        write_model(folder, config)
    write_json(pathlib.Path("models", "msinet", ALIASES), {"default": numbers[0], **aliases})
    return folders[0]


# === Names ===


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("", 2),
        ("msinet", 2),
        ("msinet@challenger", 10),
        ("msinet@1", 1),
        ("models/msinet@10", 10),
        ("models/msinet/1", 1),
        ("models/msinet/1/assets.extra", 1),
    ],
)
def test_registered_versions_are_found(name, number):
    register(OSIE, 2, 1, 10, challenger=10)
    assert find_model(name) == pathlib.Path("models", "msinet", str(number), ASSETS_EXTRA)


@pytest.mark.parametrize("version", ["7", "9" * 200, "\N{SUPERSCRIPT TWO}"], ids=lambda text: text[:5])
def test_version_that_there_is_not_is_named_whatever_its_length(version):
    register(OSIE, 2)
    with refused(NotFoundError, "models/msinet"):
        find_model(f"msinet@{version}")
    with refused(NotFoundError, "msinet", "0, 2"):
        registry_layout.number_of("msinet", version * 30, [2], {})


def test_a_folder_may_have_an_at_in_its_name():
    write_model(pathlib.Path("run@3"), OSIE)
    assert find_model("run@3") == pathlib.Path("run@3")


def test_models_and_registries_on_cloud_storage_are_downloaded(bucket):
    register(OSIE, 2, 1, 10, challenger=10)
    address = upload(bucket, pathlib.Path("models"))
    for name, number in (("msinet", 2), ("msinet@challenger", 10), ("msinet/1", 1)):
        model = find_model(f"{address}/{name}")
        assert (model / MODEL_WEIGHTS).read_text() == str(
            pathlib.Path("models", "msinet", str(number), ASSETS_EXTRA)
        )
        assert (model / MODEL_CONFIG).is_file()
    with refused(NotFoundError, f"{address}/msinet", 7):
        find_model(f"{address}/msinet@7")
    with refused(NotFoundError, address):
        find_model(address)


def test_word_wins_over_a_folder_of_its_name_which_a_path_names():
    write_model(pathlib.Path("pretrained"), OSIE)
    model = find_model("pretrained")
    assert OSIE.items() <= read_json(model / MODEL_CONFIG, "", dict).items()
    with WeightSource("pretrained").opened() as local:
        assert local.model == model
    assert find_model("./pretrained") == pathlib.Path("pretrained")


# === Answers ===


def answer(name, capsys):
    answering = choose_model(name).announced()
    out, err = capsys.readouterr()
    assert out == ""
    return answering, err


def test_without_a_registry_the_model_of_the_package_answers_and_says_what_it_has_seen(capsys):
    answering, said = answer("", capsys)
    assert answering.folder == find_model("pretrained")
    assert said == "model: pretrained (MSI-Net, trained on osie), because there is no model in models/msinet\n"
    assert answering.description == "pretrained (MSI-Net, trained on osie)"
    assert answering.tell() == answering.hint == HINT
    assert capsys.readouterr().err == f"note: {HINT}\n"


def test_pretrained_answers_until_a_version_is_the_default(capsys, bucket):
    model = register(OSIE, 1)
    write_json(model.parents[1] / ALIASES, {"challenger": 1})
    answering, said = answer("", capsys)
    assert (answering.name, answering.folder) == ("pretrained", find_model("pretrained"))
    assert said.endswith(", because the default of models/msinet is version 0\n")
    upload(bucket, model.parents[2], "models")
    remote = f"gs://{bucket.name}/models/msinet"
    names = ("msinet", "msinet@default", "msinet@0", remote, f"{remote}@0")
    assert {find_model(name) for name in names} == {answering.folder}
    assert find_model("msinet@challenger") == model


def test_default_of_real_data_answers(capsys):
    folder = register({**OSIE, "base_model": SALICON}, 4)
    answering, said = answer("", capsys)
    assert answering.folder == folder
    trained = "MSI-Net, trained on salicon, then on osie"
    assert said == f"model: msinet ({trained}, version 4, the default of models/msinet)\n"
    assert answering.tell() == capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({**SHAPES, "base_model": SHAPES}, "trained on generated shapes"),
        ({**SHAPES, "base_model": OSIE}, "trained on generated shapes"),
    ],
)
def test_default_of_the_sample_set_answers_only_where_nothing_else_can(config, reason, shipped, capsys):
    register(config, 1)
    assert answer("", capsys)[1].startswith("model: pretrained (")
    assert reason in answer("", capsys)[1]
    assert answer("msinet", capsys)[1] == f"model: msinet (MSI-Net, {reason})\n"
    shutil.rmtree(shipped)
    assert answer("", capsys)[1].startswith(f"model: msinet (MSI-Net, {reason}, version 1")


def test_without_the_folder_of_the_package_the_error_is_the_one_of_the_registry(shipped):
    shutil.rmtree(shipped)
    with refused(NotFoundError, "models/msinet", "make run-pipeline"):
        choose_model("").announced()
    with refused(NotFoundError, "pretrained", model_folder.PRETRAINED_FOLDER):
        choose_model("pretrained").announced()


def test_damaged_models_are_not_replaced_in_silence(shipped):
    (register(OSIE, 1) / MODEL_WEIGHTS).unlink()
    with refused(NotFoundError, "model.weights.h5"):
        choose_model("").announced()
    (shipped / COMPACT_WEIGHTS).write_bytes(b"")
    with refused(ContentError, f"pretrained/{COMPACT_WEIGHTS}"):
        read_weights(choose_model("pretrained").announced().folder)


def test_model_alone_is_compared_with_the_default_or_with_pretrained(shipped):
    def opponent_of(name):
        opponent = find_opponent(name)
        return opponent and opponent.name

    assert opponent_of("runs/mine") == "pretrained"
    assert opponent_of("pretrained") is None
    register(SALICON, 1)
    assert opponent_of("pretrained") == opponent_of("runs/mine") == "msinet"
    assert opponent_of("msinet@1") == "pretrained"
    shutil.rmtree(shipped)
    assert opponent_of("msinet") is None
    shutil.rmtree("models")
    assert opponent_of("runs/mine") is None


def test_command_says_what_a_model_alone_is_compared_with(capsys):
    with pytest.raises(SystemExit):
        main(["compare", "runs/mine"])
    assert capsys.readouterr().err.startswith("model: runs/mine is compared with pretrained (MSI-Net, trained on")


@pytest.mark.parametrize("size", [[240], [240, 320, 3], [241, 320], [0, 0], [-8, 8]])
def test_an_image_size_that_the_network_cannot_have_is_refused(tmp_path, size):
    write_json(tmp_path / MODEL_CONFIG, {"image_size": size})
    with refused(ContentError, tmp_path / MODEL_CONFIG):
        assert model_folder.ModelFolder(tmp_path).image_size
