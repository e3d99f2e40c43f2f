"""Cut a listing into shards, by bytes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar


class Sized(Protocol):
    """Something with a size."""

    @property
    def size_bytes(self) -> int:
        """Its size, bytes."""


Item = TypeVar("Item", bound=Sized)


def pieces(items: Iterable[Item], most_bytes: float, most_items: int) -> Iterator[list[Item]]:
    """Yield the items in their order, in lists of at most so many bytes and items. A larger item is alone.

    Only one list is in memory at a time.
    """
    piece: list[Item] = []
    n_bytes = 0
    for item in items:
        if piece and (n_bytes + item.size_bytes > most_bytes or len(piece) == most_items):
            yield piece
            piece, n_bytes = [], 0
        piece.append(item)
        n_bytes += item.size_bytes
    if piece:
        yield piece


def cut(sizes: Sequence[int], most_bytes: float, most_items: int) -> list[range]:
    """Cut items of these sizes into ranges of their indices, as `pieces` does.

    Example:
        >>> cut([5, 5, 20, 1], most_bytes=10, most_items=100)
        [range(0, 2), range(2, 3), range(3, 4)]
    """
    ranges: list[range] = []
    start, n_bytes = 0, 0
    for index, size in enumerate(sizes):
        if index > start and (n_bytes + size > most_bytes or index - start == most_items):
            ranges.append(range(start, index))
            start, n_bytes = index, 0
        n_bytes += size
    return [*ranges, range(start, len(sizes))] if len(sizes) else ranges
