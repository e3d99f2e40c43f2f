"""The fit of a calibration: what it finds, and when it keeps nothing."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.network.calibration import Calibration
from trainer.network.tensorflow_calibration import Positions
from trainer.training import fit_calibration

H, W = 15, 20
TRUTH = Calibration(
    0.6, bias_logit=0.5, bias_slope=1.0, bias_height=0.15, bias_width=0.2, bias_y=-0.1, bias_x=0.05
)


def data(n, truth, noise=0.0):
    """Maps with one to three peaks, and densities that are their calibration by `truth`, with multiplied noise."""
    rng = np.random.default_rng(n)
    y, x = np.mgrid[0:H, 0:W]
    maps = np.zeros((n, H, W))
    for map_ in maps:
        for _ in range(rng.integers(1, 4)):
            cy, cx, size = rng.uniform(2, H - 2), rng.uniform(2, W - 2), rng.uniform(1.5, 4)
            map_ += rng.uniform(0.5, 1) * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * size**2))
    rows, columns = (np.tile((np.arange(side) + 0.5) / side - 0.5, (n, 1)) for side in (H, W))
    parts = [tf.constant(each, tf.float32) for each in (maps, rows, columns)]
    densities = maps
    if truth is not None:
        densities = Positions(*parts[1:]).mixture(parts[0], tf.constant(truth.numbers)).numpy()
    densities = densities * np.exp(noise * rng.normal(size=densities.shape))
    densities /= densities.sum((1, 2), keepdims=True)
    return parts[0], tf.constant(densities, tf.float32), *parts[1:]


def test_the_numbers_that_made_the_densities_are_found():
    found = fit_calibration.fit_calibration(data(60, TRUTH))
    assert found is not None
    assert found.exponent == pytest.approx(TRUTH.exponent, abs=0.03)
    assert found.bias_width == pytest.approx(TRUTH.bias_width, abs=0.02)
    assert (found.bias_y, found.bias_x) == pytest.approx((TRUTH.bias_y, TRUTH.bias_x), abs=0.02)
    assert fit_calibration.klds(data(50, TRUTH), found).mean() < 0.002


def test_the_base_models_calibration_decides_with_few_images_and_not_with_many():
    priors = [TRUTH, Calibration(1.2, bias_logit=-2, bias_slope=3, bias_height=0.3, bias_width=0.3, bias_y=0.1)]
    few, many = (
        [fit_calibration.best(data(n, TRUTH, noise=0.3), prior).numbers for prior in priors] for n in (2, 200)
    )
    assert np.abs((many[0] - many[1]) / fit_calibration.DEVIATIONS).max() < 0.1
    assert np.abs((few[0] - few[1]) / fit_calibration.DEVIATIONS).max() > 0.3


def test_a_network_that_spreads_as_observers_do_is_not_calibrated(capsys):
    assert fit_calibration.fit_calibration(data(60, None, noise=0.3)) is None
    assert "not calibrated: no significant gain" in capsys.readouterr().out


def test_few_images_are_not_fitted(tmp_path, capsys):
    assert fit_calibration.calibrate(lambda images: images, tmp_path, fit_calibration.FEWEST_IMAGES - 1) is None
    assert "there are 14" in capsys.readouterr().out
