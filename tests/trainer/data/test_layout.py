import pathlib

import numpy as np
import pytest

from trainer import datasets
from trainer.data import layout
from trainer.errors import UserError
from trainer.sources import Member

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "msinet_reference.npz"


def members(*paths):
    return [Member(path, f"origin of {path}", lambda: b"") for path in paths]


def find(dataset, *paths):
    return layout.find_items(members(*paths), datasets.get(dataset), "source").items


def summary(item):
    """Name of the image and the paths of its files."""
    return item.name, *(each.path if each else None for each in (item.stimulus, item.map, item.fixations))


def pairs(*names, maps="fixation"):
    """Paths of stimuli and of maps for the names of images."""
    return [f"stimuli/{name}.jpg" for name in names] + [f"{maps}/{name}.png" for name in names]


@pytest.mark.parametrize(
    "paths",
    [
        ("images/images/{}/a.jpg", "maps/{}/a.png", "fixations/{}/a.mat"),
        ("stimuli/{}/a.jpg", "saliency/{}/a.png", "fixations/{}/a.mat"),
        ("Stimuli/{}/a.JPG", "Saliency/{}/a.PNG", "FIXATIONS/{}/a.mat"),
        ("{}/images/a.jpg", "{}/maps/a.png", "{}/fixations/a.mat"),
        ("deep/fixation/stimuli/{}/a.jpg", "deep/fixation/maps/{}/a.png", "deep/fixation/fixations/{}/a.mat"),
    ],
)
@pytest.mark.parametrize("names", [("train", "val"), ("Train", "valid")])
def test_every_layout_of_salicon_is_found_by_its_folders(paths, names):
    train, valid = ([path.format(name) for path in paths] for name in names)
    items = find("salicon", *train, *valid)
    stimulus = train[0].rpartition("/")[2]
    assert [summary(item) for item in items["train"]] == [(stimulus, *train)]
    assert [summary(item) for item in items["valid"]] == [(stimulus, *valid)]


def test_images_of_fixations_are_the_maps_if_there_are_no_others():
    items = find("osie", *pairs(*"abcdefg"))
    assert sorted(summary(item) for split in items.values() for item in split) == [
        (f"{name}.jpg", f"stimuli/{name}.jpg", f"fixation/{name}.png", None) for name in "abcdefg"
    ]


def test_fixations_alone_are_enough():
    items = find("cat2000", *[f"{kind}/Art/{i}.{suffix}" for i in range(5) for kind, suffix in
                              (("Stimuli", "jpg"), ("FIXATIONLOCS", "mat"))])  # fmt: skip
    assert all(item.map is None and item.fixations for split in items.values() for item in split)


def test_suffixes_of_mit1003_are_removed_from_names():
    paths = [f"stimuli/{i}.jpeg" for i in range(5)] + [f"saliency/{i}_fixMap.jpg" for i in range(5)]
    items = find("mit1003", *paths, *[f"fixations/{i}_fixPts.jpg" for i in range(5)])
    assert summary(items["valid"][0])[1:] == tuple(
        path.format(items["valid"][0].name[0])
        for path in ("stimuli/{}.jpeg", "saliency/{}_fixMap.jpg", "fixations/{}_fixPts.jpg")
    )


def test_other_files_and_those_that_cat2000_makes_of_stimuli_are_ignored():
    paths = [*pairs(*"abcde"), "README.md", "stimuli/notes.txt", "stimuli/Output/a.jpg", "picture.jpg"]
    assert sum(map(len, find("osie", *paths).values())) == 5


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["stimuli/a.jpg", "stimuli/b.jpg", "fixation/a.png"], "image without a map: 'b'"),
        (["stimuli/a.jpg", "fixation/a.png", "fixation/b.png"], "map without an image: 'b'"),
        ([*pairs("a", maps="maps"), "fixations/b.mat"], "image without a fixations file: 'a'"),
        ([*pairs(*"abcde"), *(f"stimuli/{i}.jpg" for i in range(5))], "'0', '1', '2' and 2 more"),
        ([*pairs("a"), "stimuli/a.png"], "origin of stimuli/a.jpg and origin of stimuli/a.png"),
        ([*pairs("a"), "fixation/a.bmp"], "origin of fixation/a.png and .*fixation/a.bmp"),
        (["stimuli/a.jpg"], "1 images but no maps"),
        (["pictures/a.jpg", "fixation/a.png"], "source has no stimuli"),
    ],
)
def test_files_without_a_counterpart_are_named(paths, message):
    with pytest.raises(UserError, match=message):
        find("osie", *paths)


def test_an_image_outside_of_the_given_split_is_named():
    with pytest.raises(UserError, match=r"images/a\.jpg is neither in train/ nor in val/"):
        find("salicon", "images/a.jpg", "maps/a.png")


# === Splits ===


@pytest.mark.parametrize(("dataset", "n"), [("fixationadd1000", 1000), ("osie", 700)])
def test_shuffled_splits_are_the_references(dataset, n):
    train, valid = layout.split_indices([f"{i:04d}" for i in range(n)], datasets.get(dataset))
    with np.load(GOLDEN) as golden:
        np.testing.assert_array_equal(train, golden[f"split_{n}_train"])
        np.testing.assert_array_equal(valid, golden[f"split_{n}_valid"])


def test_splits_of_cat2000_have_the_same_positions_of_each_category():
    # Kroner et al., data.py: the indices of 100 tiled over the categories.
    order = np.random.RandomState(42).permutation(100)
    names = [f"{category:02d}/{i:03d}.jpg" for category in range(20) for i in range(100)]
    train, valid = layout.split_indices(names, datasets.get("cat2000"))
    np.testing.assert_array_equal(train, np.concatenate([100 * c + order[:80] for c in range(20)]))
    np.testing.assert_array_equal(valid, np.concatenate([100 * c + order[80:] for c in range(20)]))


def test_paths_are_sorted_as_strings_before_they_are_shuffled():
    n = 20
    items = find("osie", *pairs(*map(str, range(1, n + 1))))
    names = sorted(f"{i}.jpg" for i in range(1, n + 1))
    train, valid = layout.split_indices(names, datasets.get("osie"))
    assert [item.name for item in items["train"]] == [names[i] for i in train]
    assert [item.name for item in items["valid"]] == [names[i] for i in valid]


def test_other_counts_are_accepted_only_if_allowed():
    items, row = find("osie", *pairs(*"abcdefg")), datasets.get("osie")
    with pytest.raises(UserError, match=r"5 training and 2 validation .* 500 and 200; .*allow_partial_data"):
        layout.check_counts(items, row, "source", allow_partial_data=False, is_test_set=False)
    layout.check_counts(items, row, "source", allow_partial_data=True, is_test_set=False)


def test_a_split_without_images_is_never_accepted():
    items = find("osie", *pairs("a"))
    with pytest.raises(UserError, match=r"0 training and 1 validation images; .* split=shuffle"):
        layout.check_counts(items, datasets.get("custom"), "source", allow_partial_data=True, is_test_set=False)


# === Images that are kept apart as a test set ===


def test_images_are_kept_apart_by_their_names_and_all_keep_their_order():
    row, names = datasets.get("osie"), [str(1000 + index) for index in range(70)]
    items = find("osie", *pairs(*names))
    apart = layout.keep_apart(items, row, 5)
    valid = sorted(item.name for item in items["valid"])
    order = np.random.RandomState(42).permutation(20)[:5]
    assert sorted(item.name for item in apart["test"]) == sorted(valid[index] for index in order)
    assert apart["train"] == items["train"]
    for split in ("valid", "test"):
        assert apart[split] == [item for item in items["valid"] if item in apart[split]]
    assert len(apart["valid"]) + len(apart["test"]) == 20
    backwards = layout.keep_apart({**items, "valid": items["valid"][::-1]}, row, 5)
    assert backwards["test"] == apart["test"][::-1]
    more = layout.keep_apart(items, row, 11)
    assert {item.name for item in more["test"]} > {item.name for item in apart["test"]}
    assert layout.keep_apart(items, row, 0) == items


@pytest.mark.parametrize(("n", "of_each"), [(8, {2}), (10, {2, 3})])
def test_of_each_category_as_many_images_are_kept_apart(n, of_each):
    items = find("cat2000", *pairs(*(f"{category}/{i:02d}" for category in "abcd" for i in range(20))))
    apart = layout.keep_apart(items, datasets.get("cat2000"), n)["test"]
    assert len(apart) == n
    assert {sum(item.name.startswith(category) for item in apart) for category in "abcd"} == of_each


def test_a_limit_chooses_from_all_categories_and_keeps_the_order():
    items = find("cat2000", *pairs(*(f"{category}/{i:02d}" for category in "abcd" for i in range(20))))["train"]
    few = layout.limited(items, 16)
    assert few == [item for item in items if item in few]
    assert len(few) == 16
    assert {item.name[0] for item in few} == set("abcd")
    assert layout.limited(items, 0) == layout.limited(items, 1000) == items
