"""The version of this package, as models and reports name it."""

import functools
import importlib.metadata
import os
import pathlib
import subprocess


@functools.cache
def code_version() -> str:
    """Version of this package, with the commit if it is known (from `MSINET_COMMIT` or a git checkout)."""
    version = importlib.metadata.version("msinet-pipelines")
    commit = os.environ.get("MSINET_COMMIT", "")
    if not commit:
        git = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
        try:
            commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            commit = ""
    return f"{version}+{commit}" if commit else version
