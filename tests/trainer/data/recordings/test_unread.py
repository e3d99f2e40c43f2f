"""Files that are not read: what they are, what to export, and that they are left out beside others."""

import io

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from tests.author_forms import matlab_hdf5
from tests.refusals import assert_named, refused
from tests.small_sources import density_map, save
from tests.trainer.data.recordings.recorded import SIZE, understand, write_images
from trainer.data.recordings.tables import is_table
from trainer.data.recordings.unread import UNREAD, about_unread
from trainer.data.source_layout import about_matlab, role_of
from trainer.errors import ContentError
from trainer.places.archive_files import Member

NAMES = "abcde"


def of_many():
    """A MATLAB file with one struct for all images."""
    buffer = io.BytesIO()
    savemat(buffer, {"looks": np.zeros((1, 5), [("x", "O"), ("y", "O")]), "files": np.array([*NAMES], object)})
    return buffer.getvalue()


def write(path, content=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def write_maps(folder):
    for index, name in enumerate(NAMES):
        save(folder / "maps" / f"{name}.png", density_map(index, SIZE))


# === The table ===


@pytest.mark.parametrize("suffix", UNREAD)
def test_every_kind_is_named_with_what_to_give_instead(suffix):
    text = about_unread([f"lab/s1{suffix}", f"lab/S2{suffix.upper()}", "readme.md"])
    assert_named(text, f"lab/s1{suffix}", f"lab/S2{suffix.upper()}", UNREAD[suffix].what, UNREAD[suffix].remedy)
    assert "readme" not in text


def test_many_files_of_several_kinds_are_one_sentence():
    text = about_unread([*(f"s{number}.edf" for number in range(1, 7)), "s1.asc", "meta.json"])
    assert_named(text, "s1.edf", "3 more", "s1.asc", "meta.json")
    assert "s6.edf" not in text


def test_files_of_no_known_kind_are_not_named():
    assert about_unread(["readme.md", "a.png", "fix.csv", "edf"]) == ""


def test_a_kind_that_a_table_may_have_is_the_one_of_bids():
    assert [suffix for suffix in UNREAD if is_table(f"a{suffix}")] == [".tsv.gz"]


# === In folders of fixations ===


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("fixations/a.mat", "fixations"),
        ("fixations/a.png", "fixations"),
        ("fixations/a.edf", ""),
        ("maps/a.JFIF", "map"),
        ("maps/a.mat", ""),
        ("maps/readme.txt", ""),
        ("stimuli/deep/a.png", "stimulus"),
        ("pictures/a.png", ""),
    ],
)
def test_a_file_has_the_role_of_its_folder_if_it_is_read_there(path, role):
    assert role_of(path) == role


def test_recordings_of_eyelink_are_named_where_nothing_else_tells_where_people_looked(tmp_path):
    write_images(tmp_path / "stimuli")
    write(tmp_path / "fixations" / "s1.edf")
    with refused(ContentError, 5, "fixations/s1.edf", "EyeLink", "Data Viewer"):
        understand(tmp_path)


def test_the_variables_of_one_file_for_all_images_are_named(tmp_path):
    write_images(tmp_path / "stimuli")
    write(tmp_path / "fixations" / "all.mat", of_many())
    with refused(ContentError, "fixations/all.mat", "looks (1 x 5 struct)", "files (1 x 5 cell)", "fixLocs"):
        understand(tmp_path)


def test_one_file_for_all_images_is_left_out_beside_maps(tmp_path):
    write_images(tmp_path / "stimuli")
    write_maps(tmp_path)
    write(tmp_path / "fixations" / "all.mat", of_many())
    split, _, notes, _ = understand(tmp_path)
    items = [item for each in split.values() for item in each]
    assert [(item.map is not None, item.fixations) for item in items] == [(True, None)] * 5
    (note,) = [note for note in notes if "all.mat" in note]
    assert_named(note, "looks (1 x 5 struct)")


def test_one_file_for_each_person_is_named_too(tmp_path):
    write_images(tmp_path / "stimuli")
    for number in range(1, 6):
        write(tmp_path / "fixations" / f"p{number}.mat", of_many())
    with refused(ContentError, "fixations/p1.mat", "2 more", "looks (1 x 5 struct)"):
        understand(tmp_path)


# === MATLAB 7.3 ===


def test_variables_of_matlab_73_are_named_without_links_to_other_files():
    def fill(file):
        file["looks"] = np.zeros((5, 2))
        file["looks"].attrs["MATLAB_class"] = np.bytes_(b"double")
        file.create_group("trials").attrs["MATLAB_class"] = np.bytes_(b"struct")
        file.create_group("#refs#")
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "/x")

    text = about_matlab([Member("all.mat", "all.mat", lambda: matlab_hdf5(fill))])
    assert_named(text, "looks (2 x 5 double)", "trials (struct)")
    assert "refs" not in text
    assert "elsewhere" not in text


def test_a_damaged_file_is_named():
    with refused(ContentError, "all.mat"):
        about_matlab([Member("all.mat", "all.mat", lambda: b"text" * 100)])
