"""The folder of a local run of the pipeline, which can be given in place of the evaluation in it."""

import pathlib
from collections.abc import Iterator
from typing import Any, NotRequired

from typing_extensions import TypedDict

from trainer.io import read_json

RUN_FILE = "run.json"
"""File in the folder of a run."""
RUN_ATTEMPTS = "msinet-*"
"""Folders of a run's attempts. They are named by kfp, by time."""


class RunRecord(TypedDict):
    """The content of RUN_FILE."""

    environment: str
    parameters: dict[str, str | int | float | bool]
    finished: NotRequired[bool]
    result: NotRequired[str]
    ended: NotRequired[str]
    earlier: NotRequired[list[str]]
    """Names of the folders of earlier attempts."""


class RunFolder:
    """The folder of a run on this machine. Example: `RunFolder(pathlib.Path("runs/20260101-120000"))`.

    Args:
        folder: The folder. It may be empty, or not exist.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.file = folder / RUN_FILE
        """The file that says with which parameters it was started, and how it ended."""

    @classmethod
    def below(cls, folder: pathlib.Path) -> "Iterator[RunFolder]":
        """The runs with a folder in `folder`."""
        return (cls(path.parent) for path in folder.glob(f"*/{RUN_FILE}"))

    @property
    def is_run(self) -> bool:
        """Whether there is a run."""
        return self.file.is_file()

    def read(self, remedy: str) -> RunRecord:
        """Read its file. Raises `ContentError` with `remedy` if there is none, or it is damaged."""
        record: RunRecord = read_json(self.file, remedy, RunRecord)
        return record

    @property
    def attempts(self) -> list[pathlib.Path]:
        """The folders of all attempts, in the order of their time."""
        return sorted(self.folder.glob(RUN_ATTEMPTS))

    @property
    def latest_attempt(self) -> pathlib.Path | None:
        """The folder of the last attempt. None if no task of it has started."""
        earlier = read_json(self.file, f"{self.folder} is not a run", dict[str, Any]).get("earlier", [])
        return max((attempt for attempt in self.attempts if attempt.name not in earlier), default=None)
