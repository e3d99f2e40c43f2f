"""Errors of a source are reported with names, numbers and a remedy, and leave nothing behind."""

import os
import pathlib
import stat
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest

from tests.gcs import answering, refusing, serving, upload
from tests.small_sources import density_map, files, point_map, save, stimulus, write_tar, write_tree, write_zip
from trainer import storage
from trainer.config import FetchConfig
from trainer.data import fetch
from trainer.errors import UserError


@pytest.fixture
def tree(tmp_path):
    """A valid source."""
    return write_tree(tmp_path / "tree")


@pytest.fixture
def refused(tmp_path):
    """Checks that fetching a source fails with a message and leaves nothing."""

    def check(source, message, dataset="osie", **settings):
        settings = {"image_size": "24x32", "allow_partial_data": True, **settings}
        with pytest.raises(UserError, match=message):
            fetch.fetch_dataset(
                FetchConfig(dataset=dataset, source=str(source), **settings), tmp_path / "out" / "set"
            )
        assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []

    return check


# === The source ===


def test_a_source_that_is_missing(refused, tmp_path):
    refused(tmp_path / "none", r"none does not exist; give a folder, an archive")


@pytest.mark.parametrize("path", ["", "/set", "/set.tar.gz"])
def test_a_bucket_that_is_missing(refused, bucket, path):
    refused(f"gs://{bucket.name}-not{path}", f"no bucket '{bucket.name}-not'.*check the address")


@pytest.mark.parametrize("path", ["set", "set.tar.gz"])
def test_a_prefix_or_archive_that_is_missing(refused, bucket, path):
    refused(f"gs://{bucket.name}/{path}", f"nothing at gs://{bucket.name}/{path}; .*gcloud storage ls")


@pytest.mark.parametrize("source", ["gs://private/set", "gs://private/set.tar.gz"])
def test_no_permission(refused, monkeypatch, source):
    with answering(monkeypatch, refusing(403)):
        refused(source, rf"no permission to read {source} \(403\): log in .*Object Viewer")


def test_recordings_of_ones_own_without_a_source(refused):
    refused("", "recordings of your own have no public place; give their folder", dataset="custom")


def test_recordings_of_ones_own_that_are_read_as_another_dataset(refused, tmp_path):
    save(tmp_path / "lab" / "images" / "pic00.jpg", stimulus(0, (48, 64)))
    (tmp_path / "lab" / "fixations.csv").write_text("image,x,y\npic00.jpg,3,4\n")
    read_as = r"lab was read as the dataset salicon; recordings of your own are the dataset custom\)$"
    refused(tmp_path / "lab", rf"images/pic00\.jpg is neither in train/ nor in val/.* \(.*{read_as}", "salicon")


def test_an_unknown_dataset(refused, tree):
    refused(tree, "unknown dataset 'salcon'; did you mean 'salicon'", dataset="salcon")
    with pytest.raises(UserError, match="did you mean 'salicon'"):
        fetch.fingerprint("salcon", str(tree))


def test_image_size_that_the_network_cannot_halve():
    with pytest.raises(UserError, match=r"100x320: .* divisible by 8; the nearest size is 96x320"):
        FetchConfig(image_size="100x320")


def test_an_output_that_exists(tree, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(UserError, match="mine exists already; remove it, or name another"):
        fetch.fetch_dataset(FetchConfig("osie", str(tree), allow_partial_data=True), tmp_path / "mine")
    assert files(tmp_path / "mine") == {"file": b""}


# === Archives ===


@pytest.mark.parametrize("kind", ["set.zip", "set.tar.gz"])
def test_a_truncated_archive(refused, tree, tmp_path, kind):
    archive = (write_zip if kind == "set.zip" else write_tar)(tmp_path / kind, files(tree))
    archive.write_bytes(archive.read_bytes()[:-100])
    refused(archive, rf"{kind} is incomplete or damaged .*it again")


def test_a_member_with_a_bad_checksum(refused, tree, tmp_path):
    archive = write_zip(tmp_path / "set.zip", files(tree))
    pixels = files(tree)["stimuli/3.png"]
    archive.write_bytes(archive.read_bytes().replace(pixels, pixels[:-20] + b"x" + pixels[-19:]))
    refused(archive, r"stimuli/3\.png in set\.zip is incomplete or damaged \(Bad CRC-32 .*it again")


def test_an_object_with_a_bad_checksum(refused, tree, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "RETRY_S", 0.5)
    content = write_tar(tmp_path / "set.tar.gz", files(tree)).read_bytes()
    with answering(monkeypatch, serving(content, listed=content[:-1], name="set.tar.gz")):
        refused(
            "gs://any/set.tar.gz", r"set\.tar\.gz of gs://any/set\.tar\.gz arrived .* its server says .*try again"
        )


@pytest.mark.parametrize("kind", ["set.zip", "set.tar.gz"])
def test_a_path_that_climbs_out(refused, tree, tmp_path, kind):
    write = write_zip if kind == "set.zip" else write_tar
    archive = write(tmp_path / kind, {**files(tree), "stimuli/../../../out.png": b"x"})
    refused(archive, rf"{kind} has a member 'stimuli/../../../out\.png', whose path leads out")
    assert not list(tmp_path.rglob("out.png"))


def test_a_symbolic_link_in_a_tarball(refused, tree, tmp_path):
    link = tarfile.TarInfo("stimuli/link.png")
    link.type, link.linkname = tarfile.SYMTYPE, "1.png"
    archive = write_tar(tmp_path / "set.tar.gz", files(tree), extra=[link])
    refused(archive, r"set\.tar\.gz has a member 'stimuli/link\.png' that is a link")


def test_a_symbolic_link_in_a_zip(refused, tree, tmp_path):
    link = zipfile.ZipInfo("stimuli/link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive = write_zip(tmp_path / "set.zip", {**files(tree), link: b"1.png"})
    refused(archive, r"set\.zip has a member 'stimuli/link\.png' that is a link")


# === Images and maps ===


def test_an_image_that_does_not_decode(refused, tree):
    (tree / "stimuli" / "3.png").write_bytes(b"no picture")
    refused(tree, r"stimuli/3\.png does not decode as an image .*it again")


def test_an_image_without_a_map_and_a_map_without_an_image(refused, tree):
    (tree / "fixation" / "3.png").unlink()
    refused(tree, "image without a map: '3'; add")
    (tree / "stimuli" / "3.png").unlink()
    (tree / "stimuli" / "4.png").unlink()
    refused(tree, "map without an image: '4'; add")


def test_a_map_of_another_aspect_ratio(refused, tree):
    save(tree / "fixation" / "3.png", point_map((32, 32)))
    refused(tree, r"fixation/3\.png is 32 x 32 pixels .*image is 24 x 32, another aspect ratio; replace it")


def test_an_empty_map(refused, tree):
    save(tree / "fixation" / "3.png", np.zeros((24, 32), np.uint8))
    refused(tree, r"fixation/3\.png is empty, all its pixels are 0; replace it")


def test_a_map_that_is_empty_after_shrinking(refused, tmp_path):
    def faint(index):
        pixels = np.zeros((240, 320), np.uint8)
        pixels[0, :20] = np.arange(20)  # too many levels for points
        return pixels

    for index in range(7):
        save(tmp_path / "tree" / "stimuli" / f"{index}.png", stimulus(index, (240, 320)))
        save(tmp_path / "tree" / "maps" / f"{index}.png", faint(index))
    refused(
        tmp_path / "tree",
        r"is empty after shrinking it to 8 x 16 pixels; use a larger image_size",
        image_size="8x16",
    )


def test_two_files_with_the_same_name(refused, tree):
    save(tree / "stimuli" / "3.jpg", stimulus(3))
    refused(
        tree, r"two files with the same name: stimuli/3\.jpg and stimuli/3\.png would both be the stimulus of '3'"
    )


def test_points_among_densities(refused, tree):
    save(tree / "fixation" / "3.png", density_map(3))
    refused(tree, r"fixation/\d\.png is (density|points), but fixation/\d\.png is (points|density): all maps")


def test_other_counts_than_those_of_the_complete_dataset(refused, tree, monkeypatch):
    monkeypatch.setattr("trainer.data.layout.limited", None)  # images are counted first
    message = r"5 training and 2 validation images, the complete dataset has 500 and 200; .*allow_partial_data"
    refused(tree, message, allow_partial_data=False)


def test_an_error_in_a_bucket_leaves_no_download(refused, tree, bucket):
    (tree / "stimuli" / "3.png").write_bytes(b"no picture")
    refused(upload(bucket, tree), r"stimuli/3\.png does not decode")


# === Disk ===

FILL = """
import pathlib, resource, sys
from trainer.data import fetch
from trainer.config import FetchConfig
from trainer.errors import UserError

folder, limit_bytes = pathlib.Path(sys.argv[1]), int(sys.argv[2])
if limit_bytes:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
for source in sys.argv[3:]:
    try:
        fetch.fetch_dataset(FetchConfig("osie", source, "240x320", allow_partial_data=True), folder / "set")
    except UserError as error:
        print(error, list(folder.iterdir()))
"""


def test_a_full_disk(tmp_path, tree):
    """Shards, or files unpacked before them, that are too large: 7 examples have 1.6 MB, the disk 0.5."""
    large = {f"stimuli/{index}.bin": os.urandom(100_000) for index in range(20)}
    write_tar(tmp_path / "large.tar", {**large, "stimuli/large.bin": os.urandom(900_000)})
    command = [sys.executable, "-c", FILL, str(tmp_path / "disk")]
    sources = [str(tree), str(tmp_path / "large.tar")]
    (tmp_path / "disk").mkdir()
    mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=500k none "$0" && exec "$@"', command[-1]]
    if subprocess.run([*mount, "true"], capture_output=True).returncode == 0:
        command = [*mount, *command, "0", *sources]
    else:  # without the right to mount a disk, a limit of file sizes replaces it
        command = [*command, "500000", *sources]
    root = pathlib.Path(__file__).parents[3]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    shards, unpacked = (line for line in answer.stdout.splitlines() if line.endswith(" []"))  # nothing is left
    full = f"no space left to write {tmp_path}/disk/set ("
    assert shards.startswith(full)
    assert shards.endswith("free some, or name a folder on another disk []")
    no_room = "large.tar has a file stimuli/0.bin that unpacks to 0.0001 GB, but the disk has room for 0 GB more"
    # The limit of file sizes does not show beforehand.
    assert unpacked.startswith((no_room, full, f"cannot unpack large.tar to {tmp_path}/disk/"))
