"""Each room has one door, and nobody comes in another way. `trainer/doors.py` says what a door is."""

import ast
import functools
import importlib
import re

import pytest

from tests.test_levels import ROOT, modules
from trainer.doors import homes_of, opened

MOST_NAMES = 25
HOUSES = ("trainer", "lifecycle", "pipeline")
BY_NAME = ("trainer.commands", "pipeline.commands")
"""Rooms of command lines: `__main__` imports each of their modules by the name of its command."""


MODULES = [f"trainer.{name}" for name in ("api", "errors", "pictures", "texts", "tools", "witness", "wording")]
"""Rooms of one module. Each name of `__all__` has a docstring, or a string below it."""


@functools.cache
def known():
    return modules(ROOT)


def room_of(module):
    """The room of a module, or the module itself where it stands alone."""
    house, _, rest = module.partition(".")
    return f"{house}.{rest.partition('.')[0]}" if house in HOUSES and rest else house


ROOMS = sorted(
    room
    for room in {*map(room_of, modules(ROOT))} - {*HOUSES, *BY_NAME}
    if modules(ROOT)[room].name == "__init__.py" and room.partition(".")[0] in HOUSES
)


def imported_from(path):
    """Each `from MODULE import NAME` of a file, anywhere in it: (MODULE, NAME)."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return [
        (node.module, alias.name) for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    ]


def written(room):
    """Name -> the sentence that stands beside it, or above it, in `__all__` of a room."""
    text = known()[room].read_text()
    names = re.search(r"^__all__ = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert names, f"{room} has no __all__"
    rows = re.findall(r"((?: +#[^\n]*\n)*) +\"(\w+)\",(?:  #([^\n]*))?\n", names[1])
    return {name: (above.replace("#", " ") + beside).strip() for above, name, beside in rows}


def test_nobody_outside_of_a_room_imports_more_than_its_door():
    inside = []
    for module, path in known().items():
        for imported, name in imported_from(path):
            room = room_of(imported)
            whole = f"{imported}.{name}"
            if room in ROOMS and room != room_of(module) and (imported != room or whole in known()):
                inside.append(f"{module} imports {name} of {imported}")
    assert inside == []


@pytest.mark.parametrize("room", ROOMS)
def test_door_has_few_names_and_a_sentence_for_each(room):
    sentences = written(room)
    assert len(sentences) <= MOST_NAMES
    assert [name for name, sentence in sentences.items() if len(sentence.split()) < 3] == []


@pytest.mark.parametrize("module", MODULES)
def test_room_of_one_module_shows_few_names_and_others_use_no_more(module):
    shown = importlib.import_module(module).__all__
    assert len(shown) <= MOST_NAMES
    used = {name for path in known().values() for imported, name in imported_from(path) if imported == module}
    assert used <= set(shown)


@pytest.mark.parametrize("room", ROOMS)
def test_names_of_a_door_are_where_its_stub_says(room):
    homes = homes_of(known()[room].with_suffix(".pyi"))
    assert sorted(homes) == sorted(written(room))
    for name, home in homes.items():
        tree = ast.parse(known()[f"{room}.{home}"].read_text())
        assigned = {
            node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        assert name in assigned | defined, f"{room}.{home} has no {name}"
    assert not {name for name in homes if f"{room}.{name}" in known()}, "a module of the room has this name"


@pytest.mark.parametrize("room", ROOMS)
def test_names_of_a_door_are_used_outside(room):
    users = [path for module, path in known().items() if room_of(module) != room]
    users += [path for folder in ("tests", "research", "serving") for path in (ROOT / folder).rglob("*.py")]
    used = {name for path in users for module, name in imported_from(path) if module == room}
    assert set(written(room)) - used == set()


def test_door_says_which_name_it_lacks(tmp_path):
    (tmp_path / "__init__.pyi").write_text("from .doors import opened\n")
    find = opened("trainer", tmp_path / "__init__.py")
    assert find("opened") is opened
    with pytest.raises(AttributeError, match="'openend'"):
        find("openend")
