"""Tables of fixations as text: delimiters, encodings, headers, numbers and lines that a reader does not expect."""

import random

from tests.fuzz.mutate import mutated
from tests.fuzz.names import name

NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "1e999",
    "-1",
    "",
    " ",
    "1,5",
    "0x1F",
    "\u0663",
    "1_000",
    "1e3",
    "9" * 400,
    "'5'",
    "=1+1",
)


def table(images: list[str], source: random.Random) -> tuple[str, bytes, bool]:
    """(kind, content, whether it is sound) of a table of the fixations of images, by their names."""
    columns = source.choice((["image", "x", "y"], ["image", "x", "y", "observer"], ["stimulus", "fix_x", "fix_y"]))
    rows = [
        [image, str(source.randint(0, 31)), str(source.randint(0, 23)), f"p{i % 3}"][: len(columns)]
        for image in images
        for i in range(6)
    ]
    kind = source.choice(
        ("sound", "numbers", "numbers", "names", "header", "lines", "encoding", "damaged", "damaged")
    )
    if kind == "numbers":
        for _ in range(source.randint(1, 5)):
            source.choice(rows)[source.choice((1, 2))] = source.choice(NUMBERS)
    elif kind == "names":
        source.choice(rows)[0] = name(source)
    elif kind == "header":
        columns = source.choice(
            (
                [],
                [""] * len(columns),
                ["x"] * len(columns),
                [name(source) for _ in columns],
                columns * 200,
                columns[:1],
            )
        )
    elif kind == "lines":
        odd = source.choice(([], [""] * 500, ['"never closed'], ["a" * 200_000], ["\0"], [name(source)] * 3))
        rows.insert(source.randint(0, len(rows)), odd)
    delimiter, end = source.choice((",", ",", "\t", ";", "|", " ")), source.choice(("\n", "\r\n", "\r"))
    text = "".join(delimiter.join(row) + end for row in [columns, *rows])
    encoding = "utf-8"
    if kind == "encoding":
        encoding = source.choice(("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "utf-7"))
    content = text.encode(encoding, errors="replace" if encoding == "cp1252" else "surrogatepass")
    if kind == "damaged":
        content = mutated(content, source)
    return f"table, {kind}", content, kind == "sound" and delimiter == ","
