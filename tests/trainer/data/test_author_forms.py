"""Each dataset as its authors publish it, from the archives to the examples."""

import contextlib
import dataclasses
import pathlib
import tempfile
import zipfile

import numpy as np
import pytest
from scipy import ndimage

from tests import author_forms
from tests.author_forms import FORMS, SIZE, colour, fixations, ramp, size_of
from tests.refusals import refused
from tests.small_sources import save, stimulus
from trainer.data import fetch, prepared_data, source_layout, splits, tfrecords
from trainer.data.bad_images import BadImages
from trainer.data.settings import FetchConfig
from trainer.datasets import table as datasets
from trainer.datasets.table import Dataset
from trainer.errors import ContentError
from trainer.places import archive_files
from trainer.places.places import stored_at

N = 10
FEW = {"osie": 5, "osie-mouse": 5, "crowd": 5}
"""Number of images of a dataset with large ones."""
MAPS = ("salicon", "mit1003", "cat2000", "pascals", "ueyes", "fixationadd1000")
"""Datasets with maps; those of the others are made from their points."""
OBSERVERS = ("salicon", "dutomron", "pascals", "osie", "osie-mouse", "crowd", "ueyes")
OTHERS = {
    "salicon": 2,
    "mit1003": 1,
    "cat2000": N + 2,
    "dutomron": 1,
    "pascals": 2 + 2 * N,
    "osie": 5 + FEW["osie"],
    "osie-mouse": 5 + 1,
    "crowd": 4,
    "fiwi": N,
    "ueyes": 1 + 4 * N,
}
"""Files that do not belong to the dataset."""


def fetched(dataset, source, output, **settings):
    height, width = size_of(dataset)
    settings = {"image_size": f"{height}x{width}", "allow_partial_data": True, **settings}
    return fetch.fetch_dataset(FetchConfig(dataset, str(source), **settings), output)


def expected_split(dataset, names):
    """Kroner et al., data.py: the sorted names, shuffled by `RandomState(42)`; in CAT2000 each category's.

    SALICON and UEyes have splits of their own.
    """
    if dataset == "ueyes":
        return {"train": [name for name, index in names.items() if index % 3],
                "valid": [name for name, index in names.items() if index % 3 == 0]}  # fmt: skip
    if dataset == "salicon":
        return {split: sorted(name for name in names if f"_{part}2014" in name)
                for split, part in (("train", "train"), ("valid", "val"))}  # fmt: skip
    row, split = Dataset.named(dataset), {"train": [], "valid": []}
    share = row.n_train / (row.n_train + row.n_valid)
    groups = sorted({name.rpartition("/")[0] for name in names})
    for group in groups:
        ordered = sorted(name for name in names if name.rpartition("/")[0] == group)
        order = np.arange(len(ordered))
        np.random.RandomState(42).shuffle(order)
        n_train = int(share * len(ordered) + 1e-9)
        split["train"] += [ordered[i] for i in order[:n_train]]
        split["valid"] += [ordered[i] for i in order[n_train:]]
    return split


def blurred(points, size, sigma_px):
    """What the reference's map has: a float map, stretched to 256 levels."""
    marked = np.zeros(size)
    marked[points[:, 0], points[:, 1]] = 1
    smooth = ndimage.gaussian_filter(marked, sigma_px)
    return np.minimum(np.floor((smooth - smooth.min()) / (smooth.max() - smooth.min()) * 256), 255)


@pytest.mark.parametrize("dataset", FORMS)
def test_every_dataset_is_read_in_its_authors_form(dataset, tmp_path, monkeypatch):
    indices = author_forms.write(dataset, tmp_path / "source", FEW.get(dataset, N))
    size, split = size_of(dataset), expected_split(dataset, indices)
    counts = {
        "n_train": len(split["train"]),
        "n_valid": len(split["valid"]),
    }  # as if these were all of the dataset
    monkeypatch.setitem(datasets.DATASETS, dataset, dataclasses.replace(Dataset.named(dataset), **counts))
    manifest = fetched(dataset, tmp_path / "source", tmp_path / "set")
    assert manifest.ground_truth == ("density" if dataset in MAPS else "points")
    assert manifest.has_observers == (dataset in OBSERVERS)
    assert manifest.has_known_observers == (dataset in ("osie", "crowd"))
    assert manifest.has_fixations == (dataset != "fixationadd1000")
    assert sum("left out" in note for note in manifest.notes) == (dataset in OTHERS)
    assert all(str(OTHERS[dataset]) in note for note in manifest.notes if "left out" in note)
    for part, names in split.items():
        examples = list(tfrecords.read_examples(tmp_path / "set", part))
        assert [example.name for example in examples] == names
        for example in examples:
            index = indices[example.name]
            np.testing.assert_allclose(example.stimulus.reshape(-1, 3).mean(axis=0), colour(index), atol=3)
            points = np.concatenate(fixations(index, size))
            if dataset in OBSERVERS:
                for number, each in enumerate(fixations(index, size)):
                    np.testing.assert_array_equal(example.fixations[example.observers == number], each)
            elif manifest.has_fixations:
                np.testing.assert_array_equal(example.fixations, points[np.lexsort(points.T[::-1])])
            if dataset in MAPS:
                np.testing.assert_allclose(example.density, ramp(index), atol=60 if ".jp" in example.name else 0)
            else:
                sigma_px = {"fiwi": 30, "osie-mouse": 24, "crowd": 26}.get(dataset, 16)
                assert set(np.unique(blurred(points, size, sigma_px) - example.density)) <= {0, 1}


# === Packing ===


@contextlib.contextmanager
def opened(source):
    """The members of a source."""
    source = str(source)
    with (
        tempfile.TemporaryDirectory() as scratch,
        archive_files.open_source(
            stored_at(source), stored_at(source).objects(), pathlib.Path(scratch)
        ) as members,
    ):
        yield members


def find(dataset, source):
    """The images of a source; their files may not be readable any more."""
    with opened(source) as members:
        return source_layout.find_items(members, Dataset.named(dataset), str(source), BadImages())


def names_in(dataset, source):
    """Split of the reference -> names of its images, whose files have the same name or number."""
    images, row = find(dataset, source), Dataset.named(dataset)
    items = splits.split_items(images.items, images.labels, row.split, row, str(source))
    names = {split: [item.name for item in each] for split, each in items.items()}
    for item in (item for each in items.values() for item in each):
        for file in (item.stimulus, item.map, item.fixations):
            stem = pathlib.PurePosixPath(item.name).stem.lower()
            assert file is None or stem in file.origin.lower() or f"image {stem} " in file.origin
    return names


def unpacked(archive, folder):
    """The files of an archive, in a folder."""
    with opened(archive) as members:
        for member in members:
            path = folder / member.path.partition("/")[2]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(member.read())


@pytest.mark.parametrize("dataset", FORMS)
def test_archives_may_be_renamed_or_unpacked_or_one_alone(dataset, tmp_path):
    indices = author_forms.write(dataset, tmp_path / "archives", 5)
    expected = names_in(dataset, tmp_path / "archives")
    assert sorted(name for names in expected.values() for name in names) == sorted(indices)
    archives = list((tmp_path / "archives").iterdir())
    if len(archives) == 1:
        assert names_in(dataset, archives[0]) == expected
    (tmp_path / "renamed").mkdir()
    for number, archive in enumerate(archives):
        unpacked(archive, tmp_path / "separate" / archive.name.partition(".")[0])
        unpacked(archive, tmp_path / "together")
        (tmp_path / "renamed" / f"download ({number}).{archive.name.partition('.')[2]}").write_bytes(
            archive.read_bytes()
        )
    for source in ("separate", "together", "renamed"):
        assert names_in(dataset, tmp_path / source) == expected


def test_mouse_tracking_and_eye_tracking_of_one_archive_have_other_fingerprints(tmp_path):
    """Else a training on one would resume from the checkpoints of a training on the other."""
    author_forms.write("osie", tmp_path / "source", 5)
    manifests = [
        fetched(each, tmp_path / "source", tmp_path / each, image_size="24x32") for each in ("osie", "osie-mouse")
    ]
    lists = [(tmp_path / each / prepared_data.OBJECTS).read_text() for each in ("osie", "osie-mouse")]
    assert lists[0] == lists[1]
    assert manifests[0].fingerprint != manifests[1].fingerprint
    assert manifests[1].fingerprint == fetch.fingerprint_data("osie-mouse", str(tmp_path / "source"))


def test_one_of_two_archives_is_not_enough(tmp_path):
    author_forms.write("mit1003", tmp_path, 3)
    for archive in ("ALLSTIMULI.zip", "ALLFIXATIONMAPS.zip"):
        with refused(ContentError, tmp_path / archive, "ALLSTIMULI.zip", "ALLFIXATIONMAPS.zip"):
            names_in("mit1003", tmp_path / archive)


def test_fixations_of_images_that_are_missing_are_left_out(tmp_path):
    author_forms.write("osie", tmp_path / "all", 4)
    (archive,) = (tmp_path / "all").iterdir()
    unpacked(archive, tmp_path / "some")
    (next((tmp_path / "some").rglob("1003.jpg"))).unlink()
    images = find("osie", tmp_path / "some")
    assert sorted(item.name[:4] for item in images.items) == ["1001", "1002", "1004"]
    assert any("left out (1 of 4)" in note for note in images.notes)


def test_an_image_that_the_file_of_all_fixations_lacks_is_named(tmp_path):
    author_forms.write("pascals", tmp_path / "all", 4)
    (archive,) = (tmp_path / "all").iterdir()
    with zipfile.ZipFile(archive, "a") as target:
        target.writestr("datasets/imgs/pascal/5.jpg", b"x")
        target.writestr("datasets/algmaps/pascal/humanFix/5.png", b"x")
    with refused(ContentError, "'5'"):
        names_in("pascals", archive)


def test_gaze_beside_an_image_in_the_middle_of_the_screen_is_outside(tmp_path):
    """A phone's image fills the height of UEyes' screen, and .352 of its width: from .324 to .676."""
    lines = [author_forms.gazepoint_line("A.jpg", 0, x, (960, 540)) for x in (0, 539)]
    for x, y in ((0.32, 0.5), (0.68, 0.5), (0.5, 0.5), (0.5, 0.999)):
        lines.append(lines[0].replace(",".join(lines[0].split(",")[5:7]), f"{x},{y}"))
    content = "\n".join([author_forms.GAZEPOINT, *lines, lines[0].replace("0.26318,2,1", "0.26318,2,0")]).encode()
    log = archive_files.Member("0_kh001_fixations.csv", "0_kh001_fixations.csv", lambda: content)
    gaze = source_layout.read_logs([log])["a"].read((960, 540))
    assert gaze.points.tolist() == [[0, 0], [0, 539], [480, 270], [959, 270]]
    assert (gaze.n_outside, gaze.observers.tolist()) == (2, [0, 0, 0, 0])


def test_a_damaged_log_is_named(tmp_path):
    author_forms.write("ueyes", tmp_path / "all", 3)
    (archive,) = (tmp_path / "all").iterdir()
    unpacked(archive, tmp_path / "some")
    next((tmp_path / "some").rglob("00_kh001_fixations.csv")).write_bytes(b"MEDIA_NAME\na.png\n")
    with refused(ContentError, "00_kh001_fixations.csv"):
        find("ueyes", tmp_path / "some")


def test_fixations_that_are_left_out_are_counted_in_a_note(tmp_path):
    for index in range(4):
        save(tmp_path / "source" / "DUT-OMRON-image" / f"{index}.jpg", stimulus(index, SIZE))
        listed = np.append(author_forms.rows(index).astype(float), [[5, np.nan, 1], [66, 47, 2]], axis=0)
        (tmp_path / "source" / f"{index}.mat").write_bytes(author_forms.matlab(s=listed))
    manifest = fetched("dutomron", tmp_path / "source", tmp_path / "set")
    n = 8 + sum(len(author_forms.rows(index)) - 1 for index in range(4))
    outside, blinks = manifest.notes[-2:]
    assert outside.startswith(f"4 of {n} ")
    assert blinks.startswith(f"4 of {n} ")
