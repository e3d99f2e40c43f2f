"""Read tables in Parquet files."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from trainer.data.recordings import table as tables
from trainer.data.recordings.table import MISSING, SAMPLE_ROWS, Table, Types, too_large
from trainer.errors import UserError, first_line

BROKEN = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Arrow's exceptions for files that are damaged."""


def open_parquet(data: bytes, origin: str) -> Table:
    try:
        file = pa.parquet.ParquetFile(pa.BufferReader(data))
        header = [str(name) for name in file.schema_arrow.names]
        if file.metadata.num_rows > tables.MAX_ROWS:
            raise too_large(origin, f"{file.metadata.num_rows:,} rows")
        if twins := [name for name in header if header.count(name) > 1]:
            raise UserError(f"{origin} has several columns named {twins[0]!r}; rename all but one")
        first = next(file.iter_batches(SAMPLE_ROWS), None) if file.metadata.num_rows else None
        rows = [] if first is None else [*map(list, zip(*map(_sampled, first.columns), strict=True))]
    except BROKEN as error:
        raise _damaged_parquet(origin, error) from None

    def read(types: Types) -> tuple[pa.Table, int]:
        try:
            columns = file.read([header[position] for position in types])
        except BROKEN as error:
            raise _damaged_parquet(origin, error) from None
        if columns.nbytes > tables.MAX_BYTES:
            raise too_large(origin, f"{columns.nbytes / 1e9:.0f} GB")
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
            return _parsed(column.cast(pa.string())) if _is_text(column.type) else column.cast(kind)
        texts = column.cast(pa.string())
        return pc.dictionary_encode(pc.if_else(_is_missing(texts), pa.scalar(None, pa.string()), texts))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UserError(
            f"{origin} has a column {name!r} of the type {column.type}, no {kind} ({first_line(error)}); "
            "name another column with `columns`"
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_missing(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.is_in(texts, pa.array(MISSING))


def _parsed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(_is_missing(column), pa.scalar(None, pa.string()), column).cast(pa.float64())


def _sampled(column: pa.Array) -> list[str]:
    """The cells of a column as texts; times that Python has not are empty."""
    try:
        return ["" if cell is None else str(cell) for cell in column.to_pylist()]
    except (pa.ArrowException, ValueError, OverflowError):
        return [""] * len(column)
