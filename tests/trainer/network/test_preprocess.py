"""Pre- and postprocessing compared with outputs of the reference."""

import numpy as np
import pytest
import tensorflow as tf

from tests.golden.inputs import SIZES, fixation_map, image
from trainer.network.preprocess import Frame

GOLDEN = np.load("tests/golden/msinet_reference.npz")
CASES = [pytest.param(k, *sizes, id="{}x{}-{}x{}".format(*sizes[0], *sizes[1])) for k, sizes in enumerate(SIZES)]
ROUNDING = 1 / 32
"""The golden values are rounded to sixteenths."""


def name(kind: str, source: tuple[int, int], target: tuple[int, int]) -> str:
    return f"{kind}_{source[0]}x{source[1]}_to_{target[0]}x{target[1]}"


@pytest.mark.parametrize(("case", "original", "size"), CASES)
def test_prepared_stimulus_equals_reference(case, original, size):
    prepared = Frame(size).image(image(100 + case, 1, *original)[0])
    assert prepared.dtype == np.float32
    expected = GOLDEN[name("pre_stimulus", original, size)] / 16
    np.testing.assert_allclose(prepared, expected, atol=1 / 16 + ROUNDING, rtol=0)


@pytest.mark.parametrize(("case", "original", "size"), CASES)
def test_prepared_map_equals_reference(case, original, size):
    source = fixation_map(200 + case, 1, *original)[0]
    prepared = Frame(size).map(source)
    expected = GOLDEN[name("pre_map", original, size)] / 16
    np.testing.assert_allclose(prepared, expected, atol=1 / 16 + ROUNDING, rtol=0)
    np.testing.assert_array_equal(Frame(size).map(source[..., 0]), prepared[..., 0])


@pytest.mark.parametrize(("case", "original", "size"), CASES)
def test_restored_map_equals_reference(case, original, size):
    prediction = fixation_map(300 + case, 1, *size)[0] / 255
    restored = Frame.back(prediction, original)
    assert restored.dtype == np.float32
    levels = np.rint(restored.clip(0, 1) * 255)
    np.testing.assert_allclose(levels, GOLDEN[name("post", size, original)].astype(int), atol=1)
    np.testing.assert_array_equal(Frame.back(prediction[..., 0], original), restored[..., 0])


@pytest.mark.parametrize(
    "size", [(1, 1), (1, 90), (90, 1), (2, 400), (64, 80), (65, 80), (64, 81), (300, 7), (513, 700), (63, 79)]
)
def test_map_is_restored_to_the_bits_of_the_whole_frame(size):
    prediction = (fixation_map(7, 1, 64, 80)[0, ..., 0] / 255).astype(np.float32)
    ratio = max(size[0] / 64, size[1] / 80)
    frame = round(64 * ratio), round(80 * ratio)
    resize = tf.raw_ops.ResizeArea if ratio < 1 else tf.raw_ops.ResizeBicubic
    whole = resize(images=prediction[None, ..., None], size=frame, align_corners=True).numpy()[0, ..., 0]
    top, left = (frame[0] - size[0]) // 2, (frame[1] - size[1]) // 2
    expected = whole[top : top + size[0], left : left + size[1]]
    restored = Frame.back(prediction, size)
    if ratio < 1:  # the sums of an area are in another order
        np.testing.assert_allclose(restored, expected, atol=1e-6)
    else:
        np.testing.assert_array_equal(restored, expected)


def test_content_box_is_the_image_without_the_padding():
    top, left, height, width = Frame((360, 360)).box((101, 359))
    prepared = Frame((360, 360)).map(np.full((101, 359), 200, np.uint8))
    assert (top, left, height, width) == (129, 0, 101, 360)
    np.testing.assert_allclose(prepared[top : top + height, left : left + width], 200, atol=1e-3)
    np.testing.assert_allclose(prepared.sum(), 200 * height * width, rtol=1e-6)
