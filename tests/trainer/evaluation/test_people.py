"""Intervals over images and people: how often they hold, and the scores without one of the observers."""

import dataclasses
import io
import itertools
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from lifecycle.registry import versions
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.api import load
from trainer.data import prepared_data, tfrecords
from trainer.evaluation import confidence, per_image
from trainer.evaluation.evaluate import evaluate_models
from trainer.evaluation.evaluation import Role
from trainer.evaluation.per_image import LeftOut, PerImage
from trainer.evaluation.settings import EvaluateConfig
from trainer.metrics import metrics
from trainer.metrics.metric_table import DENSITY, FIXATIONS, METRICS, metrics_that_need
from trainer.metrics.points import blur
from trainer.models import registry_layout
from trainer.network import model_folder
from trainer.network.preprocess import Frame
from trainer.reports.report import write_report

pytestmark = pytest.mark.usefixtures("narrow")

# === How often the intervals hold ===


def table_of(values, saw, groups=()):
    """Scores of images that are means over those who saw them; `values` and `saw` are (images, people)."""
    images, observers = np.nonzero(saw)
    sums, counts = (values * saw).sum(axis=1), saw.sum(axis=1)
    with np.errstate(invalid="ignore"):  # an image has nothing without its only observer
        without = (sums[images] - values[images, observers]) / (counts[images] - 1)
    names = [f"{index}.jpg" for index in range(len(values))]
    left_out = LeftOut(observers, {"model": {"nss": without}}, images)
    return PerImage(names, {"model": {"nss": sums / counts}}, list(groups), left_out)


def drawn(random, saw, of_people, of_both, of_images=1.0):
    """Scores with effects of images and of people, and of both together, with these standard deviations."""
    return (
        of_images * random.normal(size=(len(saw), 1))
        + of_people * random.normal(size=saw.shape[1])
        + of_both * random.normal(size=saw.shape)
    )


def seen_by(random, n_images, n_people, n_each):
    saw = np.zeros((n_images, n_people), bool)
    for row in saw:
        row[random.permutation(n_people)[:n_each]] = True
    return saw


@pytest.mark.parametrize(
    ("n_images", "n_people", "n_each", "of_people", "of_both"),
    [
        (50, 11, 11, 0.5, 1.0),  # as web pages with eye tracking
        (50, 11, 11, 0.0, 2.0),  # people are all alike
        (60, 20, 2, 0.7, 1.0),  # two of them see an image
        (60, 20, 1, 0.7, 1.0),
    ],
)
def test_intervals_hold_for_other_images_and_other_people(n_images, n_people, n_each, of_people, of_both):
    random, held, narrow = np.random.default_rng(0), [], []
    for _ in range(600):
        saw = seen_by(random, n_images, n_people, n_each)
        table = table_of(drawn(random, saw, of_people, of_both), saw)
        low, high = table.intervals("model", 0.95)["nss"]
        held.append(low <= 0 <= high)
        low, high = confidence.mean_interval(table.values("model", "nss"))
        narrow.append(low <= 0 <= high)
    assert np.mean(held) == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 600))
    assert (np.mean(narrow) < 0.91) == (of_people > 0)


def test_images_with_people_of_their_own_have_the_interval_over_images():
    random = np.random.default_rng(1)
    saw = np.kron(np.eye(200, dtype=bool), np.ones(4, bool))
    table = table_of(drawn(random, saw, 1.0, 1.0), saw)
    alone = confidence.mean_interval(table.values("model", "nss"))
    assert table.intervals("model", 0.95)["nss"] == pytest.approx(alone, abs=0.02 * (alone[1] - alone[0]))


def test_images_of_a_group_count_as_one_value_for_people_too():
    random = np.random.default_rng(2)
    saw = np.ones((40, 6), bool)
    values = drawn(random, saw, 0.6, 1.0)
    twice = np.repeat(values, 2, axis=0)
    groups = [str(index) for index in range(40) for _ in range(2)]
    people = table_of(twice, np.repeat(saw, 2, axis=0), groups).people("nss", "model")
    alone = table_of(values, saw).people("nss", "model")
    assert dataclasses.astuple(people) == pytest.approx(dataclasses.astuple(alone))


def test_one_person_says_nothing_about_others():
    saw = np.ones((8, 1), bool)
    table = table_of(np.arange(8.0)[:, None], saw)
    assert table.over_people == []
    assert table.intervals("model", 0.95)["nss"] == confidence.mean_interval(np.arange(8.0))


# === The scores without one observer ===


@pytest.fixture(scope="module")
def dataset(good, tmp_path_factory):
    folder = tmp_path_factory.mktemp("people") / "data"
    changes = {"has_known_observers": True, "ground_truth": "points", "blur_sigma_px": 5.0}
    return predictable.write_dataset(folder, good, n_fixations=60, n_observers=5, **changes)


@pytest.fixture(scope="module")
def evaluation(dataset, models, tmp_path_factory):
    """An evaluation of `good`, with `bad` as the current default: its folder and its result."""
    output = tmp_path_factory.mktemp("people") / "evaluation"
    return output, evaluate_models(EvaluateConfig(), models["good"], {"salicon": dataset}, output, models["bad"])


@pytest.fixture
def table(evaluation):
    return PerImage.read_all(evaluation[0] / model_folder.PER_IMAGE, "")["salicon"]


def test_scores_without_an_observer_are_those_of_the_other_fixations(table, dataset, models):
    without, model = table.left_out.scores[Role.CANDIDATE], load(str(models["good"]))
    for place, (example, original) in enumerate(itertools.islice(tfrecords.read_held_out(dataset), 3)):
        size, rows = example.original_size, slice(5 * place, 5 * place + 5)
        restored = model.predict(np.asarray(Image.open(io.BytesIO(original.file))))
        compared = Frame(tfrecords.Original.MAP_SIZE).map_inside(restored, size)
        others = [example.fixations[example.observers != observer] for observer in range(5)]
        for metric in ("auc_judd", "nss"):
            expected = [metrics.metric_value(metric, restored, {FIXATIONS: points}) for points in others]
            np.testing.assert_allclose(without[metric][rows], expected, atol=1e-4)
        densities = [
            Frame(tfrecords.Original.MAP_SIZE).map_inside(blur(points, size, 5.0), size) for points in others
        ]
        for metric in metrics_that_need(DENSITY):
            exact = [metrics.metric_value(metric, compared, {DENSITY: density}) for density in densities]
            # Made at a small size, of which only the differences count.
            assert np.ptp(without[metric][rows] - exact) < 0.2 * np.ptp(exact), (metric, place)


def test_reports_say_what_intervals_hold_for_and_the_gate_decides_over_images_alone(
    evaluation, table, dataset, models, tmp_path, capsys
):
    output, content = evaluation
    salicon = content.datasets["salicon"]
    assert salicon.over_people == list(METRICS)
    of_images = confidence.gain(
        table.values(Role.CANDIDATE, "cc"), table.values(Role.CHAMPION, "cc"), higher_is_better=True
    )
    of_both, decisive = salicon.gains["cc"], salicon.decisive_gain
    assert of_both.high - of_both.low > of_images.high - of_images.low
    gains = table.values(Role.CHAMPION, "kld") - table.values(Role.CANDIDATE, "kld")
    assert (decisive.mean, decisive.low, decisive.high) == (gains.mean(), None, None)  # of ten images
    assert salicon.gains["kld"] == decisive  # there is one interval of this gain
    write_report(output, tmp_path / "report.html")
    assert "Intervals hold for other images and other people." in (tmp_path / "report.html").read_text("utf-8")
    without_maps = dataclasses.replace(
        prepared_data.Manifest.load(dataset), ground_truth="density", blur_sigma_px=0.0
    )
    without_maps.save(shutil.copytree(dataset, tmp_path / "maps"))
    evaluate_models(EvaluateConfig(), models["bad"], {"salicon": tmp_path / "maps"}, tmp_path / "other")
    main(["compare", str(output), str(tmp_path / "other"), "--json", str(tmp_path / "comparison.json")])
    assert "other people, those of CC, KLD, SIM for the same people." in capsys.readouterr().out
    (compared,) = json.loads((tmp_path / "comparison.json").read_text())["datasets"].values()
    assert compared["over_people"] == metrics_that_need(FIXATIONS)


def test_they_are_stored_and_read_again(table, tmp_path):
    per_image.append_scores(tmp_path / "scores.csv", "one", table)
    per_image.append_scores(tmp_path / "scores.csv", "two", table.only(table.images[3:5]))
    read = PerImage.read_all(tmp_path / "scores.csv", "")
    for metric in METRICS:
        assert read["one"].people(metric, Role.CANDIDATE, Role.CHAMPION) == table.people(
            metric, Role.CANDIDATE, Role.CHAMPION
        )
    assert read["two"].left_out.images.tolist() == [0] * 5 + [1] * 5
    np.testing.assert_array_equal(
        read["two"].left_out.scores[Role.CANDIDATE]["kld"], table.left_out.scores[Role.CANDIDATE]["kld"][15:25]
    )


def test_a_version_keeps_them(evaluation, models):
    kept = versions.files_of(models["good"], evaluation[0])
    assert kept[model_folder.LEFT_OUT].is_file()
    assert model_folder.LEFT_OUT in registry_layout.KEPT
