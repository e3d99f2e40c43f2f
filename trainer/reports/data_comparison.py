"""The page that shows how data differ from the data of the current default model, before anything is trained."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from trainer.data import FEATURES, DataShift, Manifest, Statistics
from trainer.evaluation import Finding
from trainer.machine import code_version
from trainer.reports import gallery, pages
from trainer.texts import now, some

COLORS = {"Current default": pages.ORANGE, "This run": pages.BLUE, "Added": pages.GREY}


@dataclass(frozen=True)
class ComparedData:
    """Prepared data beside the data of the current default."""

    title: str
    """Such as `Fine-tuning data`."""
    manifest: Manifest
    now: Statistics
    last: Statistics | None
    """The statistics of the data of the current default. None if nothing is compared."""
    added: Statistics | None
    """The statistics of the images that the current default was not trained on. None if that is not known."""
    absent: str
    """A sentence that says why nothing is compared. Empty if something is."""
    has_same_people: bool = False
    """Whether all recordings of before are known to be there."""
    findings: list[Finding] = field(default_factory=list)
    """What the current default says about the data."""

    @property
    def name(self) -> str:
        """The title with the name of the dataset."""
        return f"{self.title} ({self.manifest.dataset})"

    @property
    def warnings(self) -> list[str]:
        """Sentences about all that a person should know."""
        return [f"{self.name}: {each.text}." for each in self._found]

    @property
    def questions(self) -> list[str]:
        """Those of `warnings` that hold a promotion."""
        return [f"{self.name}: {each.text}." for each in self._found if each.is_large]

    @property
    def _found(self) -> list[Finding]:
        differences = DataShift(self.now, self.last).warnings(self.added) if self.last else []
        # More people are no question as long as those of before are there.
        of_people = tuple(FEATURES[name].label.lower() for name in ("fixations", "observers"))
        return [
            *self.findings,
            *(Finding(text, not (self.has_same_people and text.startswith(of_people))) for text in differences),
        ]


class DataStatement(NamedTuple):
    """What the comparison of data found, for its page and for the log."""

    tone: str
    """`good`, `bad` or `plain`."""
    headline: str
    sentences: list[str]

    @classmethod
    def of(cls, compared: Sequence[ComparedData]) -> "DataStatement":
        """The statement about all data of a run."""
        if warnings := [text for each in compared for text in each.warnings]:
            is_large = any(each.questions for each in compared)
            return cls(*(("bad", "Questions about the data") if is_large else ("plain", "Changes")), warnings)
        absent = list(dict.fromkeys(each.absent for each in compared if each.absent))
        if any(each.last for each in compared):
            return cls("good", "No large difference", absent)
        return cls("plain", "Nothing to compare with", absent)

    @property
    def lines(self) -> list[str]:
        """The statement for the log."""
        return [f"{self.headline}: {sentence}" for sentence in self.sentences] or [self.headline]


def write_data_comparison(compared: Sequence[ComparedData], html: str | os.PathLike[str]) -> None:
    """Write the page."""
    pages.write_page(
        html,
        "data_comparison.html.jinja",
        title="Data of this run",
        head=[("Date", now()), *pages.code_facts(code_version())],
        statement=DataStatement.of(compared),
        sets=[_describe(each) for each in compared],
        large=DataShift.LARGE,
    )


def _describe(data: ComparedData) -> dict[str, Any]:
    """Return the values of the template for one dataset."""
    groups = zip(COLORS, (data.last, data.now, data.added), strict=True)
    known = {name: each for name, each in groups if each is not None}
    names = [name for name in FEATURES if any(name in each["values"] for each in known.values())]
    bad = data.manifest.bad_images
    return {
        "title": data.name,
        "absent": data.absent,
        "columns": {name: (COLORS[name], f"{each['images']:,}") for name, each in known.items()},
        "bad": some([f"{name} ({reason})" for name, reason in bad.items()], 10),
        "rows": [_row(name, data, known) for name in names],
        "maps": {
            name: gallery.heat(np.array(each["center_bias"]["cells"]), 320)
            for name, each in known.items()
            if "center_bias" in each
        },
        "divergence": DataShift(data.now, data.last).divergence() if data.last else None,
    }


def _row(name: str, data: ComparedData, known: dict[str, Statistics]) -> dict[str, Any]:
    """Return a row of the table: the mean of each group with the difference from last time, and a chart."""
    feature, cells, boxes = FEATURES[name], [], {}
    for group, each in known.items():
        if name not in each["values"]:
            cells.append(("\N{EN DASH}", "", False))
            continue
        values = each["values"][name]
        shift = DataShift(each, data.last).of(name) if data.last and each is not data.last else None
        effect = f"{round(shift.effect, 2) + 0.0:+.2f} sd" if shift else ""
        cells.append((feature.text(values["mean"]), effect, bool(shift and shift.is_large)))
        boxes[COLORS[group]] = [feature.shown(quantile) for quantile in values["quantiles"]]
    return {
        "label": feature.label,
        "unit": feature.unit,
        "cells": cells,
        "chart": pages.boxes(boxes, feature.label),
    }
