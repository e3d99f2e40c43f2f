"""The gate of data: what is compared with the data of the current default, and what ends a run."""

import json

import numpy as np
import pytest

from lifecycle.registry.data_gate import DataGate
from lifecycle.registry.register import lineage_of, open_registry
from lifecycle.registry.settings import DataGateConfig
from tests.narrow import narrow_pretrained, narrowed
from tests.refusals import refused
from tests.small_sources import save
from tests.trainer import predictable
from trainer.data import prepared_data
from trainer.data.fetch import fetch_dataset
from trainer.data.settings import FetchConfig
from trainer.errors import GateError
from trainer.evaluation import per_image, recorded
from trainer.evaluation.evaluation import RECORDED
from trainer.evaluation.per_image import PerImage
from trainer.evaluation.settings import EvaluateConfig
from trainer.models.registry_layout import PRETRAINED_VERSION
from trainer.network import model_folder
from trainer.reports.data_comparison import DataStatement, write_data_comparison

N = 60
STRICT = DataGateConfig(data_gate="strict")


def prepare(folder, seeds, brightness=1.0, scale=1, down=0.5, observers=3):
    """Prepared recordings; each image depends on its seed alone."""
    rows = ["observer,image,x,y"]
    for seed in seeds:
        random = np.random.default_rng(seed)
        height, width = 24 * scale, 32 * scale
        level = brightness * random.uniform(60, 200)
        pixels = np.clip(random.normal(level, 20, (height, width, 3)), 0, 255).astype(np.uint8)
        save(folder / "source" / f"{seed}.png", pixels)
        for observer in range(observers):
            for y, x in np.clip(random.normal((down, 0.5), 0.12, (random.integers(3, 7), 2)), 0, 0.99):
                rows.append(f"P{observer},{seed}.png,{x * width},{y * height}")
    (folder / "source" / "fixations.csv").write_text("\n".join(rows))
    config = FetchConfig("custom", str(folder / "source"), "24x32", blur_px=2.0 * scale, coordinates="pixels")
    fetch_dataset(config, folder / "data")
    return str(folder / "data")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("first"), range(N))


@pytest.fixture(scope="module", autouse=True)
def narrow():
    """The default, and `pretrained`, are narrow networks that know nothing of these images."""
    with narrowed(), narrow_pretrained():
        yield


@pytest.fixture(scope="module")
def default(tmp_path_factory):
    """A model as `train` leaves it, but for its SavedModel, which nothing reads here."""
    folder = predictable.write_model(tmp_path_factory.mktemp("default") / "model", predictable.network(1))
    (folder / model_folder.SAVED_MODEL).mkdir()
    (folder / model_folder.SAVED_MODEL / "saved_model.pb").write_bytes(b"graph")
    (folder / model_folder.HISTORY).write_text('{"epoch": 1}\n')
    return folder


@pytest.fixture
def register(tmp_path, default):
    """Registers a model as the default, with the data of its training; returns the registry."""

    def register(data, forget=()):
        evaluation = tmp_path / "evaluation"
        evaluation.mkdir()
        recorded.write_recorded(evaluation / RECORDED, data)
        (evaluation / model_folder.EVALUATION).write_text("{}")
        held_out = [image.name for image in prepared_data.images(data["finetune"], ["valid"])]
        scores = PerImage(held_out, {"candidate": {"kld": np.full(len(held_out), 0.5)}})
        per_image.append_scores(evaluation / model_folder.PER_IMAGE, "custom", scores)
        facts = lineage_of("run-1", data, str(default))
        for step in facts["data"].values():
            for name in forget:
                del step[name]
        record = {"metrics": {"custom": {"kld": 0.5}}, "reason": "", "lineage": facts}
        registry = open_registry(str(tmp_path / "models"))
        registry.add("msinet", default, record, True, PRETRAINED_VERSION, evaluation)
        return str(tmp_path / "models")

    return register


def compared(registry, folder):
    (data,) = DataGate(STRICT, EvaluateConfig(), registry, "msinet", {"finetune": folder}).compare()
    return data


def require(config, data):
    return DataGate(config, EvaluateConfig(), "", "msinet", {}).require(data)


def test_the_first_model_has_nothing_to_be_compared_with(first, tmp_path, capsys):
    data = compared(str(tmp_path / "models"), first)
    assert (data.last, data.now["images"]) == (None, N)
    assert require(STRICT, [data]) == ([], [])
    statement = DataStatement.of([data])
    assert (statement.headline, statement.sentences) == ("Nothing to compare with", [data.absent])
    assert capsys.readouterr().out.endswith("".join(f"\n{line}" for line in statement.lines) + "\n")
    write_data_comparison([data], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert statement.headline in page
    assert "The current default is <code>pretrained</code>, whose data are not compared." in page


def test_data_that_grow_are_compared_and_pass(first, register, tmp_path):
    registry = register({"finetune": first})
    (version,) = open_registry(registry).versions("msinet")
    assert len(json.dumps(version.record["lineage"]["data"])) < 5_000
    data = compared(registry, prepare(tmp_path / "grown", range(N + 10)))
    assert (data.last["images"], data.now["images"], data.added["images"]) == (N, N + 10, 10)
    assert require(STRICT, [data]) == ([], [])
    same = compared(registry, first)
    assert (same.added, same.now) == (None, same.last)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"brightness": 0.4}, "luminance"),
        ({"scale": 2}, "pixels"),
        ({"down": 0.3}, "attention down"),
        ({"observers": 9}, "observers"),
    ],
)
def test_data_of_another_kind_are_named_and_end_a_strict_run(change, named, first, register, tmp_path, capsys):
    registry = register({"finetune": first})
    data = compared(registry, prepare(tmp_path / "other", range(1000, 1000 + N), **change))
    warnings, questions = require(DataGateConfig(), [data])
    assert (questions, require(DataGateConfig(data_gate="warn"), [data])) == (warnings, (warnings, []))
    assert any(warning.startswith(f"Fine-tuning data (custom): {named}: ") for warning in warnings)
    printed = capsys.readouterr().out
    assert all(line in printed for line in DataStatement.of([data]).lines)
    write_data_comparison([data], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert warnings[0] in page
    assert page.count("<svg") == len(data.now["values"])
    with refused(GateError, "strict", named):
        require(STRICT, [data])


def test_added_images_of_another_kind_are_named_among_many_old_ones(first, register, tmp_path):
    prepare(tmp_path / "dark", range(1000, 1020), brightness=0.1)
    mixed = tmp_path / "mixed"
    prepare(mixed, range(N))
    for seed in range(1000, 1020):
        (tmp_path / "dark" / "source" / f"{seed}.png").rename(mixed / "source" / f"{seed}.png")
    tables = [tmp_path / "dark" / "source" / "fixations.csv", mixed / "source" / "fixations.csv"]
    tables[1].write_text("\n".join([tables[1].read_text(), *tables[0].read_text().splitlines()[1:]]))
    config = FetchConfig("custom", str(mixed / "source"), "24x32", blur_px=2.0, coordinates="pixels")
    fetch_dataset(config, mixed / "together")
    data = compared(register({"finetune": first}), str(mixed / "together"))
    assert any("luminance of 20 added images" in warning for warning in data.warnings)


def test_a_default_of_an_earlier_version_or_of_another_dataset_is_not_compared(first, register):
    registry = register({"finetune": first}, forget=["statistics"])
    data = compared(registry, first)
    assert data.last is None
    assert "version 1" in data.absent
    assert require(STRICT, [data]) == ([], [])


def test_a_default_that_was_trained_on_another_dataset_is_not_compared(first, register, tmp_path):
    registry = register({"finetune": first})
    source = tmp_path / "points"
    for index in range(20):
        save(source / "stimuli" / f"{index}.png", np.full((24, 32, 3), index, np.uint8))
        points = np.zeros((24, 32), np.uint8)
        points[5, index] = 255
        save(source / "maps" / f"{index}.png", points)
    fetch_dataset(FetchConfig("osie", str(source), "24x32", allow_partial_data=True), tmp_path / "osie")
    data = compared(registry, str(tmp_path / "osie"))
    assert data.last is None
    assert "custom" in data.absent


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (DataGateConfig(min_images=N + 1), ("custom", N, "min_images", N + 1)),
        (DataGateConfig(min_observers=4), ("custom", 3, "min_observers", 4)),
    ],
)
def test_too_few_images_or_observers_end_the_run(config, named, first, tmp_path):
    data = compared(str(tmp_path / "models"), first)
    with refused(GateError, *named):
        require(config, [data])
    require(DataGateConfig(min_images=N, min_observers=3), [data])


def test_observers_that_are_not_told_apart_are_not_enough(tmp_path):
    folder = prepare(tmp_path / "alone", range(20), observers=1)
    table = tmp_path / "alone" / "source" / "fixations.csv"
    table.write_text(table.read_text().replace("observer,", "nobody,").replace("P0,", ","))
    fetch_dataset(FetchConfig("custom", str(table.parent), "24x32", coordinates="pixels"), tmp_path / "unknown")
    assert compared(str(tmp_path / "models"), folder).now["values"]["observers"]["mean"] == 0  # the logarithm of 1
    with refused(GateError, "custom", "min_observers", 1):
        require(DataGateConfig(min_observers=1), [compared(str(tmp_path / "models"), str(tmp_path / "unknown"))])
