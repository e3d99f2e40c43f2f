"""Damage to the bytes of a file, drawn from a `random.Random`."""

import random
import struct

EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 2**63 - 1, 2**64 - 1)
EDGE_BYTES = 512
"""At both ends of a file is most of what says how to read the rest."""
OTHERS = (
    b"\0" * 1000,
    b"This is no such file.\n" * 50,
    b"<!DOCTYPE html><html>404</html>",
    b"PK\3\4" + bytes(200),
    b"\x89PNG\r\n\x1a\n" + bytes(1000),
    b"\x89HDF\r\n\x1a\n" + bytes(1000),
)


def cut(data: bytes, source: random.Random) -> bytes:
    """The beginning of the data: of any length, or all but a few bytes."""
    return data[: source.choice((source.randint(0, len(data)), max(0, len(data) - source.randint(1, 16))))]


def flipped(data: bytes, source: random.Random) -> bytes:
    """The data with another bit."""
    at = _at(data, source)
    return _replaced(data, at, bytes([data[at] ^ 1 << source.randrange(8)]))


def extreme(data: bytes, source: random.Random) -> bytes:
    """The data with a number that is too large, or none, instead of others."""
    width = source.choice("BHIQ")
    number = source.choice(EXTREMES) & (256 ** struct.calcsize(width) - 1)
    return _replaced(data, _at(data, source), struct.pack(source.choice("<>") + width, number))[: len(data)]


def altered(data: bytes, source: random.Random) -> bytes:
    """The data with a part missing, twice, or replaced by zeros or noise."""
    start = _at(data, source)
    part = data[start : start + source.choice((1, 4, 16, 64, 1024))]
    instead = source.choice((b"", part + part, bytes(len(part)), source.randbytes(len(part))))
    return data[:start] + instead + data[start + len(part) :]


def swapped(data: bytes, source: random.Random) -> bytes:
    """The data with its end before its beginning."""
    at = source.randint(1, len(data) - 1)
    return data[at:] + data[:at]


def empty(data: bytes, source: random.Random) -> bytes:
    """No data."""
    return b""


def other(data: bytes, source: random.Random) -> bytes:
    """Data of another kind."""
    return source.choice(OTHERS)


DAMAGES = (cut, swapped, flipped, extreme, altered, altered)


def _at(data: bytes, source: random.Random) -> int:
    near = source.randrange(min(len(data), EDGE_BYTES))
    return source.choice((near, near, len(data) - 1 - near, source.randrange(len(data))))


def _replaced(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]
