"""A table whose header has been read, and its columns as arrays; `tables` opens it from a file."""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainer.errors import UserError

SAMPLE_ROWS = 1000
MAX_ROWS = 50_000_000
MAX_BYTES = 4 * 2**30
MISSING = ("", "-", ".", "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL", "None", "UNDEFINED", "UNDEFINEDnull")
"""Cells that hold nothing; EyeLink writes ., SMI writes -, BIDS writes n/a."""
Types = dict[int, pa.DataType]
"""Position of a column -> the type to read it as."""


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


def too_large(origin: str, size: str) -> UserError:
    """The error for a table of `size`, a text for people."""
    return UserError(f"{origin} has {size}; split it into several tables of at most {MAX_ROWS:,} rows")


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    values: NDArray[np.float64] = pc.fill_null(column, np.nan).to_numpy()
    return values


def _texts(column: pa.ChunkedArray) -> Texts:
    array = column.unify_dictionaries().combine_chunks() if column.num_chunks else pa.array([], column.type)
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    codes = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return Texts(codes, [str(label) for label in array.dictionary.to_pylist()])
