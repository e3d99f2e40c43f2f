"""The images that models have seen, by their own lists and by prepared data, and what remains unknown."""

import dataclasses
import json
import zlib

import pytest

from tests.prepared import manifest_of
from tests.small_sources import density_map, save
from tests.trainer.data.test_copies import COPIES, picture
from trainer.data import fetch, prepared_data
from trainer.data.settings import FetchConfig
from trainer.evaluation.seen import Seen
from trainer.network import model_folder
from trainer.training.train import _images_seen

VALID, TESTED = {"train": 6, "valid": 3}, {"test": 3}


def prepared(folder, digests, fingerprint="aaaa", split="shuffle", share=0.0):
    """A prepared dataset without shards: split -> digests of its images."""
    folder.mkdir(parents=True)
    counts = {name: len(each) for name, each in digests.items()}
    prepared_data.Manifest(
        dataset="osie",
        source="gs://b/osie",
        fingerprint=fingerprint,
        image_size=(32, 40),
        counts=counts,
        expected_counts=counts,
        split=split,
        ground_truth="density",
        blur_sigma_px=0.0,
        has_fixations=False,
        original_sizes={},
        shards={name: [] for name in counts},
        originals=[],
        code_version="1",
        test_share=share,
    ).save(folder)
    write_images(folder, [f"{name},{digest}.png,{digest}," for name, each in digests.items() for digest in each])
    return folder


def write_images(folder, rows):
    lines = ["split,image,digest,group,hash,recording", *(f"{row},," for row in rows)]
    (folder / prepared_data.IMAGES).write_text("\n".join(lines) + "\n")


def model(folder, config=None, images=None):
    folder.mkdir(parents=True)
    if config is not None:
        (folder / model_folder.MODEL_CONFIG).write_text(json.dumps(config))
    if images is not None:
        (folder / model_folder.TRAINING_IMAGES).write_text(json.dumps(images))
    return folder


def seen(config, fingerprints=(), at_hand=None):
    return Seen({}, frozenset(fingerprints), at_hand or {}, config)


OLD = {"dataset": "osie", "fingerprint": "aaaa"}


def test_a_model_has_seen_what_it_and_its_base_model_list(tmp_path):
    base = prepared(tmp_path / "base", {"train": ["a", "b"], "valid": ["c"]}, "1111")
    tuned = prepared(tmp_path / "tuned", {"train": ["d"], "valid": ["e", "b"]}, "2222")
    first = model(tmp_path / "first", OLD, _images_seen(base, None))
    second = model(tmp_path / "second", OLD, _images_seen(tuned, first))
    both = Seen.by(second, [])
    no_hashes = {"train_hashes": set(), "valid_hashes": set()}
    assert both.digests == {"train": {"a", "b", "d"}, "valid": {"b", "c", "e"}} | no_hashes
    assert both.listed == {"1111", "2222"}
    # Validation images chose the epoch: they are no training, but no test either.
    assert Seen.by(first, []).among(tuned) == {"b.png"}
    assert both.among(tuned) == {"b.png"}
    tested = prepared(tmp_path / "tested", {"test": ["a", "c", "x"]}, "3333")
    assert both.among(tested) == {"a.png", "c.png"}
    # Trained twice on data of one fingerprint, with other shares kept apart.
    again = prepared(tmp_path / "again", {"train": ["d"], "valid": ["e"]}, "2222")
    assert _images_seen(again, second)["2222"] == {
        "train": ["d"],
        "train_hashes": [],
        "valid": ["b", "e"],
        "valid_hashes": [],
    }


def test_without_a_list_prepared_data_of_the_same_fingerprint_tells(tmp_path):
    data = prepared(tmp_path / "data", {"train": ["a"], "valid": ["b"]})
    tested = prepared(tmp_path / "tested", {"test": ["a", "b", "c"]}, "3333")
    for config, names in (
        (OLD, {"a.png", "b.png"}),
        (OLD | {"fingerprint": "other"}, set()),
        (None, {"a.png", "b.png"}),
        ({"dataset": "osie"}, {"a.png", "b.png"}),
    ):
        folder = model(tmp_path / f"model-{len(list(tmp_path.iterdir()))}", config)
        assert Seen.by(folder, [data, tested]).among(tested) == names


@pytest.mark.parametrize(
    ("config", "listed", "cautious"),
    [
        (None, [], False),
        ({"dataset": "osie", "fingerprint": "aaaa"}, [], False),
        ({"dataset": "osie", "fingerprint": "bbbb"}, [], True),
        ({"dataset": "osie", "fingerprint": "bbbb"}, ["bbbb"], False),
        ({"dataset": "salicon", "fingerprint": "bbbb"}, [], False),
        ({"dataset": "cat", "base_model": {"dataset": "osie", "fingerprint": "bbbb"}}, [], True),
        ({"dataset": "cat", "base_model": {"dataset": "osie", "fingerprint": "bbbb"}}, ["bbbb"], False),
        ({"dataset": "osie", "imported": {}}, [], False),
        ({"dataset": "osie", "source": "sample", "fingerprint": "bbbb"}, [], False),
    ],
)
def test_validation_images_that_a_model_may_have_seen_are_cautioned_of(config, listed, cautious):
    manifest = manifest_of(split="shuffle", counts=VALID)
    sentence = seen(config, listed).caution("current default", manifest)
    assert bool(sentence) == cautious
    assert not cautious or "(fingerprint bbbb, here aaaa)" in sentence
    # New images do not change a given split.
    assert seen(config, listed).caution("current default", dataclasses.replace(manifest, split="given")) == ""


@pytest.mark.parametrize(
    ("split", "rule", "cautious"), [("hash", None, True), ("hash", "hash", False), ("shuffle", None, False)]
)
def test_data_of_one_fingerprint_may_be_split_by_another_rule(split, rule, cautious):
    config = OLD | ({"split": rule} if rule else {})
    manifest = manifest_of(split=split, counts=VALID)
    assert bool(seen(config).caution("candidate", manifest)) == cautious


@pytest.mark.parametrize(
    ("config", "listed", "cautious"),
    [
        (None, [], False),
        ({"dataset": "cat2000", "fingerprint": "aaaa"}, [], False),
        ({"dataset": "osie", "fingerprint": "aaaa"}, [], False),
        ({"dataset": "osie", "fingerprint": "bbbb"}, [], True),
        ({"dataset": "osie", "fingerprint": "bbbb"}, ["bbbb"], False),
        ({"dataset": "cat2000", "base_model": {"dataset": "osie", "imported": {}}}, [], True),
        ({"dataset": "osie", "source": "sample", "fingerprint": "bbbb"}, [], False),
    ],
)
def test_test_images_that_a_model_may_have_seen_are_cautioned_of(config, listed, cautious):
    manifest = manifest_of(split="shuffle", fingerprint="a", counts=TESTED)
    sentence = seen(config, listed, {"aaaa": 0.0}).caution("current default", manifest)
    assert bool(sentence) == cautious
    assert not cautious or sentence.startswith("The current default was trained on osie too.")


@pytest.mark.parametrize(("share", "cautious"), [(None, True), (0.3, True), (0.5, False), (0.6, False)])
@pytest.mark.parametrize("split", ["shuffle", "given"])
def test_a_model_that_held_out_fewer_images_is_cautioned_of(share, cautious, split):
    manifest = manifest_of(split=split, test_share=0.5, counts=TESTED)
    config = OLD | ({} if share is None else {"test_share": share})
    assert bool(seen(config, (), {"aaaa": 0.5}).caution("current default", manifest)) == cautious


def test_an_image_is_seen_with_the_others_of_its_group_in_any_split(tmp_path):
    data = prepared(tmp_path / "data", {"train": ["t1", "t2"], "valid": ["v1", "v2", "v3"]})
    rows = [
        "train,a.png,t1,site",
        "train,b.png,t2,",
        "valid,a.png,v1,site",
        "valid,b.png,v2,",
        "valid,c.png,v3,site",
    ]
    write_images(data, rows)
    trained = model(tmp_path / "model", images={"aaaa": {"train": ["t1", "t2"], "valid": []}})
    assert Seen.by(trained, []).among(data) == {"a.png", "c.png"}


def fetched(folder, pictures, test_of=""):
    """Recordings of one's own, prepared: file name -> picture."""
    for name, each in pictures.items():
        (folder / "lab" / "stimuli").mkdir(parents=True, exist_ok=True)
        each.save(folder / "lab" / "stimuli" / name)
        density = density_map(zlib.crc32(each.tobytes()), each.size[::-1])
        save(folder / "lab" / "maps" / f"{name.rpartition('.')[0]}.png", density)
    settings = FetchConfig(dataset="custom", source=str(folder / "lab"), image_size="24x32")
    fetch.fetch_dataset(settings, folder / "set", test_of=test_of)
    return folder / "set"


def test_copies_of_what_a_model_was_trained_on_have_been_seen(tmp_path):
    size = (96, 128)
    data = fetched(tmp_path / "data", {f"{index}.png": picture(index, size) for index in range(12)})
    seen_images = _images_seen(data, None)
    (entry,) = seen_images.values()
    assert {key: len(each) for key, each in entry.items()} == {
        key: len(entry[key.removesuffix("_hashes")]) for key in entry
    }
    trained = model(tmp_path / "model", images=seen_images)
    copies = {
        f"{name.replace(' ', '-').replace('%', '')}-of-{index}.{'jpg' if index % 2 else 'bmp'}": change(
            picture(index, size)
        )
        for index, (name, change) in enumerate(COPIES.items())
    }
    new = {f"new-{index}.png": picture(100 + index, size) for index in range(6)}
    tested = fetched(tmp_path / "tested", {**copies, "same.png": picture(0, size), **new}, test_of="custom")
    assert Seen.by(trained, []).among(tested) == {*copies, "same.png"}
    assert Seen.by(model(tmp_path / "other"), [data]).among(tested) == {*copies, "same.png"}
    # A model of an earlier version lists no hashes.
    digests = {key: {split: each[split] for split in prepared_data.SPLITS} for key, each in seen_images.items()}
    assert Seen.by(model(tmp_path / "old", images=digests), []).among(tested) == {"same.png", next(iter(copies))}
