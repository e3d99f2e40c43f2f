"""The JSON files that a registry keeps beside the versions of a model, and how those in a bucket are replaced.

No file is the same as an empty one.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from lifecycle.registry.state_layout import DECISIONS, DEFAULTS
from trainer.io import checked_json, parse_json, read_limited
from trainer.models import ALIASES
from trainer.places import BucketPlace, ChangedObjectError


@dataclasses.dataclass(frozen=True)
class MoveEntry:
    """An entry of DEFAULTS: the default became this version then.

    Example: `{"version": 3, "since": "2026-03-02T10:00:00+00:00", "by": "gate"}`.
    """

    version: int
    since: str
    """Such as `2026-03-02T10:00:00+00:00`."""
    by: Literal["gate", "person"] | None = None
    """Who moved it. Entries of earlier versions do not say it."""


@dataclasses.dataclass(frozen=True)
class LedgerEntry:
    """An entry of DECISIONS: a look at whether a candidate is better than the default.

    Example: the second look of a year at version 3, `{"number": 2, "compared_with": 3, ...}`.
    """

    number: int
    """Its number among the decisions of 365 days, from 1."""
    since: str
    """When its evaluation began, such as `2026-03-02T10:00:00+00:00`."""
    run: str
    folder: str
    """Folder of the run."""
    made_of: str
    """Digest of all that the comparison depends on beside the default. Empty if that is not known."""
    compared_with: int
    """Number of the default."""


KINDS: dict[str, Any] = {DEFAULTS: MoveEntry, DECISIONS: LedgerEntry}
"""File with a list -> type of its entries. ALIASES has numbers by name."""
REMEDIES = {
    ALIASES: "remove it, then set the default with `python -m pipeline registry set-default VERSION`",
    DEFAULTS: "remove it",
    DECISIONS: "remove it. Then the decisions that registered a version count",
}
"""File -> what to do if it cannot be read."""


def parse(content: bytes | None, file: str, origin: str) -> Any:
    """Parse a file of REMEDIES: the aliases, or a list of entries.

    Args:
        content: The JSON. None if there is no file.
        file: Its name.
        origin: Its path or address in error messages.

    Raises:
        ContentError: it is damaged.
    """
    remedy = REMEDIES[file]
    if file not in KINDS:
        return parse_json(content, origin, remedy, dict[str, int]) if content is not None else {}
    if content is None:
        return []
    entries = parse_json(content, origin, remedy, list[dict[str, Any]])
    return [checked_json(entry, origin, remedy, KINDS[file]) for entry in entries]


def text_of(value: Any) -> str:
    """The content of a file, as JSON, by what `parse` makes of it. Example: of `{"default": 3}`."""
    if isinstance(value, list):
        entries = [dataclasses.asdict(entry).items() for entry in value]
        value = [{name: cell for name, cell in entry if cell is not None} for entry in entries]
    return json.dumps(value, indent=2) + "\n"


def read_in_folder(folder: pathlib.Path, file: str) -> Any:
    """The content of a file of REMEDIES in a folder. Raises `ContentError` if it is damaged."""
    path = folder / file
    content = read_limited(path, REMEDIES[file]) if path.exists() else None
    return parse(content, file, str(path))


def read_in_bucket(folder: BucketPlace, file: str) -> tuple[Any, int]:
    """The content of a file of REMEDIES in a folder, and the generation of its object. 0 if there is none.

    Raises `UserError` if it cannot be read, or is damaged.
    """
    content, generation = folder.read_state(file)
    return parse(content if generation else None, file, folder.path(file)), generation


def update_in_bucket(folder: BucketPlace, file: str, change: Callable[[Any], Any]) -> None:
    """Replace the content of a file of REMEDIES by what `change` makes of it, unless that is the same.

    If another process replaces it meanwhile, `change` is called again with the new content. Raises
    `UserError` if it cannot be read or written.
    """
    while True:
        value, generation = read_in_bucket(folder, file)
        changed = change(value)
        if changed == value:
            return
        with suppress(ChangedObjectError):
            folder.replace_state(file, text_of(changed).encode(), generation)
            return
