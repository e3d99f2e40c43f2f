"""Variables of MATLAB files: compared with SciPy's reader, and what malicious files answer."""

import io
import struct
import zlib

import numpy as np
import pytest
from scipy import io as mat
from scipy import sparse

from tests.author_forms import fixations, matlab, mouse_samples, osie_cells, rows
from trainer.data import mat5


def packed(**variables):
    file = io.BytesIO()
    mat.savemat(file, variables, do_compression=True)
    return file.getvalue()


def same(actual, expected):
    assert actual.shape == expected.shape
    assert actual.dtype.names == expected.dtype.names
    if expected.dtype.names:
        for name in expected.dtype.names:
            same(actual[name], expected[name])
    elif expected.dtype == object:
        for one, other in zip(actual.ravel(), expected.ravel(), strict=True):
            same(one, other)
    else:
        np.testing.assert_array_equal(actual, expected)


VALUES = {
    "numbers": np.arange(24.0).reshape(2, 3, 4),
    "one": 5,
    "bytes": np.arange(7, dtype=np.uint8),
    "wide": np.array([[2**60, -1]], np.int64),
    "single": np.array([[1.5, np.nan]], np.float32),
    "logical": np.eye(3) > 0,
    "complex": np.array([[1 + 2j, 3]]),
    "empty": np.zeros((0, 3)),
    "text": "fixations of 1.jpg",
    "texts": np.array(["ab", "cde"]),
    "no_text": "",
    "umlauts": "üß 日",
    "cells": np.array([[np.eye(2), "x"], [np.zeros((0, 0)), 5]], object),
    "struct": {"img": "1.jpg", "deep": {"x": [[1.0, 2.0]], "y": np.array(["a"], object)}},
    "osie": osie_cells({"1.jpg": fixations(1, (600, 800)), "2.jpg": fixations(2, (600, 800))}),
    "mouse": mouse_samples(fixations(1, (600, 800))),
    "rows": rows(1),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("write", [matlab, packed])
def test_values_are_those_of_scipy(name, write):
    data = write(other=1, **{name: VALUES[name]}, last="x")
    found = mat5.read(data, [name, "absent"])
    assert list(found) == [name]
    same(found[name], mat.loadmat(io.BytesIO(data))[name])


def element(kind, content, order="<"):
    return struct.pack(f"{order}II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(mx_class, size, *contents, name=b"x", flags=0, order="<"):
    head = element(6, struct.pack(f"{order}II", mx_class | flags, 0), order)
    head += element(5, struct.pack(f"{order}{len(size)}i", *size), order) + element(1, name, order)
    return element(14, head + b"".join(contents), order)


def file(*elements, order="<"):
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(f"{order}H", 0x0100)
    return head + (b"IM" if order == "<" else b"MI") + b"".join(elements)


def test_numbers_in_the_other_order_of_bytes_are_read():
    doubles = element(9, struct.pack(">2d", 1.5, -2), ">")
    data = file(matrix(6, (1, 2), doubles, order=">"), order=">")
    np.testing.assert_array_equal(mat.loadmat(io.BytesIO(data))["x"], [[1.5, -2]])
    np.testing.assert_array_equal(mat5.read(data, "x")["x"], [[1.5, -2]])


def test_a_stream_without_its_end_is_read_as_scipy_reads_it():
    """Three of OSIE's 700 files of mouse tracking end so."""
    deflater = zlib.compressobj()
    stream = deflater.compress(matrix(6, (1, 2), element(9, struct.pack("<2d", 1.5, -2))))
    stream += deflater.flush(zlib.Z_SYNC_FLUSH)
    data = file(struct.pack("<II", 15, len(stream)) + stream)
    np.testing.assert_array_equal(mat.loadmat(io.BytesIO(data))["x"], [[1.5, -2]])
    np.testing.assert_array_equal(mat5.read(data, "x")["x"], [[1.5, -2]])


def nested(depth):
    content = matrix(6, (0, 0), element(9, b""))
    for _ in range(depth):
        content = matrix(1, (1, 1), content)
    return content


DOUBLE = element(9, bytes(8))
NAMES = element(1, b"field\0\0\0")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no header"),
        (b"text" * 100, "no header"),
        (b"M\0TL" + file()[4:], "no header"),
        (file(nested(21)), "more than 20 variables in one another"),
        (file(nested(20_000)), "more than 20 variables in one another"),
        (file(matrix(6, (2**31 - 1, 2**31 - 1), DOUBLE)), "values has 1"),
        (file(matrix(6, (-1, -1), DOUBLE)), "of no size"),
        (file(matrix(6, (1,) * 9, DOUBLE)), "of no size"),
        (file(matrix(6, (1, 1), element(9, bytes(7)))), "a part of a number"),
        (file(matrix(6, (1, 1), element(99, bytes(8)))), "no numbers"),
        (file(matrix(6, (1, 1), DOUBLE, flags=0x800)), "ends early"),
        (file(matrix(6, (1, 1))), "ends early"),
        (file(matrix(1, (2**31 - 1, 1))), "no room for"),
        (file(matrix(1, (1, 1), DOUBLE)), "something else in the place"),
        (file(matrix(2, (1, 1), element(5, bytes(4)), NAMES)), "struct without fields"),
        (file(matrix(2, (2**31 - 1, 1), element(5, struct.pack("<i", 8)), NAMES)), "no room for"),
        (file(matrix(4, (1, 9), element(16, b"abc"))), "another length"),
        (file(matrix(4, (1, 1), element(16, b"\xff"))), "codec can't decode"),
        (file(matrix(17, (1, 1), DOUBLE)), "of another kind"),
        (packed(x=sparse.eye(3)), "of another kind"),
        (file(matrix(6, (1, 1), DOUBLE), matrix(6, (1, 1), DOUBLE)), "two variables named x"),
        (file(element(14, b"")), "ends early"),
        (file(struct.pack("<II", 14, 2**32 - 1)), "ends within"),
        (file(struct.pack("<HH4s", 14, 5, b"abcd")), "a small element is large"),
        (packed(x=np.arange(1000.0))[:-20], "ends within"),
    ],
)  # fmt: skip
def test_what_a_file_says_of_itself_is_not_believed(content, message):
    with pytest.raises(ValueError, match=message):
        mat5.read(content, "x")


def test_a_variable_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(mat5, "MOST_BYTES", 10**6)
    bomb = zlib.compress(matrix(6, (1, 10**6), element(9, bytes(8 * 10**6))))
    data = file(struct.pack("<II", 15, len(bomb)) + bomb)
    with pytest.raises(ValueError, match="x unpacks to 1,000,000 bytes or more"):
        mat5.read(data, "x")
    assert mat5.read(data, "y") == {}


def test_damaged_files_are_refused_or_read_and_raise_nothing_else():
    random = np.random.default_rng(5)
    for whole in (matlab(osie=VALUES["osie"], text="ü"), packed(struct=VALUES["struct"])):
        for _ in range(400):
            damaged = bytearray(whole)
            for position in random.integers(0, len(whole), 3):
                damaged[position] = random.integers(256)
            try:
                mat5.read(bytes(damaged), ("osie", "text", "struct"))
            except (ValueError, zlib.error):
                continue
