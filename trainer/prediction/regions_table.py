"""Regions and their shares of attention as tables for a terminal."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from trainer.prediction.designs import Change
from trainer.prediction.inputs import shown
from trainer.prediction.predict import Outcome


def measures_table(outcomes: Sequence[Outcome]) -> Table:
    """Each image's regions in the order of their ranks."""
    table = _table("image", "rank", "region", "share", "area", "share / area", "peak")
    for outcome in outcomes:
        for row, each in enumerate(sorted(outcome.measures, key=lambda each: each.rank)):
            table.add_row(
                Text("" if row else outcome.input.shown),
                str(each.rank),
                Text(shown(each.region.name)),
                f"{each.share:.2%}",
                f"{each.area:.2%}",
                f"{each.ratio:.2f}",
                f"{each.peak:.2f}",
            )
    return table


def changes_table(changes: Sequence[Change], names: Sequence[str]) -> Table:
    """The regions of two designs, those first whose shares grow most."""
    table = _table("region", *map(shown, names), "change")
    for each in sorted(changes, key=lambda each: -each.share):
        table.add_row(
            Text(shown(each.first.region.name)),
            f"{each.first.share:.1%}",
            f"{each.second.share:.1%}",
            f"{100 * each.share:+.1f}",
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        is_text = title in ("image", "region")
        table.add_column(Text(title), justify="left" if is_text else "right", overflow="fold")
    return table
