"""A registry on disk or in a bucket: the names of its files, in the layout of TensorFlow Serving."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

VERSION_EXTRA = "assets.extra"
"""Folder inside a SavedModel that TensorFlow Serving ignores; a registered version keeps its model there."""
ALIASES = "aliases.json"
"""File next to the versions of a registered name: alias -> version."""
DEFAULTS = "defaults.json"
"""File next to ALIASES: when the default moved, and to which version, oldest first."""
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
