"""The JSON files that a registry keeps beside the versions of a model, and how those in a bucket are replaced.

No file is the same as an empty one.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lifecycle.registry import state_layout
from lifecycle.registry.state_layout import DECISIONS, DEFAULTS
from trainer.io.bucket_place import BucketPlace
from trainer.io.buckets import ChangedObjectError
from trainer.io.files import parse_json
from trainer.models import registry_layout
from trainer.models.registry_layout import ALIASES

KINDS = {
    ALIASES: registry_layout.Aliases,
    DEFAULTS: list[state_layout.Move],
    DECISIONS: list[state_layout.LedgerEntry],
}
"""File -> type of its content, for pydantic."""
REMEDIES = {
    ALIASES: "remove it, then set the default with `python -m pipeline registry set-default VERSION`",
    DEFAULTS: "remove it",
    DECISIONS: "remove it; then the decisions that registered a version count",
}
"""File -> what to do if it cannot be read."""


def read_in_bucket(folder: BucketPlace, file: str) -> tuple[Any, int]:
    """The content of a file of KINDS in a folder, and the generation of its object; 0 if there is none.

    Raises `UserError` if it cannot be read, or is damaged.
    """
    content, generation = folder.read_state(file)
    if not generation:
        return KINDS[file](), 0
    return parse_json(content, folder.path(file), REMEDIES[file], KINDS[file]), generation


def update_in_bucket(folder: BucketPlace, file: str, change: Callable[[Any], Any]) -> None:
    """Replace the content of a file of KINDS by what `change` makes of it, unless that is the same.

    If another process replaces it meanwhile, `change` is called again with the new content. Raises
    `UserError` if it cannot be read or written.
    """
    while True:
        value, generation = read_in_bucket(folder, file)
        changed = change(value)
        if changed == value:
            return
        content = json.dumps(changed, indent=2) + "\n"
        with suppress(ChangedObjectError):
            folder.replace_state(file, content.encode(), generation)
            return
