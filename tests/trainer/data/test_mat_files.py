"""MATLAB files of fixations: what is read, and what damaged, foreign and hostile ones answer."""

import contextlib
import io
import subprocess
import sys

import h5py
import numpy as np
import pytest

from tests.author_forms import (
    SIZE,
    SIZES,
    fix_cell,
    fixations,
    matlab,
    matlab_hdf5,
    mouse_samples,
    osie_cells,
    rows,
)
from trainer.data import mat_files, mat_sets
from trainer.errors import UserError
from trainer.sources import Member

OSIE = SIZES["osie"]


def file(content, name="x.mat"):
    return Member(f"set/{name}", f"{name} in set.zip", lambda: content)


def refused(message, read, *arguments):
    with pytest.raises(UserError, match=message) as raised:
        read(*arguments)
    assert "\n" not in str(raised.value)


# === One image ===


def structs(*points):
    """SALICON's, of any matrices."""
    made = np.zeros((len(points), 1), [("fixations", "O")])
    for struct, each in zip(made[:, 0], points, strict=True):
        struct["fixations"] = each
    return made


def test_a_list_counts_from_zero_and_its_first_row_by_number_is_the_size():
    gaze = mat_files.read(file(matlab(s=rows(1))), SIZE)
    for number, points in enumerate(fixations(1, SIZE)):
        np.testing.assert_array_equal(gaze.points[gaze.observers == number], points)
    assert (gaze.n_outside, gaze.n_blinks) == (0, 0)


@pytest.mark.parametrize("size", [(47, 64), (48, 65), (49, 63)])
def test_the_size_of_a_list_may_differ_by_a_pixel_and_points_beyond_are_at_the_border(size):
    gaze = mat_files.read(file(matlab(s=rows(1))), size)
    assert (len(gaze.points), gaze.n_outside) == (len(rows(1)) - 1, 0)
    assert (gaze.points < size).all()


def test_observers_of_a_list_that_are_missing_leave_no_gap():
    gaze = mat_files.read(file(matlab(s=[[64, 48, 0], [1, 2, 4], [3, 4, 4], [5, 6, 9]])), SIZE)
    assert (gaze.points.tolist(), gaze.observers.tolist()) == ([[2, 1], [4, 3], [6, 5]], [0, 0, 1])


@pytest.mark.parametrize("bad", [np.nan, 1e300, 5000, -5])
@pytest.mark.parametrize("form", ["gaze", "s", "fixations", "osie", "pascals"])
def test_points_outside_and_blinks_are_left_out_and_counted(form, bad):
    good = [[4.0, 3.0], [6.0, 5.0]]
    if form == "osie":
        cells = osie_cells({"a.jpg": [np.array([[2.0, 3.0]]), np.array([[4.0, 5.0], [bad, 1.0]])]})
        content = {"fixations.mat": file(matlab(fixations=cells))}
        gaze = mat_sets.read_osie(content)["a"].read(OSIE)
        assert (gaze.points.tolist(), gaze.observers.tolist()) == ([[2, 3], [4, 5]], [0, 1])
    else:
        if form == "gaze":
            gaze = mat_files.read(file(matlab(gaze=structs(good, [[1.0, bad]]))), SIZE)
        elif form == "s":
            gaze = mat_files.read(file(matlab(s=[[64, 48, 0], [3, 2, 1], [5, 4, 1], [1, bad, 2]])), SIZE)
        elif form == "fixations":
            samples = {"coord": [[3.0, 4], [5, 6], [bad, 1]], "subj": [[8.0], [8], [9]]}
            gaze = mat_files.read(file(matlab(fixations=samples)), OSIE)
        else:
            matrix = np.array([[3, 5, 1], [4, 6, bad], [1, 1, 2]])
            gaze = mat_sets.read_pascals({"pascalfix.mat": file(fix_cell([matrix]))})["1"].read(SIZE)
        assert gaze.points.tolist() == [[2, 3], [4, 5]]
        assert gaze.observers.tolist() == [0, 0]
    assert (gaze.n_outside, gaze.n_blinks) == ((0, 1) if np.isnan(bad) else (1, 0))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"other": 1},
            r"x\.mat in set\.zip .* no variable named gaze or fixLocs or s or fixations; download or export it",
        ),
        (
            {"gaze": structs(np.ones((4, 3)))},
            r"variable gaze has another form \(a matrix of 4 x 3, .*not 2 columns",
        ),
        ({"gaze": 5}, "variable gaze has another form"),
        ({"gaze": np.zeros((0, 0))}, "variable gaze has another form"),
        ({"gaze": structs([[1.0, np.inf]])}, r"variable gaze has another form \(an infinite number"),
        ({"gaze": structs([[1.0, 2 + 3j]])}, r"variable gaze has another form \(something else than real numbers"),
        ({"gaze": structs("12")}, r"variable gaze has another form \(something else than real numbers"),
        ({"fixLocs": np.eye(*SIZE) * 1j}, r"variable fixLocs has another form \(something else than real numbers"),
        ({"fixLocs": np.full(SIZE, np.nan)}, r"variable fixLocs has another form \(a matrix with .* no numbers"),
        ({"fixLocs": np.full(SIZE, np.inf)}, r"variable fixLocs has another form \(an infinite number"),
        ({"fixLocs": np.ones(SIZE)}, r"variable fixLocs has another form \(3072 of 3072 pixels are fixated"),
        ({"fixLocs": np.ones((30, 40))}, r"is of an image of 30 x 40 .*image is 48 x 64; replace one of the two"),
        ({"fixLocs": "text"}, "variable fixLocs has another form"),
        ({"fixLocs": np.ones((2, 3, 4))}, "is of an image of 2 x 3 x 4"),
        ({"s": np.ones((4, 2))}, r"variable s has another form \(a matrix of 4 x 2, which has not 3 columns"),
        ({"s": np.zeros((0, 3))}, "variable s has another form"),
        ({"s": [[400, 300, 0], [1, 1, 1]]}, r"is of an image of 300 x 400 pixels .*image is 48 x 64; replace one"),
        ({"s": [[np.nan, 48, 0], [1, 1, 1]]}, "is of an image of 48 x nan"),
        ({"s": [[64, 48, 0], [1, 1, np.nan]]}, r"variable s has another form \(an observer whose number is none"),
    ],
)
def test_a_file_of_another_form_is_named(variables, message):
    refused(message, mat_files.read, file(matlab(**variables)), SIZE)


def test_a_pixel_counts_once_for_each_observer_of_mouse_tracking():
    samples = mouse_samples(
        [np.array([[599, 799], [0, 0], [599, 799], [0, 1]]), np.array([[0, 1]]), np.zeros((0, 2))]
    )
    samples = {name: np.concatenate([values, values]) for name, values in samples.items()}
    gaze = mat_files.read(file(matlab(fixations=samples)), OSIE)
    assert gaze.points.tolist() == [[599, 799], [0, 0], [0, 1], [0, 1]]
    assert gaze.observers.tolist() == [0, 0, 0, 1]
    assert (gaze.n_outside, gaze.n_blinks) == (0, 0)


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (5, "has another form"),
        ({"subj": [[1]]}, r"has another form \(no field of name coord"),
        ({"coord": [[1, 2, 3]], "subj": [[1]]}, r"has another form \(a matrix of 1 x 3, which has not 2 columns"),
        (
            {"coord": [[1, 2], [3, 4]], "subj": [[1, 1]]},
            r"has another form \(a matrix of 1 x 2, which has not 1 col",
        ),
        ({"coord": [[1, 2], [3, 4]], "subj": [[1]]}, "has another form"),
        ({"coord": "text", "subj": [[1]]}, "has another form"),
        (osie_cells({"1001.jpg": fixations(1, OSIE)}), "has another form"),
    ],
)
def test_mouse_tracking_of_another_form_is_named(variable, message):
    refused(
        rf"x\.mat in set\.zip .* variable fixations {message}.*again$",
        mat_files.read,
        file(matlab(fixations=variable)),
        OSIE,
    )


def test_mouse_tracking_is_refused_for_images_of_another_size():
    content = file(matlab(fixations=mouse_samples(fixations(1, OSIE))))
    refused("is of an image of 600 x 800 .*image is 480 x 640; replace one", mat_files.read, content, (480, 640))


def test_a_truncated_or_damaged_file_is_named():
    whole = matlab(s=rows(1))
    for content in (b"", whole[:50], whole[:150], whole[:-20], b"text" * 100, fix_cell([np.ones((3, 2))])):
        refused(r"x\.mat in set\.zip is not a file of fixations: .*again$", mat_files.read, file(content), SIZE)
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        with contextlib.suppress(UserError):
            mat_files.read(file(bytes(damaged)), SIZE)


# === OSIE ===


def osie(content):
    return mat_sets.read_osie({"fixations.mat": file(content, "fixations.mat")})


def test_osies_points_are_cut_to_whole_pixels_and_belong_to_the_named_image():
    points = {"1007.jpg": fixations(1, OSIE), "1002.jpg": fixations(2, OSIE)}
    points["1002.jpg"][1] = np.zeros((0, 2))
    found = osie(matlab(fixations=osie_cells(points)))
    assert list(found) == ["1007", "1002"]
    for stem, each in found.items():
        gaze = each.read(OSIE)
        np.testing.assert_array_equal(gaze.points, np.concatenate(points[f"{stem}.jpg"]))
        np.testing.assert_array_equal(
            gaze.observers, np.repeat([0, 1, 2], [len(p) for p in points[f"{stem}.jpg"]])
        )


def test_osies_points_are_refused_for_images_of_another_size():
    found = osie(matlab(fixations=osie_cells({"1001.jpg": fixations(1, OSIE)})))
    refused(
        r"the fixations of 1001\.jpg in fixations\.mat .* 600 x 800 pixels .*image is 480 x 640; take the",
        found["1001"].read,
        (480, 640),
    )


@pytest.mark.parametrize(
    "content",
    [
        matlab(other=1),
        matlab(fixations=5),
        matlab(fixations=[[1.0, 2.0]]),
        matlab(fixations=osie_cells({"1001": fixations(1, OSIE)})),
        matlab(fixations=np.concatenate([osie_cells({"1.jpg": fixations(1, OSIE)})] * 2)),
        matlab(fixations={"img": "1.jpg"}),
        matlab(fixations={"img": "1.jpg", "subjects": {"fix_x": [1.0, 2.0], "fix_y": [1.0]}}),
        matlab(fixations={"img": "1.jpg", "subjects": np.zeros((0, 0))}),
        matlab(fixations=osie_cells({"1.jpg": [np.array([[np.inf, 1.0]])]})),
        matlab(fixations=osie_cells({"1.jpg": [np.array([[1j, 1.0]])]})),
        matlab(fixations=osie_cells({"1001.jpg": fixations(1, OSIE)}))[:-40],
    ],
)
def test_a_file_that_is_not_osies_is_named(content):
    refused(r"fixations\.mat in set\.zip is not (a|the authors') file of fixations.*again$", osie, content)


# === PASCAL-S ===


def pascals(content, sizes=None):
    files = {"pascalfix.mat": file(content, "pascalFix.mat")}
    if sizes is not None:
        files["pascalsize.mat"] = file(sizes, "pascalSize.mat")
    return mat_sets.read_pascals(files)


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
    refused(r"the fixations of image 2 .* 30 x 40 pixels .*image is 48 x 64", found["2"].read, SIZE)


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
    ("content", "message"),
    [
        (b"x" * 300, "file signature not found"),
        (matlab(fixCell=1), "file signature not found"),
        (fix_cell([np.ones((3, 9))])[:-200], "truncated file"),
        (with_cells(lambda hdf5: None), "it has no variable fixCell"),
        (with_cells(lambda file: file.create_dataset("fixCell", data=np.ones((1, 2)))), "not refer to matrices"),
        (with_cells(lambda hdf5: hdf5.create_dataset("fixCell", (1, 1), h5py.ref_dtype)), "Invalid HDF5"),
        (with_cells(cells(lambda hdf5: hdf5.create_group("group"))), "/group is not a matrix"),
        (with_cells(cells(lambda file: file.create_dataset("text", data="x"))), "image 1 has something else"),
        (with_cells(cells(lambda hdf5: hdf5.create_dataset("few", data=np.ones(5)))), "not of columns y and x"),
        (fix_cell([np.full((3, 2), np.inf)]), "image 1 has an infinite number"),
        (fix_cell([np.array([[1, 2], [1, 2], [1, np.nan]])]), "an observer whose number is none"),
        (with_cells(cells(outside)), "/outside is in another file"),
        (with_cells(cells(virtual)), "/virtual is in another file"),
        (
            with_cells(cells(lambda hdf5: hdf5.create_dataset("huge", (3, 2**40), "f8", chunks=(3, 1024)))),
            "/huge has more than 10,000,000 numbers",
        ),
        (with_cells(lambda hdf5: hdf5.__setitem__("fixCell", h5py.SoftLink("/values"))), "fixCell is a link"),
        (
            with_cells(lambda hdf5: hdf5.__setitem__("fixCell", h5py.ExternalLink("/etc/passwd", "/x"))),
            "fixCell is a link",
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_not_pascals_is_named(content, message):
    refused(
        rf"pascalFix\.mat in set\.zip is not the authors' file of fixations \(.*({message}).*again$",
        pascals,
        content,
    )


def test_many_cells_of_one_matrix_are_bounded(monkeypatch):
    monkeypatch.setattr(mat_sets, "MAX_VALUES", 100)

    def change(hdf5):
        hdf5.create_dataset("fixCell", data=np.array([[hdf5["values"].ref] * 20], h5py.ref_dtype))

    refused("more than 100 numbers", pascals, with_cells(change))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (size_data(np.ones((2, 5))), r"pascalSize\.mat .* sizes of 5 images, but pascalFix\.mat .*fixations of 1"),
        (size_data(np.full((2, 1), np.nan)), r"pascalSize\.mat .*not of columns height and width"),
        (size_data(np.ones((3, 1))), r"pascalSize\.mat .*not of columns height and width"),
        (b"x", r"pascalSize\.mat"),
    ],
)
def test_sizes_that_do_not_fit_are_named(sizes, message):
    refused(message, pascals, fix_cell([np.ones((3, 4))]), sizes)


def test_sizes_alone_are_not_enough():
    refused("without pascalFix", mat_sets.read_pascals, {"pascalsize.mat": file(size_data(np.ones((2, 1))))})


def test_the_readers_do_not_load_tensorflow():
    code = "import sys, trainer.data.mat_sets, trainer.data.layout; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
