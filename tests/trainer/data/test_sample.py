import dataclasses
import io

import numpy as np
import pytest
import scipy.io
from PIL import Image

from trainer.data import sample
from trainer.datasets import table as datasets


@pytest.fixture(autouse=True)
def few_images(monkeypatch):
    for name, wanted in sample.SAMPLES.items():
        monkeypatch.setitem(sample.SAMPLES, name, dataclasses.replace(wanted, n_train=4, n_valid=2))


def contents(dataset):
    """Path -> content of every file."""
    return {member.path: member.read() for member in sample.members(dataset)}


def pixels(content):
    return np.array(Image.open(io.BytesIO(content)))


def pattern_of(kind, index=0):
    return sample.generate_pattern(dataclasses.replace(sample.settings_for("salicon"), kinds={kind: 1.0}), index)


def test_the_form_of_salicon_has_a_stimulus_a_density_and_fixations_for_each_image():
    stems = [f"{'train' if number <= 4 else 'val'}/popout_{number:06d}" for number in range(1, 7)]
    files = contents("salicon")
    assert set(files) == {
        path for s in stems for path in (f"images/{s}.jpg", f"maps/{s}.png", f"fixations/{s}.mat")
    }
    assert list(files) == sorted(files)
    for stem in stems:
        assert pixels(files[f"images/{stem}.jpg"]).shape == (240, 320, 3)
        density = pixels(files[f"maps/{stem}.png"])
        assert density.shape == (240, 320)
        assert density.max() == 255


def test_gaze_structs_hold_one_based_x_y_of_every_observer():
    content = contents("salicon")["fixations/train/popout_000001.mat"]
    gaze = scipy.io.loadmat(io.BytesIO(content))["gaze"]
    pattern = sample.generate_pattern(sample.settings_for("salicon"), 0)
    assert gaze.shape == (12, 1)
    for observer, points in zip(gaze[:, 0], pattern.gaze, strict=True):
        np.testing.assert_array_equal(observer["fixations"][:, ::-1].astype(int) - 1, points)
        assert observer["location"].shape == points.shape
        assert observer["timestamp"].shape == (len(points), 1)


def test_the_form_of_the_others_has_stimuli_and_binary_points():
    files = contents("fixationadd1000")
    assert set(files) == {path for n in range(1, 7) for path in (f"stimuli/{n}.jpg", f"fixation/{n}.png")}
    points = pixels(files["fixation/3.png"])
    expected = sample.generate_pattern(sample.settings_for("fixationadd1000"), 2).gaze
    assert set(np.unique(points)) == {0, 255}
    assert set(zip(*np.nonzero(points), strict=True)) == {tuple(point) for each in expected for point in each}


@pytest.mark.parametrize("dataset", ["salicon", "fixationadd1000"])
def test_generating_twice_gives_the_same_bytes_without_a_time(dataset):
    first, second = contents(dataset), contents(dataset)
    assert first == second
    assert b"Created on" not in b"".join(content for path, content in first.items() if path.endswith(".mat"))


@pytest.mark.parametrize("dataset", datasets.DATASETS)
def test_its_name_contains_no_real_datasets_name(dataset):
    assert sample.sample_name(dataset).startswith("sample-")
    assert not [name for name in datasets.DATASETS if name in sample.sample_name(dataset)]


@pytest.mark.parametrize("kind", ["color", "orientation", "size"])
def test_most_fixations_are_near_the_odd_item(kind):
    for index in range(5):
        pattern = pattern_of(kind, index)
        points = np.concatenate(pattern.gaze)
        near = np.linalg.norm(points - pattern.target, axis=1) < 4 * sample.settings_for("salicon").scatter_px
        assert 0.6 < near.mean() < 1
        peak = np.unravel_index(sample.density(pattern, 16.0).argmax(), (240, 320))
        assert np.linalg.norm(np.subtract(peak, pattern.target)) < 16


def test_fingerprint_depends_on_the_settings(monkeypatch):
    before = sample.fingerprint_sample("salicon")
    assert before == sample.fingerprint_sample("salicon")
    assert len({sample.fingerprint_sample(name) for name in datasets.DATASETS}) == len(datasets.DATASETS)
    monkeypatch.setitem(sample.SAMPLES, "salicon", dataclasses.replace(sample.SAMPLES["salicon"], on_target=0.5))
    assert sample.fingerprint_sample("salicon") != before
