"""docs/one-training.md lists the functions of a training in the order of their calls: follows them in the code."""

import ast
import dataclasses
import importlib
import inspect
import pathlib
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from trainer.data.batches import Split
from trainer.training.checkpoints import Checkpoints

ROOT = pathlib.Path(__file__).parent.parent
ROW = re.compile(r"\| \[`([\w.]+)`\]\(\.\./([\w/]+)\.py\) \|")
LISTED = [
    (name, file.replace("/", ".")) for name, file in ROW.findall((ROOT / "docs/one-training.md").read_text())
]


def found(name, module):
    """What a module, or a class in it, calls `name`; None if there is none."""
    value = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return plain(value)


def plain(value):
    """A function without its decorators, and without the class that a class method is bound to."""
    return inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else None


ROWS = {found(name, module): name for name, module in LISTED}
CLASSES = {name.partition(".")[0] for name in ROWS.values() if "." in name}
OBJECTS = {**dict.fromkeys(("store", "checkpoints"), Checkpoints), "train": Split}
"""Name of a variable or an attribute -> the class of its value."""


def meant(node, scope, owner):
    """The function or class that a name in the code of `scope` means; `owner` is the class of `self`."""
    if isinstance(node, ast.Name):
        return owner if node.id == "self" else scope.get(node.id, OBJECTS.get(node.id))
    if isinstance(node, ast.Call):  # of a class: its methods are looked up there
        return meant(node.func, scope, owner)
    if not isinstance(node, ast.Attribute):
        return None
    return getattr(meant(node.value, scope, owner), node.attr, OBJECTS.get(node.attr))


def mentions(node: ast.AST) -> Iterator[ast.expr]:
    """The names in a piece of code, in the order in which Python evaluates them: arguments before their call."""
    parts: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call):
        parts = [*node.args, *(keyword.value for keyword in node.keywords), node.func]
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        parts = [inner, *parts] if isinstance(inner, ast.Call) else parts
    elif isinstance(node, ast.Name | ast.Attribute):
        yield node
        parts = []
    for part in parts:
        yield from mentions(part)


def calls(function, seen, owner=None):
    """The listed functions that a function mentions, and the ones that those mention, each once."""
    if function in seen:
        return
    seen.append(function)
    if function in ROWS:
        yield ROWS[function]
    if inspect.isclass(function):
        function, owner = function.__init__, function
    tree: Any = ast.parse(textwrap.dedent(inspect.getsource(function)))
    scope = dict(vars(inspect.getmodule(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            scope |= {alias.name: found(alias.name, node.module) for alias in node.names}
    for node in mentions(ast.Module(tree.body[0].body, [])):
        value = plain(meant(node, scope, owner))
        if value in ROWS or (inspect.isfunction(value) and value.__module__ == function.__module__):
            name = ROWS.get(value, value.__qualname__).rpartition(".")[0]
            yield from calls(value, seen, found(name, value.__module__) if name else owner)
        elif inspect.isclass(value) and value.__name__ in CLASSES and not dataclasses.is_dataclass(value):
            yield from calls(value, seen, value)


def test_each_function_is_where_its_link_says():
    assert [(name, module) for name, module in LISTED if found(name, module) is None] == []
    assert len(LISTED) > 12


def test_the_functions_are_listed_in_the_order_of_their_calls():
    first = found(*LISTED[0])
    assert list(calls(first, [])) == [name for name, _ in LISTED]
