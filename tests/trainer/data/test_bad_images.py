"""Images that cannot be used are put aside with their reasons; too many of them end the preparation."""

import numpy as np
import pytest
from PIL import Image

from tests.refusals import refused
from tests.small_sources import SIZE, density_map, files, point_map, save, stimulus, write_tree
from trainer.data import fetch, prepared_data, splits
from trainer.data.settings import FetchConfig
from trainer.errors import ContentError

N = 40


def config(source, dataset="custom", **settings):
    return FetchConfig(dataset, str(source), "24x32", **{"max_bad_share": 0.25, **settings})


def names_of(split):
    """Names, as of `write_tree`, that a hash gives to a split."""
    names = [f"{index}.png" for index in range(1, N + 1)]
    return [
        name
        for name in names
        if (splits.hash_position(f"stimuli/{splits.without_suffix(name)}") < 0.8) == (split == "train")
    ]


@pytest.fixture
def tree(tmp_path):
    return write_tree(tmp_path / "tree", N, maps="fixations")


@pytest.fixture
def damaged(tree):
    """A source with an image of each fault; returns the folder, the names and a word of each reason."""
    cut, empty, other, alone, densely = [name for name in names_of("train") if name != "1.png"][:5]
    (tree / "stimuli" / cut).write_bytes((tree / "stimuli" / cut).read_bytes()[:-100])
    save(tree / "fixations" / empty, np.zeros(SIZE, np.uint8))
    save(tree / "fixations" / other, point_map((40, 20), np.array([[3, 4]])))
    (tree / "fixations" / alone).unlink()
    save(tree / "fixations" / densely, density_map(1))
    Image.fromarray(stimulus(99)).save(tree / "stimuli" / "1.bmp")  # a second image of this name
    return tree, {
        cut: "cut short or damaged",
        empty: "is empty",
        other: "aspect ratio",
        alone.removesuffix(".png"): "without a fixations file",
        densely: "density in the place of fixations",
        "1.png": "two files with the same name",
    }


def test_bad_images_are_listed_and_the_others_are_prepared_as_if_they_were_alone(damaged, tmp_path, capsys):
    tree, reasons = damaged
    manifest = fetch.fetch_dataset(config(tree), tmp_path / "set")
    assert manifest.bad_images.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in manifest.bad_images[name]
    assert sum(manifest.counts.values()) == N - len(reasons)
    assert manifest.expected_counts == manifest.counts
    note = f"{len(reasons)} of {N} images cannot be used"
    assert note in capsys.readouterr().out
    assert any(note in each for each in manifest.notes)

    for name in reasons:
        for path in tree.glob(f"*/{name.removesuffix('.png')}.*"):
            path.unlink()
    alone = fetch.fetch_dataset(config(tree, max_bad_share=0.0), tmp_path / "alone")
    assert (alone.bad_images, alone.counts) == ({}, manifest.counts)
    for split, count in alone.counts.items():
        assert count < 64  # then it has one shard, whatever was planned
        (shard,) = alone.shards[split]
        assert files(tmp_path / "set")[shard] == files(tmp_path / "alone")[shard]
    assert files(tmp_path / "set")[prepared_data.IMAGES] == files(tmp_path / "alone")[prepared_data.IMAGES]


def test_too_many_bad_images_end_the_preparation_with_their_share_and_the_first_names(damaged, tmp_path):
    tree, reasons = damaged
    share = (len(reasons) - 1) / N
    with refused(ContentError, "6 of 40", "max_bad_share", f"{share:g}", "1.png"):
        fetch.fetch_dataset(config(tree, max_bad_share=share), tmp_path / "set")
    assert not (tmp_path / "set").exists()
    fetch.fetch_dataset(config(tree, max_bad_share=len(reasons) / N), tmp_path / "set")


def test_an_image_of_a_table_that_does_not_decode_is_put_aside_with_its_rows(tmp_path):
    rows = ["image,x,y"]
    for index in range(N):
        save(tmp_path / "lab" / f"{index}.png", stimulus(index))
        rows += [f"{index}.png,{x},{index % 20}" for x in (3, 9)]
    (tmp_path / "lab" / "fixations.csv").write_text("\n".join(rows))
    (tmp_path / "lab" / "7.png").write_bytes(b"no picture")
    manifest = fetch.fetch_dataset(config(tmp_path / "lab", coordinates="pixels"), tmp_path / "set")
    assert list(manifest.bad_images) == ["7.png"]
    assert sum(manifest.counts.values()) == N - 1
    assert any("Fixations: 78." in note for note in manifest.notes)


def test_a_bad_image_in_complete_data_of_authors_is_a_damaged_copy(tree, tmp_path):
    (tree / "fixations" / "3.png").unlink()
    for complete in (True, False):
        settings = config(tree, "osie", max_bad_share=0.5, allow_partial_data=not complete)
        if complete:
            with refused(ContentError, "'3'"):
                fetch.fetch_dataset(settings, tmp_path / "set")
        else:
            assert list(fetch.fetch_dataset(settings, tmp_path / "set").bad_images) == ["3"]


def test_a_split_without_an_image_that_can_be_used_is_refused(tree, tmp_path):
    for name in names_of("valid"):
        (tree / "stimuli" / name).write_bytes((tree / "stimuli" / name).read_bytes()[:-100])
    with refused(ContentError, len(names_of("valid"))):
        fetch.fetch_dataset(config(tree, max_bad_share=0.9), tmp_path / "set")
