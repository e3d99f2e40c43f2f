"""Write the SHA-256 of public archives into the table of datasets of a source checkout."""

import ast
import pathlib
from collections.abc import Mapping

from trainer import datasets
from trainer.errors import UserError
from trainer.files import replacing

FIELDS = ("address", "name", "sha256")


def table() -> pathlib.Path:
    """The file of the table; raises `UserError` unless it is part of a source checkout."""
    path = pathlib.Path(datasets.__file__)
    if not (path.parents[1] / "pyproject.toml").exists():
        raise UserError(
            f"{path} belongs to an installed package, which an update replaces; record SHA-256 in a checkout of "
            "the source"
        )
    return path


def record(path: pathlib.Path, sums: Mapping[str, str]) -> list[str]:
    """Write the SHA-256 into each `Place(...)` of the file at `path` whose address is in `sums`.

    Returns:
        The addresses whose rows were changed.
    """
    text = path.read_text()
    places = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Place"
    ]
    lines, changed = text.splitlines(keepends=True), []
    for node in sorted(places, key=lambda node: node.lineno, reverse=True):
        address, name, *_ = values = _values(node)
        if address not in sums or values == (address, name, sums[address]):
            continue
        # Line by line, as the formatter has calls that are too long for one line.
        last, column = node.end_lineno or 0, node.end_col_offset or 0
        begin, end = lines[node.lineno - 1][: node.col_offset], lines[last - 1][column:]
        margin = " " * (len(begin) - len(begin.lstrip()))
        around = ["", end]
        if begin.strip():  # a tuple of one, which opens on the same line and ends with ",),"
            around = [f"{begin}\n", f",\n{margin}{end.removeprefix(',')}"]
            margin += "    "
        written = "".join(f'{margin}    "{value}",\n' for value in (address, name, sums[address]))
        lines[node.lineno - 1 : last] = [f"{around[0]}{margin}Place(\n{written}{margin}){around[1]}"]
        changed.append(address)
    if changed:
        with replacing(path) as partial:
            partial.write_text("".join(lines))
    return changed[::-1]


def _values(node: ast.Call) -> tuple[str, ...]:
    """The fields of a `Place(...)`, by position or by name; an empty text for those that it does not have."""
    given = dict(zip(FIELDS, node.args, strict=False)) | {
        each.arg: each.value for each in node.keywords if each.arg
    }
    return tuple(ast.literal_eval(given[field]) if field in given else "" for field in FIELDS)
