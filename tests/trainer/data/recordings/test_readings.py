"""Readings: the file `reading.toml`, how `fetch --propose` writes it, and that `fetch` follows it literally."""

import dataclasses
import re
import shlex
import shutil
import tomllib
import zipfile

import numpy as np
import pytest

from pipeline.__main__ import main as prepare
from tests.refusals import refused
from tests.trainer.data.recordings.recorded import gaze_of, rows, write_images, write_table
from trainer.__main__ import main
from trainer.data import propose_reading
from trainer.data.prepared_data import Manifest
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.recordings.reading import CHECKS, READING, Reading
from trainer.data.settings import FetchConfig
from trainer.errors import (
    USAGE_STATUS,
    AmbiguousError,
    ConflictError,
    ContentError,
    PlaceError,
    SettingError,
    UsageError,
    UserError,
)

SIZE = (240, 320)
N_IMAGES, N_FIXATIONS = 5, 6
NUMBERED = [f"{index}.png" for index in range(1, 1 + N_IMAGES)]
NAMED = [f"page{index}.png" for index in range(1, 1 + N_IMAGES)]
PIXELS = {"coordinates": "pixels"}
ODD = ['a "quoted" name', "back\\slash", "tab\tand\nline", "Größe 眼 \u202e", "=#[]", "", "it's"]
FULL = Reading(
    columns={"x": ODD[0], "y": ODD[1], "observer": ODD[3]},
    image=ODD[2],
    unit="degrees",
    upwards=True,
    screen="1080x1920",
    image_on_screen="-10,20,300x400",
    pixels_per_degree=35.5,
    part=(1, 0, 2),
    tables=["*.csv", ODD[0]],
    not_read=["old/*", ODD[3]],
    fixations={name: ["1", name] for name in ODD},
    others={ODD[4]: ["2"]},
    lost=[(0.0, 0.0), (-1.0, 1.5)],
    repeated="number and time",
    ignored=ODD,
    confirmed=[*CHECKS],
    positions={ODD[0]: [ODD[1], ODD[2]]},
)


def positions(name):
    """The fixations (x, y) of an image, in pixels."""
    random = np.random.default_rng(sum(map(ord, name)))
    return np.round(random.uniform((10, 10), (310, 230), (N_FIXATIONS, 2)), 1).tolist()


def write_study(folder, names, header="image,x,y", line="{name},{x},{y}", path="fixations.csv"):
    """Images of these names, and a table, or with a `{name}` in its path one for each image."""
    write_images(folder / "images", names, SIZE)
    tables = {}
    for name in names:
        stem = name.partition(".")[0]
        lines = tables.setdefault(path.format(name=stem), [])
        for number, (x, y) in enumerate(positions(name)):
            lines.append(line.format(name=stem, x=x, y=y, number=number, u=x / 320, v=y / 240))
    for table, lines in tables.items():
        write_table(folder / table, rows(header, *lines))
    return folder


def expected(names):
    return {name: [[int(y), int(x)] for x, y in positions(name)] for name in names}


def found(folder, **settings):
    return {name: points for name, (points, _) in gaze_of(folder, SIZE, **settings).items()}


def with_reading(folder, **entries):
    """A folder with a plain table, and a reading of it."""
    plain = Reading({"x": "x", "y": "y"}, image="image", unit="pixels")
    (folder / READING).write_text(dataclasses.replace(plain, **entries).text, encoding="utf-8")
    return folder


# === What is chosen without a reading ===


@pytest.mark.parametrize("path", ["{name}.csv", "gaze/scan_{name}.csv", "{name}/gaze.csv", "{name}/S01_3.csv"])
def test_a_table_named_after_an_image_beats_a_column_of_numbers(path, tmp_path):
    header, line = "number,x,y,duration", "{number},{x},{y},2{number}0"
    folder = write_study(tmp_path / "set", NAMED, header, line, path)
    assert found(folder, **PIXELS) == expected(NAMED)


def test_numbers_name_an_image_in_a_column_with_a_usual_name_alone(tmp_path):
    folder = write_study(tmp_path / "usual", NUMBERED, "row,photo,x,y", "{number},{name},{x},{y}")
    assert found(folder, **PIXELS) == expected(NUMBERED)
    folder = write_study(tmp_path / "other", NUMBERED, "block,x,y", "{name},{x},{y}")
    with refused(AmbiguousReadingsError, "'block'") as error:
        found(folder, **PIXELS)
    assert [reading.setting for reading in error.value.readings] == ["columns=image=block"]
    assert found(folder, **PIXELS, columns="image=block") == expected(NUMBERED)


def test_two_columns_of_names_are_asked_about(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, "before,target,x,y", "page1.png,{name}.png,{x},{y}")
    assert found(folder, **PIXELS) == expected(NAMED)  # one image alone is no reading of all
    lines = [f"{NAMED[index - 1]},{name},{x},{y}" for index, name in enumerate(NAMED) for x, y in positions(name)]
    write_table(folder / "fixations.csv", rows("before,target,x,y", *lines))
    with pytest.raises(AmbiguousReadingsError) as error:
        found(folder, **PIXELS)
    assert {reading.setting for reading in error.value.readings} == {
        "columns=image=before",
        "columns=image=target",
    }


def test_a_part_of_a_path_is_chosen_by_a_setting(tmp_path):
    names = NUMBERED
    folder = write_study(tmp_path / "set", names, "x,y,duration", "{x},{y},2{number}0", "{name}/1.csv")
    for name in names:  # every table of each folder: people, or images?
        for other in names[1:]:
            write_table(
                folder / name[0] / f"{other[0]}.csv", rows("x,y,duration", f"{ord(name[0])}.5,{other[0]}1.5,200")
            )
    with pytest.raises(AmbiguousReadingsError) as error:
        found(folder, **PIXELS)
    assert {reading.setting for reading in error.value.readings} == {
        "columns=image=@file",
        "columns=image=@folder",
    }
    by_folder = found(folder, **PIXELS, columns="image=@folder")
    assert {name: points[:N_FIXATIONS] for name, points in by_folder.items()} == expected(names)


def test_tables_of_several_forms_are_asked_about(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, "image,subject,x,y", "{name},S1,{x},{y}")
    write_table(folder / "clicks.csv", rows("image,x,y,button", *(f"{name},5,5,left" for name in NAMED)))
    with refused(AmbiguousReadingsError, "clicks.csv") as error:
        found(folder, **PIXELS)
    (setting,) = [each.setting for each in error.value.readings if "subject" in each.setting]
    settings = {**PIXELS, "columns": setting.removeprefix("columns=")}
    with refused(AmbiguousReadingsError, "clicks.csv", "not_read"):  # it may be data, too
        found(folder, **settings)
    proposal = propose_reading(FetchConfig("custom", str(folder), **settings))
    assert list(proposal.reading.not_read) == ["clicks.csv"]
    (folder / READING).write_text(proposal.reading.text, encoding="utf-8")
    assert found(folder) == expected(NAMED)


def test_lost_images_count_against_a_limit(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, line="{name} (1),{x},{y}")
    n_rows = N_IMAGES * N_FIXATIONS
    with refused(ContentError, f"{n_rows} of {n_rows}", "'page1 (1)'", "images/page1.png"):
        found(folder, **PIXELS)


# === The file ===


def test_each_entry_is_written_and_read():
    assert all(
        getattr(FULL, field.name) != field.default for field in dataclasses.fields(FULL)
    )  # none is left to its default
    read = Reading.parse(FULL.text.encode(), READING)
    for field in dataclasses.fields(Reading):
        assert getattr(read, field.name) == getattr(FULL, field.name), field.name
    assert read.text == FULL.text
    assert Reading.parse(b"\xef\xbb\xbf" + FULL.text.encode(), READING) == read


VALID = 'image = "image"\nunit = "pixels"\n{}\n[columns]\nx = "x"\ny = "y"\n'
WRONG = {
    "screen": ['""', '"1080"', '"0x10"', "1080", '"10x10x10"'],
    "unit": ['"auto"', '"mm"', "1"],
    "upwards": ["1", '"yes"'],
    "image_on_screen": ['"left"', '"1"', '"1,2,3"', "1"],
    "pixels_per_degree": ["0", "-1", '"35"', "true"],
    "part": ["[1, 2]", "[0, 0, -1]", "[0, 0, 0.5]", "1"],
    "tables": ['"*"', "[1]"],
    "not_read": ['"*"', "[[]]"],
    "lost": ["[0, 0]", "[[0]]", '[["0", "0"]]', "[[true, false]]"],
    "repeated": ['"rows"', "true"],
    "ignored": ['"x"', "[1]"],
    "confirmed": ['["sample"]', '"samples"'],
    "not_proven": ['"all"', "[1]"],
    "fixations": ['["1"]', '{event = "1"}', "{event = [1]}"],
    "others": ['["1"]', '{event = "1"}'],
    "positions": ['{a = ["x"]}', '{a = ["x", "y", "z"]}', '["x", "y"]'],
    "image": ["1", '["image"]'],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_entry_is_named_with_its_value(name, value):
    text = VALID.format(f"{name} = {value}")
    if name in ("unit", "image"):
        text = re.sub(rf"(?m)^{name} = .*$", f"{name} = {value}", VALID.format(""))
    shown = repr(tomllib.loads(text)[name])
    with refused(ContentError, "here.toml", name) as error:
        Reading.parse(text.encode(), "here.toml")
    assert shown in str(error.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (VALID.format("coordinate = 'pixels'"), ["'coordinate'"]),
        (VALID.format("").replace("image =", "# image ="), ["image"]),
        (VALID.format("").replace("unit =", "# unit ="), ["unit"]),
        ('image = "image"\nunit = "pixels"\n', ["columns"]),
        (VALID.format("") + 'person = "p"\n', ["person"]),
        (VALID.format("").replace("y =", "# y ="), ["x", "y"]),
        (VALID.format("") + 'x = "again"\n', ["TOML"]),
        ("image", ["TOML"]),
    ],
)
def test_a_file_that_is_no_reading_is_refused(text, named):
    with refused(ContentError, "here.toml", *named):
        Reading.parse(text.encode(), "here.toml")


def test_another_encoding_is_refused():
    with refused(ContentError, "here.toml", "TOML"):
        Reading.parse(VALID.format("").encode("utf-16"), "here.toml")


def test_what_is_not_proven_is_refused():
    text = VALID.format('not_proven = ["who looked", "which eye"]')
    with refused(AmbiguousError, "who looked", "which eye", "not_proven"):
        Reading.parse(text.encode(), "here.toml")


# === Followed literally ===


def test_a_table_is_read_as_the_reading_says(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, "y,what,x,age", "{x},{name},{y},30")
    with_reading(folder, columns={"x": "y", "y": "x"}, image="what", ignored=["age"])
    assert found(folder) == expected(NAMED)


def test_an_unknown_value_of_events_is_an_error(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, "image,x,y,event", "{name},{x},{y},{number}")
    known = {"fixations": {"event": ["0", "1", "2"]}, "others": {"event": ["3", "4"]}}
    with refused(ContentError, "fixations.csv", "'event'", "'5'", N_IMAGES):
        found(with_reading(folder, **known))
    kept = found(with_reading(folder, **{**known, "others": {"event": ["3", "4", "5"]}}))
    assert kept == {name: points[:3] for name, points in expected(NAMED).items()}
    with refused(ContentError, "fixations.csv", "'event'", "'0'"):
        found(with_reading(folder, fixations={"event": ["5"]}))


@pytest.mark.parametrize(
    "entries",
    [
        {"columns": {"x": "x", "y": "posy"}, "ignored": ["y"]},
        {"image": "posy", "ignored": ["image"]},
        {"columns": {"x": "x", "y": "y", "observer": "posy"}},
        {"others": {"posy": ["1"]}},
        {"positions": {"page1": ["x", "posy"]}, "ignored": ["image", "y"]},
    ],
)
def test_a_missing_column_is_named(entries, tmp_path):
    with refused(ContentError, "fixations.csv", "'posy'", "'image'"):
        found(with_reading(write_study(tmp_path / "set", NAMED), **entries))


def test_a_column_that_the_reading_does_not_know_is_named(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, "image,x,y,scale", "{name},{x},{y},1")
    with refused(ContentError, "fixations.csv", "'scale'", "`ignored`"):
        found(with_reading(folder))
    assert found(with_reading(folder, ignored=["Scale"])) == expected(NAMED)


def test_a_table_that_the_reading_does_not_know_is_named(tmp_path):
    folder = write_study(tmp_path / "set", NAMED)
    write_table(folder / "later" / "week2.tsv", rows("image\tx\ty", "page1\t5\t5"))
    with refused(ContentError, "later/week2.tsv", "`tables`", "`not_read`"):
        found(with_reading(folder, tables=["*.csv"]))
    assert found(with_reading(folder, tables=["*.csv"], not_read=["later/*"])) == expected(NAMED)
    assert len(found(with_reading(folder))["page1.png"]) == N_FIXATIONS + 1
    with refused(ContentError, "no table"):
        found(with_reading(folder, not_read=["*"]))


def test_lost_gaze_is_left_out(tmp_path):
    folder = write_study(tmp_path / "set", NAMED)
    x, y = positions(NAMED[0])[0]
    kept = found(with_reading(folder, lost=[(x, y)]))
    assert kept == {**expected(NAMED), NAMED[0]: expected(NAMED)[NAMED[0]][1:]}


@pytest.mark.parametrize(
    "settings",
    [{"coordinates": "pixels"}, {"columns": "x=x,y=y"}, {"screen_size": "1080x1920"}, {"image_on_screen": "0,0"}],
)
def test_settings_beside_a_reading_are_refused(settings, tmp_path):
    folder = with_reading(write_study(tmp_path / "set", NAMED))
    with refused(SettingError, READING, *settings):
        found(folder, **settings)


def test_two_readings_are_refused(tmp_path):
    folder = with_reading(write_study(tmp_path / "set", NAMED))
    (folder / "images" / READING).write_bytes((folder / READING).read_bytes())
    with refused(AmbiguousError, f"images/{READING}"):
        found(folder)


def test_a_check_of_rows_is_overruled(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, "image,x,y,t", "{name},{x},{y},{number}00")
    columns = {"x": "x", "y": "y", "time": "t"}
    with refused(AmbiguousReadingsError, "100"):
        found(with_reading(folder, columns=columns))
    assert found(with_reading(folder, columns=columns, confirmed=["samples"])) == expected(NAMED)


# === Through the command ===


def fetch(source, output=None, *more):
    to = [] if output is None else ["--output-dir", str(output)]
    main(["fetch", "--dataset", "custom", "--source", str(source), *to, *more])


def test_a_reading_belongs_to_the_data(tmp_path):
    folder = with_reading(write_study(tmp_path / "set", NAMED))
    archive = tmp_path / "set.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for path in sorted(folder.rglob("*")):
            made.write(path, path.relative_to(folder))
    fetch(folder, tmp_path / "first")
    fetch(archive, tmp_path / "second")
    manifests = [Manifest.load(tmp_path / name) for name in ("first", "second")]
    assert [each.reading for each in manifests] == [
        Reading.parse((folder / READING).read_bytes(), READING).text
    ] * 2
    shards = sorted(path.name for path in (tmp_path / "first").iterdir() if "tfrecord" in path.name)
    assert shards
    assert all(
        (tmp_path / "first" / each).read_bytes() == (tmp_path / "second" / each).read_bytes() for each in shards
    )
    with_reading(folder, lost=[(0.0, 0.0)])
    fetch(folder, tmp_path / "third")
    assert Manifest.load(tmp_path / "third").fingerprint != manifests[0].fingerprint


def test_a_proposal_is_written_corrected_and_followed(tmp_path, capsys):
    folder = write_study(tmp_path / "set", NAMED, line="{name},{u:.4f},{v:.4f}")
    page = tmp_path / "page.html"
    fetch(folder, None, "--propose", "--preview", str(page))
    path = folder / READING
    proposed = path.read_text(encoding="utf-8")
    assert proposed in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert text.count("--coordinates fraction") == 1
    drawn = re.findall(r'class="dots".*?d="([^"]+)"', text)
    assert len(drawn) >= 3
    assert max(path.count("M") for path in drawn) == N_FIXATIONS
    with refused(AmbiguousError, READING, "not_proven"):
        fetch(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    settled = re.sub(r"(?ms)^not_proven = \[$.*?^\]$", "", proposed)
    assert settled != proposed
    path.write_text(settled, encoding="utf-8")
    for name, points in found(folder).items():
        assert np.abs(np.subtract(points, expected(NAMED)[name])).max() <= 1  # written with four decimals
    fetch(folder, tmp_path / "out")
    assert Manifest.load(tmp_path / "out").reading == Reading.parse(settled.encode(), READING).text


def test_a_question_names_the_page_that_shows_it(tmp_path):
    folder = write_study(tmp_path / "set", NAMED)
    page = tmp_path / "page.html"
    with refused(AmbiguousError, "--coordinates pixels", page):
        fetch(folder, tmp_path / "out", "--preview", str(page))
    assert page.exists()
    assert not (tmp_path / "out").exists()


def test_what_a_person_says_stands_in_the_proposal(tmp_path):
    folder = write_study(tmp_path / "set", NAMED)
    fetch(folder, None, "--coordinates", "pixels", "--propose", str(tmp_path / "mine.toml"))
    text = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    assert "not_proven" not in text
    assert Reading.parse(text.encode(), READING).unit == "pixels"
    assert not (folder / READING).exists()


def test_nothing_is_overwritten(tmp_path):
    folder = write_study(tmp_path / "set", NAMED)
    other = tmp_path / "mine.toml"
    other.write_text("mine")
    with refused(PlaceError, other):
        fetch(folder, None, "--propose", str(other))
    assert other.read_text() == "mine"
    with_reading(folder)
    kept = (folder / READING).read_bytes()
    with refused(PlaceError, READING):
        fetch(folder, None, "--propose")
    with refused(ConflictError, READING):
        fetch(folder, None, "--propose", str(tmp_path / "new.toml"))
    assert (folder / READING).read_bytes() == kept
    assert not (tmp_path / "new.toml").exists()


def test_a_proposal_is_about_recordings_alone(tmp_path):
    with refused(SettingError, "custom"):
        main(["fetch", "--dataset", "salicon", "--propose", str(tmp_path / "new.toml")])


@pytest.mark.parametrize(
    ("header", "names", "advised"),
    [
        ("image,x,y", NAMED, 4),
        ("image,CURRENT_FIX_X,CURRENT_FIX_Y", NAMED, 3),
        ("block of trials,x,y", NUMBERED, 1),
    ],
)
@pytest.mark.parametrize("door", ["fetch", "prepare"])
def test_each_advice_of_a_question_is_understood_by_the_command_that_asks(door, header, names, advised, tmp_path):
    folder = write_study(tmp_path / "set", names, header)

    def error_of(*flags):
        try:
            if door == "fetch":
                fetch(folder, tmp_path / "out", *flags)
            else:
                prepare(["prepare", "custom", str(folder), str(tmp_path / "out"), *flags])
        except (UserError, SystemExit) as error:
            return error
        shutil.rmtree(tmp_path / "out")
        return None

    advices = re.findall(r"(?m) -> (--.*)$", str(error_of()))
    assert len(advices) == advised
    for advice in advices:
        error = error_of(*shlex.split(advice))  # none, or one about the data
        assert not isinstance(error, UsageError)
        assert error is None or error.args != (USAGE_STATUS,)
