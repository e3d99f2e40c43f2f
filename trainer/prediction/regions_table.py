"""Tables for the terminal: regions and their shares of attention."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from trainer.prediction.designs import Change
from trainer.prediction.predict import Outcome
from trainer.text import printable


def measures_table(outcomes: Sequence[Outcome]) -> Table:
    """Make a table of the regions of each image, ordered by rank."""
    table = _table("image", "rank", "region", "share", "area", "share / area", "peak")
    for outcome in outcomes:
        for row, measure in enumerate(sorted(outcome.measures, key=lambda measure: measure.rank)):
            table.add_row(
                Text("" if row else outcome.input.label),
                str(measure.rank),
                Text(printable(measure.region.name)),
                f"{measure.share:.1%}",
                f"{measure.area:.1%}",
                f"{measure.ratio:.1f}",
                f"{measure.peak:.2f}",
            )
    return table


def changes_table(changes: Sequence[Change], names: Sequence[str]) -> Table:
    """Make a table of the regions of two designs, the one whose share grows most first."""
    table = _table("region", *map(printable, names), "change")
    for change in sorted(changes, key=lambda change: -change.share):
        table.add_row(
            Text(printable(change.first.region.name)),
            f"{change.first.share:.1%}",
            f"{change.second.share:.1%}",
            f"{round(100 * change.second.share, 1) - round(100 * change.first.share, 1):+.1f} pp",
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        is_text = title in ("image", "region")
        table.add_column(Text(title), justify="left" if is_text else "right", overflow="fold")
    return table
