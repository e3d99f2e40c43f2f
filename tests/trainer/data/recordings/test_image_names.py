"""Names of images in tables: which are equal, which of several images they mean, and when that is asked."""

import gzip

import pytest

from tests.refusals import refused
from tests.trainer.data.recordings.recorded import gaze_of, rows, write_images, write_table
from trainer.data.recordings.image_names import ImageNames, folded
from trainer.errors import AmbiguousError, ContentError
from trainer.pictures import PICTURE_SUFFIXES

SCREENSHOT = "Screenshot 2026-01-05 at 1.05.09\N{NARROW NO-BREAK SPACE}PM.png"
"""As macOS names it."""
ACUTE = "\N{COMBINING ACUTE ACCENT}"


def find(paths, *labels):
    """The path of the image of each label, or None."""
    return [None if image is None else paths[image] for image in ImageNames(paths).find_all(labels, "fix.csv")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("A.PNG", "a.png"),
        ("Straße", "STRASSE"),
        (f"e{ACUTE}", "\N{LATIN CAPITAL LETTER E WITH ACUTE}"),
        ("\N{LATIN SMALL LIGATURE FI}sh", "fish"),
        ("\N{FULLWIDTH LATIN CAPITAL LETTER A}\N{FULLWIDTH DIGIT ONE}", "a1"),
        (SCREENSHOT, SCREENSHOT.replace("\N{NARROW NO-BREAK SPACE}", " ")),
        ("a\N{NO-BREAK SPACE}\N{THIN SPACE}b", "a b"),
        ("a \t  b ", "a b"),
        ("\N{ZERO WIDTH SPACE}a.png", "a.png"),
    ],
)
def test_names_are_equal_whatever_their_case_form_and_blanks(first, second):
    assert folded(first) == folded(second)
    assert folded(folded(first)) == folded(first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x\N{SUPERSCRIPT TWO}", "x2"),
        ("\N{CIRCLED DIGIT ONE}", "1"),
        ("a b", "a_b"),
        ("a b", "ab"),
        ("a\N{FULLWIDTH SOLIDUS}b", "a/b"),
        ("\N{LATIN SMALL LETTER A WITH DIAERESIS}", "a"),
    ],
)
def test_names_of_different_letters_are_not_equal(first, second):
    assert folded(first) != folded(second)


@pytest.mark.parametrize(
    "label",
    [SCREENSHOT, SCREENSHOT.replace("\N{NARROW NO-BREAK SPACE}", " "), "screenshot 2026-01-05 at 1.05.09 pm"],
)
def test_a_screenshot_is_found_with_the_blank_of_a_spreadsheet(label, tmp_path):
    write_images(tmp_path / "pictures", [SCREENSHOT, "b.png", "c.png"])
    names = [label, "b.png", "c.png"]
    write_table(
        tmp_path / "fix.csv", rows("image,x,y", *(f"{name},{10 * n},5" for name in names for n in (1, 2, 3)))
    )
    gaze = gaze_of(tmp_path, coordinates="pixels")
    assert gaze[SCREENSHOT][0] == [[5, 10], [5, 20], [5, 30]]


@pytest.mark.parametrize("table", ["{}.csv", "{}.png.csv.gz", "{}_fixations.TXT", "{}.fixations.tsv"])
def test_a_table_named_after_a_screenshot_keeps_its_points(table, tmp_path):
    """The points of the time are no suffix."""
    others = ["Screenshot 2026-01-05 at 1.05.10 PM.png", "Screenshot 2026-01-05 at 1.06.09 PM.png"]
    write_images(tmp_path / "pictures", [SCREENSHOT, *others])
    for number, name in enumerate([SCREENSHOT, *others], 1):
        text = rows("x\ty", *(f"{10 * n}\t{number}" for n in (1, 2, 3)))
        path = tmp_path / table.format(name.removesuffix(".png"))
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    gaze = gaze_of(tmp_path, coordinates="pixels")
    assert gaze == {
        name: ([[number, 10], [number, 20], [number, 30]], None)
        for number, name in enumerate([SCREENSHOT, *others], 1)
    }


@pytest.mark.parametrize(
    "paths",
    [
        ["A.png", "a.png"],
        ["face/A.png", "face/a.png"],
        ["Face/a.png", "face/a.png"],
        ["a  b.png", "a b.png"],
        [SCREENSHOT, SCREENSHOT.replace("\N{NARROW NO-BREAK SPACE}", " ")],
        [f"e{ACUTE}.png", "\N{LATIN SMALL LETTER E WITH ACUTE}.png"],
        ["a.png", "a.PNG"],
    ],
)
def test_images_with_equal_names_are_told_apart_by_the_exact_one(paths):
    assert find(paths, *paths) == paths
    assert find([f"set/{path}" for path in paths], *paths) == [f"set/{path}" for path in paths]


def test_an_exact_stem_and_an_exact_form_of_accents_tell_apart_too():
    assert find(["A.png", "a.png"], "A", "a") == ["A.png", "a.png"]
    decomposed = [f"e{ACUTE}.png", f"E{ACUTE}.png"]
    composed = ["\N{LATIN SMALL LETTER E WITH ACUTE}.png", "\N{LATIN CAPITAL LETTER E WITH ACUTE}.png"]
    assert find(decomposed, *composed) == decomposed


@pytest.mark.parametrize(
    ("paths", "label", "named"),
    [
        (["Ab.png", "aB.png"], "ab.png", ["Ab.png", "aB.png"]),
        (["a.png", "house/A.png"], "A.png", ["a.png", "house/A.png"]),
        (["a\N{NO-BREAK SPACE}b.png", "a\N{THIN SPACE}b.png"], "a b.png", [r"'a\xa0b.png'", r"'a\u2009b.png'"]),
    ],
)
def test_a_label_that_fits_two_images_only_loosely_is_asked_about(paths, label, named):
    with refused(AmbiguousError, "fix.csv", repr(label), *named):
        find(paths, label)


def test_a_whole_path_comes_before_the_end_of_another_one():
    assert find(["a.png", "house/a.png"], "a.png", "house/a.png") == ["a.png", "house/a.png"]
    assert find(["a.png", "house/a.png"], "A.PNG") == ["a.png"]


def test_numbers_of_full_width_are_numbers():
    assert find(["07.png", "08.png"], "\N{FULLWIDTH DIGIT SEVEN}", "8.0") == ["07.png", "08.png"]


@pytest.mark.parametrize("suffix", PICTURE_SUFFIXES)
def test_a_name_with_the_suffix_of_any_format_names_the_picture_that_was_made_of_it(suffix):
    assert find(["a.png", "b.png"], f"a{suffix.upper()}") == ["a.png"]
    assert find([f"a{suffix}", "b.png"], "a", "b") == [f"a{suffix}", "b.png"]


def test_photographs_of_a_phone_are_named_as_what_they_are(tmp_path):
    """The table names them without their suffix. They are not taken for pictures that are not there."""
    write_images(tmp_path, ["b.png", "c.png"])
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    write_table(
        tmp_path / "fix.csv", rows("image,x,y", *(f"{name},{10 * n},5" for name in "abc" for n in (1, 2, 3)))
    )
    with refused(ContentError, "a.heic", "HEIC"):
        gaze_of(tmp_path)
