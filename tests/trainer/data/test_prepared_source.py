"""A source that is a prepared dataset is checked, and copied as it is."""

import json
import shutil

import pytest

from tests import patches
from tests.gcs import upload
from tests.refusals import refused
from tests.small_sources import files, write_tree
from trainer.data import fetch, stages
from trainer.data.prepared_data import MANIFEST, OBJECTS, Manifest
from trainer.data.settings import FetchConfig
from trainer.errors import ContentError, MismatchError, SettingError
from trainer.io import files as io_files

SIZE = "40x64"


def config(source, dataset="osie", **settings):
    return FetchConfig(dataset, str(source), **settings)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return write_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def prepared(tree, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "set"
    fetch.fetch_dataset(config(tree, image_size=SIZE, allow_partial_data=True), folder)
    return folder


@pytest.mark.parametrize("settings", [{}, {"image_size": SIZE, "max_examples": 4}])
def test_it_is_copied_from_a_folder(prepared, tree, settings, tmp_path, capsys):
    manifest = fetch.fetch_dataset(config(prepared, **settings), tmp_path / "set")
    assert manifest == Manifest.load(prepared)
    assert files(tmp_path / "set") == files(prepared)
    assert fetch.fingerprint_data("osie", str(prepared)) == fetch.fingerprint_data("osie", str(tree))
    assert f"{prepared} is already prepared" in capsys.readouterr().out


def test_it_is_copied_from_a_bucket_onto_the_mount_of_one(prepared, bucket, tmp_path, monkeypatch):
    """An interrupted copy is there already."""
    patches.replace(monkeypatch, io_files, "MOUNT", tmp_path)
    source, output = upload(bucket, prepared), tmp_path / "bucket" / "set"
    output.mkdir(parents=True)
    (output / io_files.UNFINISHED).touch()
    for name in (OBJECTS, "of-another-set"):
        (output / name).write_text("half")
    fetch.fetch_dataset(config(source), output)
    assert files(output) == files(prepared)
    assert fetch.fingerprint_data("osie", source) == Manifest.load(prepared).fingerprint


def test_data_of_an_earlier_version_have_fewer_files(prepared, tmp_path):
    before = tmp_path / "before"
    shutil.copytree(prepared, before)
    (before / OBJECTS).unlink()
    fetch.fetch_dataset(config(before), tmp_path / "set")
    assert files(tmp_path / "set") == files(before)


def test_it_is_a_test_set_where_one_is_asked_for(tree, prepared, tmp_path):
    folder = tmp_path / "test"
    fetch.fetch_dataset(config(tree, image_size=SIZE, allow_partial_data=True), folder, test_of="osie")
    assert fetch.fetch_dataset(config(folder), tmp_path / "set", test_of="salicon").is_test_set
    with refused(MismatchError, folder):
        fetch.fetch_dataset(config(folder), tmp_path / "other")
    with refused(MismatchError, prepared):
        fetch.fetch_dataset(config(prepared), tmp_path / "other", test_of="salicon")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"image_size": "48x64"}, ("image_size", "48x64", SIZE)),
        ({"test_share": 0.5}, ("test_share", 0.5)),
        ({"max_examples": 3}, ("max_examples", 3, 4)),
    ],
)
def test_settings_that_it_was_not_prepared_with_are_refused(prepared, settings, named, tmp_path):
    with refused(SettingError, prepared, *named):
        fetch.fetch_dataset(config(prepared, **settings), tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_another_dataset_is_refused_and_it_is_not_prepared_again(prepared, tmp_path):
    for ask in (
        lambda: fetch.fetch_dataset(config(prepared, "salicon"), tmp_path / "set"),
        lambda: fetch.fingerprint_data("salicon", str(prepared)),
    ):
        with refused(MismatchError, "osie", "salicon"):
            ask()
    with refused(SettingError, prepared):
        stages.decide(config(prepared), tmp_path / "set")


def test_recordings_are_read_as_they_were_prepared(prepared, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(prepared, own)
    fields = json.loads((own / MANIFEST).read_text())
    (own / MANIFEST).write_text(json.dumps({**fields, "dataset": "custom"}))
    with refused(SettingError, "columns", "x=gx"):
        fetch.fetch_dataset(config(own, "custom", columns="x=gx,y=gy"), tmp_path / "set")
    assert fetch.fetch_dataset(config(own, "custom"), tmp_path / "set").is_own


def test_a_file_that_is_missing_is_named_and_nothing_is_left(prepared, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(prepared, damaged)
    (name,) = Manifest.load(damaged).shards["train"]
    (damaged / name).unlink()
    with refused(ContentError, damaged, name):
        fetch.fetch_dataset(config(damaged), tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_a_name_that_leads_out_of_the_folder_is_refused(prepared, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(prepared, damaged)
    fields = json.loads((damaged / MANIFEST).read_text())
    (damaged / MANIFEST).write_text(json.dumps({**fields, "originals": ["../escaped"]}))
    (tmp_path / "escaped").write_text("content")
    with refused(ContentError, damaged, "../escaped"):
        fetch.fetch_dataset(config(damaged), tmp_path / "below" / "set")
    assert not (tmp_path / "below").exists()


def test_images_with_a_manifest_of_their_own_are_prepared(tmp_path):
    source = write_tree(tmp_path / "source")
    for number, text in enumerate(("[]", '{"name": "of the authors"}', "no JSON")):
        (source / MANIFEST).write_text(text)
        settings = {"image_size": SIZE, "allow_partial_data": True}
        assert fetch.fetch_dataset(config(source, **settings), tmp_path / f"{number}").counts["train"] == 4
