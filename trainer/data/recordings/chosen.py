"""Choose the tables of fixations among the files of a source, and the columns in them."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence

from trainer.data.recordings import columns, tables
from trainer.data.recordings.columns import Columns
from trainer.data.recordings.names import ImageNames
from trainer.data.recordings.table import Table
from trainer.errors import UserError
from trainer.sources import Member

TABLES_OF_SURFACES = ("fixations_on_surface_", "gaze_positions_on_surface_")
"""Pupil Player's names of the tables of a surface begin so."""
Form = tuple[str, tuple[tuple[str, str], ...]]


@dataclasses.dataclass(frozen=True)
class Source:
    """A table of fixations."""

    table: Table
    columns: Columns
    image: int | None
    """The image of all its rows; None if a column names each row's."""

    @property
    def names(self) -> dict[str, str]:
        """What a column holds -> its name."""
        return {role: self.table.header[position] for role, position in self.columns.index.items()}

    @property
    def unused(self) -> list[str]:
        """The names of the columns that hold nothing that is known."""
        used = set(self.columns.index.values())
        return [name for position, name in enumerate(self.table.header) if name and position not in used]

    @property
    def owner(self) -> str:
        """The name of the table without what software adds for its content: perhaps that of an observer."""
        path, _, file = self.table.origin.rpartition("/")
        stem = re.sub(r"[ _-]*(all[ _-]?gaze|fixations?|fix)$", "", file.split(".")[0], flags=re.IGNORECASE)
        return f"{path}/{stem}" if path else stem

    @property
    def form(self) -> Form:
        """Equal for tables of the same form with the same columns."""
        return self.table.form, tuple(sorted(self.names.items()))


def open_tables(
    members: Iterable[Member], named: dict[str, str], names: ImageNames, needed: bool
) -> tuple[list[Source], list[str]]:
    """The tables of fixations among the files, and the names of those that hold none.

    Args:
        members: files for which `tables.is_table`.
        named: the columns that the user names, as of `columns.parse_columns`.
        names: the images.
        needed: whether nothing else tells where people looked.

    Raises:
        UserError: a table cannot be read, or fixations are needed and none holds any.
    """

    def is_header(cells: Sequence[str]) -> bool:
        return columns.find_columns(cells, named).has_positions

    found, others, reasons = [], [], []
    letters = []  # texts that may be letters to the reader
    for member in members:
        is_text = member.path.lower().endswith((".txt", ".txt.gz"))
        try:
            table = tables.open_table(member, is_header)
        except UserError as error:
            if not is_text:
                raise
            letters.append(str(error))
            continue
        source, reason = _source(table, member, named, names)
        if source is not None:
            found.append(source)
        elif is_text and not is_header(table.header):
            letters.append(reason)
        else:
            others.append(member.origin)
            reasons.append(reason)
    reasons = reasons or letters
    if needed and not found and reasons:
        more = f" ({len(reasons) - 1} more tables have no fixations either)" if len(reasons) > 1 else ""
        raise UserError(reasons[0] + more)
    return found, others


def _source(table: Table, member: Member, named: dict[str, str], names: ImageNames) -> tuple[Source | None, str]:
    """The table of fixations, or why it is none."""
    found = columns.find_columns(table.header, named)
    shown = ", ".join(repr(name[:40]) for name in table.header[:12]) + (", ..." if len(table.header) > 12 else "")
    absent = [name for role, name in named.items() if role not in found.index]
    if {"image", "x", "y"} & named.keys() & (named.keys() - found.index.keys()):
        return None, f"{table.origin} has no column {absent[0]!r}, which `columns` names; its columns are {shown}"
    if not found.has_positions:
        if columns.holds_samples(table.header):
            return None, (
                f"{table.origin} holds single samples of the gaze, but no fixations; export fixations, or name "
                "the columns of positions with `columns`, such as x=NAME,y=NAME"
            )
        return None, (
            f"{table.origin} has no columns of positions; its columns are {shown}; name them with `columns`, such "
            "as image=NAME,x=NAME,y=NAME"
        )
    if "image" in named:
        return Source(table, found, None), ""
    position = _image_column(table, found, names, named.keys() & found.index.keys() - {"trial"})
    if position is not None:
        found.index["image"] = position
        return Source(table, found, None), ""
    found.index.pop("image", None)
    image = _image_of_path(member.path, names)
    if image is not None:
        return Source(table, found, image), ""
    for role in named:
        if role in found.index and _matches(table, found.index[role], names):
            name = table.header[found.index[role]]
            return None, (
                f"{table.origin} has no column left for the image of each row: {name!r} is already taken by "
                f"{role}; name another for {role} in `columns`, or leave {role} out"
            )
    return None, (
        f"{table.origin} has no column that names the image of each row; its columns are {shown}; name it with "
        "`columns`, such as image=NAME, or give the table the name of its image"
    )


def _matches(table: Table, position: int, names: ImageNames) -> int:
    """How many cells of a column, of the table's first rows, name an image."""
    return names.count({row[position] for row in table.sample if position < len(row)} - {""})


def _image_column(table: Table, found: Columns, names: ImageNames, named: Collection[str]) -> int | None:
    """The column of images: of those with a usual name the one that names most images, else any that does.

    None of them is a column that the user names for what is in `named`.
    """

    def matches(position: int) -> int:
        return _matches(table, position, names)

    by_user = {found.index[role] for role in named}
    candidates = [position for position in columns.image_candidates(table.header) if position not in by_user]
    usual = [position for position in candidates if not table.is_empty(position)]
    if usual:
        best = max(usual, key=matches)  # the first of several
        if matches(best) or not table.sample:
            return best
    taken = set(found.index.values()) - set(usual)
    others = [position for position in range(len(table.header)) if position not in taken]
    matching = [position for position in others if matches(position)]
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
