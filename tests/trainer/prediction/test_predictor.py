"""The map at its image's size has the values of the golden postprocessing, and its memory has a limit."""

import pathlib
import re

import numpy as np
import pytest

from tests.golden.inputs import SIZES, fixation_map
from trainer.network import PICTURE
from trainer.network.preprocess import Frame
from trainer.prediction.heat import draw_grey
from trainer.prediction.predictor import Predictor, Prepared

ANY = object.__new__(Predictor)
ANY.image_sizes = {PICTURE: (64, 80)}
"""A predictor without a network, for what needs none."""
GOLDEN = np.load("tests/golden/msinet_reference.npz")


def restored(prediction, size):
    """The map of `size` of an image of one screen, of the network's map."""
    seen = Prepared(size, 0.0, [slice(0, size[0])], {})
    return ANY.restore(seen, {PICTURE: prediction[None]})


def prediction(seed, size):
    return (fixation_map(seed, 1, *size)[0, ..., 0] / 255).astype(np.float32)


@pytest.mark.parametrize(("case", "original", "size"), [(k, *sizes) for k, sizes in enumerate(SIZES)])
def test_golden_predictions_become_the_golden_maps(case, original, size):
    levels = np.asarray(draw_grey(restored(prediction(300 + case, size), original))).astype(int)
    golden = GOLDEN["post_{}x{}_to_{}x{}".format(*size, *original)].reshape(original)
    assert np.abs(levels - golden).max() <= 1
    assert np.count_nonzero(levels - golden) < 1e-4 * golden.size


@pytest.mark.parametrize(
    "original", [(1, 1), (1, 90), (90, 1), (2, 400), (64, 80), (65, 80), (64, 81), (300, 7), (513, 700), (63, 79)]
)
def test_values_are_clipped_to_a_maps_range_at_any_shape(original):
    predicted = prediction(7, (64, 80))
    found = restored(predicted, original)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.clip(Frame.back(predicted, original), 0, 1))


@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="Linux alone tells the peak")
@pytest.mark.parametrize(
    ("original", "allowed_mb"),
    [
        ((10, 20_000), 50),  # the whole frame, from which it is cut, would take 1,200 MB
        ((3000, 2000), 6 * 16),  # the 15 bytes a pixel of `predict.PIXELS_AT_ONCE`, and one for what varies
    ],
)
def test_memory_grows_with_the_image_alone(original, allowed_mb):
    predicted = prediction(7, (64, 80))
    restored(predicted, (100, 100))
    before = resident_mb("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    assert restored(predicted, original).shape == original
    assert resident_mb("VmHWM") - before < allowed_mb


def resident_mb(field):
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1000
