"""The results of `check` as a table for the terminal, and as JUnit's XML for CI servers."""

import os
import pathlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from trainer.attention.check import Checked
from trainer.attention.requirements import SHARE, shown
from trainer.files import replacing
from trainer.text import printable

PASSED, FAILED = "pass", "FAIL"


def verdicts_table(checked: Checked) -> Table:
    """Make a table of the requirements in order: measured value, share before and now, and verdict.

    The share now is left out if all requirements are on shares, as it is what was measured.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    has_others = any(verdict.requirement.measure != SHARE for verdict in checked.verdicts)
    shares = [*(["share before"] if checked.baseline else []), *(["share"] if has_others else [])]
    titles = ["requirement", "measured", *shares, "verdict"]
    for title in titles:
        is_text = title in ("requirement", "verdict")
        table.add_column(Text(title), justify="left" if is_text else "right", overflow="fold")
    for verdict in checked.verdicts:
        before = [shown(SHARE, verdict.before.share)] if verdict.before else []
        table.add_row(
            Text(printable(str(verdict.requirement))),
            verdict.value_text,
            *before,
            *([shown(SHARE, verdict.measured.share)] if has_others else []),
            Text(PASSED, "green") if verdict.passed else Text(FAILED, "bold red"),
        )
    return table


def write_junit(path: str | os.PathLike[str], checked: Checked, properties: Mapping[str, str]) -> None:
    """Write the verdicts as JUnit's XML: one test case for each requirement.

    Args:
        path: the file.
        checked: what the check found.
        properties: of the run, such as the model; empty ones are left out.
    """
    failed = {"tests": str(len(checked.verdicts)), "failures": str(len(checked.failed)), "errors": "0"}
    suites = ElementTree.Element("testsuites", failed)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "attention", **failed})
    given = {name: value for name, value in properties.items() if value}
    if given:
        listed = ElementTree.SubElement(suite, "properties")
        for name, value in given.items():
            ElementTree.SubElement(listed, "property", {"name": name, "value": printable(value)})
    for verdict in checked.verdicts:
        names = {"classname": checked.design.design.label, "name": printable(str(verdict.requirement))}
        case = ElementTree.SubElement(suite, "testcase", {**names, "time": "0"})
        if verdict.passed:
            ElementTree.SubElement(case, "system-out").text = verdict.sentence
        else:
            failure = {"message": verdict.sentence, "type": "attention"}
            ElementTree.SubElement(case, "failure", failure).text = verdict.sentence
    ElementTree.indent(suites)
    with replacing(pathlib.Path(path)) as partial:
        ElementTree.ElementTree(suites).write(partial, "utf-8", xml_declaration=True)
