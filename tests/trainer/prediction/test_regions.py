"""How much attention regions get, and how they are written on the command line and in files."""

import json

import numpy as np
import pytest

from tests.refusals import refused
from trainer.errors import MismatchError, SettingError
from trainer.prediction.regions import Measure, Region, focus, measure_regions, peak_of, read_regions

MAP = np.zeros((10, 20), np.float32)
MAP[2:4, 5:10] = 0.5  # sum 5
MAP[8, 15] = 1.0


def test_share_area_ratio_peak_and_rank():
    first, second, third = measure_regions(
        MAP, [Region.parse(text) for text in ("a:15,8,1,1", "b:5,2,5,2", "c:0,0,5,2")]
    )
    assert (first.share, first.area, first.peak, first.peak_at) == (1 / 6, 1 / 200, 1, (8, 15))
    assert first.ratio == pytest.approx(200 / 6)
    assert (second.share, second.area, second.peak, second.peak_at) == (5 / 6, 10 / 200, 0.5, (3, 6))
    assert [measured.rank for measured in (first, second, third)] == [2, 1, 3]
    assert json.loads(json.dumps(second.as_json()))["peak_at"] == [3, 6]


def test_a_map_of_zeros_is_evenly_spread():
    (measured,) = measure_regions(np.zeros((4, 4), np.float32), [Region("a", 0, 0, 2, 2)])
    assert (measured.share, measured.ratio, measured.peak) == (0.25, 1, 0)


def test_percentages_are_of_width_and_height():
    region = Region.parse("left, top:25%,20%,25%,20%")
    assert region.box((10, 20)) == (slice(2, 4), slice(5, 10))
    assert Region.parse("all:0%,0%,100%,100%").box((7, 13)) == (slice(0, 7), slice(0, 13))
    assert region.name == "left, top"


def test_the_smallest_region_is_one_pixel():
    assert Region.parse("dot:99.9%,99.9%,0.01%,0.01%").box((10, 20)) == (slice(9, 10), slice(19, 20))


@pytest.mark.parametrize("text", ["1,2,3,4", "a:1,2,3", "a:1,2,3%,4", "a:1,2,nan,4", "a:1,2,0,4"])
def test_invalid_regions_are_refused(text):
    with refused(SettingError, repr(text), "NAME:X,Y,WIDTH,HEIGHT"):
        Region.parse(text)


@pytest.mark.parametrize("text", ["a:-1,0,5,5", "a:16,0,5,5", "a:0,6,5,5", "a:60%,0%,50%,10%"])
def test_a_region_outside_names_the_images_size(text):
    with refused(MismatchError, text, "x.png", 20, 10):
        Region.parse(text).box((10, 20), "x.png")


@pytest.mark.parametrize("shape", [(40, 50), (3000, 4000)])
def test_focus_is_the_share_of_the_best_tenth(shape):
    values = np.full(shape, 0.1, np.float32)
    assert focus(values) == pytest.approx(0.1, rel=1e-3)
    assert focus(np.zeros(shape, np.float32)) == pytest.approx(0.1)
    values[:, : shape[1] // 10] = 0.9  # the whole tenth
    assert focus(values) == pytest.approx(0.5, rel=1e-2)
    values[:, shape[1] // 10 :] = 0
    assert focus(values) == pytest.approx(1, rel=1e-3)


def test_regions_that_predict_writes_are_read(tmp_path):
    regions = [Region("buy, now: here", 20, 300, 160, 48), Region("logo", 5, 2.5, 20, 8, percent=True)]
    entries = [Measure(each, 0.1, 0.2, 0.5, 1, (1, 2), 1).as_json() for each in regions]
    images = [{"image": "bad.png", "error": "it is no image"}, {"image": "a.png", "regions": entries}]
    (tmp_path / "predicted.json").write_text(json.dumps({"model": "m", "images": images}))
    assert read_regions(tmp_path / "predicted.json") == regions


def test_a_peak_is_the_centre_of_what_is_about_as_high_as_the_largest_value():
    y, x = np.mgrid[0:90, 0:120]
    hill = np.exp(-((y - 40) ** 2 + (x - 70) ** 2) / 200)
    hill[10, 10] = 0.95  # another one, far away
    noise = np.random.default_rng(0).normal(0, 0.01, hill.shape)
    peaks = {peak_of(hill + sign * noise) for sign in (1, -1)}
    assert all(abs(row - 40) <= 1 and abs(column - 70) <= 1 for row, column in peaks)
    largest = {tuple(np.unravel_index((hill + sign * noise).argmax(), hill.shape)) for sign in (1, -1)}
    assert max(abs(row - 40) + abs(column - 70) for row, column in largest) > 1
    assert peak_of(np.zeros((5, 7))) == (0, 0)


def test_a_peak_is_never_between_two_or_within_a_ring():
    two = np.zeros((200, 400))
    two[100, 100] = two[100, 110] = 1
    assert peak_of(two) == (100, 100)
    y, x = np.mgrid[0:200, 0:400]
    ring = np.exp(-((np.hypot(y - 100, x - 200) - 8) ** 2))
    assert ring[peak_of(ring)] == ring.max()
