import dataclasses
import io
import tarfile
import zipfile

import numpy as np
import pytest
import scipy.io
from PIL import Image

from trainer import datasets
from trainer.data import sample
from trainer.errors import UserError


@pytest.fixture(autouse=True)
def few_images(monkeypatch):
    for name, wanted in sample.SAMPLES.items():
        monkeypatch.setitem(sample.SAMPLES, name, dataclasses.replace(wanted, n_train=4, n_valid=2))


def read_zip(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def read_tar(path):
    with tarfile.open(path) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}


def pixels(content):
    return np.array(Image.open(io.BytesIO(content)))


def pattern_of(kind, index=0):
    return sample.generate_pattern(dataclasses.replace(sample.settings("salicon"), kinds={kind: 1.0}), index)


def item_and_ground(pattern):
    """Colours (3,) at the odd item's centre and in the corner, and the number of pixels of the first one."""
    stimulus = np.array(pattern.stimulus)
    color = stimulus[pattern.target]
    return color, stimulus[0, 0], int((stimulus == color).all(axis=-1).sum())


def test_salicon_archives_hold_one_stimulus_map_and_fixations_for_each_image(tmp_path):
    sample.generate("salicon", tmp_path)
    images, maps, fixations = (read_zip(tmp_path / f"{part}.zip") for part in ("images", "maps", "fixations"))
    stems = [f"{'train' if number <= 4 else 'val'}/popout_{number:06d}" for number in range(1, 7)]
    assert list(images) == [f"images/{stem}.jpg" for stem in stems]
    assert list(maps) == [f"{stem}.png" for stem in stems]
    assert list(fixations) == [f"{stem}.mat" for stem in stems]
    for image, density in zip(images.values(), maps.values(), strict=True):
        assert pixels(image).shape == (240, 320, 3)
        assert pixels(density).shape == (240, 320)
        assert pixels(density).max() == 255


def test_gaze_structs_hold_one_based_x_y_of_every_observer(tmp_path):
    sample.generate("salicon", tmp_path)
    content = read_zip(tmp_path / "fixations.zip")["train/popout_000001.mat"]
    gaze = scipy.io.loadmat(io.BytesIO(content))["gaze"]
    pattern = sample.generate_pattern(sample.settings("salicon"), 0)
    assert gaze.shape == (12, 1)
    for observer, points in zip(gaze[:, 0], pattern.gaze, strict=True):
        np.testing.assert_array_equal(observer["fixations"][:, ::-1].astype(int) - 1, points)
        assert observer["location"].shape == points.shape
        assert observer["timestamp"].shape == (len(points), 1)


def test_tarball_holds_stimuli_and_binary_points(tmp_path):
    sample.generate("fixationadd1000", tmp_path)
    files = read_tar(tmp_path / "add1000.tar.gz")
    assert sorted(files) == sorted(
        f"{part}" for n in range(1, 7) for part in (f"stimuli/{n}.jpg", f"fixation/{n}.png")
    )
    points = pixels(files["fixation/3.png"])
    expected = sample.generate_pattern(sample.settings("fixationadd1000"), 2).gaze
    assert set(np.unique(points)) == {0, 255}
    assert set(zip(*np.nonzero(points), strict=True)) == {tuple(point) for each in expected for point in each}


def test_maps_have_the_suffix_of_the_dataset(tmp_path):
    sample.generate("mit1003", tmp_path)
    names = read_tar(tmp_path / "add1000.tar.gz")
    assert {"stimuli/1.jpg", "fixation/1_fixMap.png"} <= set(names)


@pytest.mark.parametrize("dataset", ["salicon", "fixationadd1000"])
def test_generating_twice_gives_the_same_bytes(tmp_path, dataset):
    sample.generate(dataset, tmp_path / "first")
    sample.generate(dataset, tmp_path / "second")
    for path in (tmp_path / "first").iterdir():
        content = path.read_bytes()
        assert content == (tmp_path / "second" / path.name).read_bytes()
    assert b"Created on" not in b"".join(
        read_zip(path)["val/popout_000005.mat"] for path in tmp_path.glob("first/fix*")
    )


def test_archives_contain_no_time(tmp_path):
    sample.generate("salicon", tmp_path)
    sample.generate("fixationadd1000", tmp_path)
    with zipfile.ZipFile(tmp_path / "images.zip") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    with tarfile.open(tmp_path / "add1000.tar.gz") as archive:
        assert {entry.mtime for entry in archive} == {0}
    assert (tmp_path / "add1000.tar.gz").read_bytes()[4:8] == bytes(4)


@pytest.mark.parametrize("kind", ["color", "orientation", "size"])
def test_most_fixations_are_near_the_odd_item(kind):
    for index in range(5):
        pattern = pattern_of(kind, index)
        points = np.concatenate(pattern.gaze)
        near = np.linalg.norm(points - pattern.target, axis=1) < 4 * sample.settings("salicon").scatter_px
        assert 0.6 < near.mean() < 1
        peak = np.unravel_index(sample.density(pattern, 16.0).argmax(), (240, 320))
        assert np.linalg.norm(np.subtract(peak, pattern.target)) < 16


def test_only_the_odd_item_has_its_color():
    for index in range(5):
        color, ground, count = item_and_ground(pattern_of("color", index))
        assert np.abs(color.astype(int) - ground).max() > 40
        assert 30 < count < 240 * 320 / 12


@pytest.mark.parametrize("kind", ["orientation", "size"])
def test_odd_item_has_the_color_of_the_others_if_something_else_differs(kind):
    color, ground, count = item_and_ground(pattern_of(kind))
    stimulus = np.array(pattern_of(kind).stimulus).reshape(-1, 3)
    plain = (stimulus == color).all(axis=1) | (stimulus == ground).all(axis=1)
    assert plain.mean() > 0.9  # the rest are smoothed edges
    assert count > 200


def test_sets_have_different_patterns():
    first, second = (sample.generate_pattern(sample.settings(name), 0) for name in ("salicon", "fixationadd1000"))
    assert not np.array_equal(np.array(first.stimulus), np.array(second.stimulus))


def test_fingerprint_depends_on_the_settings(monkeypatch):
    before = sample.fingerprint("salicon")
    assert before == sample.fingerprint("salicon")
    assert len({sample.fingerprint(name) for name in datasets.DATASETS}) == len(datasets.DATASETS)
    monkeypatch.setitem(sample.SAMPLES, "salicon", dataclasses.replace(sample.SAMPLES["salicon"], on_target=0.5))
    assert sample.fingerprint("salicon") != before


def test_an_interruption_leaves_nothing(tmp_path, monkeypatch):
    generate_pattern = sample.generate_pattern

    def fail_at_third(wanted, index):
        if index == 2:
            raise KeyboardInterrupt
        return generate_pattern(wanted, index)

    monkeypatch.setattr(sample, "generate_pattern", fail_at_third)
    for dataset in ("salicon", "fixationadd1000"):
        with pytest.raises(KeyboardInterrupt):
            sample.generate(dataset, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_unknown_dataset_names_the_nearest():
    with pytest.raises(UserError, match="did you mean 'salicon'"):
        sample.fingerprint("salcon")
