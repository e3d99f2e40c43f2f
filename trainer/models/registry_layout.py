"""A registry on disk or in a bucket: the names of its files, in the layout of TensorFlow Serving."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

VERSION_EXTRA = "assets.extra"
"""Folder inside a SavedModel that TensorFlow Serving ignores; a registered version keeps its model there."""
ALIASES = "aliases.json"
"""File next to the versions of a registered name: alias -> version."""
DEFAULTS = "defaults.json"
"""File next to ALIASES: when the default moved, and to which version, oldest first."""
DECISIONS = "decisions.json"
"""File next to ALIASES: the decisions about the default in the last 365 days."""
SERVING = "serving"
"""Folder next to the versions of a registered name that has the SavedModel of the default alone, by its number."""
Aliases = dict[str, int]
"""Content of ALIASES: alias -> version."""


class Move(TypedDict):
    """An entry of DEFAULTS: the default became this version then."""

    version: int
    since: str
    by: NotRequired[Literal["gate", "person"]]
    """Who moved it; entries of earlier versions do not say it."""


class LedgerEntry(TypedDict):
    """An entry of DECISIONS: a look at whether a candidate is better than the default."""

    number: int
    """Its number among the decisions of 365 days, from 1."""
    since: str
    """When its evaluation began."""
    run: str
    folder: str
    """Folder of the run."""
    made_of: str
    """Digest of all that the comparison depends on beside the default; empty if that is not known."""
    compared_with: int
    """Number of the default."""
