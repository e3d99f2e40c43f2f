"""Copies of pictures, found by a perceptual hash."""

import dataclasses
import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from trainer.data import copies
from trainer.data.datasets import HASH_BY_FOLDER
from trainer.data.recordings.custom import with_split_key
from trainer.data.source_layout import Item
from trainer.data.splits import position_of
from trainer.io.archive_files import Member


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


def cropped(image, px):
    return image.crop((px, px, image.width - px, image.height - px))


COPIES = {
    "compressed": lambda image: compressed(image, 20),
    "half": lambda image: image.resize((image.width // 2, image.height // 2)),
    "stretched": lambda image: image.resize((400, 260)),
    "cropped": lambda image: cropped(image, 2),
    "grey": lambda image: image.convert("L"),
}


def item(name, image, group=""):
    file = io.BytesIO()
    image.save(file, "PNG")
    member = Member(name, name, file.getvalue)
    return Item(name.rpartition("/")[2], member, None, None, group=group)


@pytest.mark.parametrize("change", COPIES.values(), ids=COPIES)
def test_copies_are_found_and_other_pictures_are_not(change):
    pictures = [picture(seed) for seed in range(40)]
    hashes = [copies.hash_of(each) for each in (*pictures, *map(change, pictures))]
    assert copies.first_copies(hashes) == [*range(40), *range(40)]


def test_sparse_pictures_are_no_copies_of_others():
    """Different words in the same place have nearly the same low frequencies."""
    for word in ("monday", "friday"):
        image = Image.new("RGB", (800, 600), "white")
        ImageDraw.Draw(image).text((300, 280), word, fill="black", font_size=40)
        assert copies.hash_of(image) is None


def test_a_copy_of_a_copy_is_one_too():
    first = copies.hash_of(picture(0))
    second, third = first.copy(), first.copy()
    second[:30] ^= True
    third[:30] ^= True
    third[100:130] ^= True
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
    hashes = [copies.hash_of(picture(seed)) for seed in (0, 1, 2, 3, 1, 4, 5, 0, 1, 5)]
    hashes.insert(2, None)
    assert copies.first_copies(hashes) == [0, 1, 2, 3, 4, 1, 6, 7, 0, 1, 7]


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
    assert copies.hash_of(Image.new("RGB", (80, 60), "red")) is None


def test_a_file_that_is_no_image_is_a_copy_of_none():
    broken = dataclasses.replace(item("x.png", picture(0)), stimulus=Member("x.png", "x.png", lambda: b"no image"))
    found, notes = copies.with_copies([broken, item("y.png", picture(0))])
    assert ([each.group for each in found], notes) == (["", ""], [])
