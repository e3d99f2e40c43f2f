"""What kind of place a text names, and that all kinds answer alike."""

import pytest

from tests import patches
from tests.gcs import upload
from tests.refusals import refused
from trainer.errors import SettingError
from trainer.io import files
from trainer.places.bucket_place import BucketPlace
from trainer.places.buckets import ChangedObjectError, MissingError
from trainer.places.local_place import LocalPlace
from trainer.places.places import (
    DrivePlace,
    WebPlace,
    WordPlace,
    place_of,
    source_places,
    stored_at,
)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("data/set", LocalPlace("data/set")),
        ("~/set.zip", LocalPlace("~/set.zip")),
        ("drives/set.zip", LocalPlace("drives/set.zip")),
        ("sample", WordPlace("sample")),
        ("sample/", LocalPlace("sample/")),
        ("gs://bucket/set", BucketPlace("gs://bucket/set")),
        ("GS://bucket/set", WebPlace("gs://bucket/set")),
        ("https://h.org/a.zip?key=B", WebPlace("https://h.org/a.zip?key=B")),
        ("HTTPS://h.org/A.zip", WebPlace("https://h.org/A.zip")),
        ("ftp://h.org/a.zip", WebPlace("ftp://h.org/a.zip")),
        ("drive:1g8j-hTT", DrivePlace("drive:1g8j-hTT")),
        ("https://drive.google.com/file/d/1g8j-hTT/view?usp=sharing", DrivePlace("drive:1g8j-hTT")),
        ("https://docs.google.com/uc?id=1g8j-hTT", DrivePlace("drive:1g8j-hTT")),
        ("https://drive.google.com/drive/folders/abc", WebPlace("https://drive.google.com/drive/folders/abc")),
    ],
)
def test_a_text_names_one_kind_of_place(text, place):
    found = place_of(text, ("sample",))
    assert (type(found), found) == (type(place), place)


def test_only_a_bucket_is_no_path_where_files_are_kept():
    assert stored_at("https://h.org/a") == LocalPlace("https://h.org/a")
    assert stored_at("gs://bucket") == BucketPlace("gs://bucket")


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", []),
        ("sample", [WordPlace("sample")]),
        ("/data/my set", [LocalPlace("/data/my set")]),
        ("gs://bucket/two words.zip", [BucketPlace("gs://bucket/two words.zip")]),
        ("gs://b/a.zip  gs://b/c.zip", [BucketPlace("gs://b/a.zip"), BucketPlace("gs://b/c.zip")]),
        ("drive:ID https://h.org/a.zip", [DrivePlace("drive:ID"), WebPlace("https://h.org/a.zip")]),
        ("https://h.org/a.zip maps.zip", [WebPlace("https://h.org/a.zip"), WebPlace("maps.zip")]),
    ],
)
def test_a_source_is_one_place_or_several_addresses(text, places):
    found = source_places(text, ("sample",))
    assert [(type(each), each) for each in found] == [(type(each), each) for each in places]


@pytest.mark.parametrize(
    ("text", "is_shared", "is_download", "bucket", "host"),
    [
        ("set.zip", False, False, "", ""),
        ("/gcs/bucket/set", True, False, "", ""),
        ("gs://bucket/set", True, False, "bucket", "Cloud Storage"),
        ("gs://bucket/set.TAR.gz", True, True, "bucket", "Cloud Storage"),
        ("https://h.org/set", True, True, "", "h.org"),
        ("drive:ID", True, True, "", "Google Drive"),
        ("sample", True, False, "", ""),
    ],
)
def test_what_each_kind_says_of_itself(text, is_shared, is_download, bucket, host):
    place = place_of(text, ("sample",))
    assert (place.is_shared, place.is_download, place.bucket, place.host) == (is_shared, is_download, bucket, host)


def test_a_key_is_no_part_of_what_is_shown():
    assert place_of("https://me:secret@h.org/a.zip?key=secret").shown == "https://h.org/a.zip"
    assert place_of("gs://bucket/a?b.zip").shown == "gs://bucket/a?b.zip"


def test_the_mount_and_the_bucket_are_one_place(tmp_path, monkeypatch):
    patches.replace(monkeypatch, files, "MOUNT", tmp_path)
    mounted, place = stored_at(f"{tmp_path}/bucket/models"), stored_at("gs://bucket/models")
    assert (mounted.unmounted, place.unmounted) == (place, place)
    assert place.mounted == tmp_path / "bucket" / "models"
    assert stored_at("models").unmounted == LocalPlace("models")
    assert not place.is_mounted
    place.mounted.mkdir(parents=True)
    assert place.is_mounted


def test_names_of_a_folder_and_of_what_is_in_it():
    place = stored_at("gs://bucket/models/")
    assert (place.name, place.path("1/x"), str(place.join("1"))) == (
        "models",
        "gs://bucket/models/1/x",
        "gs://bucket/models/1",
    )
    assert place.join("1").parent == BucketPlace("gs://bucket/models")


@pytest.mark.parametrize("address", ["gs://", "gs://Bucket/x", "gs:///x", "/models"])
def test_the_address_of_no_bucket_is_refused(address):
    with refused(SettingError, "registry", address):
        BucketPlace.at(address, "registry")
    assert BucketPlace.at("gs://bucket/x", "registry") == BucketPlace("gs://bucket/x")


@pytest.fixture(params=["local", "bucket"])
def place(request, tmp_path):
    if request.param == "local":
        (tmp_path / "set").mkdir()
        return stored_at(tmp_path / "set")
    return stored_at(f"gs://{request.getfixturevalue('bucket').name}/set")


def test_files_are_written_read_and_removed_alike_in_every_folder(place, tmp_path):
    place.check_writable()
    assert (place.names(), place.content("a")) == ([], None)
    with pytest.raises(FileNotFoundError):
        place.open("a")
    place.write("a", lambda file: file.write(b"content"))
    assert (place.names(), place.content("a")) == (["a"], b"content")
    assert [(each.name, each.size_bytes) for each in place.objects()] == [("a", 7)]
    assert (place.local(place.objects(), tmp_path / "here") / "a").read_bytes() == b"content"
    place.remove("a")
    place.remove("a")
    assert place.names() == []


def test_what_fails_halfway_writes_nothing(place):
    def write(file):
        file.write(b"half")
        raise ValueError

    with pytest.raises(ValueError):
        place.write("a", write)
    assert place.names() == []


def test_a_file_of_a_bucket_is_replaced_only_if_it_is_unchanged(bucket):
    place = BucketPlace(f"gs://{bucket.name}/state")
    assert place.read_state("a") == (b"", 0)
    generation = place.replace_state("a", b"1", 0)
    with pytest.raises(ChangedObjectError):
        place.replace_state("a", b"2", 0)
    assert place.read_state("a") == (b"1", generation)
    place.remove_state("a", generation)
    with pytest.raises(MissingError):
        place.read("a")


def test_objects_below_a_folder_of_a_bucket_have_sizes_and_are_copied(bucket, tmp_path):
    (tmp_path / "set" / "below").mkdir(parents=True)
    (tmp_path / "set" / "below" / "a").write_bytes(b"12")
    place = BucketPlace(upload(bucket, tmp_path / "set"))
    place.copy("below/a", "below/b")
    assert place.sizes() == {"below/a": 2, "below/b": 2}
    assert BucketPlace(f"gs://{bucket.name}").sizes() == {f"{place.name}/below/{name}": 2 for name in "ab"}
