"""The folder of a local run of the pipeline, which can be given in place of the evaluation in it."""

import pathlib
from typing import Any, NotRequired

from typing_extensions import TypedDict

from trainer.io.files import read_json

RUN_FILE = "run.json"
"""File in the folder of a local run of the pipeline."""
RUN_ATTEMPTS = "msinet-*"
"""Folders of the run's attempts. They are named by kfp, by time."""


def latest_attempt(run: pathlib.Path) -> pathlib.Path | None:
    """The folder of the last attempt at a local run. None if no task of it has started."""
    earlier = read_json(run / RUN_FILE, f"{run} is not a run", dict[str, Any]).get("earlier", [])
    return max((attempt for attempt in run.glob(RUN_ATTEMPTS) if attempt.name not in earlier), default=None)


class RunRecord(TypedDict):
    """RUN_FILE: a run of the pipeline on this machine."""

    environment: str
    parameters: dict[str, str | int | float | bool]
    finished: NotRequired[bool]
    result: NotRequired[str]
    ended: NotRequired[str]
    earlier: NotRequired[list[str]]
