"""Read tables in Parquet files."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from trainer.data.own import table as tables
from trainer.data.own.table import MISSING, SAMPLE_ROWS, Table, Types, too_large
from trainer.errors import UserError, first_line

BROKEN = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Arrow's exceptions for files that are damaged."""


def open_parquet(data: bytes, origin: str) -> Table:
    try:
        file = pa.parquet.ParquetFile(pa.BufferReader(data))
        header = [str(name) for name in file.schema_arrow.names]
        if file.metadata.num_rows > tables.MAX_ROWS:
            raise too_large(origin, f"{file.metadata.num_rows:,} rows")
        first = next(file.iter_batches(SAMPLE_ROWS), None) if file.metadata.num_rows else None
    except BROKEN as error:
        raise _damaged_parquet(origin, error) from None
    rows = [] if first is None else [[_text(cell) for cell in row.values()] for row in first.to_pylist()]

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
