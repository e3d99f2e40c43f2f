"""Finds the regular expressions of the code, makes texts that are hard for each, and times them in a process.

`python -m tests.expressions` is that process. It reads calls from its input, a line of JSON each, and writes a
line when one has ended. The system kills it when a text takes too long.
"""

import ast
import collections
import dataclasses
import importlib
import json
import math
import re
import resource
import subprocess
import sys
import time
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]  # the parse tree of an expression, which Python does not document

from tests.guide import ROOT

PACKAGES = ("components", "lifecycle", "pipeline", "studio", "trainer")
METHODS = {"findall": 2, "finditer": 2, "fullmatch": 2, "match": 2, "search": 2, "split": 3, "sub": 4}
"""Function of `re` -> position of its argument with flags."""
CHARACTERS = 200_000
"""Length of a hard text. An expression takes milliseconds for it, or 10 s and more where its time is quadratic."""
LIMIT_S = 3
"""Processor time for one text."""
SPOILER = "\0"
"""A character at which no expression goes on."""
REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
GROUPS = {_constants.SUBPATTERN: 3, _constants.ATOMIC_GROUP: None, _constants.ASSERT: 1}
"""Kind of a group in the parse tree -> position of its content; None if it is the content."""


@dataclasses.dataclass(frozen=True)
class Call:
    """An expression as the code applies it to a text."""

    module: str
    pattern: str
    flags: int
    method: str


# === The expressions of the code ===


def modules():
    """The modules of the packages, by their names, with their syntax trees."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    for path in paths:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text())


def calls():
    """Each expression and how it is applied, and those whose expression is known only when they run.

    The latter are pairs of the module and the code of the expression.
    """
    found, unknown = set(), set()
    trees = dict(modules())
    compiled = _methods_of_compiled(trees.values())
    for name, tree in trees.items():
        for node, function in _calls_of_re(tree):
            position = METHODS.get(function, 1)
            flags = [each.value for each in node.keywords if each.arg == "flags"] or node.args[position:]
            names = dict(vars(importlib.import_module(name)))
            try:
                pattern, *values = [eval(ast.unparse(each), names) for each in (node.args[0], *flags[:1])]
            except NameError:
                unknown.add((name, ast.unparse(node.args[0])))
                continue
            used = compiled[_name_of(tree, node)] if function == "compile" else {function}
            found |= {Call(name, pattern, int(sum(values)), method) for method in used}
    return sorted(found, key=dataclasses.astuple), unknown


def _calls_of_re(tree):
    """The calls of functions of `re` with an expression, and the names of the functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if ast.unparse(node.func.value) == "re" and name in (*METHODS, "compile"):
                yield node, name


def _name_of(tree, call):
    """The name of the constant, or of the function, that is a compiled expression."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.value is call:
            return ast.unparse(node.targets[0])
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(each, ast.Return) and each.value is call for each in ast.walk(node)
        ):
            return node.name
    raise AssertionError(ast.unparse(call))


def _methods_of_compiled(trees):
    """Name of a compiled expression -> the methods by which it is applied."""
    used = collections.defaultdict(set)
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                value = node.value.func if isinstance(node.value, ast.Call) else node.value
                used[ast.unparse(value).rpartition(".")[2]].add(node.attr)
    return used


# === Texts ===


def texts(pattern, flags=0):
    """Long texts on which a careless expression takes long: what it repeats, again and again, without its end."""
    tree = _parser.parse(pattern, flags)
    letters = sorted(_letters(tree) | {" ", "a", "1"})
    for begin, repeated in sorted({pair for pair in _pumps(tree, "", letters, tree.state) if pair[1]}):
        for each in dict.fromkeys((repeated, begin + repeated)):
            yield f"{begin}{each * (CHARACTERS // len(each))}{SPOILER}"


def _letters(tree):
    """A character for each literal and each class of a tree."""
    found = set()
    for kind, value in tree:
        if kind in (_constants.LITERAL, _constants.NOT_LITERAL):
            found.add(chr(value))
        elif kind is _constants.RANGE:
            found.add(chr(value[0]))
        elif kind is _constants.IN:
            found |= _letters(value)
        else:
            for part in _parts(kind, value):
                found |= _letters(part)
    return found


def _parts(kind, value):
    """The trees within a part of a tree."""
    if kind in REPEATS:
        return [value[2]]
    if kind is _constants.BRANCH:
        return value[1]
    if kind in GROUPS:
        return [value if GROUPS[kind] is None else value[GROUPS[kind]]]
    return []


def _pumps(tree, begin, letters, state):
    """For each repetition in a tree a text that leads to it, and one that it repeats."""
    for item in tree:
        kind, value = item
        if kind in REPEATS and value[1] > 9:
            yield from ((begin, each) for each in _repeated(value[2], letters, state))
        for part in _parts(kind, value):
            yield from _pumps(part, begin, letters, state)
        begin += _sample([item], letters, state)


def _repeated(tree, letters, state):
    """The characters that a class has, or a text that a longer expression matches."""
    if len(tree) == 1 and not _parts(*tree[0]):
        one = _compiler.compile(_parser.SubPattern(state, list(tree)))
        return [letter for letter in letters if one.fullmatch(letter)]
    return [_sample(tree, letters, state)]


def _sample(tree, letters, state):
    """A short text that a tree matches."""
    text = ""
    for kind, value in tree:
        if kind in REPEATS:
            text += _sample(value[2], letters, state) * max(value[0], value[1] > 0 == value[0])
        elif parts := _parts(kind, value):
            text += _sample(parts[0], letters, state) if kind is not _constants.ASSERT else ""
        elif kind in (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN):
            text += next(iter(_repeated([(kind, value)], letters, state)), "")
    return text


# === Time ===


def slow(applied):
    """The calls of which one text takes longer than LIMIT_S of processor time."""
    found, worker = [], None
    for call in applied:
        if worker is None:
            worker = subprocess.Popen(
                [sys.executable, "-m", "tests.expressions"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        print(json.dumps(dataclasses.asdict(call)), file=worker.stdin, flush=True)
        if not worker.stdout.readline():
            found.append(call)
            worker.communicate()
            worker = None
    if worker:
        worker.communicate()
    return found


def run_limited(code):
    """Run Python code in a process that the system kills after 10 times LIMIT_S of processor time."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({10 * LIMIT_S}, {10 * LIMIT_S}))\n"
    return subprocess.run([sys.executable, "-c", limit + code], cwd=ROOT, capture_output=True, text=True)


def main():
    """Apply the calls of the input, and say when each has ended."""
    for line in sys.stdin:
        call = Call(**json.loads(line))
        expression = re.compile(call.pattern, call.flags)
        apply = getattr(expression, call.method)
        for text in texts(call.pattern, call.flags):
            soft = math.ceil(time.process_time()) + LIMIT_S
            resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
            result = apply("", text) if call.method == "sub" else apply(text)
            collections.deque(result, maxlen=0) if call.method == "finditer" else None
        print("ended", flush=True)


if __name__ == "__main__":
    main()
