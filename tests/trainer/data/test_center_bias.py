"""The centre bias: its smoothing against a direct computation, and what it may know of an image."""

import itertools

import numpy as np
import pytest
from scipy import ndimage

from tests.refusals import refused
from trainer.data.center_bias import FOLDS, SIGMAS, SIZE, UNIFORM_SHARES, CenterBias
from trainer.data.prepared_data import CENTER_BIAS
from trainer.errors import ContentError
from trainer.io.files import write_array

MAPS = np.random.default_rng(0).random((FOLDS, *SIZE), np.float32)


def histograms(n: int, spread: float, n_fixations: int = 60) -> np.ndarray:
    """Histograms of fixations around the middle of `n` images, (n, *SIZE); `spread` is relative to the sides."""
    rng = np.random.default_rng(n)
    points = rng.normal(0.5, spread, (n, n_fixations, 2))
    indices = (np.clip(points, 0, 1 - 1e-9) * SIZE).astype(int)
    result = np.zeros((n, *SIZE))
    for image, places in zip(result, indices, strict=True):
        np.add.at(image, tuple(places.T), 1 / n_fixations)
    return result


def in_folds(images: np.ndarray) -> np.ndarray:
    folds = np.zeros((FOLDS, *SIZE), np.float32)
    for index, image in enumerate(images):
        folds[CenterBias.fold_of(index)] += image.astype(np.float32)
    return folds


@pytest.mark.parametrize("spread", [0.06, 0.25])
def test_smoothing_makes_left_out_images_most_likely(spread):
    images = histograms(5, spread)
    scores = {}
    for sigma, share in itertools.product(SIGMAS, UNIFORM_SHARES):
        likelihood = 0.0
        for left_out in range(5):
            others = np.delete(images, left_out, axis=0).mean(axis=0)
            smoothed = ndimage.gaussian_filter(others, [sigma * side for side in SIZE], mode="reflect")
            mixed = (1 - share) * smoothed / smoothed.sum() + share / smoothed.size
            likelihood += (images[left_out] * np.log(mixed)).sum()
        scores[sigma, share] = likelihood
    sigma, share = max(scores, key=scores.__getitem__)
    smoothed = ndimage.gaussian_filter(images.mean(axis=0), [sigma * side for side in SIZE], mode="reflect")
    expected = (1 - share) * smoothed / smoothed.sum() + share / smoothed.size
    # Stored in float32; a value is a sum of at most 120 x 160 products.
    np.testing.assert_allclose(CenterBias(in_folds(images)).without(None), expected, rtol=1e-5)


def test_an_image_is_not_predicted_by_its_own_fixations():
    images = histograms(12, 0.1)
    moved = images.copy()
    moved[3] = np.roll(images[3], 50, axis=1)
    before, after = (CenterBias(in_folds(each)).without(3) for each in (images, moved))
    # Only the choice of the smoothing may differ, which is made on all images.
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.99
    everyone = CenterBias(in_folds(moved)).without(None)
    np.testing.assert_allclose(after.sum(), 1, rtol=1e-9)
    assert (everyone[:, 130:].sum() - after[:, 130:].sum()) > 0


def test_one_image_has_nothing_to_compare_with():
    bias = CenterBias(in_folds(histograms(1, 0.1)))
    for fold in (0, None):
        np.testing.assert_allclose(bias.without(fold), 1 / np.prod(SIZE))


def test_stored_maps_are_read(tmp_path):
    write_array(tmp_path / CENTER_BIAS, MAPS)
    read, expected = CenterBias.read(tmp_path), CenterBias(MAPS)
    np.testing.assert_array_equal(read.histogram, expected.histogram)


@pytest.mark.parametrize(
    "wrong", [MAPS[0], MAPS.astype(float), -MAPS, MAPS * np.float32(np.nan), np.array([[{}]])]
)
def test_other_arrays_are_refused(wrong, tmp_path):
    np.save(tmp_path / CENTER_BIAS, wrong)
    with refused(ContentError, CENTER_BIAS):
        CenterBias.read(tmp_path)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / CENTER_BIAS
    with pytest.raises(ContentError):
        CenterBias.read(tmp_path)
    write_array(path, MAPS)
    whole = path.read_bytes()
    for content in (whole[:50], whole[:-1], b"x" + whole[1:], whole[:20] + b"\xff" + whole[21:]):
        path.write_bytes(content)
        with pytest.raises(ContentError):
            CenterBias.read(tmp_path)
