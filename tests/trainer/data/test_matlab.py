"""MATLAB files of fixations: what is read, and what damaged, foreign and hostile ones answer."""

import io
import struct
import zlib

import h5py
import numpy as np
import pytest
import scipy.io

from tests import refusals
from tests.author_forms import (
    SIZE,
    SIZES,
    _cells,
    fix_cell,
    fixations,
    matlab,
    matlab_hdf5,
    mouse_samples,
    osie_cells,
    rows,
)
from trainer.data.source_layout import read_matlab, read_matlab_set
from trainer.errors import ContentError
from trainer.places.archive_files import Member

OSIE = SIZES["osie"]


def file(content, name="x.mat"):
    return Member(f"set/{name}", f"{name} in set.zip", lambda: content)


def refused(named, read, *arguments):
    with refusals.refused(ContentError, *named) as raised:
        read(*arguments)
    assert "\n" not in str(raised.value)


# === One image ===


def structs(*points):
    """SALICON's, of any matrices."""
    made = np.zeros((len(points), 1), [("fixations", "O")])
    for observer, each in zip(made[:, 0], points, strict=True):
        observer["fixations"] = each
    return made


def test_a_list_counts_from_zero_and_its_first_row_by_number_is_the_size():
    gaze = read_matlab(file(matlab(s=rows(1))), SIZE)
    for number, points in enumerate(fixations(1, SIZE)):
        np.testing.assert_array_equal(gaze.points[gaze.observers == number], points)
    assert (gaze.n_outside, gaze.n_blinks) == (0, 0)


@pytest.mark.parametrize("size", [(47, 64), (48, 65), (49, 63)])
def test_the_size_of_a_list_may_differ_by_a_pixel_and_points_beyond_are_at_the_border(size):
    gaze = read_matlab(file(matlab(s=rows(1))), size)
    assert (len(gaze.points), gaze.n_outside) == (len(rows(1)) - 1, 0)
    assert (gaze.points < size).all()


@pytest.mark.parametrize("bad", [np.nan, 1e300, 5000, -5])
@pytest.mark.parametrize("form", ["gaze", "s", "fixations", "osie", "pascals"])
def test_points_outside_and_blinks_are_left_out_and_counted(form, bad):
    good = [[4.0, 3.0], [6.0, 5.0]]
    if form == "osie":
        cells = osie_cells({"a.jpg": [np.array([[2.0, 3.0]]), np.array([[4.0, 5.0], [bad, 1.0]])]})
        content = {"fixations.mat": file(matlab(fixations=cells))}
        gaze = read_matlab_set("osie", content)["a"].read(OSIE)
        assert (gaze.points.tolist(), gaze.observers.tolist()) == ([[2, 3], [4, 5]], [0, 1])
    else:
        if form == "gaze":
            gaze = read_matlab(file(matlab(gaze=structs(good, [[1.0, bad]]))), SIZE)
        elif form == "s":
            gaze = read_matlab(file(matlab(s=[[64, 48, 0], [3, 2, 1], [5, 4, 1], [1, bad, 2]])), SIZE)
        elif form == "fixations":
            samples = {"coord": [[3.0, 4], [5, 6], [bad, 1]], "subj": [[8.0], [8], [9]]}
            gaze = read_matlab(file(matlab(fixations=samples)), OSIE)
        else:
            matrix = np.array([[3, 5, 1], [4, 6, bad], [1, 1, 2]])
            gaze = read_matlab_set("pascals", {"pascalfix.mat": file(fix_cell([matrix]))})["1"].read(SIZE)
        assert gaze.points.tolist() == [[2, 3], [4, 5]]
        assert gaze.observers.tolist() == [0, 0]
    assert (gaze.n_outside, gaze.n_blinks) == ((0, 1) if np.isnan(bad) else (1, 0))


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"other": 1}, ["gaze", "fixLocs", "s", "fixations", "other (1 x 1 int64)"]),
        ({"gaze": structs(np.ones((4, 3)))}, ["4 x 3"]),
        ({"gaze": 5}, []),
        ({"fixLocs": np.ones(SIZE)}, ["3072 of 3072"]),
        ({"fixLocs": np.ones((30, 40))}, ["30 x 40", "48 x 64"]),
        ({"s": np.ones((4, 2))}, ["4 x 2"]),
        ({"s": [[400, 300, 0], [1, 1, 1]]}, ["300 x 400", "48 x 64"]),
    ],
)
def test_a_file_of_another_form_is_named(variables, named):
    refused(["x.mat in set.zip", *named], read_matlab, file(matlab(**variables)), SIZE)


def test_a_pixel_counts_once_for_each_observer_of_mouse_tracking():
    samples = mouse_samples(
        [np.array([[599, 799], [0, 0], [599, 799], [0, 1]]), np.array([[0, 1]]), np.zeros((0, 2))]
    )
    samples = {name: np.concatenate([values, values]) for name, values in samples.items()}
    gaze = read_matlab(file(matlab(fixations=samples)), OSIE)
    assert gaze.points.tolist() == [[599, 799], [0, 0], [0, 1], [0, 1]]
    assert gaze.observers.tolist() == [0, 0, 0, 1]
    assert (gaze.n_outside, gaze.n_blinks) == (0, 0)


def test_a_compressed_variable_without_its_end_is_read():
    """Three of OSIE's 700 files of mouse tracking have zlib streams without their checksum."""
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"s": rows(1)}, do_compression=True)
    whole = buffer.getvalue()
    kind, size = struct.unpack_from("<II", whole, 128)
    variable = zlib.decompress(whole[136 : 136 + size])
    expected = read_matlab(file(whole), SIZE)
    for mode in (zlib.Z_SYNC_FLUSH, zlib.Z_FINISH):
        deflater = zlib.compressobj()
        stream = deflater.compress(variable) + deflater.flush(mode)
        stream = stream if mode == zlib.Z_SYNC_FLUSH else stream[:-4]
        gaze = read_matlab(file(whole[:128] + struct.pack("<II", kind, len(stream)) + stream), SIZE)
        np.testing.assert_array_equal(gaze.points, expected.points)
        np.testing.assert_array_equal(gaze.observers, expected.observers)


def test_a_truncated_or_damaged_file_is_named():
    whole = matlab(s=rows(1))
    for content in (b"", whole[:50], whole[:-20], b"text" * 100, fix_cell([np.ones((3, 2))])):
        refused(["x.mat in set.zip"], read_matlab, file(content), SIZE)


# === OSIE ===


def osie(content):
    return read_matlab_set("osie", {"fixations.mat": file(content, "fixations.mat")})


def test_osies_points_are_refused_for_images_of_another_size():
    found = osie(matlab(fixations=osie_cells({"1001.jpg": fixations(1, OSIE)})))
    refused(
        ["1001.jpg in fixations.mat", "600 x 800", "480 x 640"],
        found["1001"].read,
        (480, 640),
    )


@pytest.mark.parametrize(
    "content",
    [
        matlab(other=1),
        matlab(fixations={"img": "1.jpg", "subjects": {"fix_x": [1.0, 2.0], "fix_y": [1.0]}}),
        matlab(fixations=osie_cells({"1001.jpg": fixations(1, OSIE)}))[:-40],
        matlab(fixations=_cells([{"img": "1.jpg", "subjects": _cells([{"fix_x": "ab", "fix_y": "cd"}])}])),
    ],
)
def test_a_file_that_is_not_osies_is_named(content):
    refused(["fixations.mat in set.zip"], osie, content)


# === PASCAL-S ===


def pascals(content, sizes=None):
    files = {"pascalfix.mat": file(content, "pascalFix.mat")}
    if sizes is not None:
        files["pascalsize.mat"] = file(sizes, "pascalSize.mat")
    return read_matlab_set("pascals", files)


def size_data(values):
    return matlab_hdf5(lambda hdf5: hdf5.create_dataset("sizeData", data=values))


def test_an_image_of_pascals_has_its_size_and_may_have_no_fixation_or_observer():
    empty = np.array([0, 0], np.uint64)
    content = fix_cell([np.ones((2, 3)), empty])
    buffer = io.BytesIO(content)
    with h5py.File(buffer, "r+") as hdf5:
        hdf5["#refs#/1"].attrs["MATLAB_empty"] = np.uint8(1)
    found = pascals(buffer.getvalue(), size_data([[48.0, 30.0], [64.0, 40.0]]))
    assert found["1"].read(SIZE).observers is None
    assert found["2"].read((30, 40)).points.shape == (0, 2)
    refused([2, "30 x 40", "48 x 64"], found["2"].read, SIZE)


def with_cells(change):
    """PASCAL-S's file whose `fixCell` is made by `change(file)`."""

    def fill(hdf5):
        hdf5.create_dataset("values", data=np.ones((3, 4)))
        change(hdf5)

    return matlab_hdf5(fill)


def cells(target):
    """Makes `fixCell` refer to `target(file)`."""

    def change(hdf5):
        hdf5.create_dataset("fixCell", (1, 1), h5py.ref_dtype)[0, 0] = target(hdf5).ref

    return change


def outside(hdf5):
    return hdf5.create_dataset("outside", (3, 4), "f8", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])


def virtual(hdf5):
    layout = h5py.VirtualLayout((3, 4), "f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (3, 4))
    return hdf5.create_virtual_dataset("virtual", layout)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"x" * 300, "file signature"),
        (fix_cell([np.ones((3, 9))])[:-200], "truncated"),
        (with_cells(lambda hdf5: None), "fixCell"),
        (with_cells(cells(lambda hdf5: hdf5.create_group("group"))), "/group"),
        (with_cells(cells(outside)), "/outside"),
        (with_cells(cells(virtual)), "/virtual"),
        (fix_cell([np.ones((1, 9))]), 2),
        (fix_cell([np.ones(9)]), 2),
        (fix_cell([np.ones((3, 4, 5))]), 2),
        (fix_cell([np.array([["a"] * 4] * 3, h5py.string_dtype())]), "TypeError"),
        (with_cells(lambda hdf5: hdf5.__setitem__("fixCell", h5py.SoftLink("/values"))), "fixCell"),
        (
            with_cells(lambda hdf5: hdf5.__setitem__("fixCell", h5py.ExternalLink("/etc/passwd", "/x"))),
            "fixCell",
        ),
    ],
)
def test_a_file_that_is_not_pascals_is_named(content, named):
    refused(["pascalFix.mat in set.zip", named], pascals, content)
