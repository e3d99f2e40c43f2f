"""Cut a listing into shards, by bytes."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar


class Sized(Protocol):
    """Something with a size."""

    @property
    def size_bytes(self) -> int:
        """Its size, bytes."""


Item = TypeVar("Item", bound=Sized)


def pieces(items: Iterable[Item], most_bytes: float, most_items: int) -> Iterator[list[Item]]:
    """Yield the items in their order, in lists of at most so many bytes and items. A larger item is alone.

    Only one list is in memory at a time. `trainer.data.plan.cut` is the same for a sequence in memory.
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
