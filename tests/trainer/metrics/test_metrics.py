"""The metrics, compared with pysaliency and with plain definitions, and their errors."""

import pathlib
from collections.abc import Callable

import numpy as np
import pytest

from tests.refusals import refused
from trainer.metrics import metric_table, metrics
from trainer.metrics.metric_table import METRICS
from trainer.metrics.points import count_points, scale_points

GOLDEN = np.load(pathlib.Path(__file__).parents[2] / "golden" / "metrics_reference.npz")
CASES = range(6)
RNG = np.random.default_rng(7)
MAP = RNG.random((12, 16))
DENSITY = RNG.random((12, 16))
POINTS = np.array([[0, 0], [11, 15], [5, 7], [5, 7]])


def case(index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return GOLDEN[f"{index}_prediction"], GOLDEN[f"{index}_map"], GOLDEN[f"{index}_fixations_yx"]


def others(index: int) -> np.ndarray:
    """Fixations of all other cases in pixels of this one."""
    size = case(index)[0].shape
    return np.concatenate([scale_points(case(i)[2], case(i)[0].shape, size) for i in CASES if i != index])


def centred_gaussian(size: tuple[int, int]) -> np.ndarray:
    """The baseline of the golden file: centred, with a sigma of 0.25 of each side."""
    y, x = (np.exp(-0.5 * ((np.arange(n) - (n - 1) / 2) / (0.25 * n)) ** 2) for n in size)
    return np.outer(y, x)


def over_bias(index: int) -> float:
    """Share of the pairs of a fixation and one of another image in which the ratio is higher, ties half."""
    prediction, _, fixations = case(index)
    shifted = prediction - min(0, prediction.min())
    p = shifted / shifted.sum() if shifted.any() else np.full(shifted.shape, 1 / shifted.size)
    b = centred_gaussian(prediction.shape)
    b /= b.sum()
    ratio = np.log2(metrics.EPSILON + p) - np.log2(metrics.EPSILON + b)
    ours, theirs = (ratio[tuple(points.T)] for points in (fixations, others(index)))
    higher, same = ours[:, None] > theirs, np.isclose(ours[:, None], theirs, rtol=0, atol=1e-12)
    return float(np.mean(np.where(same, 0.5, higher)))


def by_pysaliency(name: str) -> Callable[[int], float]:
    return lambda index: float(GOLDEN[f"{index}_{name}"])


ORACLES = {
    "auc_judd": by_pysaliency("auc_judd"),
    "shuffled_auc": by_pysaliency("shuffled_auc"),
    "shuffled_auc_over_bias": over_bias,
    "nss": by_pysaliency("nss"),
    "cc": by_pysaliency("cc"),
    "kld": by_pysaliency("kld"),
    "sim": by_pysaliency("sim"),
    "information_gain": by_pysaliency("information_gain"),
}
"""Metric -> what an independent implementation scores the prediction of a case."""


@pytest.mark.parametrize("name", METRICS)
def test_agrees_with_an_independent_implementation(name: str) -> None:
    for index in CASES:
        prediction, density, fixations = case(index)
        truth = {
            metric_table.FIXATIONS: fixations,
            metric_table.OTHER_COUNTS: count_points(others(index), prediction.shape),
            metric_table.DENSITY: density,
            metric_table.BASELINE: centred_gaussian(prediction.shape),
        }
        score = metrics.metric_value(name, prediction, truth)
        assert score == pytest.approx(ORACLES[name](index), abs=1e-6), index


@pytest.mark.parametrize("index", CASES)
def test_counted_other_fixations_give_the_same_shuffled_auc(index: int) -> None:
    prediction, _, fixations = case(index)
    counts = count_points(others(index), prediction.shape)
    expected = metrics.shuffled_auc(prediction, fixations, others(index))
    scores = metrics.shuffled_auc_of_counts(prediction, fixations, counts)
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_roc_area_is_the_share_of_higher_pairs_with_ties_half() -> None:
    prediction = RNG.integers(0, 4, (6, 7)).astype(float)
    fixations = np.stack([RNG.integers(0, 6, 9), RNG.integers(0, 7, 9)], axis=1)
    positives = prediction[tuple(fixations.T)][:, None]
    pairs = (positives > prediction.ravel()) + 0.5 * (positives == prediction.ravel())
    np.testing.assert_allclose(metrics.auc_judd(prediction, fixations), pairs.mean(axis=1), atol=1e-12)


@pytest.mark.parametrize("gap", [1.0, 2.0**-52])
def test_roc_area_tells_neighbouring_floats_apart(gap: float) -> None:
    prediction = 1 + gap * np.arange(6.0).reshape(2, 3)
    areas = metrics.auc_judd(prediction, np.array([[0, 1], [1, 2]]))
    np.testing.assert_allclose(areas, [1.5 / 6, 5.5 / 6])


def test_a_prediction_equal_to_the_density_is_perfect() -> None:
    assert metrics.kld(DENSITY, DENSITY) == pytest.approx(0, abs=1e-12)
    assert metrics.sim(DENSITY * 255, DENSITY) == pytest.approx(1)
    assert metrics.correlation(DENSITY, DENSITY) == pytest.approx(1)
    np.testing.assert_allclose(metrics.information_gain(DENSITY, POINTS, DENSITY * 3), 0, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 255.0])
def test_constant_prediction_scores_at_chance(value: float) -> None:
    constant = np.full((12, 16), value)
    np.testing.assert_array_equal(metrics.auc_judd(constant, POINTS), 0.5)
    np.testing.assert_array_equal(metrics.nss(constant, POINTS), 0)
    assert metrics.correlation(constant, DENSITY) == 0
    assert metrics.kld(constant, DENSITY) == pytest.approx(metrics.kld(np.ones((12, 16)), DENSITY))


@pytest.mark.parametrize("name", METRICS)
def test_known_scores_of_a_uniform_map_are_those_of_every_image(name: str) -> None:
    scores = {
        metrics.metric_value(
            name,
            np.ones((9, 11)),
            {
                metric_table.FIXATIONS: np.stack([rng.integers(0, 9, 7), rng.integers(0, 11, 7)], axis=1),
                metric_table.OTHER_COUNTS: rng.integers(0, 100, (9, 11)),
                metric_table.DENSITY: rng.random((9, 11)),
                metric_table.BASELINE: rng.random((9, 11)),
            },
        )
        for rng in map(np.random.default_rng, range(20))
    }
    assert (scores == {metrics.OF_UNIFORM.get(name)}) == (len(scores) == 1)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float32, 1e-30), (np.float32, 1e30), *((np.float64, scale) for scale in (1e-300, 1e-30, 1e30, 1e300))],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_scale_of_a_map_changes_no_metric(name: str, dtype: type, scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    maps = {
        "prediction": rng.normal(size=(12, 16)),
        metric_table.DENSITY: rng.random((12, 16)),
        metric_table.BASELINE: rng.random((12, 16)),
        metric_table.OTHER_COUNTS: rng.integers(0, 3, (12, 16)),
    }
    scaled = {key: (values * scale).astype(dtype) for key, values in maps.items()}
    plain = {key: values.astype(np.float64) / scale for key, values in scaled.items()}
    for key in maps:
        one = {**plain, key: scaled[key], metric_table.FIXATIONS: POINTS}
        expected = metrics.metric_value(name, plain["prediction"], {**plain, metric_table.FIXATIONS: POINTS})
        assert metrics.metric_value(name, one.pop("prediction"), one) == pytest.approx(
            expected, rel=1e-9, abs=1e-12
        ), key


def test_points_scale_to_the_pixel_they_fall_in() -> None:
    points = np.array([[0, 0], [47, 95], [29, 58]])
    np.testing.assert_array_equal(scale_points(points, (48, 96), (48, 96)), points)
    np.testing.assert_array_equal(scale_points(points, (48, 96), (100, 50)), [[0, 0], [97, 49], [60, 30]])
    # 29 / 58 * 100 is exactly 50.
    np.testing.assert_array_equal(scale_points(np.array([[29, 29]]), (58, 58), (100, 100)), [[50, 50]])


@pytest.mark.parametrize(
    ("points", "named"),
    [
        (np.zeros((0, 2), int), ("fixations",)),
        (np.array([[3, 16], [1, 1], [-1, 0]]), ("2 of 3", "(12, 16)", "(3, 16)")),
        (np.array([1, 2]), ("(2,)",)),
        (np.array([[1.5, 2.0]]), ("float64",)),
    ],
)
def test_invalid_points_are_an_error(points: np.ndarray, named: tuple[str, ...]) -> None:
    with refused(ValueError, *named):
        metrics.nss(MAP, points)


@pytest.mark.parametrize(
    ("prediction", "density", "named"),
    [
        (MAP, DENSITY[:5], ("density", "(5, 16)", "(12, 16)")),
        (MAP, np.zeros((12, 16)), ("density", "(12, 16)")),
        (np.full((12, 16), np.nan), DENSITY, ("192 of 192",)),
        (MAP[..., None], DENSITY, ("(12, 16, 1)",)),
        (MAP[:0], DENSITY[:0], ("(0, 16)",)),
    ],
)
def test_invalid_maps_are_an_error(prediction: np.ndarray, density: np.ndarray, named: tuple[str, ...]) -> None:
    for metric in (metrics.kld, metrics.correlation, metrics.sim):
        with refused(ValueError, *named):
            metric(prediction, density)
