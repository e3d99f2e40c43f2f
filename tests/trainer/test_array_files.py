"""Arrays are written with the system's errors, and damaged maps are refused."""

import contextlib
import errno
import io
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from trainer.array_files import read_map, write_array
from trainer.errors import ContentError

MAP = np.random.default_rng(0).random((30, 40), np.float32)


@pytest.mark.parametrize("array", [MAP, MAP[:, ::2].T, np.zeros((0, 3)), np.int64(3)])
def test_bytes_are_those_of_numpy(array, tmp_path):
    expected = io.BytesIO()
    np.save(expected, array)
    write_array(tmp_path / "array.npy", array)
    assert (tmp_path / "array.npy").read_bytes() == expected.getvalue()


def test_full_disk_is_an_error_with_its_number():
    with pytest.raises(OSError) as error:
        write_array(pathlib.Path("/dev/full"), np.zeros(100_000))
    assert error.value.errno == errno.ENOSPC


WRITE = """
import pathlib, resource, sys
import numpy as np
from trainer.errors import reported
from trainer.prediction.predict import write_result

resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))
with reported():
    write_result(pathlib.Path(sys.argv[1]), "npy", np.zeros((2000, 2000), np.float32), None)
"""


def test_map_that_has_no_room_ends_prediction_with_a_sentence(tmp_path):
    command = [sys.executable, "-c", WRITE, tmp_path / "map.npy"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert finished.returncode == 1
    assert finished.stderr.startswith(f"error: no space left to write {tmp_path}/map.npy (")
    assert finished.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_map_is_read(tmp_path):
    write_array(tmp_path / "map.npy", MAP)
    np.testing.assert_array_equal(read_map(tmp_path / "map.npy", ""), MAP)


@pytest.mark.parametrize("wrong", [MAP[0], MAP.astype(float), -MAP, MAP * np.nan, np.array([[{}]])])
def test_other_arrays_are_refused(wrong, tmp_path):
    np.save(tmp_path / "map.npy", wrong)
    with pytest.raises(ContentError, match=r"map.npy is missing or damaged \(.*\): make it again$"):
        read_map(tmp_path / "map.npy", "make it again")


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "map.npy"
    with pytest.raises(ContentError):
        read_map(path, "")
    write_array(path, MAP)
    whole = path.read_bytes()
    for at in range(130):
        path.write_bytes(whole[:at])
        with pytest.raises(ContentError):
            read_map(path, "")
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        with contextlib.suppress(ContentError):
            assert read_map(path, "").ndim == 2
