"""The door of a room: the names that other rooms use, each imported where it is first used.

A room is a package directly below `trainer`, `lifecycle` or `pipeline`. Its `__init__.py` has the names and a
sentence for each. Its `__init__.pyi` says in which module each name is, for type checkers and for `opened`. So a
command loads only what it needs. Example: `from trainer.network import Inference` loads no Keras, though
`build_network` of the same room does.
"""

import ast
import importlib
import pathlib
from collections.abc import Callable
from typing import Any


def opened(room: str, file: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of a room (PEP 562).

    Args:
        room: the package. Example: `trainer.network`.
        file: its `__init__.py`. The `__init__.pyi` beside it has lines such as `from .load import load_model`.
    """
    homes = homes_of(pathlib.Path(file).with_suffix(".pyi"))

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{room}.{homes[name]}"), name)

    return find


def homes_of(stub: pathlib.Path) -> dict[str, str]:
    """Name -> the module of the room that has it, by the imports of the room's stub."""
    lines = ast.parse(stub.read_text()).body
    imports = [line for line in lines if isinstance(line, ast.ImportFrom)]
    return {alias.name: str(line.module) for line in imports for alias in line.names}
