"""Drawings of maps show the maps' values."""

import pathlib

import numpy as np
import pytest
from PIL import Image

from tests.color_difference import difference, to_lab
from trainer.prediction.heat import CHANGE, GROUND, HEAT, blend, blend_change

Y, X = np.mgrid[:120, :160]
MAP = np.exp(-((X - 50) ** 2 + (Y - 60) ** 2) / 800).astype(np.float32)
GREY = np.full((120, 160, 3), 100, np.uint8)
EXAMPLES = pathlib.Path(__file__).parents[3] / "studio" / "demo" / "page" / "examples"
SEEN = 20
"""Least CIEDE2000 at which heat is told from the ground at a glance, and not only side by side."""


def test_overlay_is_the_grey_image_at_low_and_the_heat_at_high_attention():
    drawn = blend(GREY, MAP, opacity=1)
    black, white = GROUND
    np.testing.assert_array_equal(drawn[0, -1], [round(black + (white - black) * 100 / 255)] * 3)
    np.testing.assert_allclose(drawn[60, 50], HEAT(1.0), atol=1)


def test_overlay_without_opacity_is_the_image():
    colors = np.random.default_rng(1).integers(0, 256, GREY.shape, np.uint8)
    np.testing.assert_array_equal(blend(colors, MAP, opacity=0), colors)


def photograph(name):
    return np.asarray(Image.open(EXAMPLES / name).convert("RGB"))


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(np.zeros((9, 9, 3), np.uint8), id="black"),
        pytest.param(np.full((9, 9, 3), 255, np.uint8), id="white"),
        pytest.param(np.full((9, 9, 3), (200, 30, 30), np.uint8), id="red"),
        pytest.param(np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(1, 256, 3), id="greys"),
        pytest.param(photograph("coffee.jpg"), id="warm"),
        pytest.param(photograph("astronaut.jpg"), id="busy"),
    ],
)
@pytest.mark.parametrize("value", [0.3, 0.5, 0.7, 1.0])
def test_heat_is_seen_over_whatever_is_below_it(image, value):
    ground, drawn = (to_lab(blend(image, np.full(image.shape[:2], each, np.float32))) for each in (0, value))
    assert difference(ground, drawn).min() >= SEEN


def test_heat_has_no_steps_where_there_is_no_attention():
    levels = np.arange(256, dtype=np.float32)[None] / 255
    drawn = blend(np.full((1, 256, 3), 255, np.uint8), levels).astype(int)
    assert np.abs(np.diff(drawn, axis=1)).max() <= 4


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([50, 2.6772, -79.7751], [50, 0, -82.7485], 2.0425),
        ([50, -1.3802, -84.2814], [50, 0, -82.7485], 1.0),
        ([50, 2.49, -0.001], [50, -2.49, 0.0011], 7.2195),
        ([90.8027, -2.0831, 1.4410], [91.1528, -1.6435, 0.0447], 1.4441),
        ([2.0776, 0.0795, -1.1350], [0.9033, -0.0636, -0.5514], 0.9082),
    ],
)
def test_differences_of_colours_are_the_published_ones(first, second, expected):
    assert difference(first, second) == pytest.approx(expected, abs=5e-5)


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
