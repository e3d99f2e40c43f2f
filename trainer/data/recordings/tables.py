"""Open the tables of a source: text with any of the usual delimiters and encodings, and Parquet."""

import gzip
import io
from collections.abc import Callable, Sequence

from trainer.data.recordings import table
from trainer.data.recordings.parquet_table import open_parquet
from trainer.data.recordings.table import Table, too_large
from trainer.data.recordings.text_table import open_text
from trainer.errors import UserError
from trainer.sources import DAMAGED, Member

PARQUET = ".parquet"
TEXT = (".csv", ".tsv", ".txt", ".xls")
"""EyeLink's Data Viewer calls its text .xls."""
SUFFIXES = (*TEXT, *(f"{suffix}.gz" for suffix in (".csv", ".tsv", ".txt")), PARQUET)
EXCEL = (".xlsx", ".xlsm", ".xlsb", ".ods")
EXCEL_BEGIN = (b"PK\3\4", b"\xd0\xcf\x11\xe0")


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
    data = member.content(table.MAX_BYTES)
    if member.path.lower().endswith(".gz"):
        data = _unzipped(data, member.origin)
    if not data.strip():
        raise UserError(f"{member.origin} is empty; export it again, or remove it")
    if data.startswith(EXCEL_BEGIN):
        raise excel(member.origin)
    if member.path.lower().endswith(PARQUET):
        return open_parquet(data, member.origin)
    return open_text(data, member.origin, is_header)


def excel(origin: str) -> UserError:
    """The error for a workbook."""
    return UserError(f"{origin} is an Excel workbook; save its sheet as CSV (UTF-8), and put that in its place")


def _unzipped(data: bytes, origin: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = stream.read(table.MAX_BYTES + 1)
    except (*DAMAGED, OSError) as error:
        raise UserError(f"{origin} is incomplete or damaged ({error}); copy or download it again") from None
    if len(content) > table.MAX_BYTES:
        raise too_large(origin, f"more than {table.MAX_BYTES // 10**9} GB")
    return content
