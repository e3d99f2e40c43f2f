import gzip
import io
import os
import stat
import tarfile
import zipfile

import pytest

from tests.gcs import upload
from tests.refusals import refused
from tests.small_sources import files as files_in, write_tar, write_zip
from trainer.errors import ContentError, PlaceError
from trainer.io import files
from trainer.places import archive_files
from trainer.places.file_names import archive_suffix
from trainer.places.places import stored_at

CONTENT = {"stimuli/1.png": os.urandom(5000), "fixation/1.png": os.urandom(3000), "notes/a.txt": b"notes"}
JUNK = {"__MACOSX/stimuli/1.png": b"x", "stimuli/._1.png": b"x", "stimuli/Thumbs.db": b"x"}


def read(source, scratch):
    scratch.mkdir(exist_ok=True)
    source = str(source)
    with archive_files.open_source(stored_at(source), stored_at(source).objects(), scratch) as members:
        return {member.path: member.read() for member in members}


@pytest.fixture(params=["x.zip", "x.tar", "x.tar.gz", "x.tgz"])
def archive(request, tmp_path):
    write = write_zip if request.param.endswith("zip") else write_tar
    return write(tmp_path / "set" / request.param, {**CONTENT, **JUNK})


def test_members_of_every_kind_of_archive_are_below_its_stem(archive, tmp_path):
    assert read(archive, tmp_path / "scratch") == {f"x/{name}": data for name, data in CONTENT.items()}


def test_folders_and_archives_are_read_alike_locally_and_in_a_bucket(archive, tmp_path, bucket):
    for name, data in {**CONTENT, **JUNK}.items():
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(data)
    write_zip(tmp_path / "set" / "deep" / "maps.zip", {"train/1.png": b"1"})
    expected = {**CONTENT, **{f"x/{name}": data for name, data in CONTENT.items()}, "deep/maps/train/1.png": b"1"}
    assert read(tmp_path / "set", tmp_path / "here") == expected
    assert read(upload(bucket, tmp_path / "set"), tmp_path / "there") == expected


def test_one_archive_in_a_bucket_is_unpacked_and_not_kept(archive, tmp_path, bucket):
    found = read(upload(bucket, archive), tmp_path / "scratch")
    assert found == {f"x/{name}": data for name, data in CONTENT.items()}
    kept = {name for name in files_in(tmp_path / "scratch") if archive_suffix(name)}
    assert kept == ({"download/x.zip"} if archive.suffix == ".zip" else set())


@pytest.mark.parametrize("keep", [0.1, 0.6])
def test_a_truncated_archive_is_named(archive, tmp_path, keep):
    content = archive.read_bytes()
    archive.write_bytes(content[: int(len(content) * keep)])
    with refused(archive_files.DamagedArchiveError, archive.name):
        read(archive, tmp_path / "scratch")


def cut_between_members(path):
    with tarfile.open(path) as opened:
        end = opened.getmembers()[-1].offset
    path.write_bytes(path.read_bytes()[:end])


def flip(at):
    def change(path):
        content = bytearray(path.read_bytes())
        content[at] ^= 0xFF
        path.write_bytes(content)

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [("x.tar", cut_between_members), ("x.zip", flip(2000)), ("x.tar.gz", flip(-8))],
)
def test_a_tarball_cut_between_members_and_wrong_checksums_are_named(name, change, tmp_path):
    archive = (write_zip if name == "x.zip" else write_tar)(tmp_path / name, CONTENT)
    change(archive)
    with refused(archive_files.DamagedArchiveError, name):
        read(archive, tmp_path / "scratch")


@pytest.mark.parametrize("names", [["x" * 256], ["a/" * 2000 + "b"], ["a", "a/b"], ["a/b", "a"], ["a", "a/b/c"]])
def test_members_of_a_tarball_that_a_folder_cannot_have_are_named(tmp_path, names):
    archive = write_tar(tmp_path / "set" / "x.tar", dict.fromkeys(names, b"x"))
    with refused(ContentError, "x.tar"):
        read(archive, tmp_path / "scratch")


@pytest.mark.parametrize("name", ["../out.png", "stimuli/../../out.png", "/out.png", "..\\out.png", "C:\\out.png"])
def test_a_member_of_a_zip_whose_path_climbs_out_is_refused(tmp_path, name):
    archive = write_zip(tmp_path / "set" / "x.zip", {name: b"x"})
    with refused(ContentError, "out.png"):
        read(archive, tmp_path / "scratch")


@pytest.mark.parametrize("name", ["../out.png", "stimuli/../../out.png", "../scratch/unpacked-0-other/out.png"])
def test_a_member_of_a_tarball_whose_path_climbs_out_is_refused(tmp_path, name):
    archive = write_tar(tmp_path / "set" / "x.tar.gz", {name: b"x"})
    with refused(ContentError, "out.png"):
        read(archive, tmp_path / "scratch")
    assert set(files_in(tmp_path)) == {"set/x.tar.gz"}


def test_an_absolute_path_in_a_tarball_stays_below_the_scratch_folder(tmp_path):
    archive = write_tar(tmp_path / "set" / "x.tar", {f"/{tmp_path}/out.png": b"x"})
    assert list(read(archive, tmp_path / "scratch")) == [f"x{tmp_path}/out.png"]
    assert not (tmp_path / "out.png").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_link_or_device_in_a_tarball_is_refused(tmp_path, kind):
    entry = tarfile.TarInfo("stimuli/2.png")
    entry.type, entry.linkname = kind, "stimuli/1.png"
    archive = write_tar(tmp_path / "set" / "x.tar", CONTENT, extra=[entry])
    with refused(ContentError, "x.tar", "stimuli/2.png"):
        read(archive, tmp_path / "scratch")


def test_a_symbolic_link_in_a_zip_is_refused(tmp_path):
    entry = zipfile.ZipInfo("stimuli/2.png")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive = write_zip(tmp_path / "x.zip", {entry: b"/etc/passwd"})
    with refused(ContentError, "x.zip", "stimuli/2.png"):
        read(archive, tmp_path / "scratch")


# === Names ===


@pytest.mark.parametrize("name", ["a\x1b[31m.png", os.fsdecode(b"a/\xff.png")])
def test_a_name_that_no_file_should_have_is_refused(tmp_path, name):
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with refused(ContentError, "x.tar"):
        read(tmp_path / "x.tar", tmp_path / "scratch")


def unflagged(path):
    """Removes the flag of UTF-8 from the one member of a ZIP archive."""
    content = bytearray(path.read_bytes())
    content[7] &= ~8
    content[content.index(b"PK\1\2") + 9] &= ~8
    path.write_bytes(content)


def test_names_of_a_zip_are_utf_8_if_they_can_be_and_else_cp437(tmp_path):
    path = write_zip(tmp_path / "x.zip", {"ü/日.png": b"1"})
    unflagged(path)
    assert read(path, tmp_path / "scratch") == {"x/ü/日.png": b"1"}
    write_zip(path, {"ü.png": b"1"})
    path.write_bytes(path.read_bytes().replace("ü".encode(), b"\x81\x81"))
    unflagged(path)
    assert read(path, tmp_path / "scratch") == {"x/üü.png": b"1"}


# === Sizes ===


def test_a_member_larger_than_its_kind_needs_is_not_read(tmp_path):
    archive = write_zip(tmp_path / "x.zip", {"1.png": bytes(5000)})
    with archive_files.open_source(stored_at(archive), stored_at(archive).objects(), tmp_path) as (member,):
        with refused(ContentError, "1.png", "x.zip"):
            member.content(4999)
        assert member.content(5000) == bytes(5000)


def test_a_tarball_is_unpacked_only_where_there_is_room(tmp_path, monkeypatch):
    archive = write_tar(tmp_path / "x.tar", {"1.png": bytes(5000)})
    monkeypatch.setattr(files, "LEFT_BYTES", 10**18)
    with refused(PlaceError, "x.tar", "1.png"):
        read(archive, tmp_path / "scratch")


def test_an_archive_that_was_packed_once_more_on_its_way_is_read(tmp_path):
    archive = write_tar(tmp_path / "x.tgz", CONTENT)
    archive.write_bytes(gzip.compress(archive.read_bytes()))
    assert read(archive, tmp_path / "scratch") == {f"x/{name}": data for name, data in CONTENT.items()}
    archive.write_bytes(archive.read_bytes()[:-10])
    with refused(archive_files.DamagedArchiveError, "x.tgz"):
        read(archive, tmp_path / "scratch")


def test_the_last_of_several_members_with_one_name_counts(tmp_path):
    archive = write_tar(tmp_path / "x.tar", CONTENT, extra=[tarfile.TarInfo("notes/a.txt")])
    assert read(archive, tmp_path / "scratch") == {
        **{f"x/{k}": v for k, v in CONTENT.items()},
        "x/notes/a.txt": b"",
    }
