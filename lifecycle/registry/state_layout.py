"""What a registry keeps beside its versions: files next to `registry_layout.ALIASES`, in a folder or a bucket."""

DEFAULTS = "defaults.json"
"""When the default moved, and to which version, oldest first."""
DECISIONS = "decisions.json"
"""The decisions about the default in the last 365 days."""
SERVING = "serving"
"""Folder next to the versions of a registered name that has the SavedModel of the default alone, by its number."""
