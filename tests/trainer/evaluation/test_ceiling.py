"""The ceiling of small prepared datasets, and how well the observers of one image predict each other."""

import dataclasses
import shutil

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from tests.prepared import write_prepared
from trainer.data import prepared_data, tfrecords
from trainer.evaluation import ceiling
from trainer.evaluation.ceiling import LEAVE_ONE_OUT, SPLIT_HALF
from trainer.evaluation.evaluation import Choice, Role
from trainer.evaluation.scoring import Background, content
from trainer.metrics.metric_table import FIXATIONS, METRICS, metrics_that_need
from trainer.metrics.metrics import metric_value
from trainer.metrics.points import count_points
from trainer.reports.ceiling_rows import ceiling_scope


def write(folder, observers_of, sizes=None, **counts):
    """A prepared dataset; `observers_of`: split and index -> number of observers, in turn, of 24 fixations."""
    write_prepared(folder, n_fixations=24, **counts)
    manifest = prepared_data.Manifest.load(folder)
    for split in prepared_data.SPLITS:
        examples = list(tfrecords.read_examples(folder, split))
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
    manifest = prepared_data.Manifest.load(folder)
    made = ceiling.Ceiling(folder, manifest, trained_on or folder)
    examples = list(tfrecords.read_examples(folder, manifest.held_out))
    background = Background(trained_on or folder, examples)
    for example in reversed(examples):  # threads finish in any order
        density = example.density[content(example)].astype(np.float32)
        made.add(example, "", dict.fromkeys(models, density), background)
    return made.describe(level)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("ceiling") / "data", lambda *_: 4, n_train=4, n_valid=5)


@pytest.fixture(scope="module")
def result(folder):
    return described(folder, models=["candidate"])


def test_every_metric_has_scores_intervals_and_a_share(result):
    assert (result.n_images, result.n_too_few, result.n_observers) == (5, 0, (4, 4.0, 4))
    assert list(result.leave_one_out.shares["candidate"]) == metrics_that_need(FIXATIONS)
    for protocol, metrics in ceiling.PROTOCOLS.items():
        scores = getattr(result, protocol)
        assert set(scores.means) == set(scores.intervals) == {"candidate", Role.CENTER_BIAS, Role.OBSERVERS}
        assert set(scores.shares) == {"candidate"}
        assert set(scores.choices) == set(metrics) == set(scores.means[Role.OBSERVERS])
        for metric in metrics:
            start, end = (scores.means[model][metric] for model in (Role.CENTER_BIAS, Role.OBSERVERS))
            share = scores.shares["candidate"][metric].share
            if share is not None:
                model = scores.means["candidate"][metric]
                assert share == pytest.approx((model - start) / (end - start))
                assert (end > start) == METRICS[metric].higher_is_better


def test_choices_are_made_on_training_images_alone(folder, result, tmp_path):
    fitted = ceiling.fit_observers(folder)
    chosen = {metric: [choice] for metric, choice in fitted.choices[SPLIT_HALF].items()}
    assert chosen == result.split_half.choices
    other = write(tmp_path / "other", lambda split, _: 4 if split == "train" else 3, n_train=4, n_valid=2)
    # The centre bias of these datasets is made of all images.
    shutil.copy(folder / prepared_data.CENTER_BIAS, other)
    assert ceiling.fit_observers(other) == fitted


def test_each_half_of_a_test_set_is_scored_with_the_choices_of_the_other(folder, tmp_path):
    tested = write(tmp_path / "tested", lambda *_: 3, n_train=1, n_valid=4)
    manifest = prepared_data.Manifest.load(tested)
    shards = {prepared_data.TEST: manifest.shards["valid"]}
    dataclasses.replace(manifest, counts={prepared_data.TEST: 4}, shards=shards).save(tested)
    result = described(tested, trained_on=folder)
    assert (result.n_images, result.n_observers) == (4, (3, 3.0, 3))
    examples = list(tfrecords.read_examples(tested, prepared_data.TEST))
    background = Background(folder, examples)
    klds = []
    for example in examples:
        others = [each for each in examples if each.index % 2 != example.index % 2]
        fitted = ceiling._fit(folder, others)
        assert fitted.choices[SPLIT_HALF] == {
            metric: both[example.index % 2] for metric, both in result.split_half.choices.items()
        }
        image = ceiling.Observed.of(example, background)
        scores = ceiling._score(image, SPLIT_HALF, example.index, fitted, {})
        klds.append(scores[Role.OBSERVERS]["kld"])
    assert result.split_half.means[Role.OBSERVERS]["kld"] == pytest.approx(np.mean(klds))


def test_images_of_mixed_sizes_and_with_one_observer_are_counted(tmp_path):
    number = {("valid", 0): 1, ("valid", 1): 0, ("valid", 3): 2}
    sizes = [(64, 80), (400, 300), (33, 50)]
    data = write(tmp_path / "data", lambda *place: number.get(place, 5), sizes, n_train=3, n_valid=6)
    result = described(data, models=["candidate"])
    assert (result.n_images, result.n_too_few, result.n_observers) == (4, 2, (2, 5.0, 5))
    assert set(result.split_half.means[Role.OBSERVERS]) == set(METRICS)
    assert ceiling_scope(result) == "4 images with 2 to 5 observers each (2 with fewer than two left out)"


# === The observers of one image: by brute force, by pysaliency, and by what theory expects ===

SIZE = (60, 80)
POINTS = [
    [[32, 36], [21, 34], [21, 40], [42, 34], [24, 45], [33, 41]],
    [[21, 39], [36, 23], [25, 17], [18, 17], [27, 24]],
    [[31, 37], [7, 33], [29, 41]],
    [[16, 34], [21, 30], [39, 30]],
    [[37, 32], [28, 41], [30, 25], [30, 56]],
]
PYSALIENCY = {
    "nss": [1.996756, 0.602019, 1.772306, 1.021859, 1.654880],
    "information_gain": [2.022947, -0.077223, 1.106063, 1.427701, 0.933844],
    "auc_judd": [0.917014, 0.772354, 0.863785, 0.871285, 0.840833],
}
"""pysaliency 0.2.22 for each observer of POINTS left out: a `KDEGoldModel` of the others with a bandwidth of 4 px,
of which 10% is uniform, at the fixations of the left-out one; the gain is over a `UniformModel`."""


def observed(observers, size=SIZE, others=1):
    arrays = [np.array(points) for points in observers]
    y, x = np.mgrid[-1 : 1 : size[0] * 1j, -1 : 1 : size[1] * 1j]
    bias = np.exp(-2 * (y**2 + x**2))
    return ceiling.Observed(arrays, size, bias / bias.sum(), np.full(size, others))


def test_one_left_out_scores_as_pysaliency_says():
    image = ceiling.Observed(
        [np.array(points) for points in POINTS], SIZE, np.full(SIZE, 1 / 4800), np.ones(SIZE, int)
    )
    choice = Choice(4 / 80, 0.1)
    splits = sorted(image.observer_splits(LEAVE_ONE_OUT, (0,), 10), key=lambda split: split.held_out)
    assert [split.held_out for split in splits] == [[0], [1], [2], [3], [4]]
    for index, split in enumerate(splits):
        prediction = image.predict(split.predicting, [choice])[choice]
        scores = ceiling.score_maps(dict.fromkeys(PYSALIENCY, prediction), image.truth(split.held_out, None))
        for metric, expected in PYSALIENCY.items():
            # pysaliency's Gaussian is not cut off at 4 standard deviations.
            assert scores[metric] == pytest.approx(expected[index], abs=2e-3), (metric, index)


def test_leaving_out_equals_blurring_the_others_alone():
    image, choice = observed(POINTS), Choice(0.04, 0.2)
    for split in image.observer_splits(LEAVE_ONE_OUT, (1,), 10):
        points = np.concatenate([POINTS[other] for other in range(5) if other not in split.held_out])
        counts = count_points(points, SIZE).astype(float)
        alone = gaussian_filter(counts, 0.04 * 80, mode="constant")
        expected = 0.8 * alone / alone.sum() + 0.2 * image.center_bias
        np.testing.assert_allclose(image.predict(split.predicting, [choice])[choice], expected, atol=1e-15)
        truth = image.truth(split.held_out, None)
        assert truth["fixations"].tolist() == POINTS[split.held_out[0]]
        assert "density" not in truth


@pytest.mark.parametrize("n", [2, 3, 8])
def test_halves_share_nobody_and_leave_nobody_out(n):
    image = observed([POINTS[index % 5] for index in range(n)])
    splits = image.observer_splits(SPLIT_HALF, (0, 7), 6)
    assert len(splits) == 6
    for first, second in splits:
        assert sorted(first + second) == list(range(n))
        assert len(first) == n // 2
    assert splits == image.observer_splits(SPLIT_HALF, (0, 7), 6)
    assert len({tuple(sorted(first)) for first, _ in splits}) > 1


def test_many_observers_come_near_the_density_they_look_by_and_few_stay_below():
    """By Gibbs' inequality nothing predicts fixations better than their density, and so few observers do not."""
    random = np.random.default_rng(3)
    y, x = np.mgrid[:60, :80]
    bumps = [(20, 20, 5), (40, 60, 7), (25, 55, 4)]
    density = sum(np.exp(-((y - top) ** 2 + (x - left) ** 2) / (2 * width**2)) for top, left, width in bumps)
    density = 0.95 * density / density.sum() + 0.05 / density.size
    uniform = np.full(SIZE, 1 / density.size)
    # What the density gains over a uniform map: its negative entropy plus that of the uniform map.
    best = float((density * np.log2(density * density.size)).sum())

    def gains(n_observers):
        observers = []
        for _ in range(n_observers):
            flat = random.choice(density.size, 20, p=density.ravel())
            observers.append(np.stack(np.unravel_index(flat, SIZE), axis=1))
        image, choice = ceiling.Observed(observers, SIZE, uniform, np.ones(SIZE, int)), Choice(0.03, 0.05)
        rows = []
        for split in image.observer_splits(LEAVE_ONE_OUT, (0,), 50):
            truth = image.truth(split.held_out, None)
            prediction = image.predict(split.predicting, [choice])[choice]
            rows.append([metric_value("information_gain", each, truth) for each in (prediction, density)])
        return np.mean(rows, axis=0)

    few, truth_of_few = np.mean([gains(2) for _ in range(25)], axis=0)
    many, truth_of_many = gains(50)
    assert few < truth_of_few - 0.5
    assert many == pytest.approx(truth_of_many, abs=0.1)
    assert truth_of_many == pytest.approx(best, abs=0.2)
