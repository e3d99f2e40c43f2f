"""How well observers predict each other: by brute force, by pysaliency, and by what theory expects."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from trainer import metrics
from trainer.evaluation.ceiling import (
    LONGER_SIDE_PX,
    PROTOCOLS,
    Choice,
    Observed,
    score_maps,
    shrink,
    small_size,
)
from trainer.evaluation.per_image import LEAVE_ONE_OUT, SPLIT_HALF

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
    return Observed(arrays, size, bias / bias.sum(), np.full(size, others))


def test_one_left_out_scores_as_pysaliency_says():
    image = Observed([np.array(points) for points in POINTS], SIZE, np.full(SIZE, 1 / 4800), np.ones(SIZE, int))
    choice = Choice(4 / 80, 0.1)
    cases = sorted(image.cases(LEAVE_ONE_OUT, (0,), 10), key=lambda case: case.held_out)
    assert [case.held_out for case in cases] == [[0], [1], [2], [3], [4]]
    for index, case in enumerate(cases):
        prediction = image.predict(case.predicting, [choice])[choice]
        scores = score_maps(dict.fromkeys(PYSALIENCY, prediction), image.truth(case.held_out, None))
        for metric, expected in PYSALIENCY.items():
            # pysaliency's Gaussian is not cut off at 4 standard deviations.
            assert scores[metric] == pytest.approx(expected[index], abs=2e-3), (metric, index)


def test_leaving_out_equals_blurring_the_others_alone():
    image, choice = observed(POINTS), Choice(0.04, 0.2)
    for case in image.cases(LEAVE_ONE_OUT, (1,), 10):
        points = np.concatenate([POINTS[other] for other in range(5) if other not in case.held_out])
        counts = metrics.count_points(points, SIZE).astype(float)
        alone = gaussian_filter(counts, 0.04 * 80, mode="constant")
        expected = 0.8 * alone / alone.sum() + 0.2 * image.center_bias
        np.testing.assert_allclose(image.predict(case.predicting, [choice])[choice], expected, atol=1e-15)
        truth = image.truth(case.held_out, None)
        assert truth["fixations"].tolist() == POINTS[case.held_out[0]]
        assert "density" not in truth


@pytest.mark.parametrize("n", [2, 3, 8])
def test_halves_share_nobody_and_leave_nobody_out(n):
    image = observed([POINTS[index % 5] for index in range(n)])
    cases = image.cases(SPLIT_HALF, (0, 7), 6)
    assert len(cases) == 6
    for first, second in cases:
        assert sorted(first + second) == list(range(n))
        assert len(first) == n // 2
    assert cases == image.cases(SPLIT_HALF, (0, 7), 6)
    assert len({tuple(sorted(first)) for first, _ in cases}) > 1


def test_as_many_are_left_out_as_asked_for_and_everyone_has_a_turn():
    image = observed(POINTS)
    left_out = [case.held_out for seed in range(20) for case in image.cases(LEAVE_ONE_OUT, (seed,), 2)]
    assert len(left_out) == 40
    assert {one for (one,) in left_out} == set(range(5))


def test_metrics_are_those_for_which_the_truth_suffices():
    image, alone = observed(POINTS), observed(POINTS, others=0)
    maps = dict.fromkeys(PROTOCOLS[SPLIT_HALF], image.center_bias)
    assert list(score_maps(maps, image.truth([0, 1], 0.05))) == list(PROTOCOLS[SPLIT_HALF])
    assert list(score_maps(maps, alone.truth([0], None))) == ["auc_judd", "nss", "information_gain"]
    assert score_maps(maps, image.truth([0], None))["information_gain"] == 0


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
        image, choice = Observed(observers, SIZE, uniform, np.ones(SIZE, int)), Choice(0.03, 0.05)
        rows = []
        for case in image.cases(LEAVE_ONE_OUT, (0,), 50):
            truth = image.truth(case.held_out, None)
            prediction = image.predict(case.predicting, [choice])[choice]
            rows.append([metrics.score("information_gain", each, truth) for each in (prediction, density)])
        return np.mean(rows, axis=0)

    few, truth_of_few = np.mean([gains(2) for _ in range(25)], axis=0)
    many, truth_of_many = gains(50)
    assert few < truth_of_few - 0.5
    assert many == pytest.approx(truth_of_many, abs=0.1)
    assert truth_of_many == pytest.approx(best, abs=0.2)


def test_images_keep_their_proportions_and_are_never_enlarged():
    assert small_size((480, 640)) == (120, 160)
    assert small_size((1024, 512)) == (160, 80)
    assert small_size((30, 50)) == (30, 50)
    assert small_size((2, 2000)) == (1, LONGER_SIDE_PX)
    shrunk = shrink(np.arange(16.0).reshape(4, 4), (2, 2))
    assert shrunk.tolist() == [[2.5, 4.5], [10.5, 12.5]]
