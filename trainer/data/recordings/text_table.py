"""Read tables of text, with any usual delimiter, encoding and decimal point, and other lines above the header."""

import codecs
import csv
import dataclasses
import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

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
MAX_CELL_LINES = 20
"""Lines of a quoted cell in the header."""


def open_text(data: bytes, origin: str, is_header: Callable[[Sequence[str]], bool]) -> Table:
    data, encoding = _as_utf8(data)
    sample = data[:SAMPLE_BYTES].decode("utf-8", "ignore")
    if "\0" in sample or _is_binary(sample):
        raise UserError(f"{origin} is not a table: its content is no text; export it again as CSV")
    lines, ends = _lines(sample)
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
        has_breaks = check_quotes(data, origin, delimiter, len(header), ends[row])
        options = _Options(origin, delimiter, decimal, ends[row], len(header), has_breaks)
        return _read_text(data, options, types, header)

    complete = [cells for cells in rows if len(cells) == len(header)]
    return Table(origin, [" ".join(name.split()) for name in header], form, complete, read)


@dataclasses.dataclass(frozen=True)
class _Options:
    origin: str
    delimiter: str
    decimal: str
    skipped: int
    n_columns: int
    has_breaks: bool
    """Whether there are cells of several lines."""


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
                delimiter=options.delimiter, invalid_row_handler=on_ragged, newlines_in_values=options.has_breaks
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
            if options.decimal == "." and _is_ambiguous(match[2]):
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


def _is_ambiguous(cell: str) -> bool:
    """Whether a comma may separate thousands."""
    return re.fullmatch(r"-?[1-9]\d{0,2},\d{3}", cell) is not None


def _decimal_point(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    commas = points = 0
    for column in zip_longest(*rows, fillvalue=""):
        cells = [cell.strip() for cell in column]
        points += sum(re.fullmatch(r"-?\d+\.\d+", cell) is not None for cell in cells)
        with_comma = [cell for cell in cells if re.fullmatch(r"-?\d+,\d+", cell)]
        clear = [cell for cell in with_comma if not _is_ambiguous(cell)]
        # Decimals have three digits in all cells, or in some of them fewer; among thousands are smaller numbers.
        may_be_thousands = delimiter == "," or any(re.fullmatch(r"-?\d+", cell) for cell in cells)
        commas += len(clear if may_be_thousands else with_comma)
    return "," if commas > points else "."


# === Quotes ===


def _lines(sample: str) -> tuple[list[str], list[int]]:
    """The lines of a text, those of a quoted cell as one, and after how many lines of the text each ends."""
    lines: list[str] = []
    ends: list[int] = []
    physical = re.split(r"\r\n|\r|\n", sample)
    position = 0
    while position < len(physical):
        end = position + 1
        if physical[position].count('"') % 2 and _opens_any(physical[position]):
            nearby = physical[end : end + MAX_CELL_LINES]
            n_within = next((i for i, line in enumerate(nearby) if line.count('"') % 2), -1)
            # A line with as many cells as its neighbour is a row, behind a quote that is never closed.
            if all(_n_cells(line) < max(_n_cells(physical[position]), 2) for line in nearby[: max(n_within, 0)]):
                end += n_within + 1
        lines.append(" ".join(physical[position:end]))
        ends.append(end)
        position = end
    return lines, ends


def _n_cells(line: str) -> int:
    return max(line.count(delimiter) for delimiter in DELIMITERS) + 1


def check_quotes(data: bytes, origin: str, delimiter: str, n_columns: int, skipped: int) -> bool:
    """Whether a table has cells of several lines, in quotes.

    Args:
        data: the file, in UTF-8.
        origin: its name, for messages.
        delimiter: of its cells.
        n_columns: of its header.
        skipped: the number of lines up to the header.

    Raises:
        UserError: a quote that opens a cell is not closed: it would take the rows behind it for its content.
    """
    if b'"' not in data:
        return False
    opened, has_breaks = 0, False
    for number, line in enumerate(io.BytesIO(data), 1):
        if number <= skipped:
            continue
        is_odd = line.count(b'"') % 2
        within = line.partition(b'"')[0] if is_odd else line
        if opened and number == opened + 1 and within.count(delimiter.encode()) >= n_columns - 1 > 0:
            break
        if is_odd:
            if opened:
                opened, has_breaks = 0, True
            elif _opens(line, delimiter):
                opened = number
    else:
        if not opened:
            return has_breaks
    raise UserError(
        f"{origin} has a quote in line {opened:,} that begins a cell and is not closed; remove it, or close it"
    )


def _opens_any(line: str) -> bool:
    return any(_opens(line.encode(), delimiter) for delimiter in DELIMITERS)


def _opens(line: bytes, delimiter: str) -> bool:
    """Whether the last quoted cell of a line is not closed; a quote within a cell is an ordinary character."""
    try:
        list(csv.reader([line.decode("utf-8", "replace").rstrip("\r\n")], delimiter=delimiter, strict=True))
    except csv.Error:
        return True
    return False
