"""Find and read the tables of fixations: text with any usual delimiter, encoding and decimal point, and Parquet.

Example: 512,5 is one number in a table with tabs, and two cells in a table with commas. The worker of
`trainer.machine.untrusted` reads tables, because 2 kB of Parquet can unpack to 5 GB.
"""

import codecs
import collections
import contextlib
import csv
import dataclasses
import gzip
import hashlib
import io
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, cast

import polars as pl

from trainer.data.recordings.columns import MEDIA, Columns, find_columns, is_usual, plain
from trainer.data.recordings.image_names import ImageNames, folded
from trainer.errors import ContentError, check
from trainer.machine import Limits, call_untrusted
from trainer.places import DAMAGED, Member
from trainer.texts import first_line

if TYPE_CHECKING:
    from _csv import Reader

PARQUET = ".parquet"
EXCEL = (".xlsx", ".xlsm", ".xlsb", ".ods")
SUFFIXES = (".csv", ".tsv", ".txt", ".xls", ".csv.gz", ".tsv.gz", ".txt.gz", PARQUET, *EXCEL)
"""Suffixes of tables, and of workbooks, which are refused. EyeLink's Data Viewer calls its text .xls."""
EXCEL_PREFIXES = (b"PK\3\4", b"\xd0\xcf\x11\xe0")
"""First bytes of workbooks of Excel."""
DELIMITERS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
MISSING = ("", "-", ".", "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL", "None", "UNDEFINED", "UNDEFINEDnull")
"""Cells that hold nothing. EyeLink writes `.`, SMI writes `-`, BIDS writes `n/a`."""
NUMBERS = ("x", "y", "time", "duration", *MEDIA)
"""Columns that become numbers. Another content is an error in x and y, and nothing in the others."""
THOUSANDS = r"^-?[1-9]\d{0,2},\d{3}$"
"""Cells with a comma that may separate thousands. Example: 1,024."""
MOST_COLUMNS = 4096
"""Wider tables take the memory of the worker that reads them. The widest export has some hundred columns."""
SAMPLE_ROWS = 1000
SAMPLE_CHARACTERS = 2**20
"""Length of the text in which the delimiter and the header are looked for, and of the longest cell there."""
MAX_HEADER_LINE = 200
MAX_ROWS = 100_000_000
BATCH_ROWS = 50_000
MAX_BYTES = 4 * 2**30
"""Largest table in an archive, unpacked."""
SLOWEST_BYTES_S, MEMORY_FACTOR = 500_000, 20
"""Bytes of a file that are read in a second at least, and bytes of memory for each of them."""
ESCAPED = '\\"'
"""A quote within a cell, as some programs write it."""
NUMBER = r"[-+]?(\d+([.,]\d+)?|[.,]\d+)([eE][-+]?\d+)?"
"""A cell with a number."""
REMEDY = "export it again"


@dataclasses.dataclass(frozen=True)
class Head:
    """The header of a table, and the form of its rows."""

    header: list[str]
    form: str
    """A description for people, such as `tabs, utf-16`."""
    sample: list[list[str]]
    """The first rows, at most `SAMPLE_ROWS`, as texts."""
    delimiter: str = ""
    """The delimiter of the cells. Empty for Parquet."""
    encoding: str = ""
    decimal: str = "."
    n_lines: int = 0
    """Number of lines up to the header and with it."""
    n_rows: int = 0
    """Number of rows in the first `SAMPLE_CHARACTERS` characters."""
    has_plain_lines: bool = False
    """Whether the text is UTF-8, and its lines end with a line feed."""

    def cells(self, position: int) -> set[str]:
        """The different first cells of the column at a position, without blanks around them and empty ones."""
        return {row[position].strip() for row in self.sample if position < len(row)} - {*MISSING}


@dataclasses.dataclass
class Source:
    """A table of positions, and what its columns hold."""

    path: pathlib.Path
    origin: str
    """The table's name in messages."""
    parts: tuple[str, ...]
    """The folders around it, and its name without a suffix."""
    head: Head
    columns: Columns
    rows: pl.DataFrame = dataclasses.field(default_factory=pl.DataFrame)
    """Its rows, once they are read."""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    """Name of a column that may name the image, as `plain` returns it -> the column of `rows`."""
    told: dict[str, str] = dataclasses.field(default_factory=dict)
    """Name of a column that may tell which rows are fixations -> the column of `rows`."""
    place: str = ""
    """Its path below the source."""
    content: tuple[object, ...] = ()
    """Equal for tables with the same columns and rows."""

    @property
    def names(self) -> dict[str, str]:
        """What a column holds -> its name."""
        return {role: self.head.header[position] for role, position in self.columns.index.items()}

    @property
    def mapped(self) -> dict[str, list[str]]:
        """For each image that the header names: the names of the columns x and y of the positions on it."""
        return {image: [self.head.header[x], self.head.header[y]] for image, x, y in self.columns.mapped}

    def expanded(self) -> "Iterator[Source]":
        """A table for each image that the header names, or this one if it names none.

        Example: the column `Mapped fixation X [page]` is about the image page.
        """
        if not self.columns.mapped:
            yield self
        for image, x, y in self.columns.mapped:
            columns = dataclasses.replace(self.columns, index={**self.columns.index, "x": x, "y": y})
            yield dataclasses.replace(self, columns=columns, parts=(*self.parts, image))

    def label_name(self, column: str) -> str:
        """The name in the header of a column of `labels`."""
        return self.head.header[int(column[1:])]

    @property
    def unused(self) -> list[str]:
        """The names of the columns that are not used."""
        used = {*self.columns.index.values(), *(each for _, *pair in self.columns.mapped for each in pair)}
        return [name for position, name in enumerate(self.head.header) if name and position not in used]

    @property
    def form(self) -> tuple[object, ...]:
        """What tables of one kind share: the names of the columns of positions, and what else they hold."""
        words = [plain(name)[0] for name in self.head.header]
        x_and_y = [self.names[role] for role in ("x", "y")]
        x_and_y = [plain(name)[0] if self.columns.mapped else folded(name) for name in x_and_y]
        columns = words
        if self.columns.unit and self.columns.on:
            columns = []
        elif "observer" in self.columns.index:  # then what tables have in common is told by people
            columns = list(self.columns.index)
        return (*x_and_y, any(map(is_usual, self.labels)), *sorted(columns))


# === Find the tables of positions ===


def is_table(path: str) -> bool:
    """Whether a file is a table, by its name. Example: p1.csv.gz."""
    return path.lower().endswith(SUFFIXES)


def parts_of(path: str) -> tuple[str, ...]:
    """The folders of a table, and its name without the suffix of a table.

    Example: (`p1`, `at 1.05.09`) of p1/at 1.05.09.csv.gz.
    """
    *folders, file = path.split("/")
    n_cut = max((len(suffix) for suffix in SUFFIXES if file.lower().endswith(suffix)), default=0)
    return (*folders, file[: len(file) - n_cut])


@dataclasses.dataclass(frozen=True)
class Unread:
    """A table that is not read."""

    place: str
    """Its path below the source."""
    origin: str
    why: str
    cells: Sequence[Sequence[str]] = ()
    """Its first rows, if it has any."""
    n_rows: int = 0

    def looks_like_data(self, names: ImageNames) -> bool:
        """Whether its rows name images beside several numbers, as fixations do."""
        if not self.cells:
            return False
        columns = list(zip(*self.cells, strict=False))
        n_numbers = sum(all(re.fullmatch(NUMBER, cell.strip()) for cell in column) for column in columns)
        n_named = max((len(names.named_by(set(column))) for column in columns), default=0)
        return n_numbers > 1 and n_named > 0


def stored(member: Member, unpacked: pathlib.Path) -> pathlib.Path:
    """The file of a table. The table of an archive is written into the folder `unpacked`, once."""
    if member.file is not None:
        return member.file
    name = hashlib.blake2b(member.path.encode(), digest_size=16).hexdigest()
    path = unpacked / f"{name}{pathlib.PurePosixPath(member.path).suffix}"
    if not path.exists():
        path.write_bytes(member.content(MAX_BYTES))
    return path


def open_tables(
    members: Sequence[Member], named: dict[str, str], needed: bool, unpacked: pathlib.Path
) -> tuple[list[Source], list[Unread]]:
    """Find the tables of positions among files for which `is_table`, and the others.

    Args:
        members: the files.
        named: the columns that the user names (see `parse_columns`). A table without one of them has no
            positions.
        needed: whether nothing else tells where people looked.
        unpacked: an existing folder, for the tables of archives. They are needed there until they are read.

    Raises:
        UserError: a table is damaged, or positions are needed and no table holds any.
    """
    tables, others = [], []
    for member in members:
        path = stored(member, unpacked)
        try:
            head = read_head(path, member.origin, named)
            tables.append(_with_columns(path, member, head, named))
        except NoTableError as error:
            others.append(_unread(member, path, str(error)))
    if needed and not tables and others:
        more = f" ({len(others) - 1} more tables have no fixations either)" if len(others) > 1 else ""
        letters = [each for each in others if not each.place.lower().endswith((".txt", ".txt.gz"))]
        raise ContentError((letters or others)[0].why + more)
    return tables, others


def _unread(member: Member, path: pathlib.Path, why: str) -> Unread:
    try:
        head = read_head(path, member.origin, {})
    except NoTableError:
        return Unread(member.path, member.origin, why)
    return Unread(member.path, member.origin, why, [head.header, *head.sample][1:], head.n_rows)


class NoTableError(ContentError):
    """The reason why a file is no table of positions of fixations. It may lie beside one."""


def shown_columns(header: Sequence[str]) -> str:
    """The names of the first columns, for a message."""
    return ", ".join(repr(name[:40]) for name in header[:12]) + (", ..." if len(header) > 12 else "")


def _with_columns(path: pathlib.Path, member: Member, head: Head, named: dict[str, str]) -> Source:
    """The table with its columns. Raises `NoTableError` if it has no positions."""
    origin, columns = member.origin, find_columns(head.header, named, lambda position: not head.cells(position))
    shown = shown_columns(head.header)
    for role, name in named.items():
        if role not in columns.index and not name.startswith("@"):
            raise NoTableError(f"{origin} has no column {name!r}, which `columns` names. Its columns are {shown}")
    if not columns.has_positions:
        if sum(re.fullmatch(NUMBER, name) is not None for name in head.header) > 1:
            about = "It has no header: write names of columns into a first line, such as image,x,y, or remove it"
            if "_physio" in origin:
                about = "Samples of BIDS are not read: export fixations, as events, or remove it"
            raise NoTableError(f"{origin} has no names of columns ({shown}). {about}")
        raise NoTableError(
            f"{origin} has no columns of positions of fixations. Its columns are {shown}. Export fixations, not "
            "single samples of the gaze, or name the columns with `columns`, such as image=NAME,x=NAME,y=NAME"
        )
    return Source(path, origin, parts_of(member.path), head, columns, place=member.path)


# === Read, in the worker ===


def read_head(path: pathlib.Path, origin: str, named: Mapping[str, str]) -> Head:
    """Find the header of a table: its first line with columns of positions, by their usual names or `named`.

    Example: exports may begin with lines about the study, and the header `Image,X,Y` follows in line 12.

    Raises:
        UserError: the file is empty, no table, or damaged.
    """
    head: Head = call_untrusted(
        f"{__name__}.parse_head", path, origin, dict(named), file=origin, remedy=REMEDY, limits=_limits(path)
    )
    return head


def read_table(
    path: pathlib.Path, origin: str, head: Head, columns: Mapping[str, int]
) -> tuple[pl.DataFrame, int]:
    """Read columns of the table with this head. `columns` has what a column holds -> its position.

    Returns:
        A frame with a column for each of `columns`: float64 if it is one of `NUMBERS`, else categorical, and
            null where a cell holds nothing. And the number of rows left out because they have more cells than
            the header.

    Raises:
        UserError: a cell of x or y is no number, or the table is damaged or too large.
    """
    arguments = path, origin, head, dict(columns)
    frame, n_ragged = call_untrusted(
        f"{__name__}.parse_table", *arguments, file=origin, remedy=REMEDY, limits=_limits(path)
    )
    return frame, n_ragged


def _limits(path: pathlib.Path) -> Limits:
    """What reading a table may take: more than any sound one of the size of the file needs."""
    n_bytes = path.stat().st_size
    return Limits(
        seconds=30 + n_bytes / SLOWEST_BYTES_S,
        memory_bytes=Limits.memory_bytes + MEMORY_FACTOR * n_bytes,
    )


@contextlib.contextmanager
def _readable(origin: str) -> Iterator[None]:
    """Turn the errors of libraries about a table into a `UserError`."""
    try:
        yield
    except (csv.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException, *DAMAGED, OSError) as error:
        raise ContentError(f"{origin} cannot be read as a table ({first_line(error)}): {REMEDY}") from None


def parse_head(path: pathlib.Path, origin: str, named: Mapping[str, str]) -> Head:
    """Find the header of a table. The worker process that `read_head` starts calls this."""
    with _readable(origin):
        if path.suffix.lower() == PARQUET:
            frame = pl.read_parquet(path, n_rows=SAMPLE_ROWS, glob=False)
            sample = frame.select(_texts(column).fill_null("") for column in frame).rows()
            return Head(frame.columns, "Parquet", [list(row) for row in sample])
        encoding = _encoding(path, origin)
        with _open(path, encoding) as file:
            text = file.read(SAMPLE_CHARACTERS)
        lines = list(io.StringIO(text, newline=""))
        if "\0" in text or not any(line.strip() for line in lines[:MAX_HEADER_LINE]):
            raise NoTableError(f"{origin} is not a table, or is empty. Export it again as CSV, or remove it")
        delimiter, n_lines = _find_header(lines, named)
        header = [" ".join(name.split()) for name in list(_reader(lines[:n_lines], delimiter))[-1]]
        rows = list(itertools.islice(_reader(lines[n_lines:], delimiter), SAMPLE_ROWS))
    check(
        len(header) <= MOST_COLUMNS,
        f"{origin} has {len(header):,} columns, and at most {MOST_COLUMNS:,} are read. Export fewer",
        ContentError,
    )
    form = DELIMITERS[delimiter] + (f", {encoding}" if encoding != "utf-8-sig" else "")
    has_plain_lines = encoding == "utf-8-sig" and re.search(r"\r(?!\n)", text[:-1]) is None
    decimal, n_rows = _decimal_point(rows, delimiter), len(lines) - n_lines
    return Head(header, form, rows, delimiter, encoding, decimal, n_lines, n_rows, has_plain_lines)


def parse_table(
    path: pathlib.Path, origin: str, head: Head, columns: Mapping[str, int]
) -> tuple[pl.DataFrame, int]:
    """Read columns of a table. The worker process that `read_table` starts calls this."""
    parts = [_typed(pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), origin, head, columns)]
    n_rows = n_ragged = 0
    with _readable(origin):
        if head.delimiter:
            _check_quotes(path, origin, head)
        for cells in _rows(path, head, columns).collect_batches(chunk_size=BATCH_ROWS):
            n_rows += len(cells)
            if n_rows > MAX_ROWS:
                raise ContentError(f"{origin} has more than {MAX_ROWS:,} rows. Split it into several tables")
            if cells["holds rows"].any():
                raise ContentError(
                    f"{origin} has a quote that begins a cell and is not closed. Remove it, or close it"
                )
            complete = cells.filter(~pl.col("is ragged"))
            n_ragged += len(cells) - len(complete)
            parts.append(_typed(complete.select(*columns), origin, head, columns))
    return pl.concat(parts), n_ragged


def _check_quotes(path: pathlib.Path, origin: str, head: Head) -> None:
    r"""Raise `UserError` for a table with `\"` outside of a cell that is quoted as RFC 4180, 2.7, says.

    Some programs write a quote within a cell so. Its delimiters then seem to separate cells, and a row to be
    about another image. Example: `"a \"b, c.png",1,2` has three cells or four.
    """
    if not _has_escapes(path, head.encoding):
        return
    with _open(path, head.encoding) as file:
        collections.deque(itertools.islice(file, head.n_lines), maxlen=0)
        text = file.read()
    ends = re.escape(head.delimiter) + r"\r\n"
    quoted, plain_cell = r'"(?:[^"]|"")*+" *', rf'(?!")(?:[^{ends}\\]|\\(?!"))*+'
    cell = re.compile(rf"(?:{quoted}|{plain_cell})(?=[{ends}]|\Z)")
    position = 0
    while position <= len(text):
        found = cell.match(text, position)
        if found is None:
            line = text.count("\n", 0, position) + head.n_lines + 1
            raise ContentError(
                f"{origin} has quotes that are escaped by a backslash, and line {line} can be read in two ways. "
                f'Write each quote within a cell twice (""), or {REMEDY} without quotes'
            )
        position = found.end() + 1


def _has_escapes(path: pathlib.Path, encoding: str) -> bool:
    r"""Whether a text has `\"`."""
    with _open(path, encoding) as file:
        before = ""
        while chunk := file.read(2**20):
            if ESCAPED in before + chunk:
                return True
            before = chunk[-1]
    return False


def _rows(path: pathlib.Path, head: Head, columns: Mapping[str, int]) -> pl.LazyFrame:
    """The cells of some columns as texts, or as Parquet has them, and two columns about each row.

    - `is ragged`: whether it has more cells than the header.
    - `holds rows`: whether one of its cells holds the delimiters of a row. Example: a quote before it is not
      closed.
    """
    if not head.delimiter:
        cells = {role: pl.col(head.header[position]) for role, position in columns.items()}
        no = pl.lit(value=False)
        return pl.scan_parquet(path, glob=False).select(no.alias("is ragged"), no.alias("holds rows"), **cells)
    text: pathlib.Path | bytes = path
    if not head.has_plain_lines:
        with _open(path, head.encoding, newline=None) as file:
            text = file.read().encode()
    n_columns = len(head.header)
    rows = pl.scan_csv(
        text,
        has_header=False,
        separator=head.delimiter,
        skip_lines=head.n_lines,
        schema={str(position): pl.String for position in range(n_columns + 1)},  # one more, for what is too much
        missing_columns="insert",
        empty_string_is_null=False,
        truncate_ragged_lines=True,
        glob=False,
        raise_if_empty=False,
    )
    delimiters = f"[^\n]*{re.escape(head.delimiter)}" * max(1, n_columns - 1)
    return rows.select(
        (pl.col(str(n_columns)).fill_null("") != "").alias("is ragged"),
        pl.any_horizontal(pl.all().str.contains(rf"\n{delimiters}")).fill_null(value=False).alias("holds rows"),
        **{role: pl.col(str(position)) for role, position in columns.items()},
    )


def _typed(cells: pl.DataFrame, origin: str, head: Head, columns: Mapping[str, int]) -> pl.DataFrame:
    """The columns as numbers and categories. Raises `UserError` for a cell of x or y that is no number."""
    typed = []
    for column in cells:
        texts = _texts(column)
        if column.name not in NUMBERS:
            typed.append(texts.set(texts.is_in(MISSING), None).cast(pl.Categorical))
            continue
        numbers = _numbers(texts, head.decimal).fill_nan(None)
        if column.name in ("x", "y"):
            _check_thousands(texts, head, f"{origin} has {{}} in its column {head.header[columns[column.name]]!r}")
            wrong = texts.filter(numbers.is_null() & ~texts.is_in(MISSING))
            if len(wrong):
                raise ContentError(
                    f"{origin} has {wrong[0][:60]!r} in its column {head.header[columns[column.name]]!r}, which "
                    "is no plain number such as 512.5. Correct it, or name another column with `columns`"
                )
        typed.append(numbers)
    return pl.DataFrame(typed)


def _check_thousands(texts: pl.Series, head: Head, has: str) -> None:
    """Raise `ContentError` if a point may separate thousands: all numbers with one have three digits after it.

    Example: 1.024 beside 812, but not beside 3.5.
    """
    if head.decimal == ",":
        return
    pointed = texts.filter(texts.str.contains(".", literal=True))
    if len(pointed) and pointed.str.contains(r"^[-+]?[1-9]\d{0,2}\.\d{3}$").all() and len(pointed) < len(texts):
        is_whole = texts.str.contains(r"^\d{3,}$")
        if is_whole.any():
            both = f"{pointed[0]!r} and {texts.filter(is_whole)[0]!r}"
            raise ContentError(
                f"{has.format(both)}, so that the point may separate thousands. Write numbers without it, or all "
                "with decimals"
            )


def _numbers(texts: pl.Series, decimal: str) -> pl.Series:
    """The numbers of a column of texts. Null for a text that is no number, or may be another one.

    Example: 1,024 is null beside a decimal point, since it may be 1024 or 1.024.
    """
    if decimal == ",":  # a point would separate thousands: it must not become a decimal point
        texts = texts.str.replace_all(".", "'", literal=True)
    elif texts.str.contains(THOUSANDS).any():
        texts = texts.set(texts.str.contains(THOUSANDS), None)
    return texts.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)


def _texts(column: pl.Series) -> pl.Series:
    """The cells of a column as texts. Dates become numbers, since Polars panics about some. Lists become null."""
    if column.dtype.is_nested():
        return pl.Series(column.name, [None] * len(column), pl.String)
    physical = column.to_physical() if column.dtype.is_temporal() else column
    return physical.cast(pl.String, strict=False).str.strip_chars()


# === Text ===


def _open(path: pathlib.Path, encoding: str, newline: str | None = "", errors: str = "replace") -> TextIO:
    if path.suffix.lower() == ".gz":
        return cast("TextIO", gzip.open(path, "rt", encoding=encoding, errors=errors, newline=newline))
    return path.open(encoding=encoding, errors=errors, newline=newline)


def _encoding(path: pathlib.Path, origin: str) -> str:
    """The encoding of a text: UTF-16 by its first bytes, else UTF-8 if all of it is, else Latin-1."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        begin = file.read(400)
    if begin.startswith(EXCEL_PREFIXES):
        raise NoTableError(
            f"{origin} is an Excel workbook. Save its sheet as CSV (UTF-8), and put that in its place"
        )
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if begin[1::2].count(0) > 0.8 * len(begin[1::2]):
        return "utf-16-le"
    try:
        with _open(path, "utf-8-sig", errors="strict") as text:
            while text.read(2**20):
                pass
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8-sig"


def _find_header(lines: Sequence[str], named: Mapping[str, str]) -> tuple[str, int]:
    """The delimiter and the last line, counted from 1, of the first row with columns of positions.

    If no row has them, the line with most delimiters is taken, for the message that says so.
    """
    headers, folded_names = [], {role: folded(name) for role, name in named.items()}
    for order, delimiter in enumerate(DELIMITERS):
        reader = _reader(lines, delimiter)
        for cells in itertools.islice(reader, MAX_HEADER_LINE):
            if find_columns([*map(folded, cells)], folded_names).has_positions:
                headers.append((reader.line_num, order, delimiter))
                break
    if headers:
        n_lines, _, delimiter = min(headers)
        return delimiter, n_lines
    first = [(number, line) for number, line in enumerate(lines[:MAX_HEADER_LINE], 1) if line.strip()][:20]
    _, before, delimiter = max((line.count(each), -number, each) for number, line in first for each in DELIMITERS)
    return delimiter, -before


def _reader(lines: Iterable[str], delimiter: str) -> "Reader":
    csv.field_size_limit(SAMPLE_CHARACTERS)
    return csv.reader(lines, delimiter=delimiter)


def _decimal_point(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """The decimal point of a table: a comma if more cells have a comma for certain than have a point.

    Example: 512,5 has a comma for certain, and 1,024 may have a separator of thousands.
    """
    commas = points = 0
    for column in itertools.zip_longest(*rows, fillvalue=""):
        cells = [cell.strip() for cell in column]
        points += sum(re.fullmatch(r"-?\d+\.\d+", cell) is not None for cell in cells)
        with_comma = [cell for cell in cells if re.fullmatch(r"-?\d+,\d+", cell)]
        clear = [cell for cell in with_comma if not re.search(THOUSANDS, cell)]
        # Decimals have three digits in all cells, or in some of them fewer. Among thousands are smaller numbers.
        may_be_thousands = delimiter == "," or any(re.fullmatch(r"-?\d+", cell) for cell in cells)
        commas += len(clear if may_be_thousands else with_comma)
    return "," if commas > points else "."
