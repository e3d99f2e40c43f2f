"""Predicts the attention that designs get, judges it by requirements, and makes tables, JSON and XML of it."""

import dataclasses
import os
import pathlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from trainer.attention.page import Design
from trainer.attention.requirements import SHARE, Requirement, Verdict, judge, shown
from trainer.errors import printable
from trainer.files import replacing
from trainer.prediction.regions import Measure, measure
from trainer.prediction.render import Map

if TYPE_CHECKING:
    from trainer.prediction.predictor import Predictor

JSON_SCHEMA = 1
"""Version of what `as_json` returns: it grows if a key goes away, or means something else."""
PASSED, FAILED = "pass", "FAIL"


@dataclasses.dataclass(frozen=True)
class Measured:
    """A design with its predicted map and the measures of its regions."""

    design: Design
    map: Map
    """Saliency map, (h, w) of `design.size`, values 0..1."""
    measures: Sequence[Measure]


@dataclasses.dataclass(frozen=True)
class Checked:
    """The result of a check: the measured designs and the verdict on each requirement."""

    design: Measured
    baseline: Measured | None
    verdicts: Sequence[Verdict]

    @property
    def failed(self) -> list[Verdict]:
        """Verdicts on the requirements that are not met."""
        return [verdict for verdict in self.verdicts if not verdict.passed]

    @property
    def sentence(self) -> str:
        """Verdict on the design, such as `a.png fails 1 of 2 requirements`."""
        failed, count = len(self.failed), len(self.verdicts)
        some = f"{failed} of {count} requirements" if failed else f"all {count} requirements"
        label = self.design.design.label
        return f"{label} {'fails' if failed else 'meets'} {some if count > 1 else 'the requirement'}"


def run(predictor: "Predictor", designs: Sequence[Design], requirements: Sequence[Requirement]) -> Checked:
    """Judge the first design; a second one is its baseline. All requirements are judged, whatever comes of one."""
    measured = [_measured(predictor, design) for design in designs]
    first, before = measured[0], measured[1] if measured[1:] else None
    return Checked(first, before, judge(requirements, first.measures, before.measures if before else ()))


def _measured(predictor: "Predictor", design: Design) -> Measured:
    # Alone, as the last bits of a map depend on the size of its batch: a baseline must not change its design.
    prediction = predictor.predict_prepared(predictor.prepare(design.pixels)[None])[0]
    restored = predictor.restore(prediction, design.size)
    return Measured(design, restored, measure(restored, design.regions))


def as_json(checked: Checked) -> dict[str, Any]:
    """Convert the result of a check to values for JSON."""
    return {
        "schema": JSON_SCHEMA,
        "passed": not checked.failed,
        "design": _design_json(checked.design),
        "baseline": _design_json(checked.baseline) if checked.baseline else None,
        "requirements": [
            {
                "requirement": str(verdict.requirement),
                **dataclasses.asdict(verdict.requirement),
                "value": verdict.value,
                "passed": verdict.passed,
                "sentence": verdict.sentence,
            }
            for verdict in checked.verdicts
        ],
    }


def _design_json(measured: Measured) -> dict[str, Any]:
    height, width = measured.design.size
    regions = [each.as_json() for each in measured.measures]
    return {"image": measured.design.label, "height": height, "width": width, "regions": regions}


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
