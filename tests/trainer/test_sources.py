import io
import os
import stat
import tarfile
import zipfile

import pytest

from tests.gcs import upload
from tests.small_sources import files, write_tar, write_zip
from trainer import sources, storage
from trainer.errors import UserError

CONTENT = {"stimuli/1.png": os.urandom(5000), "fixation/1.png": os.urandom(3000), "notes/a.txt": b"notes"}
JUNK = {"__MACOSX/stimuli/1.png": b"x", "stimuli/._1.png": b"x", "stimuli/Thumbs.db": b"x"}


def read(source, scratch):
    scratch.mkdir(exist_ok=True)
    source = str(source)
    with sources.opened(source, storage.list_objects(source), scratch) as members:
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
    kept = {name for name in files(tmp_path / "scratch") if storage.is_archive(name)}
    assert kept == ({"download/x.zip"} if archive.suffix == ".zip" else set())


def test_members_of_a_zip_are_not_unpacked(tmp_path):
    archive = write_zip(tmp_path / "x.zip", CONTENT)
    read(archive, tmp_path / "scratch")
    assert files(tmp_path / "scratch") == {}


@pytest.mark.parametrize("keep", [0.1, 0.4, 0.6])
def test_a_truncated_archive_is_named(archive, tmp_path, keep):
    content = archive.read_bytes()
    archive.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(UserError, match=rf"{archive.name} is incomplete or damaged .*it again"):
        read(archive, tmp_path / "scratch")


def test_a_tarball_truncated_between_members_is_named(tmp_path):
    archive = write_tar(tmp_path / "x.tar", CONTENT)
    with tarfile.open(archive) as opened:
        end = opened.getmembers()[-1].offset
    archive.write_bytes(archive.read_bytes()[:end])
    with pytest.raises(UserError, match=r"x\.tar is incomplete or damaged .*it again"):
        read(archive, tmp_path / "scratch")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_of_a_zip_with_another_checksum_is_named(tmp_path, compression):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w", compression) as written:
        written.writestr("stimuli/1.png", CONTENT["stimuli/1.png"])
    content = bytearray(archive.read_bytes())
    content[2000] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"stimuli/1\.png in x\.zip is incomplete or damaged .*it again"):
        read(archive, tmp_path / "scratch")


def test_a_gzip_with_another_checksum_at_its_end_is_named(tmp_path):
    archive = write_tar(tmp_path / "x.tar.gz", CONTENT)
    content = bytearray(archive.read_bytes())
    content[-8] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.tar\.gz is incomplete or damaged .*CRC.*it again"):
        read(archive, tmp_path / "scratch")


@pytest.mark.parametrize("name", ["../out.png", "stimuli/../../out.png", "/out.png", "..\\out.png", "C:\\out.png"])
@pytest.mark.parametrize("kind", ["x.zip", "x.tar.gz"])
def test_a_member_whose_path_climbs_out_is_refused(tmp_path, name, kind):
    write = write_zip if kind == "x.zip" else write_tar
    archive = write(tmp_path / "set" / kind, {name: b"x"})
    with pytest.raises(UserError, match=r"out\.png', whose path leads out of the archive; do not trust it"):
        read(archive, tmp_path / "scratch")
    assert set(files(tmp_path)) == {f"set/{kind}"}


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.FIFOTYPE, "device"),
    ],
)
def test_a_link_or_device_in_a_tarball_is_refused(tmp_path, kind, word):
    entry = tarfile.TarInfo("stimuli/2.png")
    entry.type, entry.linkname = kind, "stimuli/1.png"
    archive = write_tar(tmp_path / "set" / "x.tar", CONTENT, extra=[entry])
    with pytest.raises(UserError, match=rf"x\.tar has a member 'stimuli/2\.png' that is a {word}; pack it again"):
        read(archive, tmp_path / "scratch")


def test_a_symbolic_link_in_a_zip_is_refused(tmp_path):
    entry = zipfile.ZipInfo("stimuli/2.png")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive = write_zip(tmp_path / "x.zip", {entry: b"/etc/passwd"})
    with pytest.raises(UserError, match=r"x\.zip has a member 'stimuli/2\.png' that is a symbolic link; pack it"):
        read(archive, tmp_path / "scratch")


def test_two_members_with_the_same_name_in_a_tarball_are_refused(tmp_path):
    entry = tarfile.TarInfo("stimuli/1.png")
    archive = write_tar(tmp_path / "x.tar", CONTENT, extra=[entry])
    with pytest.raises(UserError, match=r"x\.tar has two members named 'stimuli/1\.png'; pack it again"):
        read(archive, tmp_path / "scratch")


def test_a_removed_file_is_named(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.png").write_bytes(b"a")
    objects = storage.list_objects(str(tmp_path / "set"))
    (tmp_path / "set" / "a.png").unlink()
    with (
        sources.opened(str(tmp_path / "set"), objects, tmp_path) as (member,),
        pytest.raises(UserError, match=r"cannot read a\.png .*changed or removed"),
    ):
        member.read()


@pytest.mark.parametrize("names", [["x" * 300], ["a", "a/b"]])
def test_a_member_of_a_tarball_that_cannot_be_unpacked_is_named(tmp_path, names):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(UserError, match=r"x.tar has a member .* that cannot be unpacked here"):
        read(path, tmp_path / "scratch")


def test_a_zip_with_damaged_names_or_lzma_is_named(tmp_path):
    path = write_zip(tmp_path / "x.zip", {"ü.png": b"1"})
    path.write_bytes(path.read_bytes().replace("ü".encode(), b"\xff\xfe"))
    with pytest.raises(UserError, match=r"x\.zip is incomplete or damaged"):
        read(path, tmp_path / "scratch")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.png", b"hello" * 5000)
    content = bytearray(path.read_bytes())
    for place in (45, 50, 55):
        content[place] ^= 0x5A
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.png in x\.zip is incomplete or damaged"):
        read(path, tmp_path / "scratch")
