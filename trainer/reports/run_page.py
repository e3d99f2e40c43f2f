"""The page of a run while it runs. The report of its evaluation takes its place."""

import os
from collections.abc import Mapping, Sequence

from trainer.reports import pages
from trainer.texts import now

RELOAD_S = 5
"""A browser reads the page of a running run again after so many seconds."""


def write_run(
    html: str | os.PathLike[str],
    *,
    name: str,
    model: str,
    tone: str,
    headline: str,
    sentences: Sequence[str],
    is_running: bool,
    steps: Sequence[tuple[str, str, str, str]],
    links: Mapping[str, str],
    losses: Mapping[str, Mapping[int, tuple[float, float]]],
) -> None:
    """Write the page.

    Args:
        html: The file.
        name: The run's name.
        model: The model's name in the registry.
        tone: Colour of the headline: `good`, `bad` or `plain`.
        headline: How the run is going, or how it ended.
        sentences: What follows the headline.
        is_running: Whether the run goes on, so that the page reads itself again.
        steps: Title, state, time and last line of each step.
        links: Title of a page of the run -> its file, relative to this one.
        losses: Title of a training -> number of an epoch -> its training and its validation loss.
    """
    curves = {}
    for title, of in losses.items():
        loss, valid = zip(*of.values(), strict=True)
        curves[title] = pages.loss_curve(list(of), loss, valid, valid.index(min(valid)))
    pages.write_page(
        html,
        "run.html.jinja",
        title=f"Run {name}",
        head=[("Model", model), ("Date", now())],
        reload_s=RELOAD_S if is_running else 0,
        tone=tone,
        headline=headline,
        sentences=sentences,
        steps=steps,
        links=links,
        curves=curves,
        legend=pages.LOSS_LEGEND,
    )
