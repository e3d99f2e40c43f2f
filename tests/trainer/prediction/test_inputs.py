"""Which images a command line names, and how their results are named."""

import os
import pathlib

import pytest

from tests.gcs import answering, serving, upload
from tests.refusals import refused
from trainer.errors import ContentError, NotFoundError, PlaceError, SettingError, UserError
from trainer.prediction.inputs import find_inputs
from trainer.prediction.predict import name_results

MAX_BYTES = 1000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Some files below the working directory; the content of each is its name."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.jpg", "b/c.PNG", "b/d.webp", "b/notes.txt", ".hidden.png", "__MACOSX/a.jpg", "b/.x/y.png"):
        path = pathlib.Path("photos", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def keys(*names, **options):
    return [image.key for image in find_inputs(names, **options)[0]]


def results(names, formats=("png",), output_dir="maps"):
    inputs, _ = find_inputs(names, output_dir)
    return [str(paths[name]) for paths in name_results(inputs, output_dir, formats) for name in formats]


def test_folders_are_searched_and_named_files_are_always_taken(folder):
    inputs, skipped = find_inputs(["photos"])
    assert [image.key for image in inputs] == ["a.jpg", "b/c.PNG", "b/d.webp"]
    assert skipped == ["photos/b/notes.txt"]
    assert [image.read(MAX_BYTES) for image in inputs] == [b"a.jpg", b"b/c.PNG", b"b/d.webp"]
    for names in (("photos", "photos/b/notes.txt"), ("photos/b/*.txt", "photos")):
        assert find_inputs(names)[1] == []
    assert keys("photos/b/notes.txt", "photos/b", "./photos/b/c.PNG") == ["notes.txt", "c.PNG", "d.webp"]
    assert keys("photos/b/.x", "photos/.hidden.png") == ["y.png", ".hidden.png"]


GLOBS = pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("photos/*.jpg", ["a.jpg"]),
        ("photos/*", ["a.jpg", "b/c.PNG", "b/d.webp", "b/e/f/g.jpg"]),
        ("photos/*/", ["a.jpg", "b/c.PNG", "b/d.webp", "b/e/f/g.jpg"]),
        ("photos/**/*.[Pw]*", ["b/c.PNG", "b/d.webp"]),
        ("photos/**/*.jpg", ["a.jpg", "b/e/f/g.jpg"]),
        ("photos/**/e/**/*.jpg", ["b/e/f/g.jpg"]),
        ("photos/**/f", ["b/e/f/g.jpg"]),
        ("photos/**", ["a.jpg", "b/c.PNG", "b/d.webp", "b/e/f/g.jpg"]),
        ("photos/*/notes.*", ["b/notes.txt"]),
        ("ph*/b/d.*", ["photos/b/d.webp"]),
    ],
)


@GLOBS
def test_globs_that_the_shell_did_not_expand_are_expanded(folder, pattern, expected):
    write_deep()
    assert keys(pattern) == expected
    assert keys(str(folder / pattern)) == expected


@GLOBS
def test_globs_mean_the_same_on_cloud_storage(folder, bucket, pattern, expected):
    write_deep()
    upload(bucket, "photos")
    assert sorted(keys(f"gs://{bucket.name}/{pattern}")) == expected


def write_deep():
    pathlib.Path("photos/b/e/f").mkdir(parents=True)
    pathlib.Path("photos/b/e/f/g.jpg").touch()


def test_a_file_may_have_wildcards_in_its_name(folder):
    pathlib.Path("x[1].png").write_text("x")
    assert keys("x[1].png") == ["x[1].png"]


def test_results_below_the_images_are_not_images(folder):
    pathlib.Path("photos/maps").mkdir()
    pathlib.Path("photos/maps/a.png").write_text("map")
    assert keys("photos", output_dir="photos/maps") == ["a.jpg", "b/c.PNG", "b/d.webp"]
    assert keys("photos", output_dir="photos") == ["a.jpg", "b/c.PNG", "b/d.webp", "maps/a.png"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("empty", NotFoundError),
        ("*.gif", NotFoundError),
        ("photos/**.jpg", NotFoundError),
        ("", SettingError),
        ("gs://*/x.png", SettingError),
    ],
)
def test_a_name_without_images_is_reported_and_does_not_stop_the_others(folder, name, kind):
    pathlib.Path("empty").mkdir()
    with refused(kind, name):
        find_inputs([name])
    without, *others = find_inputs([name, "photos"])[0]
    assert [image.key for image in others] == keys("photos")
    assert name_results([without], "maps", ["png"]) == [{}]
    with refused(kind, name):
        without.read(10**6)


@pytest.mark.parametrize(
    ("name", "kind", "named"),
    [
        ("nowhere/a.jpg", NotFoundError, "No such file"),
        ("large.png", ContentError, "1,001"),
        ("loop.png", NotFoundError, "links"),
        ("pipe.png", ContentError, "pipe"),
    ],
)
def test_a_file_that_cannot_be_read_raises_the_reason(folder, name, kind, named):
    pathlib.Path("large.png").write_bytes(bytes(1001))
    pathlib.Path("loop.png").symlink_to("loop.png")
    os.mkfifo("pipe.png")
    with refused(kind, name, named):
        find_inputs([name])[0][0].read(MAX_BYTES)


# === Results ===


def test_results_keep_the_layout_of_the_images(folder):
    assert results(["photos"]) == ["maps/a.png", "maps/b/c.png", "maps/b/d.png"]
    assert results(["photos/b/d.webp"], ("png", "png16", "npy", "overlay")) == [
        "maps/d.png",
        "maps/d-16bit.png",
        "maps/d.npy",
        "maps/d-overlay.png",
    ]


def test_images_with_the_same_name_keep_their_suffixes(folder):
    pathlib.Path("photos/b/c.jpg").write_text("c")
    assert results(["photos/b"]) == ["maps/c.PNG.png", "maps/c.jpg.png", "maps/d.png"]


@pytest.mark.parametrize(
    ("names", "formats", "output_dir", "named"),
    [
        (["photos/b/d.webp", "other/d.webp"], ["png"], "maps", "maps/d.webp.png"),
        (["x.png", "x-overlay.png"], ["png", "overlay"], "maps", "maps/x-overlay.png"),
        (["x.png"], ["png"], ".", "x.png"),
    ],
)
def test_results_overwrite_neither_each_other_nor_an_image(folder, names, formats, output_dir, named):
    pathlib.Path("other").mkdir()
    for name in ("x.png", "x-overlay.png", "other/d.webp"):
        pathlib.Path(name).touch()
    with refused(PlaceError, named):
        results(names, formats, output_dir)


# === Cloud Storage ===


def test_objects_prefixes_and_globs_on_cloud_storage(folder, bucket):
    place = upload(bucket, "photos")
    upload(bucket, "photos/a.jpg", "photos-of-others/a.jpg")
    inputs, skipped = find_inputs([f"{place}/"])
    assert [image.key for image in inputs] == ["a.jpg", "b/c.PNG", "b/d.webp"]
    assert skipped == [f"{place}/b/notes.txt"]
    assert [image.read(MAX_BYTES) for image in inputs] == [b"a.jpg", b"b/c.PNG", b"b/d.webp"]
    assert keys(f"{place}/b/d.webp") == ["d.webp"]
    assert keys(f"{place}/*.jpg", f"{place}/b/*") == ["a.jpg", "c.PNG", "d.webp", "notes.txt"]
    with refused(UserError, f"{place}/x.png"):
        find_inputs([f"{place}/x.png"])
    with refused(ContentError, 5, 4):
        inputs[0].read(4)


@pytest.mark.parametrize("key", ["/etc/y.jpg", "../../../z.jpg", "b/../w.jpg"])
def test_names_of_objects_cannot_lead_out_of_the_output_folder(folder, monkeypatch, key):
    with answering(monkeypatch, serving(b"x", name=f"photos/{key}")):
        outside, inside = find_inputs(["gs://any/photos", "photos/a.jpg"])[0]
    assert outside.name == f"gs://any/photos/{key}"
    assert name_results([outside, inside], "maps", ["png"]) == [{}, {"png": pathlib.Path("maps/a.png")}]
    with refused(PlaceError, outside.name):
        outside.read(MAX_BYTES)
