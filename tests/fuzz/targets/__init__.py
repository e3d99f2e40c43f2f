"""What inputs are given to: the commands, the exported signature and the page's server, each with its oracle.

`our-files` has none but that nothing fails: what this project wrote, no other program reads.
"""

import importlib
import pathlib
import random
from collections.abc import Callable
from typing import Protocol

from tests.fuzz.verdicts import Input

NAMES = ("predict", "fetch", "serve-bytes", "demo", "our-files")


class Target(Protocol):
    def make(self, source: random.Random, folder: pathlib.Path) -> Input:
        """An input; its files are in `folder`, which is new."""


class _Targets(dict[str, Callable[[pathlib.Path], Target]]):
    """Name -> its class, imported when it is needed: one process needs not load all of them."""

    def __missing__(self, name: str) -> Callable[[pathlib.Path], Target]:
        self[name] = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").Target
        return self[name]


TARGETS = _Targets()
