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
    b"%PDF-1.7\n",
    b"PK\3\4" + bytes(200),
    b"\x89PNG\r\n\x1a\n" + bytes(1000),
    b"\x89HDF\r\n\x1a\n" + bytes(1000),
    b"[" * 200_000,
    b"{}",
    b"\xff\xfe\0",
    b"0" * 5000,
)


def cut(data: bytes, source: random.Random) -> bytes:
    """The beginning of the data: of any length, or all but a few bytes."""
    return data[: source.choice((source.randint(0, len(data)), max(0, len(data) - source.randint(1, 16))))]


def flipped(data: bytes, source: random.Random) -> bytes:
    """The data with another bit."""
    place = _place(data, source)
    return _replaced(data, place, bytes([data[place] ^ 1 << source.randrange(8)])) if data else data


def extreme(data: bytes, source: random.Random) -> bytes:
    """The data with a number that is too large, or none, in the place of others."""
    width = source.choice("BHIQ")
    number = source.choice(EXTREMES) & (256 ** struct.calcsize(width) - 1)
    return _replaced(data, _place(data, source), struct.pack(source.choice("<>") + width, number))[: len(data)]


def missing(data: bytes, source: random.Random) -> bytes:
    """The data without a part of it."""
    start, end = _part(data, source)
    return data[:start] + data[end:]


def doubled(data: bytes, source: random.Random) -> bytes:
    """The data with a part twice."""
    start, end = _part(data, source)
    return data[:end] + data[start:]


def zeroed(data: bytes, source: random.Random) -> bytes:
    """The data with zeros in the place of a part."""
    start, end = _part(data, source)
    return _replaced(data, start, bytes(end - start))


def noisy(data: bytes, source: random.Random) -> bytes:
    """The data with noise in the place of a part."""
    start, end = _part(data, source)
    return _replaced(data, start, source.randbytes(end - start))


def swapped(data: bytes, source: random.Random) -> bytes:
    """The data with its end before its beginning."""
    place = source.randint(1, max(1, len(data) - 1))
    return data[place:] + data[:place]


def longer(data: bytes, source: random.Random) -> bytes:
    """The data with noise after it."""
    return data + source.randbytes(source.choice((1, 16, 2000)))


def empty(data: bytes, source: random.Random) -> bytes:
    """No data."""
    return b""


def other(data: bytes, source: random.Random) -> bytes:
    """Data of another kind."""
    return source.choice(OTHERS)


DAMAGES = (cut, swapped, flipped, extreme, missing, doubled, zeroed, noisy, longer)
ALL = (*DAMAGES, empty, other)


def _place(data: bytes, source: random.Random) -> int:
    near = source.randrange(min(len(data), EDGE_BYTES)) if data else 0
    return source.choice((near, near, max(0, len(data) - 1 - near), source.randrange(len(data)) if data else 0))


def _part(data: bytes, source: random.Random) -> tuple[int, int]:
    start = _place(data, source)
    return start, min(len(data), start + source.choice((1, 4, 16, 64, 1024)))


def _replaced(data: bytes, place: int, new: bytes) -> bytes:
    return data[:place] + new + data[place + len(new) :]
