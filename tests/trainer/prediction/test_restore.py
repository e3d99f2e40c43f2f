"""Maps restored in less time have the bits of the golden postprocessing."""

import tracemalloc

import numpy as np
import pytest

from tests.golden.inputs import SIZES, fixation_map
from trainer import preprocess
from trainer.prediction.png import grey_levels
from trainer.prediction.restore import restore

GOLDEN = np.load("tests/golden/msinet_reference.npz")


def prediction(seed, size):
    return (fixation_map(seed, 1, *size)[0, ..., 0] / 255).astype(np.float32)


@pytest.mark.parametrize(("case", "original", "size"), [(k, *sizes) for k, sizes in enumerate(SIZES)])
def test_golden_predictions_become_the_golden_maps(case, original, size):
    levels = grey_levels(restore(prediction(300 + case, size), original), 255).astype(int)
    np.testing.assert_array_equal(levels, preprocess.restore_map(prediction(300 + case, size), original))
    golden = GOLDEN["post_{}x{}_to_{}x{}".format(*size, *original)].reshape(original)
    assert np.abs(levels - golden).max() <= 1
    assert np.count_nonzero(levels - golden) < 1e-4 * golden.size


@pytest.mark.parametrize(
    "original", [(1, 1), (1, 90), (90, 1), (2, 400), (64, 80), (65, 80), (64, 81), (300, 7), (513, 700), (63, 79)]
)
def test_bits_are_those_of_the_graph_at_any_shape(original):
    predicted = prediction(7, (64, 80))
    restored = restore(predicted, original)
    assert restored.dtype == np.float32
    np.testing.assert_array_equal(restored, np.clip(preprocess.resize_back(predicted, original), 0, 1))


def test_a_banner_takes_no_more_than_its_own_size():
    predicted = prediction(7, (64, 80))
    tracemalloc.start()
    restored = restore(predicted, (10, 20_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert restored.shape == (10, 20_000)
    assert peak < 20 * restored.nbytes  # the whole frame would take 1,600 times as much
