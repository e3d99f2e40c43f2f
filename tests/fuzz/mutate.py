"""Damage to bytes: bits that flip, numbers that are extreme, parts that are missing, doubled or noise."""

import random
import struct

EXTREMES = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    2**63 - 1,
    2**64 - 1,
)
HEAD_BYTES = 512
"""At both ends of a file is most of what says how to read the rest."""


def mutated(data: bytes, source: random.Random, most: int = 4) -> bytes:
    """The data after one to `most` damages."""
    for _ in range(source.randint(1, most)):
        data = source.choice(DAMAGES)(data, source)
    return data


def cut(data: bytes, source: random.Random) -> bytes:
    """The beginning of the data: of any length, or all but a few bytes."""
    if source.random() < 0.5:
        return data[: source.randint(0, len(data))]
    return data[: max(0, len(data) - source.randint(1, 16))]


def replaced(data: bytes, position: int, new: bytes) -> bytes:
    """The data with `new` in the place of as many bytes at a position."""
    return data[:position] + new + data[position + len(new) :]


def _place(data: bytes, source: random.Random) -> int:
    near = source.randrange(min(len(data), HEAD_BYTES)) if data else 0
    return source.choice((near, near, max(0, len(data) - 1 - near), source.randrange(len(data)) if data else 0))


def _part(data: bytes, source: random.Random) -> tuple[int, int]:
    start = _place(data, source)
    return start, min(len(data), start + source.choice((1, 2, 4, 16, 64, 1024)))


def _flip(data: bytes, source: random.Random) -> bytes:
    if not data:
        return data
    place = _place(data, source)
    return replaced(data, place, bytes([data[place] ^ 1 << source.randrange(8)]))


def _extreme(data: bytes, source: random.Random) -> bytes:
    number, width = source.choice(EXTREMES), source.choice((1, 2, 4, 8))
    kind = source.choice("<>") + {1: "B", 2: "H", 4: "I", 8: "Q"}[width]
    return replaced(data, _place(data, source), struct.pack(kind, number & (256**width - 1)))[: len(data)]


def _missing(data: bytes, source: random.Random) -> bytes:
    start, end = _part(data, source)
    return data[:start] + data[end:]


def _doubled(data: bytes, source: random.Random) -> bytes:
    start, end = _part(data, source)
    return data[:end] + data[start:]


def _zeros(data: bytes, source: random.Random) -> bytes:
    start, end = _part(data, source)
    return replaced(data, start, bytes(end - start))


def _noise(data: bytes, source: random.Random) -> bytes:
    start, end = _part(data, source)
    return replaced(data, start, source.randbytes(end - start))


def _longer(data: bytes, source: random.Random) -> bytes:
    return data + source.randbytes(source.choice((1, 16, 2000)))


DAMAGES = (_flip, _flip, _extreme, _extreme, _missing, _doubled, _zeros, _noise, _longer, cut)
