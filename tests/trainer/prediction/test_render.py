"""Drawings of maps show the maps' values."""

import tracemalloc

import numpy as np
import pytest
from PIL import Image

from trainer.heat import DIMMED, HEAT, blend
from trainer.prediction import render
from trainer.prediction.sheet import PER_PAGE, Sheet

Y, X = np.mgrid[:120, :160]
MAP = np.exp(-((X - 50) ** 2 + (Y - 60) ** 2) / 800).astype(np.float32)
GREY = np.full((120, 160, 3), 100, np.uint8)


def test_overlay_is_the_dimmed_image_at_low_and_the_heat_at_high_attention():
    drawn = blend(GREY, MAP, opacity=1)
    np.testing.assert_array_equal(drawn[0, -1], [round(100 * DIMMED)] * 3)
    np.testing.assert_allclose(drawn[60, 50], np.array(HEAT(1.0)[:3]) * 255, atol=1)
    np.testing.assert_allclose(blend(GREY, MAP, opacity=0), np.full(GREY.shape, 62), atol=0)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (5, 70_000)])
def test_images_of_any_shape_are_drawn(size):
    image, map_ = np.zeros((*size, 3), np.uint8), np.ones(size, np.float32)
    assert blend(image, map_).shape == (*size, 3)
    assert render.draw_contours(image, map_).shape == (*size, 3)


def test_thresholds_enclose_the_shares():
    for level, threshold in zip((25, 50, 75), render.thresholds(MAP, (25, 50, 75)), strict=True):
        assert MAP[threshold <= MAP].sum() / MAP.sum() == pytest.approx(level / 100, abs=0.01)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (256, 256), (300, 700)])
def test_thresholds_of_parts_are_those_of_the_whole(size):
    levels = (0.001, 25, 50, 75, 99.999)
    map_ = np.random.default_rng(0).random(size, np.float32) ** 4
    values = np.sort(map_, axis=None)
    sums = values.cumsum(dtype=np.float64)
    for level, threshold in zip(levels, render.thresholds(map_, levels), strict=True):
        expected = min(np.searchsorted(sums, (1 - level / 100) * sums[-1]), values.size - 1)
        assert abs(int(np.searchsorted(values, threshold)) - int(expected)) <= 1
    assert render.thresholds(np.zeros(size, np.float32), levels) == [0.0] * len(levels)


def test_contours_stay_within_the_stated_memory():
    """Of 15 bytes a pixel, the map and the image take 7, the drawing 3, and the encoder 4."""
    map_ = np.resize(MAP, (3000, 2000))
    image = np.zeros((*map_.shape, 3), np.uint8)
    tracemalloc.start()
    try:
        render.draw_contours(image, map_)
        assert tracemalloc.get_traced_memory()[1] <= 5 * map_.size
    finally:
        tracemalloc.stop()


def test_contours_are_drawn_where_the_thresholds_are_crossed():
    (threshold,) = render.thresholds(MAP, [50])
    drawn = render.draw_contours(GREY, MAP, [50])
    (color,) = render.level_colors([50])
    line = (drawn == color).all(axis=-1)
    radii = np.hypot(*(np.argwhere(line) - [60, 50]).T)
    expected = np.sqrt(-800 * np.log(threshold))
    assert len(radii) > 40
    assert np.abs(radii - expected).max() < 1.5
    np.testing.assert_array_equal(drawn[60, 50], GREY[60, 50])


@pytest.mark.parametrize("vertical", [slice(0, 150), slice(150, 300)])
@pytest.mark.parametrize("horizontal", [slice(0, 200), slice(200, 400)])
def test_the_legend_is_in_the_corner_with_the_least_attention(vertical, horizontal):
    map_ = np.ones((300, 400), np.float32)
    map_[vertical, horizontal] = 0.5
    drawn = render.draw_contours(np.full((300, 400, 3), 100, np.uint8), map_, [50])
    dark = (drawn < 60).all(axis=-1)
    expected = np.zeros_like(dark)
    expected[vertical, horizontal] = True
    assert (dark & expected).sum() > 2000
    assert not (dark & ~expected).any()


def test_a_constant_map_has_no_contours():
    np.testing.assert_array_equal(render.draw_contours(GREY, np.ones_like(MAP))[:60], GREY[:60])


def test_difference_is_blue_where_the_second_has_more_and_orange_where_less():
    drawn = render.draw_difference(GREY, MAP - MAP[:, ::-1], ("a", "b"))
    assert drawn.shape[0] > 120
    more, less = (drawn[60, x + (drawn.shape[1] - 160) // 2].astype(int) for x in (50, 109))
    assert more[2] > more[0] + 50
    assert less[0] > less[2] + 50


def test_equal_maps_have_no_colour():
    drawn = render.draw_difference(GREY, np.zeros_like(MAP), ("a", "b"))
    left = (drawn.shape[1] - 160) // 2
    np.testing.assert_array_equal(drawn[:120, left : left + 160], np.full_like(GREY, 62))


def test_a_sheet_of_many_images_has_several_pages(tmp_path):
    with Sheet(tmp_path / "all.png", PER_PAGE + 1) as sheet:
        for index in range(PER_PAGE + 1):
            sheet.add(f"{index}.png", GREY[:8, :9], MAP[:8, :9])
    assert [path.name for path in sheet.written] == ["all-1.png", "all-2.png"]
    first, second = (len(np.asarray(Image.open(path))) for path in sheet.written)
    assert first > 5 * second
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all-1.png", "all-2.png"]


def test_a_contact_sheet_has_a_head_and_aligns_its_images_at_the_top():
    red, blue = (200, 10, 10), (10, 10, 200)
    wide, tall = np.full((20, 40, 3), red, np.uint8), np.full((60, 30, 3), blue, np.uint8)
    entries = [(f"{index}.png", image, np.zeros(image.shape[:2])) for index, image in enumerate((wide, tall))]
    plain = render.draw_contact_sheet(entries)
    tops = [np.flatnonzero((plain == color).all(axis=-1).any(axis=1))[0] for color in (red, blue)]
    assert tops[0] == tops[1]
    # The legend: the brightest of the heat colours, left of all images.
    assert (plain[: tops[0]] == np.rint(255 * np.array(HEAT(1.0)[:3]))).all(axis=-1).any()
    headed = render.draw_contact_sheet(entries, "Predicted attention", "a model's name " * 20)
    assert len(headed) > len(plain) + 60
    np.testing.assert_array_equal(headed[-(len(plain) - tops[0]) :], plain[tops[0] :])


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".JPEG", ".webp"])
def test_a_sheet_has_the_format_of_its_suffix(suffix, tmp_path):
    path = tmp_path / f"all{suffix}"
    with Sheet(path, 1) as sheet:
        sheet.add("a.png", GREY[:8, :9], MAP[:8, :9])
    with Image.open(path) as picture:
        assert picture.format == {".png": "PNG", ".webp": "WEBP"}.get(suffix, "JPEG")
