"""Read tables of text, with any usual delimiter, encoding and decimal point, and other lines above the header."""

import codecs
import csv
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.csv

from trainer.data.recordings import table as tables
from trainer.data.recordings.table import MISSING, SAMPLE_ROWS, Table, Types, too_large
from trainer.errors import UserError, first_line

DELIMITERS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
SAMPLE_BYTES = 2**20
"""What is looked at to find the delimiter and the header."""
PART_BYTES = 2**24
MAX_HEADER_LINE = 200


def open_text(data: bytes, origin: str, is_header: Callable[[Sequence[str]], bool]) -> Table:
    data, encoding = _as_utf8(data)
    sample = data[:SAMPLE_BYTES].decode("utf-8", "ignore")
    if "\0" in sample or _is_binary(sample):
        raise UserError(f"{origin} is not a table: its content is no text; export it again as CSV")
    lines = re.split(r"\r\n|\r|\n", sample)
    if not any(line.strip() for line in lines[:MAX_HEADER_LINE]):
        raise UserError(f"{origin} is empty in its first {MAX_HEADER_LINE} lines; export it again, or remove it")
    delimiter, row = _find_header(lines, is_header)
    if not delimiter:
        raise UserError(
            f"{origin} is not a table: its first line {lines[row][:60]!r} has no commas, tabs or semicolons; "
            "export it as CSV"
        )
    header = next(_cells([lines[row]], delimiter))
    rows = list(_cells(lines[row + 1 : row + 1 + SAMPLE_ROWS], delimiter))
    if rows and len(rows[0]) == len(header) + 1 and not rows[0][-1].strip():
        header.append("")  # the rows end with a delimiter, the header does not
    elif rows and len(rows[0]) == len(header) - 1 and not header[-1].strip():
        header.pop()
    decimal = _decimal_point(rows, delimiter)
    form = DELIMITERS[delimiter] + (f", {encoding}" if encoding else "")
    form += ", decimal commas" if decimal == "," else ""

    def read(types: Types) -> tuple[pa.Table, int]:
        options = _Options(origin, delimiter, decimal, row + 1, len(header))
        return _read_text(data, options, types, header)

    complete = [cells for cells in rows if len(cells) == len(header)]
    return Table(origin, [name.strip() for name in header], form, complete, read)


@dataclasses.dataclass(frozen=True)
class _Options:
    origin: str
    delimiter: str
    decimal: str
    skipped: int
    n_columns: int


def _read_text(data: bytes, options: _Options, types: Types, header: Sequence[str]) -> tuple[pa.Table, int]:
    ragged = 0

    def on_ragged(_row: object) -> str:
        nonlocal ragged
        ragged += 1
        return "skip"

    names = [f"c{position}" for position in range(options.n_columns)]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            pa.csv.ReadOptions(column_names=names, skip_rows=options.skipped),
            pa.csv.ParseOptions(
                delimiter=options.delimiter, invalid_row_handler=on_ragged, newlines_in_values=False
            ),
            pa.csv.ConvertOptions(
                include_columns=[f"c{position}" for position in types],
                column_types={f"c{position}": kind for position, kind in types.items()},
                null_values=MISSING,
                strings_can_be_null=True,
                decimal_point=options.decimal,
            ),
        )
    except pa.ArrowInvalid as error:
        text = first_line(error)
        if "Empty CSV" in text or "Could not skip" in text:  # the header alone
            empty = {f"c{position}": pa.array([], kind) for position, kind in types.items()}
            return pa.table(empty), ragged
        if match := re.search(r"In CSV column #(\d+): CSV conversion error to \w+: invalid value '(.*)'", text):
            if _is_ambiguous(match[2], options.delimiter):
                column = header[int(match[1])]
                raise UserError(
                    f"{options.origin} has {match[2]!r} in its column {column!r}, which may be a thousand or a "
                    "decimal comma; write numbers without separators of thousands"
                ) from None
            if options.decimal == "." and re.fullmatch(r"-?\d+,\d+", match[2]):
                return _read_text(data, dataclasses.replace(options, decimal=","), types, header)
            column = header[int(match[1])]
            raise UserError(
                f"{options.origin} has {match[2]!r} in its column {column!r}, which is no number; correct "
                "it, or name another column with `columns`"
            ) from None
        raise UserError(f"{options.origin} cannot be read as a table ({text}); export it again") from None
    if len(table) > tables.MAX_ROWS:
        raise too_large(options.origin, f"{len(table):,} rows")
    return table, ragged


def _as_utf8(data: bytes) -> tuple[bytes, str]:
    """The text in UTF-8, and the name of its encoding for people, empty for UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _transcoded(data, "utf-16"), "UTF-16"
    begin = data[1:400:2]
    if begin.count(0) > 0.8 * len(begin):
        return _transcoded(data, "utf-16-le"), "UTF-16"
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        for _ in _decoded(data, "utf-8", "strict"):
            pass
    except UnicodeDecodeError:
        return _transcoded(data, "latin-1"), "Latin-1"
    return data, ""


def _transcoded(data: bytes, encoding: str) -> bytes:
    return b"".join(text.encode("utf-8", "replace") for text in _decoded(data, encoding, "replace"))


def _decoded(data: bytes, encoding: str, errors: str) -> Iterator[str]:
    """The text in parts, because a text in memory may be four times as large as its bytes."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    for start in range(0, len(data), PART_BYTES):
        yield decoder.decode(data[start : start + PART_BYTES])
    yield decoder.decode(b"", final=True)


def _cells(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(SAMPLE_BYTES)  # the least that a cell of the sample may need
    return csv.reader(lines, delimiter=delimiter)


def _is_binary(text: str) -> bool:
    begin = text[:10_000]
    control = sum(
        (character < " " and character not in "\t\r\n\f") or "\x7f" <= character < "\xa0" for character in begin
    )
    return control > 0.02 * len(begin)


def _find_header(lines: Sequence[str], is_header: Callable[[Sequence[str]], bool]) -> tuple[str, int]:
    """Delimiter and line of the header; if no line is one, of the first line with most delimiters."""
    candidates = [(i, line) for i, line in enumerate(lines[:MAX_HEADER_LINE]) if line.strip()]
    for position, line in candidates:
        for delimiter in DELIMITERS:
            if delimiter in line and is_header(next(_cells([line], delimiter))):
                return delimiter, position
    plain = [(i, line) for i, line in candidates if not line.startswith(("#", "["))] or candidates
    counted = [(line.count(delimiter), -i, delimiter) for i, line in plain[:20] for delimiter in DELIMITERS]
    most, position, delimiter = max(counted)
    return (delimiter, -position) if most else ("", plain[0][0])


def _is_ambiguous(cell: str, delimiter: str) -> bool:
    """Whether a comma may separate thousands: programs that write decimal commas delimit by others."""
    return delimiter == "," and re.fullmatch(r"-?[1-9]\d{0,2},\d{3}", cell) is not None


def _decimal_point(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    cells = [cell.strip() for row in rows for cell in row]
    commas = sum(
        re.fullmatch(r"-?\d+,\d+", cell) is not None and not _is_ambiguous(cell, delimiter) for cell in cells
    )
    points = sum(re.fullmatch(r"-?\d+\.\d+", cell) is not None for cell in cells)
    return "," if commas > points else "."
