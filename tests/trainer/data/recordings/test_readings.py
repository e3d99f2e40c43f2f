"""Readings that the evidence decides, and those that a user is asked about, with the page that draws them."""

import re

import numpy as np
import pytest

from tests.refusals import refused
from tests.trainer.data.recordings.recorded import gaze_of, rows, write_images, write_table
from trainer.__main__ import main
from trainer.data.recordings.readings import AmbiguousReadingsError
from trainer.errors import ContentError, UserError

SIZE = (240, 320)
N_IMAGES, N_FIXATIONS = 8, 6


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


NUMBERED = [f"{index}.png" for index in range(1, 1 + N_IMAGES)]
NAMED = [f"page{index}.png" for index in range(1, 1 + N_IMAGES)]


@pytest.mark.parametrize("path", ["{name}.csv", "gaze/scan_{name}.csv", "{name}/gaze.csv", "{name}/S01_3.csv"])
def test_a_table_named_after_an_image_beats_a_column_of_numbers(path, tmp_path):
    header, line = "number,x,y,duration", "{number},{x},{y},200"
    folder = write_study(tmp_path / "set", NAMED, header, line, path)
    assert found(folder) == expected(NAMED)


def test_numbers_name_an_image_in_a_column_with_a_usual_name_alone(tmp_path):
    folder = write_study(tmp_path / "usual", NUMBERED, "row,photo,x,y", "{number},{name},{x},{y}")
    assert found(folder) == expected(NUMBERED)
    folder = write_study(tmp_path / "other", NUMBERED, "block,x,y", "{name},{x},{y}")
    with refused(AmbiguousReadingsError, "'block'") as error:
        found(folder)
    assert [reading.setting for reading in error.value.readings] == ["columns=image=block"]
    assert found(folder, columns="image=block") == expected(NUMBERED)


def test_two_columns_of_names_are_asked_about(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, "before,target,x,y", "page1.png,{name}.png,{x},{y}")
    assert found(folder) == expected(NAMED)  # one image alone is no reading of all
    lines = [f"{NAMED[index - 1]},{name},{x},{y}" for index, name in enumerate(NAMED) for x, y in positions(name)]
    write_table(folder / "fixations.csv", rows("before,target,x,y", *lines))
    with pytest.raises(AmbiguousReadingsError) as error:
        found(folder)
    assert {reading.setting for reading in error.value.readings} == {
        "columns=image=before",
        "columns=image=target",
    }


def test_a_part_of_a_path_is_chosen_by_a_setting(tmp_path):
    names = NUMBERED
    folder = write_study(tmp_path / "set", names, "x,y,duration", "{x},{y},200", "{name}/1.csv")
    for name in names:  # every table of each folder: people, or images?
        for other in names[1:]:
            write_table(
                folder / name[0] / f"{other[0]}.csv", rows("x,y,duration", f"{ord(name[0])}.5,{other[0]}1.5,200")
            )
    with pytest.raises(AmbiguousReadingsError) as error:
        found(folder)
    assert {reading.setting for reading in error.value.readings} == {
        "columns=image=@file",
        "columns=image=@folder",
    }
    by_folder = found(folder, columns="image=@folder")
    assert {name: points[:N_FIXATIONS] for name, points in by_folder.items()} == expected(names)


def test_tables_of_several_forms_are_asked_about(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, "image,subject,x,y", "{name},S1,{x},{y}")
    write_table(folder / "clicks.csv", rows("image,x,y,button", *(f"{name},5,5,left" for name in NAMED)))
    with refused(AmbiguousReadingsError, "clicks.csv") as error:
        found(folder)
    (setting,) = [each.setting for each in error.value.readings if "subject" in each.setting]
    assert found(folder, columns=setting.removeprefix("columns=")) == expected(NAMED)


def test_lost_images_count_against_a_limit(tmp_path):
    folder = write_study(tmp_path / "set", NAMED, line="{name} (1),{x},{y}")
    with refused(ContentError, "48 of 48", "'page1 (1)'", "images/page1.png"):
        found(folder)


def test_positions_in_a_corner_of_all_images_are_asked_about_and_drawn(tmp_path):
    names = [f"page{index}.png" for index in range(20)]
    write_study(tmp_path / "set", names, line="{name},{u:.4f},{v:.4f}")
    assert found(tmp_path / "set").keys() == {*names}  # fractions
    lines = [f"{name},{x / 3.2:.2f},{y / 2.4:.2f}" for name in names for x, y in positions(name)]
    write_table(tmp_path / "set" / "fixations.csv", rows("image,x,y", *lines))
    source, output, page = (str(tmp_path / name) for name in ("set", "out", "page.html"))
    with refused(UserError, "coordinates=percent", page):
        main(["fetch", "--dataset", "custom", "--source", source, "--output-dir", output, "--preview", page])
    page = (tmp_path / "page.html").read_text()
    assert page.count("coordinates=percent") == 1
    drawn = re.findall(r'class="dots".*?d="([^"]+)"', page)
    assert len(drawn) >= 6  # three images of each reading
    assert all(path.count("M") == N_FIXATIONS for path in drawn)
    assert not (tmp_path / "out").exists()
