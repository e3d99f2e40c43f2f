import dataclasses
import re

from lifecycle.runs.parameters import PARAMETERS
from pipeline.graph import environment
from tests import expressions
from tests.expressions import Call
from trainer.data.source_layout import _pattern
from trainer.datasets.table import DATASETS
from trainer.reports import pages

AT_RUN_TIME = {
    ("pipeline.graph.environment", "WEBHOOKS.get(self.target, '')"): ("fullmatch", environment.WEBHOOKS.values()),
    ("trainer.data.recordings.custom", "cut"): (
        "sub",
        [r"^[^\s_\-.()]+[\s_\-.]+", r"(?<![\s_\-.(])[\s_\-.(]+[^\s_\-.()]+\)?$"],
    ),
    ("trainer.data.recordings.tables", "f'(?:{quoted}|{plain_cell})(?=[{ends}]|\\\\Z)'"): (
        "match",
        [r"""(?:"(?:[^"]|"")*+" *|(?!")(?:[^,\r\n\\]|\\(?!"))*+)(?=[,\r\n]|\Z)"""],
    ),
    ("trainer.data.source_layout", """f"(?:.*/)?{''.join(texts)}\""""): (
        "fullmatch",
        [_pattern(rule).pattern for row in DATASETS.values() for rule in row.files],
    ),
    ("trainer.data.source_layout", "re.escape(each)"): ("finditer", [re.escape("a(a")]),
    ("trainer.reports.pages", "pattern"): ("sub", []),  # for what Matplotlib draws
    ("trainer.settings.fields", "limits['pattern']"): (
        "fullmatch",
        [
            field.metadata["range"]["pattern"]
            for config in {each.config for each in PARAMETERS.values()}
            for field in dataclasses.fields(config)
            if "pattern" in field.metadata.get("range", {})
        ],
    ),
}
"""Module and code of an expression that is known when the code runs -> how it is applied, and what it can be."""
SLOW = {("trainer.reports.pages", pages.HEADING.pattern)}
"""Modules and expressions for texts of our own, in which what users write is escaped."""
FUNCTIONS = """
import contextlib
from studio.designs import parse_element
from studio.verdicts import parse_requirement
from trainer.data.recordings.columns import find_columns, plain
from trainer.data.recordings.image_names import ImageNames
from trainer.errors import UserError

functions = (
    plain,
    parse_element,
    lambda text: find_columns([text, "x", "y"], {}),
    lambda text: parse_requirement(text, ["a"]),
    lambda text: ImageNames(["a/b.png"]).find_all([text], ""),
)
for function in functions:
    for part in ("(", ")", "[", "]", " ", "a", "_", "=", "<", "> ", "()", "( ", "[] ", "a ", "a_", "a/"):
        text = part * (CHARACTERS // len(part))
        for each in (text, f"a{text}", f"{text})", f"{text}]", f"{text}>=8%"):
            with contextlib.suppress(UserError):
                function(each)
"""
"""Calls of functions that take apart what a user writes, without an expression or with several."""


def test_expressions_that_are_known_at_run_time_are_those_of_the_table():
    _, unknown = expressions.calls()
    assert unknown == AT_RUN_TIME.keys()


def test_every_expression_takes_time_linear_in_the_length_of_a_text():
    """Quadratic time is 10 s and more for one of the texts, linear time a few milliseconds."""
    found, _ = expressions.calls()
    found += [
        Call(module, pattern, int(re.DOTALL | re.IGNORECASE), method)
        for (module, _), (method, patterns) in AT_RUN_TIME.items()
        for pattern in patterns
    ]
    applied = [call for call in found if (call.module, call.pattern) not in SLOW]
    assert len(applied) > 80
    assert expressions.slow(applied) == []


def test_an_expression_that_takes_quadratic_time_is_found():
    careless = Call("", r"(.+?)\s*(?:\[(.*)\]|\(([^)]*)\))", 0, "fullmatch")
    careful = Call("", r"[^(]+\(\w+\)", 0, "fullmatch")
    assert expressions.slow([careful, careless, careful]) == [careless]


def test_names_and_requirements_of_any_length_are_taken_apart_at_once():
    ended = expressions.run_limited(FUNCTIONS.replace("CHARACTERS", str(expressions.CHARACTERS)))
    assert ended.returncode == 0, ended.stderr
