"""Finding models by name, and the errors if there is none."""

import pathlib

import pytest

from tests.gcs import upload
from trainer.artifacts import ALIASES, MODEL_CONFIG, VERSION_EXTRA, WEIGHTS
from trainer.errors import UserError
from trainer.files import write_json
from trainer.models.find import find_model


def write_model(folder):
    folder.mkdir(parents=True)
    (folder / WEIGHTS).write_text(str(folder))
    write_json(folder / MODEL_CONFIG, {"image_size": [64, 80]})


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Three versions in `models/msinet` below the working directory."""
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 10):
        write_model(pathlib.Path("models", "msinet", str(number), VERSION_EXTRA))
    write_json(pathlib.Path("models", "msinet", ALIASES), {"default": 2, "challenger": 10})
    return tmp_path / "models"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("", 2),
        ("msinet", 2),
        ("msinet@default", 2),
        ("msinet@challenger", 10),
        ("msinet@1", 1),
        ("models/msinet", 2),
        ("models/msinet@10", 10),
        ("models/msinet/1", 1),
        ("models/msinet/1/assets.extra", 1),
    ],
)
def test_registered_versions_are_found(registry, name, number):
    assert find_model(name).resolve() == registry / "msinet" / str(number) / VERSION_EXTRA


def test_a_folder_may_have_an_at_in_its_name(tmp_path):
    write_model(tmp_path / "run@3")
    assert find_model(str(tmp_path / "run@3")) == tmp_path / "run@3"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("msinet@3", r"has no version 3; it has 1, 2, 10 \(challenger is 10, default is 2\): name one of these"),
        ("msinet@best", "has no version best; it has 1, 2, 10"),
        ("other", "there is no model at models/other; make one with `make run-pipeline`"),
        ("pretraind", r"no model at models/pretraind; did you mean 'pretrained'\?; make one"),
        ("msinett", r"no model at models/msinett; did you mean 'msinet'\?; make one"),
        ("models", r"models is neither a model \(it has no model.weights.h5\) nor a registered name"),
    ],
)
def test_error_lists_the_existing_models(registry, name, message):
    with pytest.raises(UserError, match=message):
        find_model(name)


def test_without_any_model_the_error_says_how_to_make_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="there is no model at models/msinet; make one with `make run-pipeline`"):
        find_model()


def test_models_and_registries_on_cloud_storage_are_downloaded(registry, bucket):
    place = upload(bucket, registry)
    for name, number in (("msinet", 2), ("msinet@challenger", 10), ("msinet/1", 1)):
        found = find_model(f"{place}/{name}")
        assert (found / WEIGHTS).read_text() == str(pathlib.Path("models", "msinet", str(number), VERSION_EXTRA))
        assert (found / MODEL_CONFIG).is_file()
    with pytest.raises(UserError, match=f"{place}/msinet has no version 7; it has 1, 2, 10"):
        find_model(f"{place}/msinet@7")
    with pytest.raises(UserError, match=f"{place} is neither a model"):
        find_model(place)
