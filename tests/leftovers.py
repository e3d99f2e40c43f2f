"""What a process leaves that is killed while it has a temporary folder."""

import subprocess
import sys

from trainer import files

MAKE = """
import sys, time
from trainer import files

with files.folder(sys.argv[1], sys.argv[2]) as path:
    (path / "half").write_text("half")
    print(path.name, flush=True)
    sys.stdin.read()
"""


def living(kind, place):
    """A process that has a temporary folder, and that folder; it ends when its input is closed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", MAKE, kind, place], **pipes)
    return process, place / process.stdout.readline().strip()


def leave(kind, place):
    """The folder that a killed process has left in `place`."""
    process, path = living(kind, place)
    with process:
        process.kill()
    assert (path / "half").exists()
    files._sweep.cache_clear()  # as in a process that starts now
    return path
