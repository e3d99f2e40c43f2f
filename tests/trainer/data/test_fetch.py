import dataclasses
import hashlib
import json
import pathlib

import numpy as np
import pytest

from tests.gcs import upload
from tests.refusals import refused
from tests.small_sources import (
    POINTS,
    density_map,
    files,
    listed_objects,
    point_map,
    save,
    stimulus,
    write_tar,
    write_tree,
    write_zip,
)
from tests.tiny import write_salicon
from tests.trainer.data.test_copies import picture
from trainer.data import fetch, prepared_data, sample, source_layout, splits, tfrecords
from trainer.data.bad_images import BadImages
from trainer.data.settings import FetchConfig
from trainer.datasets import table as datasets
from trainer.datasets.table import Dataset
from trainer.errors import ContentError, SettingError
from trainer.metrics.points import blur
from trainer.network import preprocess
from trainer.network.preprocess import Frame
from trainer.pictures import SUFFIXES
from trainer.places import archive_files
from trainer.places.places import stored_at

SHARED = pathlib.Path(__file__).parents[4] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the substitutes for the real datasets are missing")
SIZE = (40, 64)
"""(height, width) to prepare for, pixels: images of 24 x 32 grow to 40 x 53 and are padded at the sides."""


def config(source, dataset="osie", **settings):
    settings = {"image_size": "40x64", "allow_partial_data": True, **settings}
    return FetchConfig(dataset=dataset, source=str(source), **settings)


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """A folder with 7 stimuli and maps of points."""
    return write_tree(tmp_path_factory.mktemp("points"))


@pytest.fixture(scope="module")
def prepared(points, tmp_path_factory):
    """The points, prepared."""
    folder = tmp_path_factory.mktemp("prepared") / "set"
    return fetch.fetch_dataset(config(points), folder), folder


# === The prepared dataset ===


def test_the_manifest_does_not_grow_with_the_files_of_the_source(prepared, tmp_path):
    """It listed them before, and such a manifest is read."""
    manifest, folder = prepared
    text = (folder / prepared_data.MANIFEST).read_text()
    listed = listed_objects(folder)
    assert len(listed) == 14
    assert not [each.name for each in listed if each.name in text]
    before = {**json.loads(text), "objects": [dataclasses.asdict(each) for each in listed]}
    (tmp_path / prepared_data.MANIFEST).write_text(json.dumps(before))
    assert prepared_data.Manifest.load(tmp_path) == manifest


def test_the_manifest_has_contents_and_origin(prepared, points):
    manifest, folder = prepared
    assert prepared_data.Manifest.load(folder) == manifest
    assert (manifest.dataset, manifest.source, manifest.image_size) == ("osie", str(points), SIZE)
    assert manifest.counts == {"train": 4, "valid": 3}
    assert manifest.expected_counts == {"train": 500, "valid": 200}
    assert (manifest.split, manifest.ground_truth, manifest.blur_sigma_px) == ("hash", "points", 16.0)
    assert manifest.has_fixations
    assert manifest.original_sizes == {"24x32": 7}
    assert listed_objects(folder) == stored_at(str(points)).objects()
    assert manifest.fingerprint == fetch.fingerprint_data("osie", str(points))
    assert set(files(folder)) == {
        prepared_data.MANIFEST,
        prepared_data.IMAGES,
        prepared_data.OBJECTS,
        prepared_data.CENTER_BIAS,
        *manifest.shards["train"],
        *manifest.shards["valid"],
        *manifest.originals,
    }


def test_examples_are_the_preprocessed_originals_in_the_order_of_the_split(prepared):
    _, folder = prepared
    names = sorted(f"{index}.png" for index in range(1, 8))
    share = 500 / 700
    for split in ("train", "valid"):
        chosen = [name for name in names if (splits.hash_position(name[:-4]) < share) == (split == "train")]
        examples = list(tfrecords.read_examples(folder, split))
        assert [example.index for example in examples] == list(range(len(chosen)))
        assert [example.name for example in examples] == chosen
        for example in examples:
            original = stimulus(int(example.name.removesuffix(".png")))
            expected = Frame(SIZE).image(original)
            np.testing.assert_allclose(example.stimulus, expected, atol=0.5)
            density = blur(POINTS, (24, 32), 16.0)
            np.testing.assert_allclose(example.density, Frame(SIZE).map(density), atol=0.5)
            assert example.original_size == (24, 32)
            np.testing.assert_array_equal(example.fixations, POINTS)


def test_held_out_images_are_kept_as_the_source_has_them_with_their_maps_at_one_size(prepared, points, tmp_path):
    fetch.fetch_dataset(config(points, image_size="96x96"), tmp_path / "larger")
    pairs = list(tfrecords.read_held_out(prepared[1]))
    assert len(pairs) == 3
    density = Frame(tfrecords.Original.MAP_SIZE).map(blur(POINTS, (24, 32), 16.0))
    for (_, original), (_, larger) in zip(pairs, tfrecords.read_held_out(tmp_path / "larger"), strict=True):
        assert original.file == (points / "stimuli" / original.name).read_bytes()
        np.testing.assert_allclose(original.density, density, atol=0.5)
        assert larger.file == original.file
        np.testing.assert_array_equal(larger.density, original.density)


def test_prepared_fixations_are_at_their_prepared_pixels(tmp_path):
    """A white pixel on black, which is fixated, is brightest at the prepared fixation."""
    places = {f"{index}.png": np.array([[4 + 6 * index, 40 - 5 * index]]) for index in range(7)}
    for index, place in enumerate(places.values()):
        pixels = np.zeros((48, 48, 3), np.uint8)
        pixels[tuple(place[0])] = 255
        save(tmp_path / "source" / "stimuli" / f"{index}.png", pixels)
        save(tmp_path / "source" / "fixation" / f"{index}.png", pixels[..., 0])
    fetch.fetch_dataset(config(tmp_path / "source", image_size="96x160"), tmp_path / "set")
    for example in tfrecords.read_examples(tmp_path / "set", "train"):
        inside = example.stimulus[..., 0] * (example.stimulus[..., 0] != preprocess.STIMULUS_PADDING)
        brightest = np.unravel_index(inside.argmax(), inside.shape)
        assert np.abs(example.fixations_prepared[0] - brightest).max() <= 1
        np.testing.assert_array_equal(example.fixations, places[example.name])


def test_without_fixations_the_centre_bias_is_made_of_the_maps_without_their_padding(tmp_path):
    source = write_tree(tmp_path / "source", maps="saliency", make_map=density_map)
    manifest = fetch.fetch_dataset(config(source), tmp_path / "set")
    folds = np.load(tmp_path / "set" / prepared_data.CENTER_BIAS)
    assert (folds.shape, folds.dtype) == ((10, 120, 160), np.float32)
    np.testing.assert_allclose(folds.sum(axis=(1, 2)), np.arange(10) < manifest.counts["train"], rtol=1e-5)
    bias = folds.sum(axis=0) / folds.sum()
    top, left, height, width = Frame(SIZE).box((24, 32))
    maps = [
        example.density[top : top + height, left : left + width]
        for example in tfrecords.read_examples(tmp_path / "set", "train")
    ]
    mean = np.mean([each / each.sum() for each in maps], axis=0)
    # A block of 3 x 3 of 40 x 53 pixels is about 9 x 9 of 120 x 160; sums over halves need no resizing.
    np.testing.assert_allclose(bias[:60].sum(), mean[: height // 2].sum(), atol=1e-4)
    # The middle is within column 26, whose halves hold not quite the same.
    np.testing.assert_allclose(bias[:, :80].sum(), (mean[:, :26].sum() + mean[:, :27].sum()) / 2, atol=5e-4)


def test_images_and_maps_of_every_suffix_are_found(tmp_path):
    for index, suffix in enumerate(SUFFIXES):
        save(tmp_path / "source" / "stimuli" / f"{index}{suffix}", stimulus(index))
        save(tmp_path / "source" / "maps" / f"{index}{suffix.upper()}", density_map(index))
    manifest = fetch.fetch_dataset(config(tmp_path / "source", "custom", split="shuffle"), tmp_path / "set")
    assert sum(manifest.counts.values()) == len(SUFFIXES)
    (tmp_path / "source" / "maps" / f"{SUFFIXES.index('.jfif')}.JFIF").unlink()
    with refused(ContentError, "'3'"):
        fetch.fetch_dataset(config(tmp_path / "source", "custom", max_bad_share=0), tmp_path / "other")


def test_pictures_of_points_of_ones_own_are_fixations_in_any_format(tmp_path):
    sets = []
    for suffix in ("png", "jpg"):
        source = tmp_path / suffix
        for index in range(5):
            save(source / "stimuli" / f"{index}.png", stimulus(index))
            save(source / "fixations" / f"{index}.{suffix}", point_map())
        manifest = fetch.fetch_dataset(config(source, "custom", split="shuffle"), tmp_path / f"{suffix}-set")
        assert (manifest.ground_truth, manifest.has_fixations) == ("points", True)
        assert any("15, about 3 an image" in note for note in manifest.notes)
        sets.append({name: data for name, data in files(tmp_path / f"{suffix}-set").items() if "train" in name})
    assert sets[0] == sets[1]


def test_the_same_source_gives_the_same_bytes_in_every_packing(points, prepared, tmp_path, bucket):
    write_zip(tmp_path / "zip" / "set.zip", files(points))
    write_tar(tmp_path / "set.tar.gz", files(points))
    expected = files(prepared[1])
    del expected[prepared_data.MANIFEST], expected[prepared_data.OBJECTS]
    for number, source in enumerate(
        [
            points,
            tmp_path / "zip",
            tmp_path / "set.tar.gz",
            upload(bucket, points),
            upload(bucket, tmp_path / "set.tar.gz"),
        ]
    ):
        fetch.fetch_dataset(config(source), tmp_path / f"set-{number}")
        content = files(tmp_path / f"set-{number}")
        del content[prepared_data.MANIFEST], content[prepared_data.OBJECTS]
        assert content == expected


@pytest.mark.parametrize("dataset", ["salicon", "fixationadd1000"])
def test_the_sample_set_is_called_sample_and_generates_only_what_is_asked_for(dataset, tmp_path, monkeypatch):
    generated, generate_pattern = [], sample.generate_pattern

    def record(wanted, index):
        generated.append(index)
        return generate_pattern(wanted, index)

    few = dataclasses.replace(sample.settings_for(dataset), n_train=16, n_valid=4)
    monkeypatch.setitem(sample.SAMPLES, dataset, few)
    monkeypatch.setattr(sample, "generate_pattern", record)
    settings = FetchConfig(dataset, "sample", "24x32", max_examples=4)  # the counts of the sample are its own
    manifest = fetch.fetch_dataset(settings, tmp_path / "set")
    assert len(generated) == len(set(generated)) == 8
    assert manifest.dataset == sample.sample_name(dataset)
    assert (manifest.licence, manifest.citation) == ("", "")
    assert all(note.endswith("an image, from pictures.") for note in manifest.notes)
    assert manifest.expected_counts == {"train": 16, "valid": 4}
    assert manifest.source == "sample"
    assert manifest.fingerprint == sample.fingerprint_sample(dataset) == fetch.fingerprint_data(dataset, "sample")
    assert manifest.counts == {"train": 4, "valid": 4}
    assert manifest.has_fixations
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


# === Fingerprints ===


def test_a_fingerprint_depends_on_names_and_contents_and_not_on_the_place(points, tmp_path, bucket):
    assert fetch.fingerprint_data("osie", upload(bucket, points)) == fetch.fingerprint_data("osie", str(points))
    seen = set()
    for name, content in (("a", b"1"), ("b", b"1"), ("a", b"2")):
        (tmp_path / name).write_bytes(content)
        seen.add(fetch.fingerprint_data("osie", str(tmp_path)))
        (tmp_path / name).unlink()
    assert len(seen) == 3


# === Real data ===


@needs_shared
def test_the_split_of_add1000_trains_on_the_images_that_salicon_trains_on(tmp_path):
    trained = []
    for dataset, source in (("salicon", SHARED / "salicon"), ("fixationadd1000", SHARED / "add1000.tar.gz")):
        with archive_files.open_source(stored_at(source), stored_at(source).objects(), tmp_path) as members:
            row, images = (
                Dataset.named(dataset),
                source_layout.find_items(members, Dataset.named(dataset), str(source), BadImages()),
            )
            items = splits.split_items(images.items, images.labels, row.split, row, str(source))
            assert {split: len(each) for split, each in items.items()} == {"train": 560, "valid": 140}
            trained.append({hashlib.sha256(item.stimulus.read()).digest() for item in items["train"]})
    assert len(trained[0]) == 560
    assert trained[0] == trained[1]


def test_blanks_around_a_source_do_not_count(points, tmp_path, bucket):
    address = upload(bucket, points)
    manifest = fetch.fetch_dataset(config(f" {address} "), tmp_path / "set")
    assert manifest.source == address
    assert manifest.fingerprint == fetch.fingerprint_data("osie", address)


@needs_shared
def test_real_images_are_fetched_from_a_bucket(tmp_path, bucket):
    for archive in ("images", "maps", "fixations"):
        source = str(SHARED / "salicon" / f"{archive}.zip")
        with archive_files.open_source(stored_at(source), stored_at(source).objects(), tmp_path) as members:
            chosen = [
                each for split in ("/train/", "/val/") for each in [m for m in members if split in m.path][:4]
            ]
            write_zip(
                tmp_path / "salicon" / f"{archive}.zip", {m.path.partition("/")[2]: m.read() for m in chosen}
            )
    manifest = fetch.fetch_dataset(
        config(upload(bucket, tmp_path / "salicon"), "salicon", image_size="", max_examples=3), tmp_path / "set"
    )
    assert manifest.counts == {"train": 3, "valid": 3}
    assert (manifest.ground_truth, manifest.has_fixations) == ("density", True)
    assert manifest.original_sizes == {"480x640": 6}
    for example in tfrecords.read_examples(tmp_path / "set", "train"):
        assert example.stimulus.shape == (240, 320, 3)
        ys, xs = example.fixations_prepared.T
        # People look where the map is high: its mean at the fixations is far above its mean.
        assert example.density[ys, xs].mean() > 2 * example.density.mean()


# === Test sets ===


def test_a_test_set_has_all_images_in_one_split_at_the_size_of_the_trained_dataset(points, tmp_path):
    manifest = fetch.fetch_dataset(config(points, image_size=""), tmp_path / "set", test_of="fiwi")
    assert (manifest.counts, manifest.expected_counts) == ({"test": 7}, {"test": 700})
    assert (manifest.is_test_set, manifest.held_out) == (True, "test")
    assert manifest.image_size == Dataset.named("fiwi").image_size != Dataset.named("osie").image_size
    names = [example.name for example in tfrecords.read_examples(tmp_path / "set", "test")]
    assert names == [f"{index}.png" for index in range(1, 8)]
    assert set(files(tmp_path / "set")) == {
        prepared_data.MANIFEST,
        prepared_data.IMAGES,
        prepared_data.OBJECTS,
        prepared_data.CENTER_BIAS,
        *manifest.shards["test"],
        *manifest.originals,
    }


@pytest.mark.parametrize(("dataset", "named"), [("osie", (4, 3, 500, 200)), ("salicon", (0,))])
def test_incomplete_test_set_is_refused(dataset, named, points, tmp_path):
    """One with too few images, and one of a given split without images in val/."""
    source = points if dataset == "osie" else write_salicon(tmp_path / "source", train_x=12, valid_x=52, n_valid=0)
    settings = config(source, dataset, allow_partial_data=dataset == "salicon")
    with refused(ContentError, *named):
        fetch.fetch_dataset(settings, tmp_path / "set", test_of="osie")
    assert not (tmp_path / "set").exists()


def test_images_are_listed_with_a_digest_that_copies_share(tmp_path):
    """A copy has the digest of its original, also as another format; another picture does not."""
    source = write_tree(tmp_path / "source")
    save(source / "stimuli" / "2.bmp", stimulus(1))
    (source / "stimuli" / "2.png").unlink()
    fetch.fetch_dataset(config(source), tmp_path / "set")
    listed = {image.name: image.digest for image in prepared_data.images(tmp_path / "set", prepared_data.SPLITS)}
    assert sorted(listed) == ["1.png", "2.bmp", *(f"{index}.png" for index in range(3, 8))]
    assert listed["1.png"] == listed["2.bmp"]
    assert len(set(listed.values())) == 6
    train = {image.name for image in prepared_data.images(tmp_path / "set", ["train"])}
    assert train == {example.name for example in tfrecords.read_examples(tmp_path / "set", "train")}


def write_labelled(source, arranged, **counts):
    """Images with maps in folders of their splits; `arranged` is such as `{kind}/{split}`."""
    for index, (split, number) in enumerate((split, n) for split, most in counts.items() for n in range(most)):
        save(source / arranged.format(kind="stimuli", split=split) / f"{number}.png", stimulus(index))
        save(source / arranged.format(kind="maps", split=split) / f"{number}.png", density_map(index))
    return source


@pytest.mark.parametrize(
    ("arranged", "names"),
    [("{kind}/{split}", ("train", "val", "test")), ("{split}/{kind}", ("Training", "validation", "Testing"))],
)
def test_images_in_a_folder_for_tests_are_left_out_or_all_that_is_tested(arranged, names, tmp_path):
    source = write_labelled(tmp_path / "source", arranged, **dict(zip(names, (3, 2, 4), strict=True)))
    digests = {}
    for test_of, counts in (("", {"train": 3, "valid": 2}), ("custom", {"test": 4})):
        manifest = fetch.fetch_dataset(config(source, "custom"), tmp_path / f"set{test_of}", test_of=test_of)
        assert manifest.counts == manifest.expected_counts == counts
        images = prepared_data.images(tmp_path / f"set{test_of}", counts)
        digests[test_of] = {image.digest for image in images}
    assert len(digests[""] | digests["custom"]) == 9


def test_a_folder_for_tests_is_left_out_of_a_hash_too(tmp_path):
    source = write_labelled(tmp_path / "source", "{kind}/{split}", train=5, test=3)
    trained = fetch.fetch_dataset(config(source, "custom"), tmp_path / "trained")
    assert (sum(trained.counts.values()), trained.split) == (5, "hash")
    tested = fetch.fetch_dataset(config(source, "custom"), tmp_path / "tested", test_of="custom")
    assert tested.counts == {"test": 3}
    assert not listed(tmp_path / "trained", "train", "valid") & listed(tmp_path / "tested", "test")
    mixed = fetch.fetch_dataset(config(source, "custom", split="shuffle"), tmp_path / "mixed")
    assert mixed.counts == {"train": 6, "valid": 2}


def test_images_for_tests_need_maps_only_to_be_tested_on(tmp_path):
    """Without images for tests the validation images are tested on, unless the folders are a must."""
    source = write_labelled(tmp_path / "source", "{kind}/{split}", train=3, val=2)
    assert fetch.fetch_dataset(config(source, "custom"), tmp_path / "of2", test_of="custom").counts == {"test": 2}
    with refused(SettingError, "split", "folders", source):
        fetch.fetch_dataset(config(source, "custom", split="folders"), tmp_path / "no", test_of="custom")
    save(source / "stimuli" / "test" / "0.png", stimulus(9))
    assert fetch.fetch_dataset(config(source, "custom"), tmp_path / "set").counts == {"train": 3, "valid": 2}
    with refused(ContentError, source, 1):
        fetch.fetch_dataset(config(source, "custom"), tmp_path / "no", test_of="custom")


def listed(folder, *splits):
    return {image.name for image in prepared_data.images(folder, splits)}


@pytest.mark.parametrize(("settings", "n_train", "n_tested"), [({}, 11, 2), ({"max_examples": 1}, 1, 1)])
def test_a_share_of_the_validation_images_is_kept_apart_and_tested_on_alone(settings, n_train, n_tested, tmp_path):
    source = write_tree(tmp_path / "source", n=14)
    whole = fetch.fetch_dataset(config(source), tmp_path / "whole")
    trained = fetch.fetch_dataset(config(source, test_share=0.5, **settings), tmp_path / "trained")
    tested = fetch.fetch_dataset(config(source, test_share=0.5, **settings), tmp_path / "tested", test_of="osie")
    assert (whole.counts, whole.test_share) == ({"train": 11, "valid": 3}, 0.0)
    assert trained.counts == {"train": n_train, "valid": 1}
    assert tested.counts == {"test": n_tested}
    assert (trained.expected_counts, tested.expected_counts) == ({"train": 500, "valid": 100}, {"test": 100})
    assert trained.test_share == tested.test_share == 0.5
    assert trained.fingerprint == tested.fingerprint == whole.fingerprint
    valid, test = listed(tmp_path / "trained", "valid"), listed(tmp_path / "tested", "test")
    assert not valid & test
    if not settings:
        assert valid | test == listed(tmp_path / "whole", "valid")
        assert listed(tmp_path / "trained", "train") == listed(tmp_path / "whole", "train")


def test_a_complete_dataset_is_complete_without_its_share(monkeypatch, tmp_path):
    row = dataclasses.replace(Dataset.named("osie"), n_train=5, n_valid=2)
    monkeypatch.setitem(datasets.DATASETS, "osie", row)
    source = write_tree(tmp_path / "source")
    shared = {"test_share": 0.5, "allow_partial_data": False}
    for test_of, counts in (("", {"train": 5, "valid": 1}), ("osie", {"test": 1})):
        manifest = fetch.fetch_dataset(config(source, **shared), tmp_path / f"of{test_of}", test_of=test_of)
        assert manifest.counts == manifest.expected_counts == counts


def test_the_share_of_a_given_split_is_of_its_validation_images(tmp_path):
    source = write_salicon(tmp_path / "source", train_x=12, valid_x=52, n_valid=4)
    shared = config(source, "salicon", test_share=0.5)
    trained, tested = (fetch.fetch_dataset(shared, tmp_path / f"of{of}", test_of=of) for of in ("", "salicon"))
    assert (trained.counts, tested.counts) == ({"train": 6, "valid": 3}, {"test": 1})
    assert (trained.expected_counts, tested.expected_counts) == ({"train": 10000, "valid": 2500}, {"test": 2500})
    assert not listed(tmp_path / "of", *prepared_data.SPLITS) & listed(tmp_path / "ofsalicon", "test")


@pytest.mark.parametrize(("share", "counts"), [(0.1, (0, 3)), (0.9, (3, 0))])
def test_a_share_that_leaves_no_image_is_refused_with_the_numbers(share, counts, points, tmp_path):
    with refused(SettingError, "test_share", share, *counts):
        fetch.fetch_dataset(config(points, test_share=share), tmp_path / "set")
    assert not list(tmp_path.iterdir())


# === The same image twice ===


def test_the_same_pixels_in_both_splits_of_recordings_are_refused(tmp_path):
    source = tmp_path / "mine"
    for index, (split, name) in enumerate((("train", "a.png"), ("train", "b.png"), ("val", "z.bmp"))):
        save(source / "stimuli" / split / name, stimulus(index % 2))
        save(source / "maps" / split / f"{name[0]}.png", density_map(index))
    with refused(ContentError, "stimuli/train/a.png", "stimuli/val/z.bmp"):
        fetch.fetch_dataset(config(source, "custom", allow_partial_data=False), tmp_path / "set")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_copies_in_both_splits_of_a_known_dataset_are_counted(tmp_path, monkeypatch):
    complete = dataclasses.replace(Dataset.named("osie"), n_train=5, n_valid=2)
    monkeypatch.setitem(datasets.DATASETS, "osie", complete)
    source = write_tree(tmp_path / "source")
    first = next(path for path in sorted((source / "stimuli").iterdir()))
    for path in (source / "stimuli").iterdir():
        path.write_bytes(first.read_bytes())
    manifest = fetch.fetch_dataset(config(source), tmp_path / "set")
    assert manifest.notes[-1] == "2 validation images are copies of training images."
    assert {image.group for image in prepared_data.images(tmp_path / "set", prepared_data.SPLITS)} == {
        "stimuli/1.png"
    }


def test_copies_stay_on_one_side_of_a_split_by_hash(tmp_path):
    """Each picture is there twice, the second time smaller and compressed."""
    source = tmp_path / "mine"
    (source / "stimuli").mkdir(parents=True)
    for index in range(20):
        whole = picture(index)
        whole.save(source / "stimuli" / f"{index}.png")
        whole.resize((160, 120)).save(source / "stimuli" / f"copy-of-{index}.jpg", quality=60)
        for name, size in ((f"{index}", (240, 320)), (f"copy-of-{index}", (120, 160))):
            save(source / "maps" / f"{name}.png", density_map(index, size))
    manifest = fetch.fetch_dataset(config(source, "custom"), tmp_path / "set")
    sides = {split: listed(tmp_path / "set", split) for split in prepared_data.SPLITS}
    assert all(sides.values())
    for index in range(20):
        assert any({f"{index}.png", f"copy-of-{index}.jpg"} <= names for names in sides.values())
    assert any("count as one image: 20 (" in note for note in manifest.notes)
    groups = [original.group for _, original in tfrecords.read_held_out(tmp_path / "set")]
    assert sorted(groups) == sorted(2 * list(set(groups)))


def test_images_saved_in_another_format_stay_in_their_split(tmp_path):
    for suffix in ("png", "jpg", "JPEG"):
        for index in range(24):
            (tmp_path / suffix / "stimuli").mkdir(parents=True, exist_ok=True)
            picture(index, (96, 128)).save(tmp_path / suffix / "stimuli" / f"page.{index}.{suffix}")
            save(tmp_path / suffix / "maps" / f"page.{index}.png", density_map(index, (96, 128)))
        fetch.fetch_dataset(config(tmp_path / suffix, "custom"), tmp_path / f"of-{suffix}")
    splits_of = {
        suffix: [
            {pathlib.PurePath(name).stem for name in listed(tmp_path / f"of-{suffix}", split)}
            for split in prepared_data.SPLITS
        ]
        for suffix in ("png", "jpg", "JPEG")
    }
    assert all(splits_of["png"])
    assert splits_of["png"] == splits_of["jpg"] == splits_of["JPEG"]


def recorded(folder, rows, suffix="png", size=(96, 128), **changes):
    """Name without suffix -> recording of the images of a lab, whose `rows` are person, image, x, y."""
    (folder / "lab").mkdir(parents=True)
    for index in range(6):
        image = picture(index, (96, 128)).resize(size[::-1])
        image.save(folder / "lab" / f"{changes.get('prefix', '')}{index}.{suffix}")
    lines = [f"{person},{changes.get('prefix', '')}{image}.{suffix},{x},{y}" for person, image, x, y in rows]
    (folder / "lab" / "fixations.csv").write_text("\n".join(["participant,image,x,y", *lines]) + "\n")
    settings = config(
        folder / "lab", "custom", split="shuffle", coordinates="pixels", blur_px=changes.get("blur_px", 4.0)
    )
    fetch.fetch_dataset(settings, folder / "set")
    return {
        pathlib.PurePath(image.name).stem.removeprefix(changes.get("prefix", "")): image.recording
        for image in prepared_data.images(folder / "set", prepared_data.SPLITS)
    }


def test_a_recording_is_known_by_where_people_looked_alone(tmp_path):
    random = np.random.default_rng(0)
    rows = [
        (f"P{person}", image, *random.integers(4, (124, 92)))
        for image in range(6)
        for person in range(3)
        for _ in range(4)
    ]
    before = recorded(tmp_path / "before", rows)
    assert len(set(before.values())) == 6
    other_names = [(f"A{9 - int(person[1])}", *rest) for person, *rest in rows[::-1]]
    assert recorded(tmp_path / "saved", other_names, "jpg", prefix="new", blur_px=6.0) == before
    flipped = recorded(tmp_path / "flipped", [(person, image, x, 95 - y) for person, image, x, y in rows])
    assert not set(flipped.values()) & set(before.values())
    # One fixation of image 0 was another person's.
    told = recorded(tmp_path / "told", [("P2", *rows[0][1:]), *rows[1:]])
    assert {image for image in before if told[image] != before[image]} == {"0"}


def test_a_recording_of_a_map_is_known_by_its_density(tmp_path):
    recordings = []
    for suffix, starts in (("png", range(6)), ("bmp", range(6)), ("png", (9, 1, 2, 3, 4, 5))):
        folder = tmp_path / str(len(recordings))
        for index, start in enumerate(starts):
            save(folder / "lab" / "stimuli" / f"{index}.{suffix}", stimulus(index))
            save(folder / "lab" / "maps" / f"{index}.{suffix}", density_map(start))
        fetch.fetch_dataset(config(folder / "lab", "custom", split="shuffle"), folder / "set")
        images = prepared_data.images(folder / "set", prepared_data.SPLITS)
        recordings.append({image.name[0]: image.recording for image in images})
    first, saved, changed = recordings
    assert first == saved
    assert {index for index in first if first[index] != changed[index]} == {"0"}
