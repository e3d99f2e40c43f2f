"""Recordings after public reports of other tools' users, from the files to the shards: read right, or asked about.

The archives lie beside the checkout, in `../shared/cases`. `cases.tsv` there, and `recordings/give.tsv`, say where
each comes from and what is right. Their pictures are blocks of grey, so no model's maps prove what positions mean.
"""

import csv
import dataclasses
import pathlib
import re
import zipfile
from typing import Any

import numpy as np
import pytest

from tests.refusals import refused
from trainer.__main__ import main
from trainer.data import fetch, prepared_data, tfrecords
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.recordings.reading import READING, Reading
from trainer.data.settings import FetchConfig
from trainer.errors import AmbiguousError, ContentError
from trainer.places import archive_files
from trainer.places.places import stored_at

CASES = pathlib.Path(__file__).parents[5] / "shared" / "cases"
pytestmark = pytest.mark.skipif(
    not CASES.exists(), reason="the archives of ../shared/cases are not beside the checkout"
)
TRUTH = "missing_minus_one"
"""A case whose table has the fixations that others write in another form."""
PIXELS = {"coordinates": "pixels"}
"""The word of a person who knows that positions are pixels of the images."""
FILLED = {"screen_size": "480x640", "image_on_screen": "fit"}
SAME = {
    "coordinates_x_y_exchanged": (4, PIXELS),
    "fixation_flag_column": (4, PIXELS),
    "missing_minus_one": (4, PIXELS),
    "observer_column_sub_sorted_by_picture": (4, PIXELS),
    "observer_column_unknown_sorted": (4, FILLED),
    "pandas_index_before_picture_number": (4, PIXELS),
    "pymovements_events_location": (4, PIXELS),
    "r_row_names_before_photo_number": (4, PIXELS),
    "realeye_percent": (4, {}),
    "table_per_person_and_picture": (4, PIXELS),
    "tobii_2024_no_mcs": (4, {}),
}
"""Cases with the fixations of `TRUTH` -> number of observers, and the settings that choose the true reading.
Without settings, columns of a known export tell it."""
COUNTS = {
    "aoi_rows_few": (6, 144, 4, PIXELS),
    "fixation_number_names_pictures": (12, 216, 0, PIXELS),
    "image_numbers_lost_zeros": (30, 720, 4, PIXELS),
    "index_column_names_pictures_300": (60, 5982, 0, PIXELS),
    "jfif_names": (8, 240, 3, PIXELS),
    "one_empty_observer": (12, 719, 6, PIXELS),
    "people_by_case_and_blank": (6, 144, 4, PIXELS),
    "pupil_reexport": (12, 168, 0, {}),
    "pupil_surface_old_on_srf": (12, 70, 0, {}),
    "stimuli_exif": (12, 288, 4, PIXELS),
    "stimuli_palette_transparent": (12, 288, 4, PIXELS),
    "workbook_beside": (6, 144, 4, PIXELS),
    "aoi_table_only_maps": (12, 0, 0, {}),
    "map_alpha_only": (5, 0, 0, {}),
    "map_gazerecorder_red_alpha": (5, 0, 0, {}),
}
"""Other cases that are read -> images, fixations and observers, 0 where these are not told apart, and settings."""
ASKED = {
    "correct_answer_column_names_other_picture": ["columns=image=prime", "columns=image=trial_image"],
    "cross_phase_two_rows": ['[fixations] "trial_type" = ["stimulus"]', '[fixations] "trial_type" = ["fixation"]'],
    "css_pixels_125": ["image_on_screen=fit"],
    "event_codes_123": [f'[fixations] "event" = ["{code}"]' for code in "123"],
    "events_after_1000_rows": ['[fixations] "label" = ["FIXA"]'],
    "eye_codes_01": ['[fixations] "eye" = ["0"]', '[fixations] "eye" = ["1"]'],
    "full_page_900_to_1400": ["coordinates=pixels"],
    "gazepoint_letterboxed_not_set": ["screen_size=1080x1920 image_on_screen=fit"],
    "groups_number_people_from_1": ["columns=trial=NAME", "no line observer"],
    "no_eye_one_person_left": ["columns=observer=NAME"],
    "normalised_minus1_to_1_small": ["coordinates=fraction", "coordinates=center-norm"],
    "one_size_coordinates_mixed_pictures": ["image_on_screen=fit"],
    "percent_plain_xy": ["coordinates=percent"],
    "pillarbox_native": ["image_on_screen=center"],
    "psychopy_height_right_top": ["coordinates=center-height", "coordinates=center-norm"],
    "txt_tables_two_without_header": ["not_read"],
    "validity_tobii_polarity": ['[fixations] "validity" = ["0"]', '[fixations] "validity" = ["1"]'],
    "webgazer_noisy_samples": ["export one row for each fixation"],
    "webgazer_samples": ["export one row for each fixation"],
}
"""Cases that can be read in several ways -> parts of the lines that choose one."""
REFUSED = {
    "backup_folder": (AmbiguousError, "old/fix_2024"),
    "bids_physio": (ContentError, "BIDS"),
    "gbk_names": (ContentError, "UTF-8"),
    "half_of_table_for_other_pictures": (ContentError, "'p01_v2.png'", "images/p01.png"),
    "jfif_without_maps": (ContentError, "'p4'", "map"),
    "map_inverted": (ContentError, "black"),
    "map_jet_alpha": (ContentError, "coloured"),
    "mat_fixlocs_v73": (ContentError, "-v7"),
    "neon_raw_scene_camera": (ContentError, "scene camera"),
    "no_header": (ContentError, "header"),
    "only_image_one": (ContentError, "160", 196, "'film.avi'"),
    "pupil_world_fixations_beside_picture": (ContentError, "scene camera"),
}
"""Cases that are refused -> the error, and what it names."""
ASKED_FIRST = {"half_of_table_for_other_pictures", "only_image_one"}
"""Those that are refused after the word that positions are pixels, and asked about without it."""
OF_MAPS = {"heat_grey_savefig"}
"""Cases of maps alone, which are no matter of readings."""


def _without(columns, *roles):
    return {role: name for role, name in columns.items() if role not in roles}


ANSWERED: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "correct_answer_column_names_other_picture": ("same", 4, {"image": "trial_image", "unit": "pixels"}),
    "cross_phase_two_rows": (
        *(144, 4),
        {"fixations": {"trial_type": ["stimulus"]}, "others": {"trial_type": ["fixation"]}},
    ),
    "css_pixels_125": (288, 4, {"screen": "384x512", "image_on_screen": "fit"}),
    "event_codes_123": (288, 4, {"fixations": {"event": ["1"]}, "others": {"event": ["2", "3"]}}),
    "events_after_1000_rows": (1152, 16, {}),
    "eye_codes_01": (288, 4, {}),
    "gazepoint_letterboxed_not_set": (202, 3, {"screen": "1080x1920", "image_on_screen": "fit"}),
    "groups_number_people_from_1": (
        576,
        0,
        {
            "columns": lambda reading: _without(reading.columns, "observer"),
            "ignored": lambda reading: [*reading.ignored, "participant"],
        },
    ),
    "no_eye_one_person_left": (
        *(144, 4),
        {
            "columns": lambda reading: {**reading.columns, "observer": "name"},
            "ignored": lambda reading: [*reading.ignored, "eye"],
            "fixations": {},
            "others": {},
        },
    ),
    "normalised_minus1_to_1_small": (
        288,
        4,
        {"unit": "center-norm", "upwards": True, "confirmed": ["quarter"]},  # all are at the upper right
    ),
    "percent_plain_xy": ("same", 4, {"unit": "percent"}),
    "pillarbox_native": (288, 4, {"screen": "480x854"}),
    "psychopy_height_right_top": (288, 4, {"unit": "center-height", "upwards": True}),
    "txt_tables_two_without_header": (216, 3, {"not_read": ["*/S03.txt"]}),
    "validity_tobii_polarity": (276, 4, {"fixations": {"validity": ["0"]}, "others": {"validity": ["1"]}}),
}
"""Cases that are asked about -> the number of fixations, or that they are those of `TRUTH`, the number of
observers, and what a person changes in the proposed reading."""
BY_WORD: dict[str, Any] = {case: settings for case, (*_, settings) in {**SAME, **COUNTS}.items() if settings}


def path_of(case):
    (path,) = CASES.rglob(f"{case}.zip")
    return path


def fetched(source, output, settings):
    """The manifest, the examples, and the number of observers."""
    config = FetchConfig("custom", str(source), "48x64", split="shuffle", **settings)
    manifest = fetch.fetch_dataset(config, output)
    examples = [each for split in prepared_data.SPLITS for each in tfrecords.read_examples(output, split)]
    observers = {int(each) for example in examples for each in example.observers}
    return manifest, examples, len(observers)


def number_of(name):
    return int("".join(filter(str.isdigit, pathlib.PurePosixPath(name).stem))) % 100


@pytest.fixture(scope="module")
def truth():
    """Number of a picture -> its fixations, (n, 2) of (y, x), sorted."""
    source = str(path_of(TRUTH))
    with archive_files.open_source(stored_at(source), stored_at(source).objects(), pathlib.Path()) as members:
        (table,) = [each for each in members if each.path.endswith(".csv")]
        lines = table.content(2**20).decode().splitlines()
    points = {}
    for row in csv.DictReader(lines):
        if row["x"] != "-1":
            points.setdefault(number_of(row["image"]), []).append((float(row["y"]), float(row["x"])))
    return {number: np.array(sorted(each)) for number, each in points.items()}


def assert_same(examples, truth):
    found = {number_of(each.name): np.array(sorted(each.fixations.tolist())) for each in examples}
    assert found.keys() == truth.keys()
    for number, points in truth.items():
        distance = np.abs(found[number][:, None] - points[None]).max(axis=2)
        assert found[number].shape == points.shape
        assert distance.min(axis=0).max() <= 1  # positions in percent and cut to whole pixels
        assert distance.min(axis=1).max() <= 1


@pytest.mark.parametrize("case", SAME)
def test_the_fixations_are_the_same_in_every_form(case, truth, tmp_path):
    n_people, settings = SAME[case]
    _, examples, n_observers = fetched(path_of(case), tmp_path / "out", settings)
    assert_same(examples, truth)
    assert n_observers == n_people


@pytest.mark.parametrize("case", COUNTS)
def test_images_fixations_and_observers_are_counted(case, tmp_path):
    *counts, settings = COUNTS[case]
    manifest, examples, n_observers = fetched(path_of(case), tmp_path / "out", settings)
    n_fixations = sum(len(each.fixations) for each in examples)
    assert [sum(manifest.counts.values()), n_fixations, n_observers] == counts
    assert manifest.has_fixations == (n_fixations > 0)


@pytest.mark.parametrize("case", [*BY_WORD, *ASKED])
def test_what_nothing_proves_is_asked(case, tmp_path):
    with pytest.raises(AmbiguousReadingsError) as error:
        fetched(path_of(case), tmp_path / "out", {})
    lines = [option.setting for option in error.value.readings]
    if case in BY_WORD:
        offered = [" ".join(f"{name}={value}" for name, value in BY_WORD[case].items())]
    else:
        offered = ASKED[case]
    assert all(any(each in line for line in lines) for each in offered), (offered, lines)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", ANSWERED)
def test_an_answer_in_the_proposed_reading_gives_the_truth(case, truth, tmp_path):
    n_fixations, n_people, changes = ANSWERED[case]
    folder = tmp_path / "set"
    with zipfile.ZipFile(path_of(case)) as archive:
        archive.extractall(folder)
    main(["fetch", "--dataset", "custom", "--source", str(folder), "--propose"])
    path = folder / READING
    proposed = path.read_text(encoding="utf-8")
    settled, n_doubts = re.subn(r"(?ms)^not_proven = \[$.*?^\]$", "", proposed)
    assert n_doubts == 1
    reading = Reading.parse(settled.encode(), READING)
    changed = {name: value(reading) if callable(value) else value for name, value in changes.items()}
    path.write_text(dataclasses.replace(reading, **changed).text, encoding="utf-8")
    manifest, examples, n_observers = fetched(folder, tmp_path / "out", {})
    if n_fixations == "same":
        assert_same(examples, truth)
    else:
        assert sum(len(each.fixations) for each in examples) == n_fixations
    assert n_observers == n_people
    assert manifest.reading == path.read_text(encoding="utf-8")


def test_the_truth_of_a_screen_is_found_by_an_answer(tmp_path):
    """Pictures in the middle of a wider screen: true positions are 107 pixels left of the written ones."""
    case = path_of("pillarbox_native")
    with zipfile.ZipFile(case) as archive:
        (table,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".csv")]
    settings = {**PIXELS, "screen_size": "480x854", "image_on_screen": "center"}
    _, examples, _ = fetched(case, tmp_path / "out", settings)
    expected = sorted(
        (int(float(row["x"])) - 107, int(float(row["y"]))) for row in csv.DictReader(table.split("\n"))
    )
    assert sorted((int(x), int(y)) for each in examples for y, x in each.fixations) == expected


@pytest.mark.parametrize("case", REFUSED)
def test_the_cause_is_named(case, tmp_path):
    kind, *named = REFUSED[case]
    with refused(kind, *named):
        fetched(path_of(case), tmp_path / "out", PIXELS if case in ASKED_FIRST else {})
    assert not list(tmp_path.iterdir())


def test_no_case_is_left_out():
    assert {
        path.stem for path in CASES.rglob("*.zip") if "designs" not in path.parts
    } == SAME.keys() | COUNTS.keys() | ASKED.keys() | REFUSED.keys() | OF_MAPS
