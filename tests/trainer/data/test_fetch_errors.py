"""Errors of a source are reported with names, numbers and a remedy, and leave nothing behind."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests import refusals
from tests.small_sources import density_map, files, save, stimulus, write_tar, write_tree
from trainer.data import fetch
from trainer.data.settings import FetchConfig
from trainer.errors import ContentError
from trainer.places import archive_files


@pytest.fixture
def tree(tmp_path):
    """A valid source."""
    return write_tree(tmp_path / "tree")


@pytest.fixture
def refused(tmp_path):
    """Checks that fetching a source fails with a mistake that names values, and leaves nothing."""

    def check(kind, source, *named, dataset="osie", **settings):
        settings = {"image_size": "24x32", "allow_partial_data": True, **settings}
        with refusals.refused(kind, *named):
            fetch.fetch_dataset(
                FetchConfig(dataset=dataset, source=str(source), **settings), tmp_path / "out" / "set"
            )
        assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []

    return check


def test_recordings_of_ones_own_that_are_read_as_another_dataset(refused, tmp_path):
    save(tmp_path / "lab" / "images" / "pic00.jpg", stimulus(0, (48, 64)))
    (tmp_path / "lab" / "fixations.csv").write_text("image,x,y\npic00.jpg,3,4\n")
    refused(ContentError, tmp_path / "lab", "salicon", "custom", dataset="salicon")


def test_an_archive_that_is_damaged_after_its_first_files(refused, tree, tmp_path):
    archive = write_tar(tmp_path / "set.tar.gz", files(tree))
    archive.write_bytes(archive.read_bytes()[:-100])
    refused(archive_files.DamagedArchiveError, archive, "set.tar.gz")


def test_a_map_that_is_empty_after_shrinking(refused, tmp_path):
    faint = np.zeros((240, 320), np.uint8)
    faint[0, :20] = np.arange(20)  # too many levels for points
    for index in range(7):
        save(tmp_path / "tree" / "stimuli" / f"{index}.png", stimulus(index, (240, 320)))
        save(tmp_path / "tree" / "maps" / f"{index}.png", faint)
    refused(ContentError, tmp_path / "tree", "8 x 16", "image_size", image_size="8x16")


def test_points_among_densities(refused, tree):
    save(tree / "fixation" / "3.png", density_map(3))
    refused(ContentError, tree, "fixation/3.png", "density", "points")


FILL = """
import pathlib, resource, sys
from trainer.data import fetch
from trainer.data.settings import FetchConfig
from trainer.places import archive_files
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
    no_room = "large.tar has a file stimuli/0.bin that unpacks to 0.0001 GB, but the disk has room for 0 GB more"
    # The limit of file sizes does not show beforehand.
    assert unpacked.startswith((no_room, full))
