"""Fails in every way, to try the runner itself: what an input does is drawn from WAYS."""

import functools
import os
import pathlib
import random
import sys
import time

from tests.fuzz import verdicts
from tests.fuzz.verdicts import Input, RefusedError, expect

NAME = "line\nbreak"


class Target:
    def __init__(self, folder: pathlib.Path) -> None:
        pass

    def make(self, source: random.Random, folder: pathlib.Path) -> Input:
        way = drawn(source)
        if way == "not made":
            raise ValueError("no such input")
        run = functools.partial(RUNS[way], folder)
        compare = functools.partial(expect, way != "other values", "the map is 3 x 4, the picture 4 x 3")
        return Input(way, run, compare, way == "sound and refused", (NAME,), folder / "out")


def drawn(source: random.Random) -> str:
    """The way of the input that is made of `source`."""
    return source.choice(tuple(WAYS))


def _accept(folder: pathlib.Path) -> None:
    print("wrote it")


def _refuse(folder: pathlib.Path, said: str = "error: it is empty; give another") -> None:
    print(said, file=sys.stderr)
    raise RefusedError


def _raise(folder: pathlib.Path) -> None:
    raise KeyError("image_size")


def _leave(folder: pathlib.Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / ".partial-1").write_bytes(b"half")
    _refuse(folder, "error: no space left; free some")


RUNS = {
    "right": _accept,
    "refused": _refuse,
    "sound and refused": _refuse,
    "other values": _accept,
    "exception": _raise,
    "exception in a thread": lambda folder: print(f"{verdicts.TRACE}:\n  ...\nValueError: 3"),
    "much memory": lambda folder: print(len(bytearray(2**40))),
    "endless": lambda folder: time.sleep(10_000),
    "abort": lambda folder: os.abort(),
    "exit": lambda folder: os._exit(0),
    "no sentence": lambda folder: _refuse(folder, ""),
    "escape": lambda folder: _refuse(folder, "error: it is \x1b[31mred; give another"),
    "name": lambda folder: print(f"wrote {NAME}"),
    "leftover": _leave,
}
WAYS = {
    "right": verdicts.ACCEPTED,
    "refused": verdicts.REFUSED,
    "sound and refused": verdicts.DIFFERENT,
    "other values": verdicts.DIFFERENT,
    "exception": verdicts.TRACEBACK,
    "exception in a thread": verdicts.TRACEBACK,
    "much memory": verdicts.TRACEBACK,
    "endless": verdicts.HANG,
    "abort": verdicts.SIGNAL,
    "exit": verdicts.SIGNAL,
    "no sentence": verdicts.UNTIDY,
    "escape": verdicts.UNTIDY,
    "name": verdicts.UNTIDY,
    "leftover": verdicts.UNTIDY,
    "not made": verdicts.BROKEN,
}
"""Way -> the verdict on it."""
