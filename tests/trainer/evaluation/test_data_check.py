"""What the default and its data say about new data: recordings as people bring them, maps of `pretrained`."""

import dataclasses
import functools
import json
import shutil

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from trainer.data.fetch import fetch_dataset
from trainer.data.prepared_data import Manifest
from trainer.data.settings import FetchConfig
from trainer.evaluation import data_check, recorded
from trainer.evaluation.evaluate import evaluate_models
from trainer.evaluation.evaluation import RECORDED
from trainer.evaluation.settings import EvaluateConfig
from trainer.models.find import find_model
from trainer.network import model_folder

N, N_OBSERVERS, N_FIXATIONS = 32, 5, 6
HEIGHT, WIDTH = 96, 128


@functools.cache
def scene(seed):
    """A picture with a disc on noise, and where each person looked: (observer, x, y) near the disc."""
    random = np.random.default_rng(seed)
    noise = gaussian_filter(random.normal(size=(HEIGHT, WIDTH, 3)), (2, 2, 0))
    pixels = 90 + 60 * noise / noise.std()
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    discs = random.uniform((15, 15), (HEIGHT - 15, WIDTH - 15), (1, 2))
    for (cy, cx), color in zip(discs, random.uniform(0, 255, (1, 3)), strict=True):
        pixels[(y - cy) ** 2 + (x - cx) ** 2 < 100] = np.where(color > 128, 255, 0)
    looked = []
    for observer in range(N_OBSERVERS):
        for cy, cx in discs[np.zeros(N_FIXATIONS, int)] + random.normal(0, 3, (N_FIXATIONS, 2)):
            looked.append((observer, min(max(cx, 0), WIDTH - 1), min(max(cy, 0), HEIGHT - 1)))
    return np.uint8(np.clip(pixels, 0, 255)), looked


def prepare(folder, change=lambda name, observer, x, y: (x, y), seeds=range(N), suffix="png"):
    """Prepared recordings; `change` is what happened to a position."""
    rows = ["observer,image,x,y"]
    (folder / "source").mkdir(parents=True)
    for seed in seeds:
        name = f"{seed}.{suffix}"
        pixels, looked = scene(seed)
        Image.fromarray(pixels).save(folder / "source" / name, quality=90)
        for observer, *position in looked:
            x, y = change(name, observer, *position)
            rows.append(f"P{observer},{name},{min(max(x, 0), WIDTH - 1):.2f},{min(max(y, 0), HEIGHT - 1):.2f}")
    (folder / "source" / "fixations.csv").write_text("\n".join(rows))
    (folder / "source" / "reading.toml").write_text('confirmed = ["pictures", "observers"]')  # `fetch` asks first
    fetch_dataset(
        FetchConfig("custom", str(folder / "source"), "96x128", blur_px=5.0, coordinates="pixels"), folder / "data"
    )
    return folder / "data"


def flipped(name, observer, x, y):
    return x, HEIGHT - 1 - y


def moved(name, observer, x, y):
    return x + 0.12 * WIDTH, y


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("honest"))


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """`pretrained` at the size of these pictures, which takes a fifth of the time."""
    folder = shutil.copytree(find_model("pretrained"), tmp_path_factory.mktemp("pretrained") / "model")
    config = json.loads((folder / model_folder.MODEL_CONFIG).read_text())
    config.pop("kinds", None)
    (folder / model_folder.MODEL_CONFIG).write_text(json.dumps(config | {"image_size": [HEIGHT, WIDTH]}))
    return folder


@pytest.fixture(scope="module")
def default(honest, pretrained, tmp_path_factory):
    """That model as a registry keeps a version, after it was decided on these images."""
    folder = tmp_path_factory.mktemp("default")
    evaluate_models(EvaluateConfig(), pretrained, {"lab": honest}, folder / "evaluation")
    kept = shutil.copytree(pretrained, folder / "model")
    for name in (RECORDED, model_folder.PER_IMAGE):
        shutil.copy(folder / "evaluation" / name, kept)
    return kept


def asked(folder, default):
    return beside(folder, default, recorded.read_recorded(default).get("finetune", []))


def beside(folder, default, before):
    return data_check.ask_about(folder, default, recorded.compare(recorded.read_lines(folder), before))


def held(found):
    return [each.text for each in found if each.is_large]


def test_honest_data_raise_no_question(honest, default, pretrained, tmp_path):
    assert asked(honest, default) == []
    assert asked(honest, pretrained) == []  # a model of whose data nothing is known
    assert held(asked(prepare(tmp_path / "grown", seeds=range(N + 8)), default)) == []
    assert asked(prepare(tmp_path / "encoded", suffix="jpg"), default) == []


@pytest.mark.parametrize(
    ("change", "how", "said"),
    [
        (flipped, "y is as if from the other side", "y were upside down"),
        (moved, "12% of the width to the right", "of the width to the right"),
    ],
)
def test_wrong_positions_are_named_by_the_default_and_by_the_images_of_before(
    change, how, said, default, pretrained, tmp_path
):
    data = prepare(tmp_path, change)
    of_changed, of_positions = held(asked(data, default))
    assert f"recordings of {N} of the {N} images" in of_changed
    assert how in of_changed
    n_held_out = Manifest.load(data).counts["valid"]
    assert f"KLD of the current default on {n_held_out} of all" in of_changed
    assert said in of_positions
    # Nothing is known of the data of this model, but its maps are a witness all the same.
    (alone,) = held(asked(data, pretrained))
    assert said in alone


def test_added_images_are_asked_about_alone(default, tmp_path):
    added = {f"{seed}.png" for seed in range(N, N + 24)}

    def change(name, observer, x, y):
        return flipped(name, observer, x, y) if name in added else (x, y)

    texts = held(asked(prepare(tmp_path, change, seeds=range(N + 24)), default))
    assert any("24 added images" in text and "upside down" in text for text in texts)
    assert not any("recordings of" in text for text in texts)


def test_one_person_who_disagrees_with_the_others_is_named(default, tmp_path):
    def change(name, observer, x, y):
        return moved(name, observer, x, y) if observer == 2 else (x, y)

    texts = held(asked(prepare(tmp_path, change), default))
    assert any("observer 3 " in text and "to the right" in text for text in texts)


def test_a_few_changed_recordings_and_missing_images_are_said_and_hold_nothing(honest, default, tmp_path):
    data = prepare(
        tmp_path, lambda name, observer, x, y: flipped(name, observer, x, y) if name == "17.png" else (x, y)
    )
    (found,) = asked(data, default)
    assert not found.is_large
    assert f"1 of the {N} images" in found.text
    assert "17.png" in found.text
    before = recorded.read_recorded(default)["finetune"]
    more = [
        dataclasses.replace(line, digest=f"gone-{i}", image=f"gone-{i}.png", hash="")
        for i, line in enumerate(before)
    ]
    for n_gone, is_large in ((3, False), (12, True)):
        (found,) = beside(honest, default, [*before, *more[:n_gone]])
        assert (f"{n_gone} of the" in found.text, found.is_large) == (True, is_large)


def test_people_may_be_added(default, tmp_path):
    source = tmp_path / "source"
    data = prepare(tmp_path)
    with (source / "fixations.csv").open("a") as file:
        for seed in range(N):
            for _, x, y in scene(seed)[1][:N_FIXATIONS]:
                file.write(f"\nNew,{seed}.png,{x:.1f},{y:.1f}")
    shutil.rmtree(data)
    fetch_dataset(FetchConfig("custom", str(source), "96x128", blur_px=5.0, coordinates="pixels"), data)
    assert asked(data, default) == []


def test_generated_shapes_are_not_asked_about(default, tmp_path):
    data = prepare(tmp_path, flipped)
    dataclasses.replace(Manifest.load(data), source="sample").save(data)
    assert asked(data, default) == []
