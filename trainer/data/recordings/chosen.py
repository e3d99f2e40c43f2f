"""Choose the tables of fixations among the files of a source, and the columns in them."""

import dataclasses
import pathlib
import re
from collections.abc import Collection, Sequence

from trainer.data.recordings import columns
from trainer.data.recordings.columns import Columns
from trainer.data.recordings.images import ImageNames
from trainer.data.recordings.table import MISSING, Head, read_head
from trainer.errors import UserError
from trainer.sources import Member

TABLES_OF_SURFACES = ("fixations_on_surface_", "gaze_positions_on_surface_")
"""Prefixes of Pupil Player's tables of a surface."""
MAX_BYTES = 4 * 2**30
"""Largest table in an archive, unpacked."""
Form = tuple[str, tuple[tuple[str, str], ...]]


@dataclasses.dataclass(frozen=True)
class Source:
    """A table of fixations, and what its columns hold."""

    path: pathlib.Path
    origin: str
    """The table's name in messages."""
    head: Head
    columns: Columns
    image: int | None
    """The image of all its rows; None if a column names each row's."""

    @property
    def names(self) -> dict[str, str]:
        """What a column holds -> its name."""
        return {role: self.head.header[position] for role, position in self.columns.index.items()}

    @property
    def unused(self) -> list[str]:
        """The names of the columns that are not used."""
        used = set(self.columns.index.values())
        return [name for position, name in enumerate(self.head.header) if name and position not in used]

    @property
    def owner(self) -> str:
        """The name of the table without suffixes such as `_fixations`: perhaps the name of an observer."""
        path, _, file = self.origin.rpartition("/")
        stem = re.sub(r"[ _-]*(all[ _-]?gaze|fixations?|fix)$", "", file.split(".")[0], flags=re.IGNORECASE)
        return f"{path}/{stem}" if path else stem

    @property
    def form(self) -> Form:
        """A value that is equal for tables of one form with the same columns."""
        return self.head.form, tuple(sorted(self.names.items()))


def open_tables(
    members: Sequence[Member], named: dict[str, str], names: ImageNames, needed: bool, unpacked: pathlib.Path
) -> tuple[list[Source], list[str]]:
    """Find the tables of fixations among the files, and the names of those that hold none.

    Args:
        members: files for which `table.is_table`.
        named: the columns that the user names (see `recordings.parse_columns`).
        names: the images.
        needed: whether nothing else tells where people looked.
        unpacked: an existing folder, for the tables of archives. They are needed there until they are read.

    Raises:
        UserError: a table cannot be read, or fixations are needed and none holds any.
    """
    found, others, reasons = [], [], []
    letters = []  # texts that may be letters to the reader
    for number, member in enumerate(members):
        is_text = member.path.lower().endswith((".txt", ".txt.gz"))
        path = member.file
        if path is None:
            path = unpacked / f"{number}{pathlib.PurePosixPath(member.path).suffix}"
            path.write_bytes(member.content(MAX_BYTES))
        try:
            head = read_head(path, member.origin, named)
        except UserError as error:
            if not is_text:
                raise
            letters.append(str(error))
            continue
        found_columns = columns.find_columns(head.header, named)
        try:
            found.append(_source(path, member, head, found_columns, named, names))
        except _NoFixationsError as error:
            if is_text and not found_columns.has_positions:
                letters.append(str(error))
            else:
                others.append(member.origin)
                reasons.append(str(error))
    reasons = reasons or letters
    if needed and not found and reasons:
        more = f" ({len(reasons) - 1} more tables have no fixations either)" if len(reasons) > 1 else ""
        raise UserError(reasons[0] + more)
    return found, others


class _NoFixationsError(Exception):
    """The reason why a table is none of fixations."""


def _source(
    path: pathlib.Path, member: Member, head: Head, found: Columns, named: dict[str, str], names: ImageNames
) -> Source:
    """Complete `found`, the columns of a table, by that of images; raises `_NoFixationsError`."""
    header, origin = head.header, member.origin
    shown = ", ".join(repr(name[:40]) for name in header[:12]) + (", ..." if len(header) > 12 else "")
    absent = [name for role, name in named.items() if role not in found.index]
    if {"image", "x", "y"} & named.keys() & (named.keys() - found.index.keys()):
        raise _NoFixationsError(
            f"{origin} has no column {absent[0]!r}, which `columns` names; its columns are {shown}"
        )
    if not found.has_positions and columns.holds_samples(header):
        raise _NoFixationsError(
            f"{origin} holds single samples of the gaze, but no fixations; export fixations, or name the columns "
            "of positions with `columns`, such as x=NAME,y=NAME"
        )
    if not found.has_positions:
        raise _NoFixationsError(
            f"{origin} has no columns of positions; its columns are {shown}; name them with `columns`, such as "
            "image=NAME,x=NAME,y=NAME"
        )
    if "image" in named:
        return Source(path, origin, head, found, None)
    position = _image_column(head, found, names, named.keys() & found.index.keys() - {"trial"})
    if position is not None:
        found.index["image"] = position
        return Source(path, origin, head, found, None)
    found.index.pop("image", None)
    image = _image_of_path(member.path, names)
    if image is not None:
        return Source(path, origin, head, found, image)
    for role in named:
        if role in found.index and _matches(head, found.index[role], names):
            raise _NoFixationsError(
                f"{origin} has no column left for the image of each row: {header[found.index[role]]!r} is already "
                f"taken by {role}; name another for {role} in `columns`, or leave {role} out"
            )
    raise _NoFixationsError(
        f"{origin} has no column that names the image of each row; its columns are {shown}; name it with "
        "`columns`, such as image=NAME, or give the table the name of its image"
    )


def _matches(head: Head, position: int, names: ImageNames) -> int:
    """Count the different cells of a column, of the table's first rows, that name an image."""
    return names.count({*head.cells(position)} - {""})


def _image_column(head: Head, found: Columns, names: ImageNames, named: Collection[str]) -> int | None:
    """The column of images: of those with a usual name the one that names most images, else any that does.

    A column that the user names for something else (`named`) is never taken.
    """

    def matches(position: int) -> int:
        return _matches(head, position, names)

    by_user = {found.index[role] for role in named}
    candidates = [position for position in columns.image_candidates(head.header) if position not in by_user]
    usual = [position for position in candidates if not head.sample or {*head.cells(position)} - {*MISSING}]
    if usual:
        best = max(usual, key=matches)  # the first of several
        if matches(best) or not head.sample:
            return best
    taken = set(found.index.values()) - set(usual)
    matching = [position for position in range(len(head.header)) if position not in taken and matches(position)]
    if matching:
        return max(matching, key=matches)
    return usual[0] if usual else None


def _image_of_path(path: str, names: ImageNames) -> int | None:
    """The image that the name of a table, or of a folder around it, names, or the only one beside the table."""
    *folders, file = path.split("/")
    stem = file.split(".")[0]
    for prefix in TABLES_OF_SURFACES:
        stem = stem.removeprefix(prefix)
    for name in (stem, *reversed(folders)):
        image = names.find(name, path)
        if image is not None:
            return image
    beside = names.only_in("/".join(folders))
    return names.only if beside is None else beside
