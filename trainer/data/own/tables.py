"""Read tables: text with any of the usual delimiters and encodings, and Parquet; only the columns asked for.

A column becomes an array of numpy, texts as codes with their labels, so that ten million rows need little memory.
"""

import csv
import dataclasses
import gzip
import io
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from trainer.data.sources import DAMAGED, Member
from trainer.errors import UserError, first_line

PARQUET = ".parquet"
TEXT = (".csv", ".tsv", ".txt", ".xls")
"""EyeLink's Data Viewer calls its text .xls."""
SUFFIXES = (*TEXT, *(f"{suffix}.gz" for suffix in (".csv", ".tsv", ".txt")), PARQUET)
EXCEL = (".xlsx", ".xlsm", ".xlsb", ".ods")
EXCEL_BEGIN = (b"PK\3\4", b"\xd0\xcf\x11\xe0")
DELIMITERS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
SAMPLE_BYTES = 2**20
"""What is looked at to find the delimiter and the header."""
SAMPLE_ROWS = 1000
MAX_HEADER_LINE = 200
MAX_ROWS = 50_000_000
MAX_BYTES = 4 * 2**30
MISSING = ("", "-", ".", "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL", "None", "UNDEFINED", "UNDEFINEDnull")
"""Cells that hold nothing; EyeLink writes ., SMI writes -, BIDS writes n/a."""


@dataclasses.dataclass(frozen=True)
class Texts:
    """A column of texts."""

    codes: NDArray[np.int32]
    """(n,): positions in `labels`; -1 for an empty cell."""
    labels: list[str]


@dataclasses.dataclass
class Table:
    """A table whose header has been read."""

    origin: str
    header: list[str]
    form: str
    """Its form for people, such as `tabs, UTF-16`."""
    sample: list[list[str]]
    """Its first rows, as texts."""
    _read: Callable[[dict[int, pa.DataType]], tuple[pa.Table, int]] | None
    """Holds the file's content, until the table is read."""

    def is_empty(self, position: int) -> bool:
        """Whether a column has no content in the first rows, of which there are some."""
        cells = [row[position].strip() for row in self.sample if position < len(row)]
        return bool(cells) and all(cell in MISSING for cell in cells)

    def read(
        self, numbers: Iterable[int], texts: Iterable[int]
    ) -> tuple[dict[int, "NDArray[np.float64] | Texts"], int]:
        """Position of a column -> its values, and how many lines were left out because they have other columns.

        A table is read once, because its content is forgotten then.

        Args:
            numbers: positions of columns that become (n,) float64, NaN for an empty cell.
            texts: positions of columns that become `Texts`.

        Raises:
            UserError: a cell of a column of numbers is no number, or the table is damaged or too large.
        """
        types = {position: pa.float64() for position in numbers}
        types |= {position: pa.dictionary(pa.int32(), pa.string()) for position in texts}
        assert self._read is not None, "a table is read once"
        columns, ragged = self._read(types)
        self._read = None
        values: dict[int, NDArray[np.float64] | Texts] = {}
        for position in types:
            column = columns.column(f"c{position}")
            values[position] = _numbers(column) if types[position] == pa.float64() else _texts(column)
        return values, ragged


def is_table(path: str) -> bool:
    """Whether a file is a table, by its name."""
    return path.lower().endswith(SUFFIXES)


def open_table(member: Member, is_header: Callable[[Sequence[str]], bool]) -> Table:
    """Read the header of a table.

    Args:
        member: a file for which `is_table`.
        is_header: whether cells are the header that is looked for; there may be lines of other facts above it.

    Raises:
        UserError: the file is empty, no table, damaged or too large.
    """
    data = member.read()
    if member.path.lower().endswith(".gz"):
        data = _unzipped(data, member.origin)
    if not data.strip():
        raise UserError(f"{member.origin} is empty; export it again, or remove it")
    if data.startswith(EXCEL_BEGIN):
        raise excel(member.origin)
    if member.path.lower().endswith(PARQUET):
        return _open_parquet(data, member.origin)
    return _open_text(data, member.origin, is_header)


def excel(origin: str) -> UserError:
    """The error for a workbook."""
    return UserError(f"{origin} is an Excel workbook; save its sheet as CSV (UTF-8), and put that in its place")


def _unzipped(data: bytes, origin: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = stream.read(MAX_BYTES + 1)
    except (*DAMAGED, OSError) as error:
        raise UserError(f"{origin} is incomplete or damaged ({error}); copy or download it again") from None
    if len(content) > MAX_BYTES:
        raise _too_large(origin, f"more than {MAX_BYTES // 10**9} GB")
    return content


def _too_large(origin: str, size: str) -> UserError:
    return UserError(f"{origin} has {size}; split it into several tables of at most {MAX_ROWS:,} rows")


# === Text ===


def _open_text(data: bytes, origin: str, is_header: Callable[[Sequence[str]], bool]) -> Table:
    encoding, shown = _encoding(data)
    sample = data[:SAMPLE_BYTES].decode(encoding, "ignore")
    if "\0" in sample or _is_binary(sample):
        raise UserError(f"{origin} is not a table: its content is no text; export it again as CSV")
    lines = sample.splitlines()
    delimiter, row = _find_header(lines, is_header)
    if not delimiter:
        raise UserError(
            f"{origin} is not a table: its first line {lines[row][:60]!r} has no commas, tabs or semicolons; "
            "export it as CSV"
        )
    header = next(csv.reader([lines[row]], delimiter=delimiter))
    rows = list(csv.reader(lines[row + 1 : row + 1 + SAMPLE_ROWS], delimiter=delimiter))
    if rows and len(rows[0]) == len(header) + 1 and not rows[0][-1].strip():
        header.append("")  # the rows end with a delimiter, the header does not
    elif rows and len(rows[0]) == len(header) - 1 and not header[-1].strip():
        header.pop()
    decimal = _decimal_point(rows, delimiter)
    form = DELIMITERS[delimiter] + (f", {shown}" if shown else "")
    form += ", decimal commas" if decimal == "," else ""

    def read(types: dict[int, pa.DataType]) -> tuple[pa.Table, int]:
        options = _TextOptions(origin, encoding, delimiter, decimal, row + 1, len(header))
        return _read_text(data, options, types, header)

    complete = [cells for cells in rows if len(cells) == len(header)]
    return Table(origin, [name.strip() for name in header], form, complete, read)


@dataclasses.dataclass(frozen=True)
class _TextOptions:
    origin: str
    encoding: str
    delimiter: str
    decimal: str
    skipped: int
    n_columns: int


def _read_text(
    data: bytes, options: _TextOptions, types: dict[int, pa.DataType], header: Sequence[str]
) -> tuple[pa.Table, int]:
    ragged = 0

    def on_ragged(_row: object) -> str:
        nonlocal ragged
        ragged += 1
        return "skip"

    names = [f"c{position}" for position in range(options.n_columns)]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            pa.csv.ReadOptions(column_names=names, skip_rows=options.skipped, encoding=options.encoding),
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
        if "UTF8" in text and options.encoding.startswith("utf-8"):
            return _read_text(data, dataclasses.replace(options, encoding="latin-1"), types, header)
        if "Empty CSV" in text or "Could not skip" in text:  # the header alone
            empty = {f"c{position}": pa.array([], kind) for position, kind in types.items()}
            return pa.table(empty), ragged
        if match := re.search(r"In CSV column #(\d+): CSV conversion error to \w+: invalid value '(.*)'", text):
            if options.decimal == "." and re.fullmatch(r"-?\d+,\d+", match[2]):
                return _read_text(data, dataclasses.replace(options, decimal=","), types, header)
            column = header[int(match[1])]
            raise UserError(
                f"{options.origin} has {match[2]!r} in its column {column!r}, which is no number; correct "
                "it, or name another column with `columns`"
            ) from None
        raise UserError(f"{options.origin} cannot be read as a table ({text}); export it again") from None
    if len(table) > MAX_ROWS:
        raise _too_large(options.origin, f"{len(table):,} rows")
    return table, ragged


def _encoding(data: bytes) -> tuple[str, str]:
    """Python's name of a text's encoding, and its name for people, empty for UTF-8."""
    begin = data[:SAMPLE_BYTES]
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", "UTF-16"
    if begin[1:400:2].count(0) > len(begin[1:400:2]) * 0.8:
        return "utf-16-le", "UTF-16"
    try:
        # A character may be cut at the end of the sample.
        begin[: len(begin) - 4 if len(data) > SAMPLE_BYTES else None].decode("utf-8")
    except UnicodeDecodeError as error:
        if len(begin) - error.start > 4:
            return "latin-1", "Latin-1"
    return ("utf-8-sig", "") if begin.startswith(b"\xef\xbb\xbf") else ("utf-8", "")


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
            if delimiter in line and is_header(next(csv.reader([line], delimiter=delimiter))):
                return delimiter, position
    plain = [(i, line) for i, line in candidates if not line.startswith(("#", "["))] or candidates
    counted = [(line.count(delimiter), -i, delimiter) for i, line in plain[:20] for delimiter in DELIMITERS]
    most, position, delimiter = max(counted)
    return (delimiter, -position) if most else ("", plain[0][0])


def _decimal_point(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    cells = [cell.strip() for row in rows for cell in row]
    commas = sum(re.fullmatch(r"-?\d+,\d+", cell) is not None for cell in cells)
    points = sum(re.fullmatch(r"-?\d+\.\d+", cell) is not None for cell in cells)
    return "," if commas > points else "."


# === Parquet ===


def _open_parquet(data: bytes, origin: str) -> Table:
    try:
        file = pa.parquet.ParquetFile(pa.BufferReader(data))
        header = [str(name) for name in file.schema_arrow.names]
        if file.metadata.num_rows > MAX_ROWS:
            raise _too_large(origin, f"{file.metadata.num_rows:,} rows")
        first = next(file.iter_batches(SAMPLE_ROWS), None) if file.metadata.num_rows else None
    except (pa.ArrowException, OSError) as error:
        raise _damaged_parquet(origin, error) from None
    rows = [] if first is None else [[_text(cell) for cell in row.values()] for row in first.to_pylist()]

    def read(types: dict[int, pa.DataType]) -> tuple[pa.Table, int]:
        try:
            columns = file.read([header[position] for position in types])
        except (pa.ArrowException, OSError) as error:
            raise _damaged_parquet(origin, error) from None
        if columns.nbytes > MAX_BYTES:
            raise _too_large(origin, f"{columns.nbytes / 1e9:.0f} GB")
        made = {}
        for position, kind in types.items():
            made[f"c{position}"] = _cast(columns.column(header[position]), kind, origin, header[position])
        return pa.table(made), 0

    return Table(origin, header, "Parquet", rows, read)


def _damaged_parquet(origin: str, error: Exception) -> UserError:
    return UserError(f"{origin} is not a Parquet file, or damaged ({first_line(error)}); export it again")


def _cast(column: pa.ChunkedArray, kind: pa.DataType, origin: str, name: str) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        if kind == pa.float64():
            return column.cast(kind) if not pa.types.is_string(column.type) else _parsed(column)
        return pc.dictionary_encode(column.cast(pa.string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UserError(
            f"{origin} has a column {name!r} of the type {column.type}, no {kind} ({first_line(error)}); "
            "name another column with `columns`"
        ) from None


def _parsed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    missing = pc.is_in(column, pa.array(MISSING))
    return pc.if_else(missing, pa.scalar(None, pa.string()), column).cast(pa.float64())


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)


# === Columns ===


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    values: NDArray[np.float64] = pc.fill_null(column, np.nan).to_numpy()
    return values


def _texts(column: pa.ChunkedArray) -> Texts:
    array = column.unify_dictionaries().combine_chunks() if column.num_chunks else pa.array([], column.type)
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    codes = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return Texts(codes, [str(label) for label in array.dictionary.to_pylist()])
