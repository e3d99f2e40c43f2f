"""Recordings after public reports of other tools' users, from the files to the shards: read right, or asked about.

The archives lie beside the checkout, in `../shared/cases`; `cases.tsv` there says where each comes from.
"""

import csv
import pathlib

import numpy as np
import pytest

from tests.refusals import refused
from trainer.data import fetch, prepared_data, tfrecords
from trainer.data.recordings.readings import AmbiguousReadingsError
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
SAME = {
    "coordinates_x_y_exchanged": 4,
    "fixation_flag_column": 4,
    "missing_minus_one": 4,
    "observer_column_sub_sorted_by_picture": 4,
    "observer_column_unknown_sorted": 4,
    "pandas_index_before_picture_number": 4,
    "pymovements_events_location": 4,
    "r_row_names_before_photo_number": 4,
    "realeye_percent": 4,
    "table_per_person_and_picture": 4,
    "tobii_2024_no_mcs": 4,
}
"""Cases with the fixations of `TRUTH` -> number of observers."""
COUNTS = {
    "fixation_number_names_pictures": (12, 216, 0),
    "image_numbers_lost_zeros": (30, 720, 4),
    "index_column_names_pictures_300": (60, 5982, 0),
    "pupil_reexport": (12, 168, 0),
    "pupil_surface_old_on_srf": (12, 70, 0),
    "stimuli_exif": (12, 288, 4),
    "stimuli_palette_transparent": (12, 288, 4),
    "aoi_table_only_maps": (12, 0, 0),
    "map_alpha_only": (5, 0, 0),
    "map_gazerecorder_red_alpha": (5, 0, 0),
}
"""Other cases that are read -> images, fixations and observers, 0 where these are not told apart."""
ASKED = {
    "correct_answer_column_names_other_picture": ["columns=image=prime", "columns=image=trial_image"],
    "gazepoint_letterboxed_not_set": ["screen_size=1080x1920 image_on_screen=fit"],
    "normalised_minus1_to_1_small": ["coordinates=fraction", "coordinates=center-norm"],
    "percent_plain_xy": ["coordinates=percent"],
    "psychopy_height_right_top": ["coordinates=center-height", "coordinates=center-norm"],
}
"""Cases that can be read in several ways -> some of the settings that choose one."""
REFUSED = {
    "backup_folder": (AmbiguousError, "old/fix_2024"),
    "bids_physio": (ContentError, "BIDS"),
    "gbk_names": (ContentError, "UTF-8"),
    "half_of_table_for_other_pictures": (ContentError, "'p01_v2.png'", "images/p01.png"),
    "map_inverted": (ContentError, "black"),
    "map_jet_alpha": (ContentError, "coloured"),
    "mat_fixlocs_v73": (ContentError, "-v7"),
    "neon_raw_scene_camera": (ContentError, "scene camera"),
    "no_header": (ContentError, "header"),
    "pupil_world_fixations_beside_picture": (ContentError, "scene camera"),
    "webgazer_samples": (ContentError, "samples"),
}
"""Cases that are refused -> the error, and what it names."""


def fetched(case, output):
    """The examples of a case by the numbers in the names of their pictures, and the number of observers."""
    source = str(CASES / f"{case}.zip")
    manifest = fetch.fetch_dataset(FetchConfig("custom", source, "48x64", split="shuffle"), output)
    examples = [each for split in prepared_data.SPLITS for each in tfrecords.read_examples(output, split)]
    observers = {int(each) for example in examples for each in example.observers}
    return manifest, examples, len(observers)


def number_of(name):
    return int("".join(filter(str.isdigit, pathlib.PurePosixPath(name).stem))) % 100


@pytest.fixture(scope="module")
def truth():
    """Number of a picture -> its fixations, (n, 2) of (y, x), sorted."""
    source = str(CASES / f"{TRUTH}.zip")
    with archive_files.open_source(stored_at(source), stored_at(source).objects(), pathlib.Path()) as members:
        (table,) = [each for each in members if each.path.endswith(".csv")]
        lines = table.content(2**20).decode().splitlines()
    points = {}
    for row in csv.DictReader(lines):
        if row["x"] != "-1":
            points.setdefault(number_of(row["image"]), []).append((float(row["y"]), float(row["x"])))
    return {number: np.array(sorted(each)) for number, each in points.items()}


@pytest.mark.parametrize("case", SAME)
def test_the_fixations_are_the_same_in_every_form(case, truth, tmp_path):
    _, examples, n_observers = fetched(case, tmp_path / "out")
    found = {number_of(each.name): np.array(sorted(each.fixations.tolist())) for each in examples}
    assert found.keys() == truth.keys()
    for number, points in truth.items():
        distance = np.abs(found[number][:, None] - points[None]).max(axis=2)
        assert found[number].shape == points.shape
        assert distance.min(axis=0).max() <= 1  # positions in percent and cut to whole pixels
        assert distance.min(axis=1).max() <= 1
    assert n_observers == SAME[case]


@pytest.mark.parametrize("case", COUNTS)
def test_images_fixations_and_observers_are_counted(case, tmp_path):
    manifest, examples, n_observers = fetched(case, tmp_path / "out")
    n_fixations = sum(len(each.fixations) for each in examples)
    assert (sum(manifest.counts.values()), n_fixations, n_observers) == COUNTS[case]
    assert manifest.has_fixations == (n_fixations > 0)


@pytest.mark.parametrize("case", ASKED)
def test_readings_are_shown_side_by_side(case, tmp_path):
    with pytest.raises(AmbiguousReadingsError) as error:
        fetched(case, tmp_path / "out")
    assert {reading.setting for reading in error.value.readings} >= set(ASKED[case])
    assert all(reading.fixations for reading in error.value.readings if "NUMBER" not in reading.setting)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", REFUSED)
def test_the_cause_is_named(case, tmp_path):
    kind, *named = REFUSED[case]
    with refused(kind, *named):
        fetched(case, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_no_case_is_left_out():
    assert {
        path.stem for path in CASES.glob("*.zip")
    } == SAME.keys() | COUNTS.keys() | ASKED.keys() | REFUSED.keys()
