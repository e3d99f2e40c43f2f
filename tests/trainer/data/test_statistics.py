"""The statistics of data: what is measured of an image, and which differences count as large."""

import csv

import numpy as np
import pytest

from trainer.data import prepared_data, statistics
from trainer.data.source_layout import Gaze


def test_features_of_an_image_are_those_of_its_pixels_and_its_map():
    stimulus = np.zeros((30, 40, 3), np.uint8)
    stimulus[:, 20:] = 255
    density = np.zeros((30, 40), np.uint8)
    density[[2, 29], [9, 9]] = 100
    gaze = Gaze(np.array([[2, 9], [29, 9], [29, 9]]), np.array([0, 4, 4]))
    features = statistics.measure_image(stimulus, density, (60, 80), gaze)
    center_y = np.array([2.5, 29.5]) / 30
    assert features == pytest.approx(
        {
            "pixels": 4800,
            "aspect": 4 / 3,
            "luminance": 0.5,
            "contrast": 0.5,
            "x": 9.5 / 40,
            "y": center_y.mean(),
            "distance": np.hypot(center_y - 0.5, 9.5 / 40 - 0.5).mean(),
            "fixations": 3,
            "observers": 2,
        }
    )
    assert statistics.measure_image(stimulus, density, (60, 80), None).keys() == features.keys() - {
        "fixations",
        "observers",
    }


def write(folder, columns, first=0):
    """A prepared dataset's list of images with these features; the digests count from `first`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / prepared_data.IMAGES).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["split", "image", "digest", *columns])
        for index, values in enumerate(zip(*columns.values(), strict=True)):
            rows.writerow(["train", f"{index}.png", str(first + index), *values])
    return folder


def drawn(random, n, **changes):
    """Features of n images; `changes` move the mean of one by so many standard deviations."""
    features = {
        "pixels": 2 ** random.normal(20, 0.5, n),
        "luminance": random.normal(0.45, 0.15, n),
        "fixations": 2 ** random.normal(5, 0.4, n),
        "y": random.normal(0.48, 0.06, n),
        "distance": random.normal(0.25, 0.04, n),
    }
    for name, change in changes.items():
        values = features[name]
        is_log = name in ("pixels", "fixations")
        features[name] = (
            values * 2 ** (change * np.log2(values).std()) if is_log else values + change * values.std()
        )
    return features


def test_statistics_do_not_depend_on_the_order_of_images(tmp_path):
    random = np.random.default_rng(1)
    features = drawn(random, 500)
    first = statistics.read_statistics(write(tmp_path / "first", features))
    assert first["values"]["luminance"]["mean"] == pytest.approx(np.mean(features["luminance"]), rel=1e-6)
    assert first["values"]["pixels"]["std"] == pytest.approx(np.std(np.log2(features["pixels"])), rel=1e-6)
    for number in range(20):
        order = random.permutation(500)
        shuffled = {name: values[order] for name, values in features.items()}
        assert statistics.read_statistics(write(tmp_path / str(number), shuffled)) == first


@pytest.mark.parametrize("n", [20, 100])
def test_growth_without_a_shift_is_not_named(n, tmp_path):
    """In 120 weeks, of data that grow by a tenth and of others, where up to 2 warnings are 1 in 1500 features."""
    named = []
    for seed in range(120):
        random = np.random.default_rng(seed)
        week = drawn(random, n + n // 10)
        last = statistics.read_statistics(
            write(tmp_path / "last", {name: values[:n] for name, values in week.items()})
        )
        now = statistics.read_statistics(write(tmp_path / "now", week))
        added = statistics.read_statistics(tmp_path / "now", without={str(index) for index in range(n)})
        assert added["images"] == n // 10
        named += statistics.DataShift(now, last).warnings(added)
        other = statistics.read_statistics(write(tmp_path / "other", drawn(random, n)))
        named += statistics.DataShift(other, last).warnings(None)
    assert len(named) <= 2, named


@pytest.mark.parametrize("name", ["pixels", "luminance", "fixations", "y", "distance"])
def test_a_shift_by_a_standard_deviation_is_named_alone(name, tmp_path):
    for direction in (-1, 1):
        random = np.random.default_rng(3)
        last = statistics.read_statistics(write(tmp_path / "last", drawn(random, 200)))
        now = statistics.read_statistics(write(tmp_path / "now", drawn(random, 200, **{name: direction})))
        assert statistics.DataShift(now, last).of(name).effect == pytest.approx(direction, abs=0.3)
        (warning,) = statistics.DataShift(now, last).warnings(None)
        assert warning.startswith(statistics.FEATURES[name].label.lower())


def test_a_few_added_images_of_another_kind_are_named_though_the_mean_hardly_moves(tmp_path):
    random = np.random.default_rng(4)
    old, dark = drawn(random, 1000), drawn(random, 30, luminance=-2)
    last = statistics.read_statistics(write(tmp_path / "last", old))
    now = statistics.read_statistics(
        write(tmp_path / "now", {name: np.concatenate([old[name], dark[name]]) for name in old})
    )
    assert statistics.DataShift(now, last).warnings(None) == []
    added = statistics.read_statistics(tmp_path / "now", without={str(index) for index in range(1000)})
    (warning,) = statistics.DataShift(now, last).warnings(added)
    assert warning.startswith("luminance of 30 added images")


def mean_map(random, n, corners):
    """The centre bias of n images in which people look at one of these (y, x) cells and around."""
    y, x = np.mgrid[: statistics.GRID[0], : statistics.GRID[1]]
    centers = np.array(corners)[random.integers(0, len(corners), n)] + random.normal(0, 1, (n, 2))
    maps = np.exp(-((y - centers[:, :1, None]) ** 2 + (x - centers[:, 1:, None]) ** 2) / 4)
    maps /= maps.sum(axis=(1, 2), keepdims=True)
    cells = {"cells": maps.mean(axis=0).tolist(), "images": n, "variation": statistics.variation(maps)}
    return {"images": n, "values": {}, "center_bias": cells}


def test_a_centre_bias_with_the_same_mean_position_is_named_and_chance_is_not():
    random, one, other = np.random.default_rng(6), [(2, 3), (9, 12)], [(2, 12), (9, 3)]
    for n in (10, 50, 300):
        last = mean_map(random, n, one)
        named = [statistics.DataShift(mean_map(random, n, one), last).warnings(None) for _ in range(100)]
        assert sum(map(len, named)) <= 5
        (warning,) = statistics.DataShift(mean_map(random, n, other), last).warnings(None)
        assert warning.startswith("centre bias")


def test_lost_images_and_lost_fixations_are_named(tmp_path):
    features = drawn(np.random.default_rng(5), 100)
    last = statistics.read_statistics(write(tmp_path / "last", features))
    few = {name: values[:49] for name, values in features.items() if name != "fixations"}
    warnings = statistics.DataShift(statistics.read_statistics(write(tmp_path / "now", few)), last).warnings(None)
    assert [warning.partition(":")[0] for warning in warnings] == ["49 images, last time 100", "fixations"]


def test_data_of_an_earlier_version_have_no_statistics(tmp_path):
    assert statistics.read_statistics(tmp_path) is None
    assert statistics.read_statistics(write(tmp_path / "earlier", {"digest2": [1.0]})) is None
