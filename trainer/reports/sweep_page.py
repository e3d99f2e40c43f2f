"""The page of a sweep: its trials, the best of them, and how the loss depends on each setting."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.machine import code_version
from trainer.reports import pages
from trainer.texts import format_duration, now


def write_sweep(
    html: str | os.PathLike[str],
    *,
    name: str,
    data: str,
    training: str,
    searched: Mapping[str, Mapping[str, Any]],
    trials: Sequence[Mapping[str, Any]],
    sentences: Sequence[str],
    assignments: Sequence[str],
    command: str,
    notices: Sequence[str],
) -> None:
    """Write the page.

    Args:
        html: The file.
        name: The sweep's name.
        data: Name of the dataset.
        training: Title of the training step.
        searched: Setting -> `text`, its range in words, `choices` and their `texts`, or none if it is a range.
            `is_log`, whether its logarithm is searched.
        trials: Finished and running trials in order: `number`, `values` and their `texts` by setting, `state`
            (complete, pruned, failed or running), `losses` by epoch, `loss` (the lowest, infinite if there is
            none), `seconds`, `reason` (why it failed), `is_best`.
        sentences: How good the best one is.
        assignments: The best settings as NAME=VALUE. None if no trial is complete.
        command: A command that trains with them.
        notices: What readers must know of the data.
    """
    shown = [each for each in trials if math.isfinite(each["loss"])]
    best = next((place for place, each in enumerate(shown) if each["is_best"]), None)
    states = [each["state"] for each in trials]
    charts = []
    if best is not None:
        losses, complete = [each["loss"] for each in shown], [each["state"] == "complete" for each in shown]
        for setting, form in searched.items():
            choices = form["choices"]
            values = [each["values"][setting] for each in shown]
            chart = pages.trials_by_setting(
                setting,
                [choices.index(value) for value in values] if choices else values,
                losses,
                complete,
                best,
                choices=form["texts"],
                is_log=form["is_log"],
            )
            charts.append({"name": setting, "form": form["text"], "chart": chart})
    every = [each["loss"] if math.isfinite(each["loss"]) else math.nan for each in trials]
    winner = next((place for place, each in enumerate(trials) if each["is_best"]), None)
    others = {state: states.count(state) for state in ("pruned", "failed", "running") if state in states}
    pages.write_page(
        html,
        "sweep.html.jinja",
        title=f"Sweep {name}: {len(trials)} trial{'' if len(trials) == 1 else 's'}",
        head=[("Data", data), ("Training", training), ("Date", now()), *pages.code_facts(code_version())],
        tiles=[
            ("Lowest validation loss", f"{shown[best]['loss']:.4f}", f"trial {shown[best]['number']}")
            if best is not None
            else ("Lowest validation loss", "\N{EN DASH}", "no trial is complete"),
            ("Trials", str(len(trials)), ", ".join(f"{count} {state}" for state, count in others.items())),
            ("Epochs", str(sum(max(each["losses"], default=0) for each in trials)), "over all trials"),
            ("Time", format_duration(sum(each["seconds"] for each in trials)), "over all trials"),
        ],
        assignments=assignments,
        command=command,
        sentences=sentences,
        notices=notices,
        curve=None if winner is None else pages.trials_curve(every, [s == "complete" for s in states], winner),
        charts=charts,
        legend=[(pages.BLUE, "complete"), (pages.GREY, "not complete"), (pages.ORANGE, "best")],
        names=list(searched),
        rows=[
            {
                "number": each["number"],
                "texts": [each["texts"].get(setting, "") for setting in searched],
                "epochs": max(each["losses"], default=0),  # Vertex AI may have reported some of them alone
                "loss": f"{each['loss']:.4f}" if math.isfinite(each["loss"]) else "\N{EN DASH}",
                "time": format_duration(each["seconds"]),
                "state": each["state"],
                "reason": each["reason"],
                "best": each["is_best"],
            }
            for each in trials
        ],
    )
