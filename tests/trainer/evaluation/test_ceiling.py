"""The ceiling of small prepared datasets, and what is said where there is none."""

import dataclasses
import shutil

import numpy as np
import pytest

from tests.prepared import write_prepared
from trainer import artifacts
from trainer.data import tfrecords
from trainer.evaluation import ceiling, confidence
from trainer.evaluation.background import Background, content
from trainer.evaluation.per_image import CENTER_BIAS, LEAVE_ONE_OUT, OBSERVERS, SPLIT_HALF
from trainer.metric_table import FIXATIONS, METRICS, metrics_that_need


def write(folder, observers_of, sizes=None, **counts):
    """A prepared dataset; `observers_of`: split and index -> number of observers, in turn, of 24 fixations."""
    write_prepared(folder, n_fixations=24, **counts)
    manifest = artifacts.Manifest.load(folder)
    for split in artifacts.SPLITS:
        examples = list(tfrecords.read(folder, split))
        with tfrecords.ShardWriter(folder, split, len(examples), manifest.image_size) as writer:
            for example in examples:
                n_observers = observers_of(split, example.index)
                changed = {"observers": np.arange(24) % n_observers if n_observers else np.zeros(0, np.int64)}
                if sizes:
                    size = sizes[example.index % len(sizes)]
                    changed |= {"original_size": size, "fixations": example.fixations % np.array(size)}
                writer.write(tfrecords.serialize(dataclasses.replace(example, **changed)))
    dataclasses.replace(manifest, has_observers=True).save(folder)
    return folder


def described(folder, level=0.95, models=(), trained_on=None):
    manifest = artifacts.Manifest.load(folder)
    made = ceiling.Ceiling(folder, manifest, trained_on or folder)
    examples = list(tfrecords.read(folder, manifest.held_out))
    background = Background(trained_on or folder, examples)
    for example in reversed(examples):  # threads finish in any order
        density = example.density[content(example)].astype(np.float32)
        made.add(example, dict.fromkeys(models, density), background)
    return made.describe(level)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("ceiling") / "data", lambda *_: 4, n_train=4, n_valid=5)


@pytest.fixture(scope="module")
def result(folder):
    return described(folder, models=["candidate"])


def test_every_metric_has_scores_intervals_and_a_share(result):
    assert (result["n_images"], result["n_too_few"], result["n_observers"]) == (5, 0, [4, 4.0, 4])
    assert list(result[LEAVE_ONE_OUT]["shares"]["candidate"]) == metrics_that_need(FIXATIONS)
    for protocol, metrics in ceiling.PROTOCOLS.items():
        scores = result[protocol]
        assert set(scores["means"]) == set(scores["intervals"]) == {"candidate", CENTER_BIAS, OBSERVERS}
        assert set(scores["shares"]) == {"candidate"}
        assert set(scores["choices"]) == set(metrics) == set(scores["means"][OBSERVERS])
        for metric in metrics:
            start, end = (scores["means"][model][metric] for model in (CENTER_BIAS, OBSERVERS))
            share = scores["shares"]["candidate"][metric]["share"]
            if share is not None:
                model = scores["means"]["candidate"][metric]
                assert share == pytest.approx((model - start) / (end - start))
                assert (end > start) == METRICS[metric].higher_is_better


def test_scores_are_the_means_over_images_and_their_observers(folder, result):
    """Each image and left-out observer again, one after another."""
    examples = list(tfrecords.read(folder, "valid"))
    background = Background(folder, examples)
    choice = ceiling.Choice(**result[LEAVE_ONE_OUT]["choices"]["nss"][0])
    means = []
    for example in examples:
        image = ceiling.Observed.of(example, background)
        scores = []
        for left_out in range(4):
            others = [other for other in range(4) if other != left_out]
            prediction = image.predict(others, [choice])[choice]
            truth = image.truth([left_out], None)
            scores.append(ceiling.score_maps({"nss": prediction}, truth)["nss"])
        means.append(np.mean(scores))
    assert result[LEAVE_ONE_OUT]["means"][OBSERVERS]["nss"] == pytest.approx(np.mean(means))
    interval = result[LEAVE_ONE_OUT]["intervals"][OBSERVERS]["nss"]
    assert interval == pytest.approx(confidence.interval(means))


def test_choices_are_made_on_training_images_alone(folder, result, tmp_path):
    fitted = ceiling.fit(folder)
    chosen = {metric: [choice._asdict()] for metric, choice in fitted.choices[SPLIT_HALF].items()}
    assert chosen == result[SPLIT_HALF]["choices"]
    other = write(tmp_path / "other", lambda split, _: 4 if split == "train" else 3, n_train=4, n_valid=2)
    # The centre bias of these datasets is made of all images.
    shutil.copy(folder / artifacts.CENTER_BIAS, other)
    assert ceiling.fit(other) == fitted


def test_each_half_of_a_test_set_is_scored_with_the_choices_of_the_other(folder, tmp_path):
    tested = write(tmp_path / "tested", lambda *_: 3, n_train=1, n_valid=4)
    manifest = artifacts.Manifest.load(tested)
    shards = {artifacts.TEST: manifest.shards["valid"]}
    dataclasses.replace(manifest, counts={artifacts.TEST: 4}, shards=shards).save(tested)
    result = described(tested, trained_on=folder)
    assert (result["n_images"], result["n_observers"]) == (4, [3, 3.0, 3])
    examples = list(tfrecords.read(tested, artifacts.TEST))
    background = Background(folder, examples)
    klds = []
    for example in examples:
        others = [each for each in examples if each.index % 2 != example.index % 2]
        fitted = ceiling._fit(folder, others)
        chosen = {metric: choice._asdict() for metric, choice in fitted.choices[SPLIT_HALF].items()}
        assert chosen == {
            metric: both[example.index % 2] for metric, both in result[SPLIT_HALF]["choices"].items()
        }
        image = ceiling.Observed.of(example, background)
        scores = ceiling._score(image, SPLIT_HALF, example.index, fitted, {})
        klds.append(scores[OBSERVERS]["kld"])
    assert result[SPLIT_HALF]["means"][OBSERVERS]["kld"] == pytest.approx(np.mean(klds))


def test_the_choice_is_the_best_on_training_images(folder):
    """With a case for each image, as `fit` makes them, no other choice has a better mean."""
    fitted = ceiling.fit(folder)
    examples = tfrecords.some(folder, "train", ceiling.FITTED_ON)
    background = Background(folder, examples)
    tables = [
        ceiling._of_choices(ceiling.Observed.of(example, background), SPLIT_HALF, example.index, fitted.truth_blur)
        for example in examples
    ]
    kld = list(METRICS).index("kld")
    best = ceiling.CHOICES.index(fitted.choices[SPLIT_HALF]["kld"])
    assert np.mean(tables, axis=0)[:, kld].argmin() == best


def test_images_of_mixed_sizes_and_with_one_observer_are_counted(tmp_path):
    number = {("valid", 0): 1, ("valid", 1): 0, ("valid", 3): 2}
    sizes = [(64, 80), (400, 300), (33, 50)]
    data = write(tmp_path / "data", lambda *place: number.get(place, 5), sizes, n_train=3, n_valid=6)
    result = described(data, models=["candidate"])
    assert (result["n_images"], result["n_too_few"], result["n_observers"]) == (4, 2, [2, 5.0, 5])
    assert set(result[SPLIT_HALF]["means"][OBSERVERS]) == set(METRICS)
    assert (
        confidence.ceiling_scope(result) == "4 images with 2 to 5 observers each (2 with fewer than two left out)"
    )


@pytest.mark.parametrize(
    ("split", "reason"),
    [
        ("valid", "None of 3 images has two observers, who could predict each other."),
        ("train", "No image on which the blur is chosen has two observers."),
    ],
)
def test_one_observer_alone_is_no_ceiling(split, reason, tmp_path):
    data = write(tmp_path / "data", lambda where, _: 1 if where == split else 4, n_train=2, n_valid=3)
    assert described(data) == {"absent": reason}


def test_of_many_images_some_are_chosen(folder, monkeypatch, result):
    monkeypatch.setattr(ceiling, "MOST_IMAGES", 2)
    few = described(folder)
    assert few["n_images"] == 2
    assert confidence.ceiling_scope(few) == "2 of 5 images, chosen at random, with 4 observers each"
    assert few == described(folder)
    assert few[LEAVE_ONE_OUT]["means"] != result[LEAVE_ONE_OUT]["means"]
