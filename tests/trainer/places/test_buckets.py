import json
import os
import shutil
import uuid

import pytest

from tests import small_sources
from tests.gcs import answering, crc32c, create_bucket, listing, refusing, requester_pays, serving, upload
from tests.refusals import refused
from trainer.errors import ContentError, NotFoundError, PlaceError, SettingError, UnreachableError, UserError
from trainer.io import files
from trainer.io.files import checksum
from trainer.places import buckets
from trainer.places.bucket_place import BucketPlace
from trainer.places.file_names import SourceObject
from trainer.places.places import stored_at


@pytest.fixture
def folder(tmp_path):
    """Files in folders, and files that operating systems make."""
    content = {"a.bin": b"a" * 1000, "below/b.bin": os.urandom(3_000_000), "below/empty": b""}
    for name, data in {**content, ".DS_Store": b"x", "__MACOSX/a.bin": b"x", "below/Thumbs.db": b"x"}.items():
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(data)
    return tmp_path / "set"


def test_a_folder_lists_its_files_without_those_of_operating_systems(folder):
    objects = stored_at(str(folder)).objects()
    assert [(entry.name, entry.size_bytes) for entry in objects] == [
        ("a.bin", 1000),
        ("below/b.bin", 3_000_000),
        ("below/empty", 0),
    ]


def test_checksum_is_the_published_one_of_the_check_string(tmp_path):
    (tmp_path / "check").write_bytes(b"123456789")
    assert checksum(tmp_path / "check") == "e3069283"


def test_the_same_files_list_alike_locally_and_in_a_bucket(folder, bucket):
    address = upload(bucket, folder, "deep/set")
    bucket.blob("deep/set-of-others/c.bin").upload_from_string(b"c")
    assert stored_at(address).objects() == stored_at(str(folder)).objects()
    assert stored_at(address + "/").objects() == stored_at(address).objects()


@pytest.mark.parametrize("chunk_bytes", [2**30, 1_000_000])
def test_download_copies_every_byte_at_once_or_in_pieces(
    folder, bucket, tmp_path, monkeypatch, chunk_bytes, capsys
):
    monkeypatch.setattr(buckets, "CHUNK_BYTES", chunk_bytes)
    address = upload(bucket, folder)
    objects = stored_at(address).objects()
    stored_at(address).local(objects, tmp_path / "here")
    assert small_sources.files(tmp_path / "here") == {
        entry.name: (folder / entry.name).read_bytes() for entry in objects
    }
    assert "3/3 MB" in capsys.readouterr().out


@pytest.mark.parametrize(
    "source",
    ["gs://no-such-bucket/set", "gs://no-such-bucket/set.zip", "gs://BUCKET/no-such", "gs://BUCKET/no.zip"],
)
def test_a_missing_source_is_named(bucket, source):
    source = source.replace("BUCKET", bucket.name)
    with refused(NotFoundError, source):
        stored_at(source).objects()


def test_what_is_no_source_is_named(tmp_path):
    (tmp_path / "a.txt").touch()
    (tmp_path / "empty").mkdir()
    kinds = {
        str(tmp_path / "empty"): ContentError,
        str(tmp_path / "a.txt"): ContentError,
        "~nobody-here/set": NotFoundError,
        "gs://": SettingError,
    }
    for source, kind in kinds.items():
        with refused(kind, source):
            stored_at(source).objects()


@pytest.mark.parametrize(
    "add",
    [
        lambda folder: os.mkfifo(folder / "x"),
        lambda folder: (folder / "x").symlink_to("none"),
        lambda folder: (folder / "x").symlink_to("."),
        lambda folder: (folder / "x\x1b[2Jb").touch(),
        lambda folder: (folder / os.fsdecode(b"x\xff")).touch(),
    ],
)
def test_a_folder_with_what_is_no_plain_file_is_refused(folder, add):
    add(folder)
    with refused(ContentError, "x"):
        stored_at(str(folder)).objects()


def test_links_to_files_and_folders_elsewhere_are_followed_and_hidden_ones_are_not(folder, tmp_path):
    before = stored_at(str(folder)).objects()
    shutil.move(folder / "below", tmp_path / "elsewhere")
    (folder / "below").symlink_to(tmp_path / "elsewhere")
    (folder / ".lock").symlink_to("none")
    assert stored_at(str(folder)).objects() == before


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("source", ["gs://private/set", "gs://private/set.zip"])
def test_a_missing_permission_names_the_role(monkeypatch, status, source):
    with (
        answering(monkeypatch, refusing(status)),
        refused(NotFoundError, source, "gcloud auth application-default login", "Storage Object Viewer"),
    ):
        stored_at(source).objects()


def test_a_server_that_does_not_reply_is_reported(monkeypatch):
    monkeypatch.setattr(buckets, "RETRY_S", 0.5)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    with refused(UnreachableError, "gs://any/set"):
        stored_at("gs://any/set").objects()


@pytest.mark.parametrize(("wrong", "chunk_bytes"), [("listed", 2**30), ("listed", 100), ("hashed", 2**30)])
def test_bytes_that_differ_from_their_checksum_are_refused(monkeypatch, tmp_path, wrong, chunk_bytes):
    monkeypatch.setattr(buckets, "RETRY_S", 0.5)
    monkeypatch.setattr(buckets, "CHUNK_BYTES", chunk_bytes)
    source = "gs://any/set/add1000.tar.gz"
    with answering(monkeypatch, serving(b"damaged" * 100, **{wrong: b"as it was" * 100})):
        objects = stored_at(source).objects()
        with refused(UserError, source):
            stored_at(source).local(objects, tmp_path)


@pytest.mark.parametrize("name", ["../../out.png", "a//b", "a/./b", "..", "x" * 256, "a/" * 2000 + "b"])
def test_objects_whose_names_a_folder_cannot_have_are_refused(tmp_path, name):
    with refused(ContentError, "gs://any/set"):
        stored_at("gs://any/set").local([SourceObject(name, 1, "00000000")], tmp_path / "here")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_object_that_stands_for_a_folder_is_left_out(monkeypatch, tmp_path):
    content = {"set/a": b"", "set/a/b": b"", "set/a/b/c": b"c", "set/empty": b""}
    listed = listing(
        *({"name": name, "size": len(data), "crc32c": crc32c(data)} for name, data in content.items())
    )

    def answer(path):
        return (200, {}, content[path.partition("/o/")[2]]) if path.startswith("/download/") else listed(path)

    with answering(monkeypatch, answer):
        objects = stored_at("gs://any/set").objects()
        assert [entry.name for entry in objects] == ["a/b/c", "empty"]
        assert BucketPlace("gs://any/set").find_objects() == [
            (BucketPlace("gs://any/set/a/b/c"), 1),
            (BucketPlace("gs://any/set/empty"), 0),
        ]
        stored_at("gs://any/set").local(objects, tmp_path / "here")
    assert small_sources.files(tmp_path / "here") == {"a/b/c": b"c", "empty": b""}


def test_an_object_with_content_and_others_below_it_is_named(tmp_path):
    objects = [SourceObject(name, 1, "00000000") for name in ("a", "a/b")]
    with refused(ContentError, "gs://any/set", "'a'"):
        stored_at("gs://any/set").local(objects, tmp_path / "here")


@pytest.mark.parametrize(
    "metadata",
    [{"size": "1"}, {"crc32c": "AAAAAA=="}, *({"size": "1", "crc32c": crc} for crc in ("AAAA", "A", "?AAAAAA=="))],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda: stored_at("gs://any/set").objects(),
        lambda: BucketPlace("gs://any/set/b.zip").find_archive(),
        lambda: BucketPlace("gs://any/set").find_objects(),
    ],
)
def test_an_object_without_size_or_checksum_is_named(monkeypatch, metadata, read):
    """Cloud Storage says no checksum of an object that is encrypted with a customer-supplied key."""
    with (
        answering(monkeypatch, listing({"name": "set/b.zip", **metadata})),
        refused(ContentError, "b.zip"),
    ):
        read()


def test_objects_whose_checksums_only_their_own_metadata_have_are_listed(monkeypatch):
    """A listing of Cloud Storage lacks the checksums of objects under keys of Cloud KMS."""
    item = {"name": "set/a", "size": "1"}

    def answer(path):
        found = {"items": [item]} if path.endswith("/o") else {**item, "crc32c": "AAAAAA=="}
        return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()

    with answering(monkeypatch, answer):
        assert stored_at("gs://any/set").objects() == [SourceObject("a", 1, "00000000")]
        assert BucketPlace("gs://any/set").find_objects() == [(BucketPlace("gs://any/set/a"), 1)]


def write_and_copy(address):
    connected = buckets.storage_client(write=True)
    buckets.write_object(f"{address}/new", b"new", connected)
    buckets.copy_object(f"{address}/new", f"{address}/copy", connected)
    assert buckets.read_object(f"{address}/copy", connected) == b"new"


def replace_and_remove(address):
    connected = buckets.storage_client(write=True)
    generation = buckets.replace_state(f"{address}/state", b"1", 0, connected)
    assert buckets.read_state(f"{address}/state", connected) == (b"1", generation)
    buckets.remove_state(f"{address}/state", generation, connected)
    buckets.remove_object(f"{address}/state", connected)


A_CRC32C = buckets.checksum_of(crc32c(b"a" * 1000))
REQUESTS = {
    "list": lambda address: stored_at(address).objects(),
    "find": lambda address: BucketPlace(address).find_objects(),
    "find an archive": lambda address: BucketPlace(f"{address}/a.bin").find_archive(),
    "read": lambda address: buckets.read_object(f"{address}/a.bin"),
    "read parts": lambda address: list(buckets.read_parts(f"{address}/a.bin", 1000)),
    "download": lambda address: stored_at(address).local_for_now([SourceObject("a.bin", 1000, A_CRC32C)]),
    "write": write_and_copy,
    "copy": lambda address: buckets.copy_object(
        f"{address}/a.bin", f"{address}/b.bin", buckets.storage_client(write=True)
    ),
    "remove": lambda address: buckets.remove_object(f"{address}/a.bin", buckets.storage_client(write=True)),
    "replace": replace_and_remove,
}
"""What is asked of a bucket first -> a call that does so for the address of a folder."""


@pytest.fixture
def paying(monkeypatch, gcs_url, bucket, folder):
    """The address of a folder in a requester-pays bucket, and what `requester_pays` yields."""
    address = upload(bucket, folder)
    monkeypatch.setattr(buckets, "_user_projects", {})
    with requester_pays(monkeypatch, gcs_url, bucket.name) as projects:
        yield address, *projects


@pytest.mark.parametrize("name", REQUESTS)
def test_the_set_project_pays_for_a_requester_pays_bucket_alone(monkeypatch, gcs_url, paying, name):
    address, own, others = paying
    monkeypatch.setenv("STORAGE_USER_PROJECT", "payer")
    REQUESTS[name](address)
    assert own[:1] == [""]
    assert set(own[1:]) == {"payer"}
    other = create_bucket(gcs_url, f"other-{uuid.uuid4().hex}")
    assert not buckets.list_blobs(f"gs://{other.name}", "")
    assert others == [""]


def test_the_quota_project_of_the_credentials_pays_if_none_is_set(monkeypatch, paying, tmp_path):
    address, own, _ = paying
    login = {"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"}
    (tmp_path / "login.json").write_text(json.dumps({**login, "quota_project_id": "quota"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "login.json"))
    assert len(stored_at(address).objects()) == 3
    assert own == ["", "quota"]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_requester_pays_bucket_without_a_project_says_what_to_set(paying, name):
    address, own, _ = paying
    with refused(buckets.RequesterPaysError, stored_at(address).bucket, "STORAGE_USER_PROJECT"):
        REQUESTS[name](address)
    assert set(own) == {""}


def test_objects_without_room_are_not_downloaded(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LEFT_BYTES", 10**18)
    objects = [SourceObject("a", 5000, "00000000")]
    with refused(PlaceError, "gs://any/set", "5e-06"):
        stored_at("gs://any/set").local(objects, tmp_path)
