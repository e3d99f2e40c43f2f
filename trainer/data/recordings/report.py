"""The report of what was understood of somebody's own recordings: as sentences, and as tables on a terminal."""

import collections
import dataclasses
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as Grid

from trainer.data.recordings.chosen import Form, Source
from trainer.data.recordings.rows import LeftOut
from trainer.errors import some
from trainer.text import visible

SHOWN_FORMS = 5
SHOWN_COLUMNS = 8
FIRST_ROWS = 5
LOG_WIDTH = 120
"""Length of printed lines where there is no terminal."""


@dataclasses.dataclass(frozen=True)
class FirstRow:
    """A row of a table, for people."""

    image: str
    x: float
    y: float
    pixel: tuple[int, int]
    """(y, x) in the image."""
    observer: str


@dataclasses.dataclass
class Report:
    """What was understood, and what was left out and why."""

    sources: Sequence[Source] = ()
    other_tables: Sequence[str] = ()
    """Tables without fixations."""
    positions: str = ""
    """What positions mean, and why they were taken so."""
    first_rows: Sequence[FirstRow] = ()
    n_fixations: int = 0
    n_observers: int = 0
    """0 if observers are not told apart."""
    n_images: dict[str, int] = dataclasses.field(default_factory=dict)
    left_out: LeftOut = dataclasses.field(default_factory=LeftOut)
    remarks: list[str] = dataclasses.field(default_factory=list)
    """Further sentences for people."""

    def sentences(self) -> list[str]:
        """The sentences of the report, which depend on the data and the settings alone."""
        notes = [*self._forms(), *self._unused()]
        if self.other_tables:
            notes.append(f"Tables without fixations, left out: {some(self.other_tables)}.")
        if self.positions:
            notes.append(self.positions)
        for row in self.first_rows[:1]:
            by = f" by {row.observer}" if row.observer else ""
            notes.append(
                f"The first fixation{by} is at x {row.x:g}, y {row.y:g} of {row.image}: pixel {row.pixel[1]} from "
                f"the left, {row.pixel[0]} from the top."
            )
        titles = {"train": "training", "valid": "validation", "test": "test"}
        counted = "Images: " + ", ".join(f"{count:,} {titles[name]}" for name, count in self.n_images.items())
        if self.n_fixations:
            who = f"observers: {self.n_observers:,}" if self.n_observers else "observers are not told apart"
            counted += f"; fixations: {self.n_fixations:,}; {who}"
        notes.append(f"{counted}.")
        if self.left_out.rows:
            notes.append(f"Rows left out: {self.left_out.text}.")
        if self.left_out.hint:
            notes.append(f"{self.left_out.hint}.")
        return notes + self.remarks

    def _forms(self) -> list[str]:
        by_form = collections.defaultdict[Form, list[Source]](list)
        for source in self.sources:
            by_form[source.form].append(source)
        sentences = []
        for sources in list(by_form.values())[:SHOWN_FORMS]:
            first = sources[0]
            what = first.origin
            if len(sources) > 1:
                what = f"{len(sources):,} tables such as {what}"
            columns = ", ".join(f"{role} is {name!r}" for role, name in first.names.items())
            if first.image is not None:
                columns += "; the image is that of the table's name"
            sentences.append(f"{what} ({first.head.form}): {columns}.")
        if len(by_form) > SHOWN_FORMS:
            sentences.append(f"{len(by_form) - SHOWN_FORMS} more forms of tables.")
        return sentences

    def _unused(self) -> list[str]:
        names = list(dict.fromkeys(name for source in self.sources for name in source.unused))
        if not names:
            return []
        shown = some([repr(name[:40]) for name in names], SHOWN_COLUMNS)
        is_told = self.n_observers or any("observer" in source.columns.index for source in self.sources)
        hint = "" if is_told else " If one tells observers apart, name it with `columns`: observer=NAME."
        return [f"Columns that were not used: {shown}.{hint}"]

    def show(self) -> None:
        """Print the report."""
        width = None if sys.stdout.isatty() else LOG_WIDTH
        console = Console(file=sys.stdout, width=width, highlight=False, markup=False)
        console.print("What was understood:")
        for sentence in self.sentences():
            console.print(visible(f"- {sentence}"))
        if not self.first_rows:
            return
        rows = Grid(
            "image", "x", "y", "pixel from the left", "from the top", "observer", title="The first fixations"
        )
        rows.title_justify = "left"
        for row in self.first_rows:
            rows.add_row(row.image, f"{row.x:g}", f"{row.y:g}", *map(str, row.pixel[::-1]), visible(row.observer))
        console.print(rows)
