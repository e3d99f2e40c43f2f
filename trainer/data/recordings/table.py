"""Read tables: text with any usual delimiter, encoding and decimal point, lines above its header, and Parquet.

`read_head` finds the header of a file, and `read_table` reads some of its columns. Both let the worker of
`trainer.isolated` do it: 2 kB of Parquet can unpack to 5 GB.
"""

import codecs
import csv
import dataclasses
import gzip
import io
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, cast

import polars as pl

from trainer import isolated
from trainer.data.recordings.columns import find_columns
from trainer.errors import UserError, first_line
from trainer.sources import DAMAGED

if TYPE_CHECKING:
    from _csv import Reader

PARQUET = ".parquet"
TEXT = (".csv", ".tsv", ".txt", ".xls")
"""Suffixes of tables of text; EyeLink's Data Viewer calls its text .xls."""
SUFFIXES = (*TEXT, *(f"{suffix}.gz" for suffix in (".csv", ".tsv", ".txt")), PARQUET)
EXCEL = (".xlsx", ".xlsm", ".xlsb", ".ods")
EXCEL_PREFIXES = (b"PK\3\4", b"\xd0\xcf\x11\xe0")
"""First bytes of workbooks of Excel."""
DELIMITERS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
ENCODINGS = {"utf-8-sig": "", "utf-16": ", UTF-16", "utf-16-le": ", UTF-16", "latin-1": ", Latin-1"}
"""Name of Python's codec -> how the form of a table tells it."""
MISSING = ("", "-", ".", "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL", "None", "UNDEFINED", "UNDEFINEDnull")
"""Cells that hold nothing; EyeLink writes ., SMI writes -, BIDS writes n/a."""
NUMBERS = ("x", "y", "time", "duration")
"""Columns that become numbers. In x and y any other content is an error; it empties the other two."""
SAMPLE_ROWS = 1000
SAMPLE_CHARACTERS = 2**20
"""Length of the text in which the delimiter and the header are looked for, and of the longest cell."""
MAX_HEADER_LINE = 200
MAX_ROWS = 100_000_000
BATCH_ROWS = 50_000
SLOWEST_BYTES_S, MEMORY_FACTOR = 500_000, 20
"""Bytes of a file that are read in a second at least, and bytes of memory for each of them."""
REMEDY = "export it again"
BROKEN = (csv.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Exceptions for tables that are damaged; Polars panics about some."""
UNUSED = "\x1f"
"""A delimiter that no table has, by which each line is one cell."""


@dataclasses.dataclass(frozen=True)
class Head:
    """The header of a table, and the form of its rows."""

    header: list[str]
    form: str
    """A description for people, such as `tabs, UTF-16`."""
    sample: list[list[str]]
    """The first rows, at most `SAMPLE_ROWS`, as texts."""
    delimiter: str = ""
    """The delimiter of the cells; empty for Parquet."""
    encoding: str = ""
    decimal: str = "."
    n_lines: int = 0
    """Number of lines up to the header and with it."""

    def cells(self, position: int) -> list[str]:
        """The first cells of the column at a position, without blanks around them."""
        return [row[position].strip() for row in self.sample]


def is_table(path: str) -> bool:
    """Whether a file is a table, by its name."""
    return path.lower().endswith(SUFFIXES)


def read_head(path: pathlib.Path, origin: str, named: Mapping[str, str]) -> Head:
    """Find the header of a table.

    Args:
        path: a local file; its suffix tells its kind.
        origin: its name in messages.
        named: the columns that the user names (see `recordings.parse_columns`). The header is the first line with
            columns of positions.

    Raises:
        UserError: the file is empty, no table, or damaged.
    """
    head: Head = isolated.call(
        f"{__name__}.parse_head", path, origin, dict(named), file=origin, remedy=REMEDY, limits=_limits(path)
    )
    return head


def parse_head(path: pathlib.Path, origin: str, named: Mapping[str, str]) -> Head:
    """Find the header of a table in this process; arguments and errors are those of `read_head`."""
    try:
        if path.suffix.lower() == PARQUET:
            return _parquet_head(path, origin)
        return _text_head(path, origin, named)
    except csv.Error as error:
        raise UserError(f"{origin} cannot be read as a table ({error}); export it again") from None
    except (*DAMAGED, OSError) as error:
        raise UserError(f"{origin} is incomplete or damaged ({error}); copy or download it again") from None


def read_table(
    path: pathlib.Path, origin: str, head: Head, columns: Mapping[str, int]
) -> tuple[pl.DataFrame, int]:
    """Read columns of a table.

    Args:
        path: the file of which `read_head` returned the head.
        origin: its name in messages.
        head: what `read_head` returned.
        columns: what a column holds -> its position.

    Returns:
        A frame with a column for each of `columns`: float64 for those of `NUMBERS`, categorical for the others,
        null where a cell holds nothing. And the number of lines left out because they have more or fewer cells
        than the header.

    Raises:
        UserError: a cell of x or y is no number, or the table is damaged or too large.
    """
    arguments = path, origin, head, dict(columns)
    frame, n_ragged = isolated.call(
        f"{__name__}.parse_table", *arguments, file=origin, remedy=REMEDY, limits=_limits(path)
    )
    return frame, n_ragged


def _limits(path: pathlib.Path) -> isolated.Limits:
    """What reading a table may take: more than any sound one of the size of the file needs."""
    n_bytes = path.stat().st_size
    return isolated.Limits(
        seconds=30 + n_bytes / SLOWEST_BYTES_S,
        memory_bytes=isolated.Limits.memory_bytes + MEMORY_FACTOR * n_bytes,
    )


def parse_table(
    path: pathlib.Path, origin: str, head: Head, columns: Mapping[str, int]
) -> tuple[pl.DataFrame, int]:
    """Read columns of a table in this process; arguments, result and errors are those of `read_table`."""
    parts, n_rows, n_ragged = [], 0, 0
    no_numbers: set[str] = set()
    try:
        for texts, n_left_out in _batches(path, origin, head, columns):
            n_ragged += n_left_out
            n_rows += len(texts)
            if n_rows > MAX_ROWS:
                raise UserError(f"{origin} has more than {MAX_ROWS:,} rows; split it into several tables")
            part, failed = _typed(texts, head.decimal)
            for role, cell in failed.items():
                if role in ("x", "y"):
                    raise _not_a_number(origin, head, head.header[columns[role]], cell)
            no_numbers |= failed.keys()
            parts.append(part)
    except BROKEN as error:
        raise UserError(f"{origin} cannot be read as a table ({first_line(error)}); export it again") from None
    except (*DAMAGED, OSError) as error:
        raise UserError(f"{origin} is incomplete or damaged ({error}); copy or download it again") from None
    empty, _ = _typed(pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), head.decimal)
    frame = pl.concat([empty, *parts])
    return frame.with_columns(pl.lit(None, pl.Float64).alias(role) for role in no_numbers), n_ragged


def _batches(
    path: pathlib.Path, origin: str, head: Head, columns: Mapping[str, int]
) -> Iterator[tuple[pl.DataFrame, int]]:
    """Parts of a table, as texts or as Parquet has them, and the number of ragged lines among them."""
    if not head.delimiter:
        names = {role: pl.col(head.header[position]) for role, position in columns.items()}
        for part in pl.scan_parquet(path, glob=False).select(**names).collect_batches(chunk_size=BATCH_ROWS):
            yield part, 0
    elif _has_plain_lines(path, head):
        yield from _split_lines(path, head, columns)
    else:
        yield from _parsed_rows(path, origin, head, columns)


def _typed(cells: pl.DataFrame, decimal: str) -> tuple[pl.DataFrame, dict[str, str]]:
    """The columns as numbers and categories; and what a column holds -> its first cell that should be a number."""
    typed, failed = [], {}
    for column in cells:
        if column.name in NUMBERS and column.dtype.is_numeric():
            typed.append(column.cast(pl.Float64).fill_nan(None))
            continue
        texts = _texts(column)
        if column.name in NUMBERS:
            numbers, wrong = _numbers(texts, decimal)
            typed.append(numbers.fill_nan(None))
            if len(wrong):
                failed[column.name] = wrong[0]
        else:
            labels = texts.cast(pl.Categorical)
            typed.append(labels.set(labels.is_in(MISSING), None))
    return pl.DataFrame(typed), failed


def _numbers(texts: pl.Series, decimal: str) -> tuple[pl.Series, pl.Series]:
    """The numbers of a column of texts, and the texts that are none or may be another."""
    plain = texts
    is_ambiguous: pl.Series | bool = False
    if decimal == ",":  # a point would separate thousands: it must not become a decimal point
        plain = texts.str.replace_all(".", "'", literal=True).str.replace(",", ".", literal=True)
    elif texts.str.contains(",", literal=True).any():
        plain = texts.str.replace(r"^(-?\d+),(\d+)$", "${1}.${2}")
        is_ambiguous = texts.str.contains(AMBIGUOUS)
    numbers = plain.cast(pl.Float64, strict=False)
    wrong = texts.filter(numbers.is_null() | is_ambiguous).drop_nulls()
    return numbers, wrong.filter(~wrong.is_in(MISSING))


AMBIGUOUS = r"^-?[1-9]\d{0,2},\d{3}$"
"""Cells whose comma may separate thousands."""


def _not_a_number(origin: str, head: Head, column: str, cell: str) -> UserError:
    if head.decimal == "." and re.search(AMBIGUOUS, cell):
        return UserError(
            f"{origin} has {cell!r} in its column {column!r}, which may be a thousand or a decimal comma; write "
            "numbers without separators of thousands"
        )
    return UserError(
        f"{origin} has {cell[:60]!r} in its column {column!r}, which is no number; correct it, or name another "
        "column with `columns`"
    )


# === Parquet ===


def _parquet_head(path: pathlib.Path, origin: str) -> Head:
    try:
        frame = pl.read_parquet(path, n_rows=SAMPLE_ROWS, glob=False)
        sample = frame.select(_texts(column).fill_null("") for column in frame).rows()
    except BROKEN as error:
        raise UserError(
            f"{origin} is not a Parquet file, or damaged ({first_line(error)}); export it again"
        ) from None
    return Head(frame.columns, "Parquet", [list(row) for row in sample])


def _texts(column: pl.Series) -> pl.Series:
    """The cells of a column as texts: dates as their numbers, since Polars panics about some; null for lists."""
    if column.dtype.is_nested():
        return pl.Series(column.name, [None] * len(column), pl.String)
    if column.dtype == pl.Binary:  # which may hold no text
        texts = [None if cell is None else cell.decode(errors="replace") for cell in column]
        column = pl.Series(column.name, texts, pl.String)
    elif column.dtype.is_temporal():
        column = column.to_physical()
    return column.cast(pl.String).str.strip_chars()


# === Text ===


def _text_head(path: pathlib.Path, origin: str, named: Mapping[str, str]) -> Head:
    encoding = _encoding(path, origin)
    with _open(path, origin, encoding) as file:
        sample = file.read(SAMPLE_CHARACTERS)
    if "\0" in sample:
        raise UserError(f"{origin} is not a table: its content is no text; export it again as CSV")
    lines = list(io.StringIO(sample, newline=""))
    if not any(line.strip() for line in lines[:MAX_HEADER_LINE]):
        raise UserError(f"{origin} is empty in its first {MAX_HEADER_LINE} lines; export it again, or remove it")
    delimiter, n_lines = _find_header(lines, named)
    header = list(_reader(lines[:n_lines], delimiter))[-1]
    rows = list(itertools.islice(_reader(lines[n_lines:], delimiter), SAMPLE_ROWS))
    if rows and len(rows[0]) == len(header) + 1 and not rows[0][-1].strip():
        header.append("")  # the rows end with a delimiter, the header does not
    elif rows and len(rows[0]) == len(header) - 1 and not header[-1].strip():
        header.pop()
    header = [" ".join(name.split()) for name in header]
    complete = [row for row in rows if len(row) == len(header)]
    decimal = _decimal_point(complete, delimiter)
    form = DELIMITERS[delimiter] + ENCODINGS[encoding] + (", decimal commas" if decimal == "," else "")
    return Head(header, form, complete, delimiter, encoding, decimal, n_lines)


def _open(path: pathlib.Path, origin: str, encoding: str) -> TextIO:
    if path.suffix.lower() == ".gz":
        return cast("TextIO", gzip.open(path, "rt", encoding=encoding, errors="replace", newline=""))
    return path.open(encoding=encoding, errors="replace", newline="")


def _encoding(path: pathlib.Path, origin: str) -> str:
    """The encoding of a text: UTF-16 by its first bytes, else UTF-8 if all of it is, else Latin-1."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        begin = file.read(400)
        if begin.startswith(EXCEL_PREFIXES):
            raise excel(origin)
        if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if begin[1::2].count(0) > 0.8 * len(begin[1::2]):
            return "utf-16-le"
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            decoder.decode(begin)
            while part := file.read(2**20):
                decoder.decode(part)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "latin-1"
    return "utf-8-sig"


def excel(origin: str) -> UserError:
    """The error for a workbook."""
    return UserError(f"{origin} is an Excel workbook; save its sheet as CSV (UTF-8), and put that in its place")


def _find_header(lines: Sequence[str], named: Mapping[str, str]) -> tuple[str, int]:
    """The delimiter and the last line, counted from 1, of the first row with columns of positions.

    Without such a row it is the line with most delimiters, for the message that says so.
    """
    headers = []
    for order, delimiter in enumerate(DELIMITERS):
        reader = _reader(lines, delimiter)
        for cells in itertools.islice(reader, MAX_HEADER_LINE):
            if find_columns(cells, named).has_positions:
                headers.append((reader.line_num, order, delimiter))
                break
    if headers:
        n_lines, _, delimiter = min(headers)
        return delimiter, n_lines
    written = [(i, line) for i, line in enumerate(lines[:MAX_HEADER_LINE], 1) if line.strip()]
    plain = [(i, line) for i, line in written if not line.startswith(("#", "["))] or written
    _, before, delimiter = max((line.count(each), -i, each) for i, line in plain[:20] for each in DELIMITERS)
    return delimiter, -before


def _decimal_point(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """The decimal point of a table: a comma if more cells have a comma for certain than have a point."""
    commas = points = 0
    for column in zip(*rows, strict=True):
        cells = [cell.strip() for cell in column]
        points += sum(re.fullmatch(r"-?\d+\.\d+", cell) is not None for cell in cells)
        with_comma = [cell for cell in cells if re.fullmatch(r"-?\d+,\d+", cell)]
        clear = [cell for cell in with_comma if not re.search(AMBIGUOUS, cell)]
        # Decimals have three digits in all cells, or in some of them fewer; among thousands are smaller numbers.
        may_be_thousands = delimiter == "," or any(re.fullmatch(r"-?\d+", cell) for cell in cells)
        commas += len(clear if may_be_thousands else with_comma)
    return "," if commas > points else "."


def _has_plain_lines(path: pathlib.Path, head: Head) -> bool:
    """Whether each line is a row of UTF-8 without quotes, whose cells can be told apart by the delimiter alone."""
    if head.encoding != "utf-8-sig":
        return False
    with path.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            return False  # compressed
        file.seek(0)
        last = b""
        while part := file.read(2**20):
            ends = last + part
            if ends.count(b"\r") > ends.count(b"\r\n") + ends.endswith(b"\r"):
                return False  # with lines that end with a carriage return alone
            if b'"' in part or UNUSED.encode() in part:
                return False
            last = part[-1:]
    return True


def _split_lines(path: pathlib.Path, head: Head, columns: Mapping[str, int]) -> Iterator[tuple[pl.DataFrame, int]]:
    lines = pl.scan_csv(
        path,
        has_header=False,
        separator=UNUSED,
        quote_char=None,
        skip_lines=head.n_lines,
        schema={"line": pl.String},
        glob=False,
        raise_if_empty=False,
    )
    line = pl.col("line").str.strip_suffix("\r")
    n_columns = len(head.header)
    cells = line.str.splitn(head.delimiter, n_columns + 1).struct  # one more, for what is too much
    last, extra = cells.field(f"field_{n_columns - 1}"), cells.field(f"field_{n_columns}")
    rows = lines.filter(line != "").select(
        (last.is_null() | extra.is_not_null()).alias("is ragged"),
        *(cells.field(f"field_{position}").alias(role) for role, position in columns.items()),
    )
    for part in rows.collect_batches(chunk_size=BATCH_ROWS):
        complete = part.filter(~pl.col("is ragged"))
        yield complete.drop("is ragged"), len(part) - len(complete)


def _parsed_rows(
    path: pathlib.Path, origin: str, head: Head, columns: Mapping[str, int]
) -> Iterator[tuple[pl.DataFrame, int]]:
    with _open(path, origin, head.encoding) as file:
        for _ in range(head.n_lines):
            file.readline()
        reader = _reader(file, head.delimiter)
        while True:
            begin = reader.line_num
            rows = list(itertools.islice(reader, BATCH_ROWS))
            if not rows:
                return
            if reader.line_num - begin > len(rows):
                _check_quotes(rows, origin, head, head.n_lines + begin + 1)
            rows = [row for row in rows if row]
            complete = [row for row in rows if len(row) == len(head.header)]
            cells = {role: [row[position] for row in complete] for role, position in columns.items()}
            yield pl.DataFrame(cells, schema=dict.fromkeys(columns, pl.String)), len(rows) - len(complete)


def _reader(lines: Iterable[str], delimiter: str) -> "Reader":
    csv.field_size_limit(SAMPLE_CHARACTERS)
    return csv.reader(lines, delimiter=delimiter)


def _check_quotes(rows: Sequence[Sequence[str]], origin: str, head: Head, line_number: int) -> None:
    """Raise `UserError` if a cell holds other rows, because its quote is not closed.

    Args:
        rows: rows of a text, one after another.
        origin: its name in messages.
        head: its header.
        line_number: the line of the first row, counted from 1.
    """
    for row in rows:
        n_lines = 1
        for cell in row:
            _, *others = re.split(r"\r\n|\r|\n", cell)
            if any(line.count(head.delimiter) >= len(head.header) - 1 for line in others):
                raise UserError(
                    f"{origin} has a quote in line {line_number:,} that begins a cell and is not closed; remove "
                    "it, or close it"
                )
            n_lines += len(others)
        line_number += n_lines
