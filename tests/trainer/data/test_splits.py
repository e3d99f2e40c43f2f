"""Splits: those of the reference, and those by hashes of names, which stay when data grows."""

import pathlib
import random

import numpy as np
import pytest

from tests.refusals import refused
from trainer.data import splits
from trainer.data.prepared_data import TEST
from trainer.data.source_layout import Item
from trainer.data.splits import split_items
from trainer.datasets.table import HASH, Dataset
from trainer.errors import ContentError
from trainer.places.archive_files import Member

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "msinet_reference.npz"
CUSTOM = Dataset.named("custom")


def item(name, key=""):
    return Item(name, Member(name, f"origin of {name}", lambda: b""), None, None, key)


def names_of(split):
    return {name: {each.name for each in items} for name, items in split.items()}


def by_hash(names, share=0.0, groups=None):
    """Split -> names of the images."""
    items = [item(name, (groups or {}).get(name, "")) for name in names]
    return names_of(split_items(items, [""] * len(items), HASH, CUSTOM, "source", share))


def random_names(seed, n):
    """Names of any characters and lengths, in folders."""
    chance = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789 _-äß你"
    return sorted(
        {f"{chance.randrange(9)}/{''.join(chance.choices(letters, k=chance.randint(1, 20)))}" for _ in range(n)}
    )


# === By hash ===


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_images_stay_in_their_split_whatever_is_added_removed_or_reordered(seed, share):
    chance = random.Random(seed)
    names = random_names(seed, 400)
    before = by_hash(names, share)
    some = chance.sample(names, 300)
    more = [*some, *random_names(seed + 1000, 200)]
    for others in (some, more, more[::-1]):
        now = by_hash(others, share)
        for split, members in before.items():
            assert members & set(others) == now[split] & set(names)


@pytest.mark.parametrize("seed", range(5))
def test_another_test_share_moves_no_image_into_or_out_of_the_training_set(seed):
    names = random_names(seed, 400)
    without, fewer, more = (by_hash(names, share) for share in (0.0, 0.2, 0.6))
    assert without["train"] == fewer["train"] == more["train"]
    assert fewer[TEST] < more[TEST] < without["valid"]
    assert fewer["valid"] | fewer[TEST] == without["valid"]


def test_shares_are_kept_on_average():
    counts = {
        split: len(names) for split, names in by_hash([f"{index}.png" for index in range(20000)], 0.5).items()
    }
    # 4 standard deviations of a binomial distribution of 20,000.
    assert counts["train"] == pytest.approx(16000, abs=4 * np.sqrt(20000 * 0.8 * 0.2))
    assert counts[TEST] == pytest.approx(2000, abs=4 * np.sqrt(20000 * 0.1 * 0.9))


def test_the_hash_is_the_same_in_every_version():
    # printf a.png | sha256sum
    assert splits.hash_position("a.png") == 0x7F071235805FBF58 / 2**64


def test_the_format_of_a_file_moves_no_image():
    names = [name.replace(".", "") for name in random_names(0, 200)]
    before = by_hash([f"{name}.png" for name in names], 0.5)
    both = by_hash([f"{name}.{suffix}" for name in names for suffix in ("jpeg", "png")], 0.5)
    for split, members in before.items():
        assert {name.rpartition(".")[0] for name in both[split]} == {name.rpartition(".")[0] for name in members}
    # A part of a group's name is no format.
    groups = {
        name: f"site {index}.{suffix}" for index in range(50) for suffix in "ab" for name in [f"{index}{suffix}"]
    }
    split = by_hash([*groups], groups=groups)
    assert any(f"{index}a" in split["train"] and f"{index}b" in split["valid"] for index in range(50))


@pytest.mark.parametrize("seed", range(3))
def test_a_group_is_on_one_side(seed):
    names = random_names(seed, 300)
    groups = {name: f"site {index % 7}" for index, name in enumerate(names)}
    split = by_hash(names, 0.5, groups=groups)
    assert sum(len({groups[name] for name in members}) for members in split.values()) == 7


@pytest.mark.parametrize(
    ("dataset", "n", "method"),
    [
        ("fixationadd1000", 1000, "shuffle"),
        ("fixationadd1000", 1001, HASH),
        ("fixationadd1000", 700, HASH),
        ("cat2000", 2000, "shuffle_per_category"),
        ("cat2000", 1999, HASH),
        ("salicon", 20, "given"),
    ],
)
def test_the_shuffle_of_the_reference_is_for_its_number_of_images(dataset, n, method):
    assert splits.split_method_of(Dataset.named(dataset), n) == method


def test_labelled_images_are_kept_apart_by_hash_in_data_that_grows():
    names = random_names(3, 300)
    labels = ["train" if index % 3 else "valid" for index in range(len(names))]
    whole = split_items([item(name) for name in names], labels, "column", CUSTOM, "source", 0.4)
    part = split_items([item(name) for name in names[:200]], labels[:200], "column", CUSTOM, "source", 0.4)
    assert 20 < len(whole[TEST]) < 60
    for split, members in names_of(part).items():
        assert members == names_of(whole)[split] & set(names[:200])


# === By the shuffle of the reference ===


@pytest.mark.parametrize(("dataset", "n"), [("fixationadd1000", 1000), ("osie", 700)])
def test_shuffled_splits_are_the_references(dataset, n):
    row = Dataset.named(dataset)
    train, valid = splits.split_indices([f"{i:04d}" for i in range(n)], row.split, row)
    with np.load(GOLDEN) as golden:
        np.testing.assert_array_equal(train, golden[f"split_{n}_train"])
        np.testing.assert_array_equal(valid, golden[f"split_{n}_valid"])


def test_splits_of_cat2000_have_the_same_positions_of_each_category():
    # Kroner et al., data.py: the indices of 100 tiled over the categories.
    order = np.random.RandomState(42).permutation(100)
    names = [f"{category:02d}/{i:03d}.jpg" for category in range(20) for i in range(100)]
    train, valid = splits.split_indices(names, "shuffle_per_category", Dataset.named("cat2000"))
    np.testing.assert_array_equal(train, np.concatenate([100 * c + order[:80] for c in range(20)]))
    np.testing.assert_array_equal(valid, np.concatenate([100 * c + order[80:] for c in range(20)]))


def shuffled(dataset, names, share=0.0):
    row = Dataset.named(dataset)
    return split_items([item(name) for name in names], [""] * len(names), row.split, row, "source", share)


def test_paths_are_sorted_as_strings_before_they_are_shuffled():
    numbers = [f"{i}.jpg" for i in range(1, 21)]
    split, names = shuffled("osie", numbers), sorted(numbers)
    train, valid = splits.split_indices(names, "shuffle", Dataset.named("osie"))
    assert [each.name for each in split["train"]] == [names[i] for i in train]
    assert [each.name for each in split["valid"]] == [names[i] for i in valid]


def test_other_counts_are_accepted_only_if_allowed():
    split, row = shuffled("osie", list("abcdefg")), Dataset.named("osie")
    with refused(ContentError, 5, 2, 500, 200, "allow_partial_data"):
        splits.check_counts(split, row, "source", allow_partial_data=False, is_test_set=False)
    splits.check_counts(split, row, "source", allow_partial_data=True, is_test_set=False)


def test_a_split_without_images_is_never_accepted():
    split = {"train": [], "valid": [item("a")]}
    with refused(ContentError, 0, 1):
        splits.check_counts(split, CUSTOM, "source", allow_partial_data=True, is_test_set=False)


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_images_are_kept_apart_by_their_names_and_all_keep_their_order(share):
    row, names = Dataset.named("osie"), [str(1000 + index) for index in range(700)]
    whole = shuffled("osie", names)
    apart = splits.keep_apart(whole, row, share)
    valid = sorted(each.name for each in whole["valid"])
    order = np.random.RandomState(42).permutation(200)[: round(200 * share)]
    assert sorted(each.name for each in apart[TEST]) == sorted(valid[index] for index in order)
    assert apart["train"] == whole["train"]
    for split in ("valid", TEST):
        assert apart[split] == [each for each in whole["valid"] if each in apart[split]]
    assert len(apart["valid"]) + len(apart[TEST]) == 200
    more = splits.keep_apart(whole, row, share + 0.1)
    assert {each.name for each in more[TEST]} > {each.name for each in apart[TEST]}
    assert splits.keep_apart(whole, row, 0.0) == whole


@pytest.mark.parametrize(("share", "of_each"), [(0.1, {2}), (0.12, {2, 3})])
def test_of_each_category_as_many_images_are_kept_apart(share, of_each):
    names = [f"{category:02d}/{i:02d}" for category in range(20) for i in range(100)]
    apart = shuffled("cat2000", names, share)[TEST]
    assert len(apart) == round(400 * share)
    assert {sum(each.name.startswith(f"{category:02d}") for each in apart) for category in range(20)} == of_each


def test_a_limit_chooses_from_all_categories_and_keeps_the_order():
    items = shuffled("cat2000", [f"{category}/{i:02d}" for category in "abcd" for i in range(20)])["train"]
    few = splits.limited(items, 16)
    assert few == [each for each in items if each in few]
    assert len(few) == 16
    assert {each.name[0] for each in few} == set("abcd")
    assert splits.limited(items, 0) == splits.limited(items, 1000) == items
