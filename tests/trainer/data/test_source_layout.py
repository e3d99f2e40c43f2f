import pytest

from tests.refusals import assert_named, refused
from trainer.data import source_layout, splits
from trainer.data.bad_images import BadImages
from trainer.datasets.table import Dataset
from trainer.errors import ContentError
from trainer.places.archive_files import Member


def members(*paths):
    return [Member(path, f"origin of {path}", lambda: b"") for path in paths]


def find(dataset, *paths):
    """Split -> the images found at these paths; all are in `train` if folders do not tell."""
    images = source_layout.find_items(members(*paths), Dataset.named(dataset), "source", BadImages())
    labelled = list(zip(images.items, images.labels, strict=True))
    return {
        split: [item for item, label in labelled if (label or "train") == split] for split in ("train", "valid")
    }


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
    assert summary(items["train"][0])[1:] == tuple(
        path.format(items["train"][0].name[0])
        for path in ("stimuli/{}.jpeg", "saliency/{}_fixMap.jpg", "fixations/{}_fixPts.jpg")
    )


def test_other_files_and_those_that_cat2000_makes_of_stimuli_are_ignored():
    paths = [*pairs(*"abcde"), "README.md", "stimuli/notes.txt", "stimuli/Output/a.jpg", "picture.jpg"]
    assert sum(map(len, find("osie", *paths).values())) == 5


@pytest.mark.parametrize(
    ("paths", "named"),
    [
        (["stimuli/a.jpg", "stimuli/b.jpg", "fixation/a.png"], ("'b'",)),
        (["stimuli/a.jpg", "fixation/a.png", "fixation/b.png"], ("'b'",)),
        ([*pairs("a", maps="maps"), "fixations/b.mat"], ("'a'",)),
        ([*pairs(*"abcde"), *(f"stimuli/{i}.jpg" for i in range(5))], ("'0'", "1, 2, 3 and 1 more")),
        ([*pairs("a"), "stimuli/a.png"], ("origin of stimuli/a.jpg", "origin of stimuli/a.png")),
        ([*pairs("a"), "fixation/a.bmp"], ("origin of fixation/a.png", "fixation/a.bmp")),
        (["stimuli/a.jpg"], ("source", 1)),
        (["pictures/a.jpg", "fixation/a.png"], ("source", "stimuli")),
    ],
)
def test_files_without_a_counterpart_are_named(paths, named):
    with refused(ContentError, *named):
        find("osie", *paths)


def test_an_image_outside_of_the_given_split_is_named():
    row = Dataset.named("salicon")
    images = source_layout.find_items(members("images/a.jpg", "maps/a.png"), row, "source", BadImages())
    with refused(ContentError, "images/a.jpg"):
        splits.split_items(images.items, images.labels, row.split, row, "source", BadImages())


# === Names of maps ===


ACUTE = "e\N{COMBINING ACUTE ACCENT}", "\N{LATIN SMALL LETTER E WITH ACUTE}"


@pytest.mark.parametrize("maps", ["maps", "fixations"])
@pytest.mark.parametrize(
    ("image", "own"), [("P1", "p1"), ACUTE, ("a\N{NARROW NO-BREAK SPACE}PM", "a PM"), ("Face/a", "face/A")]
)
def test_a_map_of_ones_own_has_a_name_equal_to_its_images(image, own, maps):
    paths = [*pairs("other", maps=maps), f"stimuli/{image}.jpg", f"{maps}/{own}.png"]
    images = source_layout.find_items(members(*paths), Dataset.named("custom"), "source", BadImages())
    found = {name: a_map or fixations for name, _, a_map, fixations in map(summary, images.items)}
    assert found == {"other.jpg": f"{maps}/other.png", f"{image}.jpg": f"{maps}/{own}.png"}
    (note,) = images.notes
    assert_named(note, 1, own)


def test_maps_of_the_same_name_come_before_those_of_an_equal_one():
    paths = [*pairs("a", "A", maps="maps"), "stimuli/b.jpg", "maps/B.png"]
    images = source_layout.find_items(members(*paths), Dataset.named("custom"), "source", BadImages())
    assert [summary(item)[2] for item in images.items] == ["maps/a.png", "maps/A.png", "maps/B.png"]


@pytest.mark.parametrize(
    "paths",
    [
        ["stimuli/ab.jpg", "stimuli/AB.jpg", "maps/Ab.png", "maps/aB.png"],
        ["stimuli/ab.jpg", "maps/Ab.png", "maps/aB.png"],
        ["stimuli/ab.jpg", "stimuli/AB.jpg", "maps/Ab.png"],
    ],
)
def test_maps_whose_names_are_equal_to_several_are_not_paired(paths):
    with refused(ContentError, "'Ab'"):
        source_layout.find_items(
            members(*paths, *pairs("x", maps="maps")), Dataset.named("custom"), "source", BadImages()
        )


def test_names_of_published_datasets_are_compared_as_they_are():
    with refused(ContentError, "'P1'"):
        find("osie", *pairs(*"abcdefg"), "stimuli/P1.jpg", "fixation/p1.png")
