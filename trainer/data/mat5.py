"""Read variables of MATLAB files, version 5 to 7: numbers, texts, cells and structs, in the form that SciPy has.

SciPy's own reader believes what a file says of itself, so that a malicious one ends the process. This one makes no
array and no list before the file has the bytes for it.

The format is that of MathWorks, "MAT-File Format", Level 5.
"""

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 2**28
"""Of a file, and of what one of its variables unpacks to; a matrix of the largest screens has 2**26."""
HEADER_BYTES = 128
ORDERS = {b"IM": "<", b"MI": ">"}
"""Last bytes of the header -> order of the bytes of numbers."""
VERSION = 0x0100
"""At the end of a header, whose first four bytes tell it from that of version 4: they are not 0."""
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""Kind of an element -> type of its numbers."""
MATRIX, COMPRESSED = 14, 15
TEXTS = {16: "utf-8", 17: "utf-16", 18: "utf-32"}
"""Kind of an element -> encoding of its text."""
CELL, STRUCT, CHAR = 1, 2, 4
NUMERIC = range(6, 16)
"""Classes of a matrix."""
COMPLEX = 0x800
MOST_DEPTH, MOST_DIMENSIONS, MOST_NAME_BYTES = 20, 8, 4096

Element = tuple[int, memoryview]


def read(data: bytes, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Those of the variables `names` that a file has.

    Returns:
        Name -> array of the variable's size: of numbers; of objects for cells; of fields of objects for structs.
        Rows of characters are one text each.

    Raises:
        ValueError: the file is damaged, of another version, or one of the variables is of another kind.
    """
    order = ORDERS.get(data[HEADER_BYTES - 2 : HEADER_BYTES])
    if order is None or 0 in data[:4] or struct.unpack_from(f"{order}H", data, HEADER_BYTES - 4)[0] != VERSION:
        raise ValueError("it has no header of MATLAB 5 to 7")
    found: dict[str, NDArray[Any]] = {}
    for kind, content in _elements(memoryview(data)[HEADER_BYTES:], order):
        begin = _unpacked(content, MOST_NAME_BYTES) if kind == COMPRESSED else content
        name = _name(begin[8:] if kind == COMPRESSED else begin, order)
        if name not in names:
            continue
        if name in found:
            raise ValueError(f"it has two variables named {name}")
        if kind == COMPRESSED:
            whole = _unpacked(content, MOST_BYTES)
            if len(whole) == MOST_BYTES:
                raise ValueError(f"{name} unpacks to {MOST_BYTES:,} bytes or more")
            ((kind, content),) = _elements(whole, order)
        if kind != MATRIX:
            raise ValueError(f"{name} is no variable")
        found[name] = _matrix(content, order, MOST_DEPTH)
    return found


def _elements(data: memoryview, order: str) -> Iterator[Element]:
    """Kind and content of the elements one after the other."""
    position = 0
    while position < len(data):
        if position + 8 > len(data):
            raise ValueError("it ends within an element")
        kind, size = struct.unpack_from(f"{order}II", data, position)
        start = position + 8
        if kind >> 16:  # up to 4 bytes lie in the place of their number
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
            if size > 4:
                raise ValueError("a small element is large")
            position += 8
        else:
            position = start + size + (0 if kind == COMPRESSED else -size % 8)
        if start + size > len(data):
            raise ValueError("it ends within an element")
        yield kind, data[start : start + size]


def _unpacked(content: memoryview, most_bytes: int) -> memoryview:
    """At most so much of a compressed element. The end of its stream may be missing, as in three files of OSIE."""
    return memoryview(zlib.decompressobj().decompress(content, most_bytes))


def _name(matrix: memoryview, order: str) -> str:
    """The name of a variable, which follows its flags and its size."""
    elements = _elements(matrix, order)
    _, _, (_, name) = (_next(elements) for _ in range(3))
    return bytes(name).decode("latin-1")


def _matrix(content: memoryview, order: str, depth: int) -> NDArray[Any]:
    if not content:
        return np.zeros((0, 0))
    if not depth:
        raise ValueError(f"it has more than {MOST_DEPTH} variables in one another")
    elements = _elements(content, order)
    flags = _numbers(_next(elements), order)
    size = tuple(int(side) for side in _numbers(_next(elements), order))
    _next(elements)
    if len(flags) != 2 or not 2 <= len(size) <= MOST_DIMENSIONS or min(size) < 0:
        raise ValueError("it has a variable of no size")
    kind, n = int(flags[0]) & 0xFF, math.prod(size)
    if kind in NUMERIC:
        values = _numbers(_next(elements), order)
        if int(flags[0]) & COMPLEX:
            values = values + 1j * _numbers(_next(elements), order)
    elif kind == CHAR:
        return _texts(_next(elements), size, order)
    elif kind == CELL:
        values = _inner(elements, n, len(content), order, depth)
    elif kind == STRUCT:
        values = _records(elements, n, len(content), order, depth)
    else:
        raise ValueError("it has a variable of another kind than numbers, texts, cells and structs")
    if len(values) != n:
        raise ValueError(f"a variable of {n} values has {len(values)}")
    return values.reshape(size, order="F")


def _next(elements: Iterator[Element]) -> Element:
    try:
        return next(elements)
    except StopIteration:
        raise ValueError("a variable ends early") from None


def _numbers(element: Element, order: str) -> NDArray[Any]:
    kind, content = element
    if kind not in NUMBERS:
        raise ValueError("it has no numbers where they must be")
    dtype = np.dtype(order + NUMBERS[kind])
    if len(content) % dtype.itemsize:
        raise ValueError("it has a part of a number")
    values: NDArray[Any] = np.frombuffer(content, dtype) if content else np.zeros(0, dtype)
    return values.astype(dtype.newbyteorder("="))


def _texts(element: Element, size: tuple[int, ...], order: str) -> NDArray[Any]:
    kind, content = element
    if kind in TEXTS:
        suffix = "" if kind == 16 else ("-le" if order == "<" else "-be")
        letters = list(bytes(content).decode(TEXTS[kind] + suffix))
    else:
        letters = [chr(code) for code in _numbers(element, order).tolist()]
    if len(letters) != math.prod(size):
        raise ValueError("a text has another length than it says")
    if not letters:
        return np.zeros(0, "U1")
    rows = np.array(letters).reshape((-1, size[-1]), order="F")
    return np.array(["".join(row) for row in rows]).reshape(size[:-1], order="F")


def _inner(elements: Iterator[Element], n: int, n_bytes: int, order: str, depth: int) -> NDArray[Any]:
    """(n,): the next variables in a cell or struct, each of which takes 8 bytes at least."""
    if 8 * n > n_bytes:
        raise ValueError(f"it has no room for {n} variables")
    values = np.empty(n, object)
    for index in range(n):
        kind, content = _next(elements)
        if kind != MATRIX:
            raise ValueError("it has something else in the place of a variable")
        values[index] = _matrix(content, order, depth - 1)
    return values


def _records(elements: Iterator[Element], n: int, n_bytes: int, order: str, depth: int) -> NDArray[Any]:
    lengths = _numbers(_next(elements), order)
    names = bytes(_next(elements)[1])
    length = int(lengths[0]) if len(lengths) == 1 else 0
    if length <= 0 or not names or len(names) % length:
        raise ValueError("it has a struct without fields")
    fields = [names[start : start + length].partition(b"\0")[0] for start in range(0, len(names), length)]
    values = _inner(elements, n * len(fields), n_bytes, order, depth).reshape(n, len(fields))
    records = np.empty(n, [(field.decode("latin-1"), object) for field in fields])
    for index, field in enumerate(records.dtype.names or ()):
        records[field] = values[:, index]
    return records
