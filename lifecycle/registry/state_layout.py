"""What a registry keeps beside its versions: files next to `registry_layout.ALIASES`, and their contents."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

DEFAULTS = "defaults.json"
"""When the default moved, and to which version, oldest first."""
DECISIONS = "decisions.json"
"""The decisions about the default in the last 365 days."""
SERVING = "serving"
"""Folder next to the versions of a registered name that has the SavedModel of the default alone, by its number."""


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
