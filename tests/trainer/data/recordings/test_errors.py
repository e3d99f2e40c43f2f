"""Errors of one's own recordings: one sentence each, with names, numbers and what to do."""

import gzip
import shutil

import numpy as np
import pytest

from tests import refusals
from tests.small_sources import density_map, save
from tests.trainer.data.recordings.recorded import (
    SIZE,
    gaze_of,
    plain_rows,
    rows,
    understand,
    write_images,
    write_table,
)
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.recordings.reading import READING, Reading
from trainer.errors import AmbiguousError, ContentError, SettingError


@pytest.fixture
def refused(tmp_path):
    """Checks that the five images with a table, or with what a function writes there, are refused."""

    def check(content, *named, kind=ContentError, name="fix.csv", **settings):
        folder = tmp_path / "set"
        write_images(folder / "pictures")
        if callable(content):
            content(folder)
        elif isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            write_table(folder / name, content)
        with refusals.refused(kind, *named) as error:
            understand(folder, **settings)
        assert "\n" not in str(error.value) or isinstance(error.value, AmbiguousReadingsError)

    return check


# === Tables ===


def test_columns_that_are_not_there(refused):
    refused(rows("foto;links;oben", "a.png;1;2"), "'foto', 'links', 'oben'")
    refused(rows("x,y", "1,2"), "'x', 'y'")
    refused(plain_rows(), "'foto'", columns="image=foto")
    refused(plain_rows(), "'image', 'x', 'y'", columns="split=image")


@pytest.mark.parametrize(
    ("header", "columns"),
    [("image,x [mm],y [mm]", ""), ("image,gx [mm],gy [mm]", "x=gx [mm],y=gy [mm]")],
)
def test_positions_in_another_unit_of_length_are_not_taken_as_pixels(header, columns, refused):
    text = rows(header, *(f"{name}.png,10,5" for name in "abcde"))
    refused(text, "'mm'", "coordinates", columns=columns)


@pytest.mark.parametrize(
    ("content", "name", "named"),
    [
        (b"PK\3\4rest", "fix.xlsx", ["Excel"]),
        (b"PK\3\4rest", "fix.csv", ["Excel"]),
        (b"\xd0\xcf\x11\xe0rest", "fix.xls", ["Excel"]),
        (b"  \n \n", "fix.tsv", []),
        (np.random.default_rng(0).bytes(3000), "fix.csv", []),
        (b"one two three\n", "fix.csv", ["'one two three'"]),
        (b"PAR1rest", "fix.parquet", []),
        (gzip.compress(b"image,x,y\n" * 99, mtime=0)[:-9], "fix.csv.gz", []),
        (b"image,x,y\n", "fix.csv", []),
        (b"image,x,y\na,1,2,3\n", "fix.csv", [1]),
        (b"image,x,y\na,nan,1\n,1,2\na,1\na,1,inf\n", "fix.csv", [3, 1]),
        (b"image,x,y\na,left,1\n", "fix.csv", ["'left'", "'x'"]),
        (b"image,Gaze point X,Gaze point Y\na,1,2\n", "fix.csv", ["'Gaze point X'"]),
    ],
)
def test_files_that_are_no_table_of_fixations(content, name, named, refused):
    refused(content, name, *named, name=name)


# === Images ===


def test_a_name_of_two_images(refused):
    def write(folder):
        write_images(folder / "others", ("a.png",))
        write_table(folder / "fix.csv", plain_rows())

    refused(write, "'a.png'", "others/a.png", "pictures/a.png", kind=AmbiguousError)


def test_fixations_of_both_kinds(refused):
    def write(folder):
        shutil.rmtree(folder / "pictures")
        for name in "ab":
            save(folder / "stimuli" / f"{name}.png", density_map(ord(name), SIZE))
            save(folder / "maps" / f"{name}.png", density_map(3, SIZE))
            save(folder / "fixation" / f"{name}.png", density_map(3, SIZE))
        write_table(folder / "fix.csv", plain_rows("ab"))

    named = ["a.png", "fixation/a.png", "fix.csv"]
    refused(write, *named, kind=AmbiguousError, columns="x=x,y=y", coordinates="pixels")


# === Positions ===


@pytest.mark.parametrize(
    ("x", "y", "settings", "named"),
    [
        (9000, 6000, {}, ["15 of 15", "9000 to 9014", "6000 to 6000", "48 x 64", "coordinates"]),
        (0, 60, {}, ["15 of 15", 0, "x=NAME,y=NAME"]),
        (930, 540, {"screen_size": "500x600"}, [500, 600, "screen_size"]),
    ],
)
def test_positions_outside(x, y, settings, named, refused):
    text = rows("image,x,y", *(f"{'abcde'[n % 5]},{x + n},{y}" for n in range(15)))
    refused(text, *named, coordinates="pixels", **settings)


def test_positions_in_another_unit_than_the_one_that_is_said(refused):
    lines = [f"{'ab'[n % 2]},{(n + 1) / 41},{(7 * n % 40 + 1) / 41}" for n in range(40)]
    refused(rows("image,x,y", *lines), 40, "coordinates", coordinates="pixels", max_lost_share=0.9)


def test_no_fixation_that_can_be_used_although_any_share_may_be_lost(refused):
    any_share = {"coordinates": "pixels", "max_lost_share": 1.0}
    refused(plain_rows().replace("png,", "png,9"), "15 of 15", "910 to 930", **any_share)
    refused(plain_rows("vwxyz"), 15, "'v.png'", "image=NAME", **any_share)


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("image,x,y", ["coordinates=pixels", "coordinates=percent"]),
        ("image,x [px],y [px]", ["coordinates=pixels"]),  # of the image, or of the screen?
        ("image,CURRENT_FIX_X,CURRENT_FIX_Y", ["the screen", "screen_size=48x64 image_on_screen=fit"]),
    ],
)
def test_positions_of_a_meaning_that_nothing_proves(header, named, refused):
    text = plain_rows().replace("image,x,y", header)
    refused(text, "10 to 30", "5 to 11", *named, kind=AmbiguousReadingsError)


def test_degrees_without_a_scale(refused):
    text = rows("image,x,y", *(f"{'abcde'[n // 2]},{-6.5 + n},{-4.5 + n}" for n in range(10)))
    refused(text, "-6.5 to 2.5", "-4.5 to 4.5", "coordinates=degrees", kind=AmbiguousReadingsError)
    refused(text.replace("x,y", "x [deg],y [deg]"), "pixels_per_degree", kind=SettingError)


def test_positions_of_different_kinds(refused):
    def write(folder):
        write_table(folder / "one.csv", plain_rows().replace("x,y", "x [px],y [px]"))
        write_table(folder / "two.csv", rows("image,x [norm],y [norm]", "a,.5,.2", "b,.1,.5", "c,.3,.3"))

    refused(write, "one.csv", "x [px]", "two.csv", "x [norm]", kind=AmbiguousReadingsError)


def test_a_screen_for_positions_on_the_image(refused):
    text = rows(
        "image,Fixation point X [MCS norm],Fixation point Y [MCS norm]", *(f"{name},0.5,0.5" for name in "abcde")
    )
    refused(text, "screen_size", kind=SettingError, screen_size="100x100")


# === Splits ===


def test_an_image_in_both_splits(refused):
    text = rows("image,x,y,split", "a,1,2,train", "b,1,2,val", "a,1.5,3,val")
    refused(text, "pictures/a.png", "train", "valid", max_lost_share=0.6, coordinates="pixels")


def test_splits_that_are_not_told(refused):
    pixels = {"coordinates": "pixels"}
    refused(plain_rows(), "split", "column", kind=SettingError, split="column", **pixels)
    refused(plain_rows(), "pictures/a.png", split="folders", **pixels)
    others = [f"{name},1,{n},val" for n, name in enumerate("bcde")]
    text = rows("image,x,y,split", "a,1,4,A", *others)
    refused(text, "'A'", split="column", **pixels)
    refused(text.replace(",A", ","), "pictures/a.png", split="column", **pixels)


# === Rows of other images, and of both eyes ===


def test_numbers_that_begin_at_another_one_than_those_of_images(tmp_path):
    write_images(tmp_path / "pictures", [f"{number}.png" for number in range(1, 13)])
    lines = [f"{number},{10 * n},{3 * number + n}" for number in range(12) for n in (1, 2, 3)]
    write_table(tmp_path / "fix.csv", rows("image,x,y", *lines))
    with refusals.refused(ContentError, "'0'", "12.png"):
        understand(tmp_path, coordinates="pixels")


def test_numbers_in_a_usual_column_beside_names_of_other_images(tmp_path):
    write_images(tmp_path / "pictures", [f"{number}.png" for number in range(1, 6)])
    lines = [f"{number},{6 - number}.png,{10 * n},{4 + n}" for number in range(1, 6) for n in (1, 2, 3)]
    write_table(tmp_path / "fix.csv", rows("image_nr,file,x,y", *lines))
    with refusals.refused(AmbiguousReadingsError, "'image_nr'", "'file'"):
        understand(tmp_path)


@pytest.mark.parametrize(("name", "is_asked"), [("image", False), ("current", True)])
def test_a_column_of_next_images(name, is_asked, tmp_path):
    write_images(tmp_path / "pictures")
    pairs = list(enumerate(zip("abcde", "bcdea", strict=True)))
    lines = [f"{now}.png,{after}.png,{10 * n},{4 + n + y}" for y, (now, after) in pairs for n in (1, 2, 3)]
    write_table(tmp_path / "fix.csv", rows(f"{name},next_image,x,y", *lines))
    if is_asked:
        with refusals.refused(AmbiguousReadingsError, "next_image"):
            understand(tmp_path)
    else:
        assert gaze_of(tmp_path, coordinates="pixels")["a.png"][0] == [[5, 10], [6, 20], [7, 30]]


@pytest.mark.parametrize("eyes", [("L", "R"), ("LEFT", "RIGHT")])
def test_fixations_of_both_eyes(eyes, refused):
    lines = [
        f"{name}.png,{10 * n + dx},{4 + n + y},{eye}"
        for eye, dx in zip(eyes, (0, 2), strict=True)
        for y, name in enumerate("abcde")
        for n in (1, 2, 3)
    ]
    named = ["'eye'", *map(repr, eyes)]
    refused(rows("image,x,y,eye", *lines), *named, kind=AmbiguousReadingsError, coordinates="pixels")


# === A reading ===


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"image = ]", ["line 1"]),
        (b"image = '\xff'", []),
        (b"lost = " + b"[" * 10_000, []),
        (b"pixels_per_degree = inf", ["pixels_per_degree", "inf"]),
    ],
)
def test_a_reading_that_is_damaged(content, named, refused):
    def write(folder):
        write_table(folder / "fix.csv", plain_rows())
        (folder / READING).write_bytes(content)

    refused(write, READING, "--propose", *named)


def test_a_reading_names_columns_as_they_are(tmp_path):
    """Also with letters that TOML has to escape."""
    name = 'x "\x7f" \\ é'
    write_images(tmp_path)
    quoted = name.replace('"', '""')
    write_table(tmp_path / "fix.csv", plain_rows().replace("image,x,y", f'image,"{quoted}",y'))
    write_table(tmp_path / READING, Reading({"x": name, "y": "y"}, "image", "pixels").text)
    assert gaze_of(tmp_path)["a.png"] == ([[5, 10], [6, 20], [7, 30]], None)
