"""Recordings of one's own: how tables, images and settings become fixations, splits and a prepared dataset."""

import dataclasses
import re
import shutil

import numpy as np
import polars as pl
import pytest

from tests.refusals import refused
from tests.small_sources import density_map, files, write_tree, write_zip
from tests.trainer.data.recordings.recorded import (
    gaze_of,
    plain_rows,
    rows,
    understand,
    write_images,
    write_table,
)
from trainer.data import fetch, prepared_data, tfrecords
from trainer.data.recordings.geometry import Geometry, Positions
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.settings import FetchConfig
from trainer.errors import AmbiguousError, ContentError, SettingError
from trainer.pictures import SUFFIXES


@pytest.fixture
def recorded(tmp_path):
    """Five images with three fixations each."""
    write_images(tmp_path / "set" / "pictures")
    write_table(tmp_path / "set" / "fixations.csv", plain_rows())
    return tmp_path / "set"


def names(items):
    return {split: sorted(item.name for item in each) for split, each in items.items()}


# === Positions ===


@pytest.mark.parametrize(
    ("x", "y", "pixel"),
    [
        ("0", "1.5", [1, 0]),
        ("1.5", "0", [0, 1]),
        ("63.99", "47.99", [47, 63]),
        ("5", "48", None),
        ("5", "48.5", None),
        ("64", "5", None),
        ("-0.01", "5", None),
        ("5", "-0.5", None),
    ],
)
def test_a_position_is_inside_from_0_to_less_than_the_side_and_of_the_pixel_below_it(tmp_path, x, y, pixel):
    write_images(tmp_path / "set", ("a.png", "b.png"))  # 64 x 48
    write_table(tmp_path / "set" / "t.csv", rows("image,x,y", f"a,{x},{y}", "a,1.5,2.5", "b,1,2"))
    settings = {"coordinates": "pixels", "max_lost_share": 0.4}
    notes = understand(tmp_path / "set", **settings)[2]
    points, _ = gaze_of(tmp_path / "set", **settings)["a.png"]
    assert points == ([pixel, [2, 1]] if pixel else [[2, 1]])
    assert ("Rows left out: 1 of 3 outside of their images (33%)." in notes) == (pixel is None)


def test_an_odd_image_in_the_middle_of_a_screen_begins_at_half_a_pixel(tmp_path):
    """An image of 64 x 49 on a screen of 100 x 120 begins at y 25.5: y 74.5 is below it."""
    write_images(tmp_path / "set", ("a.png", "b.png"), size=(49, 64))
    write_table(
        tmp_path / "set" / "t.csv",
        rows(
            "image,x,y", "a,60,25.4", "a,60,25.5", "a,60,74.4", "a,60,74.5", *(f"b,60,{y}" for y in range(40, 49))
        ),
    )
    gaze = gaze_of(tmp_path / "set", (49, 64), coordinates="pixels", screen_size="100x120")
    assert gaze["a.png"] == ([[0, 32], [48, 32]], None)


def test_a_position_at_the_edge_of_a_scaled_image_is_inside():
    geometry = Geometry("pixels", upwards=False, screen=(1080, 1920), image_on_screen="fit")
    positions = Positions(np.array([960.0]), np.array([0.0]), np.array([[535, 500]]))
    assert geometry.pixels(positions)[0] < 0  # the scale is 1080 / 535, and 535 times that is not 1080
    assert geometry.place(positions)[0].tolist() == [[0, 250]]


def test_images_of_every_suffix_are_named_by_a_table(tmp_path):
    named = [f"{letter}{suffix}" for letter, suffix in zip("abcdefghij", SUFFIXES, strict=True)]
    write_images(tmp_path / "set", named)
    write_table(tmp_path / "set" / "t.csv", rows("image,x,y", *(f"{name},10,{y}" for y, name in enumerate(named))))
    gaze = gaze_of(tmp_path / "set", coordinates="pixels")
    assert gaze == {name: ([[y, 10]], None) for y, name in enumerate(named)}


def test_exchanged_columns_are_named_if_they_explain_the_rows_outside(tmp_path):
    write_images(tmp_path / "set")
    text = rows("image,x,y", *(f"{'abcde'[n % 5]},{n},{50 + n % 14}" for n in range(40)))  # y to 63 of 48
    write_table(tmp_path / "set" / "t.csv", text)
    hint = "0 would be outside if x and y were exchanged. If they are, exchange the columns with `columns`, as "
    with refused(ContentError, "40 of 40", f"{hint}x=NAME,y=NAME"):
        understand(tmp_path / "set", coordinates="pixels")
    notes = understand(tmp_path / "set", columns="x=y,y=x", coordinates="pixels")[2]
    assert not any("outside" in note for note in notes)
    outside = rows(*(f"{each},{200 + n},200" for n, each in enumerate("aabbcc")))  # in either order
    write_table(tmp_path / "set" / "t.csv", text + outside)
    with refused(ContentError, "46 of 46", "coordinates") as error:
        understand(tmp_path / "set", coordinates="pixels")
    assert "exchanged" not in str(error.value)


@pytest.mark.parametrize(
    ("position", "settings"),
    [
        ("16,36", {"coordinates": "pixels"}),
        ("16,12", {"coordinates": "pixels", "columns": "x=x,y=-y"}),  # y grows upwards
        ("0.25,0.75", {"coordinates": "fraction"}),
        ("25,75", {"coordinates": "percent"}),
        ("250,750", {"coordinates": "thousandths"}),
        ("-16,-12", {"coordinates": "center-pixels"}),
        ("-16,12", {"coordinates": "center-pixels", "columns": "x=x,y=+y"}),  # y grows downwards
        ("-0.25,-0.25", {"coordinates": "center-fraction"}),
        ("-0.5,-0.5", {"coordinates": "center-norm"}),
        ("-0.333,-0.25", {"coordinates": "center-height"}),
        ("-2,1.5", {"coordinates": "degrees", "pixels_per_degree": 8.0}),
        ("116,136", {"coordinates": "pixels", "screen_size": "248x264"}),
        ("66,236", {"coordinates": "pixels", "image_on_screen": "50,200"}),
        ("82,272", {"coordinates": "pixels", "image_on_screen": "50,200,96x128"}),
        ("32,72", {"coordinates": "pixels", "screen_size": "96x128", "image_on_screen": "fit"}),
        ("48,72", {"coordinates": "pixels", "screen_size": "96x160", "image_on_screen": "fit"}),
        ("0.3,0.75", {"coordinates": "fraction", "screen_size": "96x160", "image_on_screen": "fit"}),
        ("0.3,0.75", {"columns": "x=x [norm],y=y [norm]", "screen_size": "96x160", "image_on_screen": "fit"}),
        ("0.25,0.75", {"coordinates": "fraction", "columns": "x=x [mm],y=y [mm]"}),
    ],
)
def test_positions_of_every_kind_are_moved_to_pixels_of_the_image(position, settings, tmp_path):
    unit = re.sub(r".*?( \[\w+\])?$", r"\1", settings.get("columns", ""))
    write_images(tmp_path / "set", ("a.png", "b.png"))
    header = f"image,x{unit},y{unit}"
    write_table(tmp_path / "set" / "t.csv", rows(header, f"a,{position}", f"b,{position}"))
    assert gaze_of(tmp_path / "set", **settings)["a.png"] == ([[36, 16]], None)


# === Names ===


@pytest.mark.parametrize(
    "label",
    ["one/a.png", "A.PNG", "a", "a.bmp", "C:\\study\\One\\a.png", "./pictures/one/a.png", "pictures/ONE/a"],
)
def test_an_image_is_found_by_its_path_its_name_or_its_stem(label, tmp_path):
    write_images(tmp_path / "set" / "pictures" / "one", ("a.png",))
    write_images(tmp_path / "set" / "pictures" / "two", ("b.png",), first=1)
    write_table(tmp_path / "set" / "t.csv", rows("stimulus,x,y", f"{label},10,5", "b,1,2"))
    assert gaze_of(tmp_path / "set", coordinates="pixels")["one/a.png"] == ([[5, 10]], None)


@pytest.mark.parametrize("before", ["", "C:\\study\\", "/data/me/"])
def test_an_image_in_another_folder_is_not_taken_for_one_that_is_not_there(before, tmp_path):
    there = {"house/a.png": 0, "tree/a.png": 1, "tree/b.png": 3}
    write_images(tmp_path / "set", there)
    labels = [f"{before}{name}" for name in ("house/a.png", "tree/a.png", "face/a.png", "tree/b", "face/b.png")]
    lines = [f"{label},10,{y}" for y, label in enumerate(labels)]
    write_table(tmp_path / "set" / "t.csv", rows("image,x,y", *lines))
    settings = {"max_lost_share": 0.4, "coordinates": "pixels"}
    assert gaze_of(tmp_path / "set", **settings) == {name: ([[y, 10]], None) for name, y in there.items()}
    notes = understand(tmp_path / "set", **settings)[2]
    (note,) = [note for note in notes if "2 of images that are not there" in note]
    assert repr(labels[2]) in note


def test_columns_are_named_by_the_setting(tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    write_table(tmp_path / "set" / "t.csv", rows("Bild,hori,vert,@wer,x,y", "a,10,5,q,0,0", "b,10,5,p,0,0"))
    columns = "image=bild, x=hori, y=vert, observer=@wer"
    found = gaze_of(tmp_path / "set", columns=columns, coordinates="pixels")
    assert found == {"a.png": ([[5, 10]], [1]), "b.png": ([[5, 10]], [0])}


def test_a_table_for_each_image_or_for_each_observer(tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    for name in "ab":
        write_table(tmp_path / "set" / "fixations" / f"{name}.csv", rows("x,y", "10,5", "20,6"))
    assert gaze_of(tmp_path / "set", coordinates="pixels") == dict.fromkeys(
        ("a.png", "b.png"), ([[5, 10], [6, 20]], None)
    )
    shutil.rmtree(tmp_path / "set" / "fixations")
    for observer in ("p2", "p1"):
        write_table(
            tmp_path / "set" / f"{observer}.csv", rows("image,x,y", f"a,{observer[1]},5", f"b,1{observer[1]},5")
        )
    assert gaze_of(tmp_path / "set", coordinates="pixels")["a.png"] == (
        [[5, 1], [5, 2]],
        None,
    )  # two people or two groups
    write_table(tmp_path / "set" / "fixations.csv", rows("image,x,y", "a,3,5", "b,20,5"))
    assert gaze_of(tmp_path / "set", coordinates="pixels")["a.png"] == ([[5, 3], [5, 1], [5, 2]], [0, 1, 2])


@pytest.mark.parametrize(
    ("labels", "observers"),
    [
        (("p1", "p1 ", " p2"), [0, 0, 1]),
        (("1", "1.0", "2.00"), [0, 0, 1]),
        (("1", "1.5", "10"), [0, 1, 2]),
        (("S01", "s1", "S 001"), [0, 0, 0]),
        (("S1", "S10", "T1"), [0, 1, 2]),
        (("P1 1", "P11", "P 1 1"), [0, 1, 0]),
        (("1.05", "1.5", "1.50"), [0, 1, 2]),
    ],
)
def test_an_observer_is_the_same_however_it_is_written(labels, observers, tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    lines = [f"a,10,{position},{label}" for position, label in enumerate(labels)]
    write_table(tmp_path / "set" / "t.csv", rows("image,x,y,observer", *lines, f"b,1,2,{labels[0]}"))
    assert gaze_of(tmp_path / "set", coordinates="pixels")["a.png"][1] == observers


def test_a_row_without_an_observer_is_left_out(tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    lines = ["a,10,1,1", "a,10,2,2", "a,10,3, ", "b,1,2,1"]
    write_table(tmp_path / "set" / "t.csv", rows("image,x,y,observer", *lines))
    settings = {"max_lost_share": 0.25, "coordinates": "pixels"}
    assert gaze_of(tmp_path / "set", **settings)["a.png"] == ([[1, 10], [2, 10]], [0, 1])
    assert "Rows left out: 1 without an observer." in understand(tmp_path / "set", **settings)[2]
    with refused(ContentError, "1 of 4", "without an observer", "max_lost_share", "20%"):
        understand(tmp_path / "set", **{**settings, "max_lost_share": 0.2})


@pytest.mark.parametrize("name", ["{} [1].csv", "{}?.csv", "[{}].csv"])
def test_tables_that_are_left_out_may_have_any_name(name, tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png", "c.png"))
    write_table(tmp_path / "set" / "fix.csv", plain_rows("abc"))
    write_table(tmp_path / "set" / name.format("copy"), plain_rows("abc"))
    write_table(tmp_path / "set" / name.format("notes"), rows("image,kind", "a.png,web", "b.png,text"))
    gaze = gaze_of(tmp_path / "set", coordinates="pixels")
    assert gaze["a.png"] == ([[5, 10], [6, 20], [7, 30]], None)


# === Rows ===


def test_rows_that_repeat_a_fixation_are_counted_once(tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    lines = [
        "a,p,1,10,5",
        "a,p,1,11,6",
        "a,p,2,20,6",
        "a,p,1,30,7",
        "a,q,1,30,7",
        "a,q,1,30,7",
        "b,p,,1,1",
        "b,p,,1,1",
        "b,p,,2,1",
    ]
    write_table(tmp_path / "set" / "t.csv", rows("image,observer,fixation,x,y", *lines))
    # The fourth row has the number of the first, but does not follow it: numbers may begin again.
    # Equal rows without a number may be two looks at one place.
    assert gaze_of(tmp_path / "set", coordinates="pixels") == {
        "a.png": ([[6, 11], [6, 20], [7, 30], [7, 30]], [0, 0, 0, 1]),
        "b.png": ([[1, 1], [1, 1], [1, 2]], [0, 0, 0]),
    }
    (note,) = [
        note for note in understand(tmp_path / "set", coordinates="pixels")[2] if note.startswith("Rows left out")
    ]
    assert "1 that repeat another row in all columns, and 1 that repeat a fixation" in note


def test_rows_of_one_number_and_time_are_one_fixation_also_apart(tmp_path):
    """Rows of one time without a number are fixations of their own: it may be that of the trial."""
    write_images(tmp_path / "set", ("a.png", "b.png"))
    lines = ["a,p,1,7,10,5", "a,p,2,7,20,6", "a,p,1,7,10.5,5", "b,p,,9,1,1", "b,p,,9,2,1"]
    write_table(tmp_path / "set" / "t.csv", rows("image,observer,fixation,timestamp,x,y", *lines))
    assert gaze_of(tmp_path / "set", coordinates="pixels") == {
        "a.png": ([[6, 20], [5, 10]], [0, 0]),
        "b.png": ([[1, 1], [1, 2]], [0, 0]),
    }


# === Splits ===


@pytest.mark.parametrize("split", ["hash", "shuffle"])
def test_names_alone_split(split, recorded):
    first = names(understand(recorded, split=split, coordinates="pixels")[0])
    assert sum(len(each) for each in first.values()) == 5
    lines = plain_rows().splitlines()
    write_table(recorded / "fixations.csv", rows(lines[0], *reversed(lines[1:])))
    assert names(understand(recorded, split=split, coordinates="pixels")[0]) == first


def write_growing(folder, *paths, header="image,x,y", cell=""):
    """Images at these paths, and a table of a fixation of each."""
    write_images(folder, paths)
    lines = [f"{path},{n % 63},{7 * n % 47}{cell and ',' + cell(path)}" for n, path in enumerate(paths)]
    write_table(folder / "t.csv", rows(header, *lines))
    return folder


def test_images_stay_in_their_split_when_a_folder_is_added_beside_theirs(tmp_path):
    few = [f"first/{index}.png" for index in range(20)]
    before = understand(write_growing(tmp_path / "few", *few), coordinates="pixels")[0]
    grown = write_growing(tmp_path / "more", *few, *(f"second/{index}.png" for index in range(20)))
    more = understand(grown, coordinates="pixels")[0]
    for split, each in names(before).items():
        assert {f"first/{name}" for name in each} == {
            name for name in names(more)[split] if name.startswith("first")
        }
    assert {len(each) for each in names(before).values()} != {0, 20}


@pytest.mark.parametrize("by", ["folder", "column"])
def test_a_folder_or_a_group_is_in_one_split(by, tmp_path):
    paths = [f"site{index // 4}/{index}.png" for index in range(10, 90)]
    if by == "folder":
        items, row, *_ = understand(
            write_growing(tmp_path / "set", *paths), split="hash_by_folder", coordinates="pixels"
        )
        assert row.split == "hash_by_folder"
    else:
        folder = write_growing(
            tmp_path / "set", *paths, header="image,x,y,site", cell=lambda path: path.partition("/")[0]
        )
        items, row, *_ = understand(folder, columns="group=site", coordinates="pixels")
    train, valid = (
        {item.stimulus.path.partition("/")[0] for item in items[split]} for split in ("train", "valid")
    )
    assert train
    assert valid
    assert not train & valid


def test_an_image_in_two_groups_is_refused(tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    write_table(
        tmp_path / "set" / "t.csv", rows("image,x,y,site", "a.png,1,2,one", "a.png,3,4,two", "b.png,1,2,one")
    )
    with refused(ContentError, "a.png", "one", "two"):
        understand(tmp_path / "set", columns="group=site", coordinates="pixels")


def test_a_column_splits(tmp_path):
    write_images(tmp_path / "set")
    labels = dict(zip("abcde", ("val", "Training", "train", "validation", "test"), strict=True))
    lines = [f"{name},1,{y},{label}" for y, (name, label) in enumerate(labels.items())]
    write_table(tmp_path / "set" / "t.csv", rows("image,x,y,split", *lines))
    items, row, notes, _ = understand(tmp_path / "set", coordinates="pixels")
    assert names(items) == {"train": ["b.png", "c.png"], "valid": ["a.png", "d.png"]}
    assert "Images for tests, left out: 1 (e.png)." in notes
    assert row.split == "column"


def test_images_labelled_test_and_a_share_are_refused(tmp_path):
    """Unless the labels are ignored: a shuffle of five images holds one out, which this share keeps apart."""
    write_images(tmp_path / "set")
    labels = enumerate(zip("abcde", ("train", "val", "val", "test", "test"), strict=True))
    lines = [f"{name},1,{y},{label}" for y, (name, label) in labels]
    write_table(tmp_path / "set" / "t.csv", rows("image,x,y,split", *lines))
    for split, named in (("auto", 2), ("shuffle", 1)):
        config = FetchConfig(
            "custom", str(tmp_path / "set"), "48x64", coordinates="pixels", split=split, test_share=0.99
        )
        with refused(SettingError, "test_share", named):
            fetch.fetch_dataset(config, tmp_path / "out")


# === Maps ===


@pytest.mark.parametrize("settings", [{"maps": "saliency", "make_map": density_map}, {}])
def test_maps_or_files_of_fixations_need_no_table(settings, tmp_path):
    write_tree(tmp_path / "set", **settings)
    items = understand(tmp_path / "set", split="shuffle")[0]
    assert {split: len(each) for split, each in items.items()} == {
        "train": 5,
        "valid": 2,
    }


def test_maps_are_the_densities_where_a_table_has_the_fixations(tmp_path):
    write_tree(tmp_path / "set", maps="maps", make_map=density_map)
    write_table(tmp_path / "set" / "fixations.csv", plain_rows("1234567"))
    with refused(AmbiguousError, "fixations.csv", "columns=x=x,y=y"):
        understand(tmp_path / "set", coordinates="pixels")
    items = understand(tmp_path / "set", columns="x=x,y=y", coordinates="pixels")[0]
    assert {item.map.path for item in items["train"]} <= {f"maps/{n}.png" for n in range(1, 8)}
    first = items["train"][0]
    y = 4 + int(first.name.removesuffix(".png"))
    assert first.fixations.read((24, 32)).points.tolist() == [[y, 10], [y + 1, 20], [y + 2, 30]]


# === Prepared ===


def test_the_same_recordings_give_the_same_bytes_folder_or_archive(recorded, tmp_path):
    write_zip(tmp_path / "set.zip", files(recorded))
    sets = []
    for source in (recorded, tmp_path / "set.zip"):
        config = FetchConfig("custom", str(source), "48x64", coordinates="pixels")
        manifest = fetch.fetch_dataset(config, tmp_path / f"of-{source.stem}-{source.suffix}")
        assert manifest.fingerprint == fetch.fingerprint_data("custom", str(source))
        sets.append(files(tmp_path / f"of-{source.stem}-{source.suffix}"))
        del sets[-1][prepared_data.MANIFEST], sets[-1][prepared_data.OBJECTS]
    assert sets[0] == sets[1]


def test_the_prepared_dataset_has_fixations_observers_and_any_number_of_images(tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    lines = [f"{name},{10 * n},5,p{n % 2}" for name in "ab" for n in (1, 2, 3)]
    write_table(tmp_path / "set" / "t.csv", rows("image,x,y,observer", *lines))
    config = FetchConfig("custom", str(tmp_path / "set"), "48x64", coordinates="pixels", split="shuffle")
    manifest = fetch.fetch_dataset(config, tmp_path / "out")
    assert manifest.counts == manifest.expected_counts == {"train": 1, "valid": 1}
    assert (manifest.ground_truth, manifest.has_observers, manifest.blur_sigma_px) == ("points", True, 2.1)
    assert manifest.has_known_observers
    for example in tfrecords.read_examples(tmp_path / "out", "train"):
        np.testing.assert_array_equal(example.fixations, [[5, 10], [5, 20], [5, 30]])
        np.testing.assert_array_equal(example.observers, [1, 0, 1])
        assert example.density[5, 10] > 200  # brightest where people looked
        assert example.density[40, 60] == 0
    few = dataclasses.replace(config, max_examples=1)
    assert fetch.fetch_dataset(few, tmp_path / "few").expected_counts == {"train": 1, "valid": 1}


def test_accents_may_be_composed_or_not(tmp_path):
    write_images(tmp_path / "set", ("u\u0308.png", "b.png"))
    write_table(tmp_path / "set" / "t.csv", rows("image,x,y", "\u00fc.png,10,5", "b,1,2"))
    assert len(gaze_of(tmp_path / "set", coordinates="pixels")) == 2


def test_known_columns_keep_their_meaning_when_they_are_named(tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    write_table(tmp_path / "set" / "t.csv", rows("image,norm_pos_x,norm_pos_y", "a,0.25,0.9", "b,0.25,0.9"))
    named = gaze_of(tmp_path / "set", columns="x=norm_pos_x,y=norm_pos_y")
    write_table(
        tmp_path / "set" / "t.csv", rows("image,norm_pos_x,norm_pos_y,on_surf", "a,.25,.9,1", "b,.25,.9,1")
    )
    assert named == gaze_of(tmp_path / "set")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("when", pl.Series([2**62] * 2).cast(pl.Datetime("ms"))),  # out of Python's range
        ("observer", pl.Series(["", "NA"])),
        ("boxes", pl.Series([[1, 2], [3]])),
    ],
)
def test_odd_columns_of_parquet(tmp_path, name, column):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    table = pl.DataFrame({"image": ["a", "b"], "x": [10.0, 1.0], "y": [5.0, 2.0], name: column})
    table.write_parquet(tmp_path / "set" / "t.parquet")
    assert gaze_of(tmp_path / "set", coordinates="pixels")["a.png"] == ([[5, 10]], None)


def write_events(folder, column, words):
    """Images a to e, and a table of two pairs of events of each: those of a.png at y 5 to 8."""
    write_images(folder / "pictures")
    lines = [
        f"{name}.png,{10 * n},{4 + n + y},{word}"
        for y, name in enumerate("abcde")
        for n, word in enumerate(2 * words, 1)
    ]
    write_table(folder / "fix.csv", rows(f"image,x,y,{column}", *lines))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("typ", ("Fixation", "Saccade")),
        ("Event_type", ("Whole fixation", "Whole saccade")),
        ("state", ("Fixation", "Unclassified")),
        ("fixation_id", ("1", "-1")),
    ],
)
def test_rows_of_other_events_than_fixations_are_left_out(column, words, tmp_path):
    write_events(tmp_path, column, words)
    assert gaze_of(tmp_path, coordinates="pixels")["a.png"][0] == [[5, 10], [7, 30]]


@pytest.mark.parametrize("words", [("Fixation", "Sakkade"), ("EFIX", "7")])
def test_a_word_beside_those_of_fixations_is_asked_about_or_named(words, tmp_path):
    write_events(tmp_path, "typ", words)
    with refused(AmbiguousReadingsError, "'typ'", *map(repr, words)):
        gaze_of(tmp_path, coordinates="pixels")
    assert gaze_of(tmp_path, coordinates="pixels", columns="event=typ")["a.png"][0] == [[5, 10], [7, 30]]


def test_samples_between_fixations_are_left_out(tmp_path):
    write_images(tmp_path / "pictures")
    samples = [(10, 5, 1)] * 3 + [(30, 25, ""), (40, 30, "")] + [(50, 40, 2)] * 3
    lines = [
        f"{name}.png,{20 * index},{x + image},{y},{number}"
        for image, name in enumerate("abcde")
        for index, (x, y, number) in enumerate(samples)
    ]
    write_table(tmp_path / "fix.csv", rows("image,time,x,y,fixation_id", *lines))
    assert gaze_of(tmp_path, coordinates="pixels")["a.png"][0] == [[5, 10], [40, 50]]


@pytest.mark.parametrize("pair", ["FixationX,FixationY", "fix_x,fix_y"])
def test_usual_names_of_positions(pair, tmp_path):
    write_images(tmp_path / "pictures")
    write_table(tmp_path / "fix.csv", plain_rows().replace("x,y", pair, 1))
    assert gaze_of(tmp_path, coordinates="pixels")["a.png"][0] == [[5, 10], [6, 20], [7, 30]]


def test_a_task_is_no_event(tmp_path):
    """Words for eye movements that do not take turns may be tasks: they are asked about."""
    write_images(tmp_path / "pictures")
    lines = [
        f"{name}.png,{10 * n},{4 + n + image},{('fixation', 'smooth pursuit')[image % 2]}"
        for image, name in enumerate("abcde")
        for n in range(6)
    ]
    write_table(tmp_path / "fix.csv", rows("image,x,y,task", *lines))
    with refused(AmbiguousReadingsError, "'task'", "18 of 30", "12 of 30", "30 rows"):
        gaze_of(tmp_path, coordinates="pixels")
