"""JSON of our own, damaged by hand: values of other kinds and sizes, missing keys, and text that is no JSON."""

import copy
import json
import pathlib
import random
from typing import Any

from tests.fuzz.mutate import cut, mutated
from tests.fuzz.names import name

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**31, 10**30, 1e308, float("nan"), float("inf"), "", "text", "0", [], {}, [[]],
    [None], [0, 0], [1], [-8, -8], [30_000, 30_000], [32, 40, 3], ["32", "40"], [32.5, 40], {"a": 1}, {"": None},
    "\x1b[31m",
)  # fmt: skip
TEXTS = (b"", b"{", b"null", b"[]", b"\xff\xfe\0", b"{}", b'"x"', b"\xef\xbb\xbf{}", b"0" * 5000, b"{'a': 1}")


def written(value: Any) -> bytes:
    """The content of a file of a value, as this project writes it."""
    return f"{json.dumps(value, indent=2)}\n".encode()


def read(path: pathlib.Path) -> Any:
    return json.loads(path.read_bytes())


def document(value: Any, source: random.Random) -> tuple[str, bytes]:
    """(kind, content) of a file that should hold `value`."""
    kind = source.choice(("value", "value", "value", "missing", "root", "text", "damaged", "deep"))
    if kind == "text":
        return "text", source.choice(TEXTS)
    if kind == "deep":
        return "deep", b"[" * source.choice((500, 200_000))
    if kind == "root":
        return "root", json.dumps(source.choice(VALUES)).encode()
    content = written(value)
    if kind == "damaged":
        return "damaged", (cut if source.random() < 0.3 else mutated)(content, source)
    changed = copy.deepcopy(value)
    for _ in range(source.randint(1, 2)):
        _change(changed, source, kind)
    return kind, written(changed)


def _change(value: Any, source: random.Random, kind: str) -> None:
    """Change a value somewhere in a tree of dictionaries and lists, or leave it out."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = source.choice(keys)
        if isinstance(value[key], (dict, list)) and value[key] and source.random() < 0.7:
            value = value[key]
            continue
        break
    if kind == "missing":
        del value[key]
    else:
        value[key] = name(source) if source.random() < 0.2 else source.choice(VALUES)
