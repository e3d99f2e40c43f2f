"""Replaces a name of a module for a test, wherever the product has it."""

import sys
from types import ModuleType
from typing import Any

import pytest

PACKAGES = ("trainer", "lifecycle", "components", "pipeline", "serving", "studio")


def replace(patch: pytest.MonkeyPatch, module: ModuleType, name: str, value: Any) -> None:
    """Set a name of a module, and of each loaded module of the product that has imported it.

    Example: `replace(monkeypatch, files, "MOUNT", tmp_path)` is seen by `trainer.places` too.
    """
    replaced = getattr(module, name)
    for each in list(sys.modules.values()):
        if each.__name__.partition(".")[0] in PACKAGES and vars(each).get(name) is replaced:
            patch.setattr(each, name, value)
