"""Copies of pictures, found by a perceptual hash."""

import dataclasses
import functools
import io
import pathlib
import tarfile

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from trainer.data import copies
from trainer.data.recordings.custom import with_split_key
from trainer.data.source_layout import Item
from trainer.data.splits import position_of
from trainer.datasets.table import HASH_BY_FOLDER
from trainer.places.archive_files import Member

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"
PHOTOGRAPHS = pathlib.Path(__file__).parents[4] / "shared" / "data" / "add1000.tar.gz"
SMALL = (128, 96)
"""Width and height, pixels."""


@functools.cache
def picture(seed, size=(240, 320)):
    """Soft noise of several scales, as photographs have."""
    rng = np.random.default_rng(seed)
    pixels = np.zeros((*size, 3))
    for cells in (3, 6, 12, 24):
        grid = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), np.uint8))
        pixels += np.asarray(grid.resize(size[::-1], Image.Resampling.BICUBIC)) / cells
    return Image.fromarray(np.uint8(255 * (pixels - pixels.min()) / np.ptp(pixels)))


def compressed(image, quality):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(io.BytesIO(file.getvalue()))


def cropped(image, left, top, right, bottom):
    """The image without these shares of its width or height."""
    width, height = image.size
    edges = (left * width, top * height, (1 - right) * width, (1 - bottom) * height)
    return image.crop(tuple(map(round, edges)))


def scaled(image, factor):
    return image.resize((round(factor * image.width), round(factor * image.height)))


COPIES = {
    "compressed": lambda image: compressed(image, 20),
    "half": lambda image: image.resize((image.width // 2, image.height // 2)),
    "stretched": lambda image: image.resize((400, 260)),
    "grey": lambda image: image.convert("L"),
    "mirrored": ImageOps.mirror,
    "cropped by 1%": lambda image: cropped(image, *4 * [0.01]),
    "cropped by 2%": lambda image: cropped(image, *4 * [0.02]),
    "cropped by 3%": lambda image: cropped(image, *4 * [0.03]),
    "cropped on one side": lambda image: cropped(image, 0.03, 0, 0, 0),
    "cropped unevenly": lambda image: cropped(image, 0.03, 0.01, 0, 0.02),
    "all at once": lambda image: compressed(scaled(ImageOps.mirror(cropped(image, *4 * [0.03])), 0.6), 60),
}


def item(name, image, group=""):
    file = io.BytesIO()
    image.save(file, "PNG")
    member = Member(name, name, file.getvalue)
    return Item(name.rpartition("/")[2], member, None, None, group=group)


@pytest.mark.parametrize("size", [(240, 320), SMALL[::-1]])
@pytest.mark.parametrize("change", COPIES.values(), ids=COPIES)
def test_copies_are_found_and_other_pictures_are_not(change, size):
    pictures = [picture(seed, size) for seed in range(40)]
    hashes = [copies.hash_of(each) for each in (*pictures, *map(change, pictures))]
    assert copies.first_copies(hashes) == [*range(40), *range(40)]
    # Either may be the copy, and a copy of another copy.
    for seed, others in ((0, hashes[:40]), (1, hashes[40:])):
        other = list(COPIES.values())[seed + 6]
        changed = [copies.hash_of(other(each)) for each in pictures]
        assert copies.match_copies(others, changed) == copies.match_copies(changed, others) == list(range(40))


@pytest.mark.parametrize("size", [None, SMALL])
@pytest.mark.parametrize("change", COPIES.values(), ids=COPIES)
def test_copies_of_photographs_and_pages_are_found(change, size):
    files = sorted([*EXAMPLES.glob("*.jpg"), *EXAMPLES.glob("landing-a.png")])
    assert len(files) == 4
    pictures = [Image.open(file).convert("RGB") for file in files]
    pictures = [each.resize(size, Image.Resampling.BOX) if size else each for each in pictures]
    hashes = [copies.hash_of(each) for each in (*pictures, *map(change, pictures))]
    assert copies.first_copies(hashes) == [*range(4), *range(4)]


@pytest.mark.skipif(not PHOTOGRAPHS.exists(), reason="the photographs are missing")
def test_copies_of_many_photographs_are_found_and_different_ones_are_not():
    pictures, read = [], set()
    with tarfile.open(PHOTOGRAPHS) as archive:
        for member in archive:
            if member.name.endswith(".jpg") and len(pictures) < 150:
                data = archive.extractfile(member).read()
                if data not in read:
                    pictures.append(
                        Image.open(io.BytesIO(data)).convert("RGB").resize(SMALL, Image.Resampling.BOX)
                    )
                    read.add(data)
    hashes = [copies.hash_of(each) for each in pictures]
    assert copies.first_copies(hashes) == list(range(150))
    for name in ("cropped by 2%", "cropped by 3%", "mirrored", "all at once"):
        changed = [copies.hash_of(COPIES[name](each)) for each in pictures]
        places = copies.match_copies(changed, hashes)
        assert all(place in (index, None) for index, place in enumerate(places))
        assert sum(place is not None for place in places) >= 148


def test_pages_of_one_template_are_no_copies():
    hashes = []
    for seed in range(8):
        words = np.random.default_rng(seed).choice(["lorem", "ipsum", "dolor", "sit", "amet"], (12, 9))
        page = Image.new("RGB", (1366, 768), "white")
        draw = ImageDraw.Draw(page)
        draw.rectangle((0, 0, 1366, 80), fill=(30, 60, 110))
        draw.rectangle((0, 80, 220, 768), fill=(230, 230, 235))
        for line, row in enumerate(words):
            draw.text((20, 110 + 50 * line), f"Menu {line}", fill="black", font_size=18)
            draw.text((260, 110 + 50 * line), " ".join(row), fill="black", font_size=30)
        hashes.append(copies.hash_of(page))
    assert all(hashes)
    assert copies.first_copies(hashes) == list(range(8))


def test_sparse_pictures_are_no_copies_of_others():
    """Different words in the same place have nearly the same low frequencies."""
    for word in ("monday", "friday"):
        image = Image.new("RGB", (800, 600), "white")
        ImageDraw.Draw(image).text((300, 280), word, fill="black", font_size=40)
        assert copies.hash_of(image) == ""


def test_pictures_that_one_object_outshines_are_no_copies_of_others():
    for blues in ([(40, 40), (90, 200), (230, 60)], [(60, 160), (250, 150), (160, 60)]):
        image = Image.new("RGB", (320, 240), (45, 48, 46))
        draw = ImageDraw.Draw(image)
        for x, y in [*blues, *((x, y) for x in range(20, 320, 40) for y in (20, 60, 100, 140, 220))]:
            draw.ellipse((x - 9, y - 9, x + 9, y + 9), fill=(30, 30, 240))
        draw.ellipse((180, 170, 220, 210), fill=(255, 180, 60))
        assert copies.hash_of(image) == ""


def test_a_copy_of_a_copy_is_one_too():
    pictures = [picture(0)]
    for _ in range(2):
        pictures.append(cropped(pictures[-1], *4 * [0.04]))
    first, second, third = map(copies.hash_of, pictures)
    assert copies.first_copies([first, third]) == [0, 1]
    for hashes in ([first, third, second], [third, first, second], [second, first, third]):
        assert copies.first_copies(hashes) == [0, 0, 0]


def test_a_damaged_header_does_not_take_the_memory_of_its_size():
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "BMP")
    huge = bytearray(file.getvalue())
    huge[18:26] = (200_000).to_bytes(4, "little") * 2  # width and height
    broken = dataclasses.replace(item("x.bmp", picture(0)), stimulus=Member("x.bmp", "x.bmp", lambda: bytes(huge)))
    found, _ = copies.with_copies([broken])
    assert found[0].group == ""


def test_the_first_copy_is_found_in_every_block(monkeypatch):
    monkeypatch.setattr(copies, "BLOCK", 3)
    monkeypatch.setattr(copies, "BATCH", 2)
    crops = [
        cropped(picture(seed), 0.01 * place % 0.03, 0, 0, 0)
        for place, seed in enumerate((0, 1, 2, 3, 1, 4, 5, 0, 1, 5))
    ]
    hashes = [copies.hash_of(each) for each in crops]
    hashes.insert(2, "")
    assert copies.first_copies(hashes) == [0, 1, 2, 3, 4, 1, 6, 7, 0, 1, 7]
    now = ["", *(copies.hash_of(ImageOps.mirror(picture(seed))) for seed in (9, 5, 1, 8))]
    assert copies.match_copies([*now, hashes[9]], hashes) in (
        [None, None, 7, 1, None, 9],
        [None, None, 10, 1, None, 9],
    )
    assert copies.match_copies(now, ["", ""]) == 5 * [None]
    assert copies.match_copies([], hashes) == []
    assert copies.match_copies([*now, hashes[9]], hashes, mirrored=False) == [None, None, None, None, None, 9]


def test_groups_with_copies_of_one_picture_become_one():
    names = {"a/1.png": 1, "a/2.png": 2, "b/3.png": 1, "b/4.png": 4, "c/5.png": 5, "c/6.png": 5}
    items = [item(name, picture(seed)) for name, seed in names.items()]
    alone, notes = copies.with_copies(items)
    assert [each.group for each in alone] == ["a/1.png", "", "a/1.png", "", "c/5.png", "c/5.png"]
    assert [each.picture for each in alone] == ["a/1.png", "a/2.png", "a/1.png", "b/4.png", "c/5.png", "c/5.png"]
    assert "2 (b/3.png of a/1.png" in notes[0]
    by_folder, _ = copies.with_copies([with_split_key(each, HASH_BY_FOLDER) for each in items])
    assert [each.group for each in by_folder] == ["a", "a", "a", "a", "c", "c"]


def test_an_added_copy_with_a_later_name_moves_no_image():
    before, _ = copies.with_copies([with_split_key(item("pages/b.png", picture(1)), "hash")])
    both = [item("pages/b.png", picture(1)), item("pages/c.png", COPIES["half"](picture(1)))]
    after, _ = copies.with_copies([with_split_key(each, "hash") for each in both])
    assert {position_of(each) for each in after} == {position_of(before[0])}


def test_pictures_of_one_colour_are_no_copies():
    assert copies.hash_of(Image.new("RGB", (80, 60), "red")) == ""


def test_a_file_that_is_no_image_is_a_copy_of_none():
    broken = dataclasses.replace(item("x.png", picture(0)), stimulus=Member("x.png", "x.png", lambda: b"no image"))
    found, notes = copies.with_copies([broken, item("y.png", picture(0))])
    assert ([each.group for each in found], notes) == (["", ""], [])
