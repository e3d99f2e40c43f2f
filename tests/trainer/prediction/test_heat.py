"""Drawings of maps show the maps' values."""

import numpy as np
import pytest

from trainer.prediction.heat import CHANGE, DIMMED, HEAT, blend, blend_change

Y, X = np.mgrid[:120, :160]
MAP = np.exp(-((X - 50) ** 2 + (Y - 60) ** 2) / 800).astype(np.float32)
GREY = np.full((120, 160, 3), 100, np.uint8)


def test_overlay_is_the_dimmed_image_at_low_and_the_heat_at_high_attention():
    drawn = blend(GREY, MAP, opacity=1)
    np.testing.assert_array_equal(drawn[0, -1], [round(100 * DIMMED)] * 3)
    np.testing.assert_allclose(drawn[60, 50], HEAT(1.0), atol=1)
    np.testing.assert_allclose(blend(GREY, MAP, opacity=0), np.full(GREY.shape, 62), atol=0)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (5, 70_000)])
def test_images_of_any_shape_are_drawn(size):
    image, map_ = np.zeros((*size, 3), np.uint8), np.ones(size, np.float32)
    assert blend(image, map_).shape == (*size, 3)


def test_a_change_has_the_same_strength_whatever_the_largest_is():
    large = np.zeros(MAP.shape, np.float32)
    large[60, 50], large[0, 0] = CHANGE.limit, 0.05
    drawn = blend_change(GREY, large).astype(int)
    np.testing.assert_array_equal(blend_change(GREY, np.minimum(large, 0.05))[0, 0], drawn[0, 0])
    assert np.abs(drawn[0, 0] - drawn[0, 1]).max() <= 2 < np.abs(drawn[60, 50] - drawn[0, 1]).max()
