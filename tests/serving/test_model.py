"""Which model is served: a name, a folder of artifacts, and the default of a registry, also after it changes."""

import threading

import pytest

from serving import model as served
from serving.model import ServedModel, find_artifacts
from tests import gcs, kinds
from tests.patches import replace
from tests.refusals import refused
from tests.serving.server import ask, instance, levels, loaded, serving
from tests.serving.test_app import SMALL, until
from trainer.errors import NotFoundError
from trainer.io.files import write_json
from trainer.models.registry_layout import ALIASES
from trainer.network.model_folder import MODEL_CONFIG

pytestmark = pytest.mark.usefixtures("narrow")

bucket, gcs_url = gcs.bucket, gcs.gcs_url


def write_version(folder, number, exponent):
    """Write a version of which each map has its own level, by the exponent of its calibration."""
    model = kinds.write_model(folder / str(number) / "assets.extra")
    calibration = kinds.CALIBRATION | {"exponent": exponent, "bias_y": 0.0}
    write_json(model / MODEL_CONFIG, {"image_size": [64, 80], "calibration": calibration})
    write_json(model / "version.json", {"version": number})
    return folder


@pytest.fixture
def registry(tmp_path):
    for number, exponent in ((1, 0.5), (2, 2.0)):
        write_version(tmp_path / "msinet", number, exponent)
    write_json(tmp_path / "msinet" / ALIASES, {"default": 1})
    return tmp_path / "msinet"


# === Artifacts ===


@pytest.mark.parametrize("below", ["", "assets.extra", "1", "7/assets.extra"])
def test_model_is_found_below_the_artifacts(tmp_path, bucket, below):
    kinds.write_model(tmp_path / "artifacts" / below)
    uri = gcs.upload(bucket, tmp_path / "artifacts", "tenant/1 2/artifacts")
    for artifacts in (str(tmp_path / "artifacts"), uri, f"{uri}/"):
        model = ServedModel("", 1, artifacts)
        model.load()
        assert set(model.loaded.predictor.image_sizes) == {"picture", "page"}


def test_the_highest_number_of_the_artifacts_is_served(tmp_path):
    for number in ("2", "10", "9"):
        kinds.write_model(tmp_path / number)
    assert find_artifacts(str(tmp_path)) == str(tmp_path / "10")


def test_artifacts_without_a_model_are_refused(tmp_path):
    kinds.write_model(tmp_path / "other" / "model")
    with refused(NotFoundError, str(tmp_path)):
        find_artifacts(str(tmp_path))


def test_a_name_overrules_the_artifacts(tmp_path, registry):
    model = ServedModel(str(registry), 1, str(tmp_path / "nothing"))
    model.load()
    assert "msinet" in model.loaded.description


# === A registry's default ===


def follow(model, monkeypatch, lines):
    """Follow in a thread; its stop."""
    replace(monkeypatch, served, "LOOK_S", 0.05)
    stop = threading.Event()
    threading.Thread(target=model.follow, args=(stop, lines.append), daemon=True).start()
    return stop


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_new_default_answers_without_a_pause(registry, bucket, where, monkeypatch):
    def tell(version):
        write_json(registry / ALIASES, {"default": version})
        if where == "bucket":
            gcs.upload(bucket, registry / ALIASES, f"models/msinet/{ALIASES}")

    name = str(registry) if where == "folder" else gcs.upload(bucket, registry, "models/msinet")
    model, lines, statuses, maps = loaded(name), [], [], []
    stop = follow(model, monkeypatch, lines)
    with serving(model) as (address, _):

        def map_of_small():
            status, answer, _ = ask(address, {"instances": [instance(SMALL)]})
            statuses.append(status)
            maps.append(levels(answer["predictions"][0]).tobytes())

        map_of_small()
        tell(2)
        until(lambda: map_of_small() or lines)
        map_of_small()
    stop.set()
    assert set(statuses) == {200}
    assert len(lines) == 1
    assert maps[0] != maps[-1]
    alone = loaded(str(registry / "2"))
    with serving(alone) as (address, _):
        assert maps[-1] == levels(ask(address, {"instances": [instance(SMALL)]})[1]["predictions"][0]).tobytes()


def test_earlier_model_answers_while_the_new_default_cannot_be_loaded(registry, monkeypatch):
    model, lines = loaded(registry), []
    before = model.loaded
    (registry / "2" / "assets.extra" / "model.weights.h5").write_bytes(b"damaged")
    stop = follow(model, monkeypatch, lines)
    write_json(registry / ALIASES, {"default": 2})
    until(lambda: lines)
    assert model.loaded is before
    assert "still answers" in lines[0]
    write_json(registry / ALIASES, {"default": 1})
    stop.set()
    assert len(lines) == 1
