"""The worker: results and errors come back, limits hold, threads share it, and nothing is left behind."""

import io
import json
import os
import pathlib
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import h5py
import polars
import pytest

from tests.refusals import refused
from trainer.data.recordings import tables
from trainer.data.source_layout import read_matlab, read_matlab_set
from trainer.errors import ContentError, FailedError, UserError
from trainer.machine import untrusted
from trainer.machine.untrusted import Limits
from trainer.places.archive_files import Member


@pytest.fixture(autouse=True)
def fresh():
    """Each test begins and ends without a worker."""
    untrusted.end_untrusted()
    yield
    untrusted.end_untrusted()


def value_of(expression, limits=None):
    return untrusted.call_untrusted("builtins.eval", expression, file="x.mat", remedy="do it again", limits=limits)


def run(code, limits=None):
    return untrusted.call_untrusted("builtins.exec", code, file="x.mat", remedy="do it again", limits=limits)


def doubled(number):
    """Twice the number, and the worker's process."""
    return value_of(f"2 * {number!r}, __import__('os').getpid()")


ENDLESS = "while True: pass"


def is_running(pid):
    """Whether a process exists; one that has ended and that nobody waited for does not."""
    if sys.platform == "linux":  # where a minimal system has no ps
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    status = subprocess.run(("ps", "-o", "stat=", "-p", str(pid)), capture_output=True, text=True).stdout
    return bool(status.strip()) and "Z" not in status


def ends(pid):
    end = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.1)
    return not is_running(pid)


# === Results and errors ===


def test_results_and_errors_come_back_from_one_process():
    value, pid = doubled(21)
    assert (value, pid != os.getpid()) == (42, True)
    with refused(UserError, "no"):
        run("from trainer.errors import UserError; raise UserError('no')")
    with pytest.raises(FileNotFoundError) as caught:
        run("open('/nowhere/at/all')")
    assert caught.value.filename == "/nowhere/at/all"
    assert doubled("a") == ("aa", pid)


def test_any_other_error_names_the_file_and_keeps_its_traceback():
    with refused(ContentError, "x.mat", "KeyError: 'a'", "do it again") as caught:
        run("{}['a']")
    assert "Traceback" in caught.value.__notes__[0]
    assert doubled(1)[0] == 2


@pytest.mark.parametrize(
    ("code", "limits", "named"),
    [
        ("import signal; signal.raise_signal(signal.SIGSEGV)", None, "SIGSEGV"),
        ("import os; os.abort()", None, "SIGABRT"),
        (ENDLESS, Limits(seconds=0.5), "0.5 s"),
        ("import itertools; sum(itertools.count())", Limits(seconds=0.5), "0.5 s"),
        pytest.param(
            *("[bytes(10**7) for _ in range(10**6)]", Limits(memory_bytes=5 * 10**8)),
            "0.5 GB",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit"),
        ),
        ("open('file', 'wb').write(bytes(10**6))", Limits(written_bytes=10**5), "0.0001 GB"),
    ],
)
def test_a_crash_and_each_limit_name_the_file(code, limits, named, tmp_path):
    with refused(ContentError, "x.mat", named):
        run(code.replace("'file'", repr(str(tmp_path / "file"))), limits)
    assert doubled(1)[0] == 2


def test_an_end_from_outside_does_not_blame_the_content():
    with refused(FailedError, "x.mat", "SIGKILL"):
        run("import os; os.kill(os.getpid(), 9)")


def test_a_worker_that_ended_between_two_calls_is_replaced():
    _, pid = doubled(1)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # its threads have ended too
    assert doubled(1) != (2, pid)


# === Threads, and the end ===


def test_threads_share_one_worker_and_get_their_own_results():
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(doubled, range(200)))
    assert [value for value, _ in results] == [2 * number for number in range(200)]
    assert len({pid for _, pid in results}) == 1


def test_a_fork_begins_a_worker_of_its_own():
    script = """
import os, warnings
from trainer.machine import untrusted
warnings.simplefilter("ignore")
ask = lambda: untrusted.call_untrusted("os.getpid", file="x")
first = ask()
if not os.fork():
    other = ask()
    untrusted.end_untrusted()
    os._exit(first == other)
_, status = os.wait()
assert not status and ask() == first
"""
    subprocess.run((sys.executable, "-c", script), check=True)


def test_ctrl_c_ends_the_call_and_the_worker(tmp_path):
    def press():
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with pytest.raises(KeyboardInterrupt):  # not only at the limit, as Polars, imported above, would have it
        run(f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{ENDLESS}", Limits(20))
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime < before + 10
    assert not is_running(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("how", ["returns", "killed"])
def test_no_worker_outlives_its_process(how):
    """Neither after the end of a script without `if __name__`, nor after SIGKILL in the middle of a call."""
    code = "import os; print(os.getpid(), flush=True)" + ("\nwhile True: pass" if how == "killed" else "")
    script = (
        f"from trainer.machine import untrusted\nuntrusted.call_untrusted('builtins.exec', {code!r}, file='x')"
    )
    with subprocess.Popen(
        (sys.executable, "-c", script),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as caller:
        pid = int(next(caller.stdout))
        if how == "killed":
            caller.kill()
    assert ends(pid)


# === Small files that unpack to much ===


def element(kind, content):
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def deflated(head, block, n):
    """A stream of `head` and `n` times `block`, which is compressed once; it has no end."""
    deflater = zlib.compressobj(9)
    first = deflater.compress(head) + deflater.flush(zlib.Z_FULL_FLUSH)
    return first + (deflater.compress(block) + deflater.flush(zlib.Z_FULL_FLUSH)) * n


def mat(mx_class, size, head, block, n):
    """A MATLAB file with one compressed variable `s`, which holds `head` and `n` times `block`."""
    first = element(6, struct.pack("<II", mx_class, 0)) + element(5, struct.pack("<2i", *size)) + element(1, b"s")
    whole = struct.pack("<II", 14, len(first) + len(head) + len(block) * n) + first + head
    packed = deflated(whole, block, n)
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    return header + struct.pack("<II", 15, len(packed)) + packed


def huge_matrix():
    """A MATLAB file of PASCAL-S with an array of 4 TB that unpacks from nothing."""
    content = io.BytesIO()
    with h5py.File(content, "w", userblock_size=512) as file:
        huge = file.create_dataset("huge", (3, 2**37), "f8", chunks=(3, 1024))
        file.create_dataset("fixCell", (1, 1), h5py.ref_dtype)[0, 0] = huge.ref
    return content.getvalue()


def read_mat(content):
    read_matlab(Member("x.mat", "x.mat", lambda: content), (48, 64))


def read_pascals(content):
    read_matlab_set("pascals", {"pascalfix.mat": Member("x.mat", "x.mat", lambda: content)})


def read_parquet(content):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "x.mat.parquet")
        path.write_bytes(content)
        head = tables.read_head(path, path.name, {})
        tables.read_table(path, path.name, head, {"image": 0, "x": 1, "y": 2})


def parquet(n_rows, length):
    """A table of fixations whose rows all refer to one image with a long name."""
    content = io.BytesIO()
    names = polars.repeat("x" * length, n_rows)
    rows = polars.select(image=names, x=polars.repeat(1, n_rows), y=polars.repeat(2, n_rows))
    rows.write_parquet(content, row_group_size=50)  # at once, they would unpack here
    return content.getvalue()


def read_compact(content):
    return untrusted.call_untrusted("trainer.network.compact.decode_compact", content, file="x.mat")


def npy(shape, dtype, values=b""):
    """An array of numpy that says of itself what it likes."""
    head = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}}}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + values


def npz(array):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a/kernel.npy", array)
    return content.getvalue()


CELL = element(14, b"")
HOSTILE = {
    "100 M letters": (
        read_mat,
        lambda: mat(4, (1, 10**8), struct.pack("<II", 4, 2 * 10**8), "日".encode("utf-16-le") * 10**6, 100),
    ),
    "25 M cells": (read_mat, lambda: mat(1, (1, 25 * 10**6), b"", CELL * 10**6, 25)),
    "HDF5 of 4 TB": (read_pascals, huge_matrix),
    "Parquet of 5 GB": (read_parquet, lambda: parquet(2000, 2_500_000)),
    "compact of 4 TB": (read_compact, lambda: npz(npy((2**42,), "|i1"))),
    "compact of objects": (read_compact, lambda: npz(npy((1,), "|O"))),
}
"""Inputs of the review of 2026-11-23, and their like: what reads each, and what makes it."""


def measure():
    """Read all of HOSTILE; prints a JSON object: name -> seconds, bytes of memory, message."""
    measured = {}
    for name, (read, make) in HOSTILE.items():
        content = make()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            read(content)
            message = "accepted"
        except UserError as error:
            message = str(error)
        untrusted.end_untrusted()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        measured[name] = seconds, after.ru_maxrss * 1024, message
    print(json.dumps(measured))


@pytest.fixture(scope="module")
def measured():
    """The result of `measure` in a process whose only child is the worker."""
    code = f"from {__name__} import measure; measure()"
    done = subprocess.run((sys.executable, "-c", code), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
@pytest.mark.parametrize("name", HOSTILE)
def test_small_files_that_unpack_to_much_are_refused_in_10_s_and_2_gb(name, measured):
    seconds, memory_bytes, message = measured[name]
    assert message.startswith("x.mat")
    assert seconds < 10
    assert memory_bytes < 2e9
