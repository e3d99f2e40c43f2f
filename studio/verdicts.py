"""Judges what is required of the attention that regions of a design get.

The verdicts are printed as a table, and written as JSON and XML. `studio.verdict_pictures` draws them.
"""

import dataclasses
import math
import operator
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from studio.designs import Design
from studio.difference import check_kinds, text_table
from studio.emptiness import empty_screens, sentence_about
from studio.noise import CAUSE, SMALL_SHARE, noise_of
from trainer.api import Change, Measure, Model, SaliencyMap, SettingError, measure
from trainer.tools import check, look_up, printable, replacing

OPERATORS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    ">=": (operator.ge, "at least"),
    "<=": (operator.le, "at most"),
    ">": (operator.gt, "more than"),
    "<": (operator.lt, "less than"),
}
"""Operator -> the function that compares, and the words of a sentence."""
PERCENT = "a percentage from 0% to 100%, such as 8%"
NUMBER = "a number of at least 0, such as 1.5"
RANK = "a whole number of at least 1, such as 2"
SHARE, DROP, SCREEN = "share", "drop", "screen"
MEASURES = {SHARE: PERCENT, "peak": PERCENT, "ratio": NUMBER, "rank": RANK, DROP: PERCENT, SCREEN: RANK}
"""Measure of a region -> how the limit of a requirement on it is written."""
SYNTAX = "NAME>=8%, NAME.rank<=2 or NAME.ratio>1.5, in quotes, since a shell takes < and > for itself"
ROUNDING = 1e-6
"""Largest difference at which a value equals its limit. Maps have seven digits."""
DIGITS, MOST_DIGITS = 1, 6
"""Decimals of a number in messages: usually, and at most, where fewer would make it look like its limit."""
JSON_SCHEMA = 2
"""Version of what `CheckResult.as_json` returns: it grows if a key goes away, or means something else."""
PASSED, FAILED = "pass", "FAIL"


# === Requirements ===


@dataclasses.dataclass(frozen=True)
class Requirement:
    """A requirement on one measure of a region.

    `str` gives the text of `--require` without spaces, such as `button.rank<=2`.
    """

    region: str
    measure: str
    """One of MEASURES."""
    operator: str
    """One of OPERATORS."""
    limit: float
    """Limit of the measure. Percentages are 0..1."""

    def __str__(self) -> str:
        measured = "" if self.measure == SHARE else f".{self.measure}"
        return f"{self.region}{measured}{self.operator}{self.limit_text}"

    @property
    def in_words(self) -> str:
        """The operator and the limit in words, such as `at least 8%`."""
        return f"{OPERATORS[self.operator][1]} {self.limit_text}"

    @property
    def limit_text(self) -> str:
        """The limit as it was written, such as `8%`."""
        return measure_text(self.measure, self.limit, MOST_DIGITS)


def all_requirements(texts: Sequence[str], max_drop: str, regions: Collection[str]) -> list[Requirement]:
    """Collect the requirements, each once. `--max-drop` is for regions without a required drop of their own.

    Raises:
        UserError: as `parse_requirement`.
    """
    required = [parse_requirement(text, regions) for text in texts]
    if max_drop:
        limit = _limit(f"max_drop {max_drop!r}", DROP, max_drop.strip())
        own = {each.region for each in required if each.measure == DROP}
        required += [Requirement(name, DROP, "<=", limit) for name in regions if name not in own]
    return list(dict.fromkeys(required))


def parse_requirement(text: str, regions: Collection[str]) -> Requirement:
    """Parse `REGION[.MEASURE]OPERATOR LIMIT`. The measure is the share if none is named.

    Args:
        text: such as `button>=8%` or `button.rank <= 2`.
        regions: the names of all regions. They may contain any character.

    Raises:
        UserError: it has another syntax, or names another region, or its limit is out of range.
    """
    match = re.fullmatch(r"(.+?)(>=|<=|>|<)\s*([^<>=\s]+)", text.strip(), re.DOTALL)
    name, sign, limit = match.groups() if match else ("", "", "")
    check(match is not None, f"requirement {text!r} is not of the form {SYNTAX}", SettingError)
    name = name.rstrip()
    measure = SHARE
    if name not in regions and "." in name:
        name, measure = map(str.strip, name.rsplit(".", 1))
    look_up("region", name, dict.fromkeys(regions))
    look_up("measure", measure, MEASURES)
    return Requirement(name, measure, sign, _limit(f"requirement {text!r}", measure, limit))


def _limit(what: str, measure: str, text: str) -> float:
    """Parse the limit of a measure, percentages to 0..1. Messages call the text that has it `what`."""
    kind = MEASURES[measure]
    is_percent = text.endswith("%")
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    fits = {
        PERCENT: is_percent and 0 <= value <= 100,
        NUMBER: not is_percent and 0 <= value < math.inf,
        RANK: not is_percent and 1 <= value < math.inf and value.is_integer(),
    }
    check(fits[kind], f"{what} has the limit {text!r}, but the limit of a {measure} is {kind}", SettingError)
    return value / 100 if is_percent else value


def measure_text(measure: str, value: float, digits: int = DIGITS) -> str:
    """Format a value of a measure with at most `digits` decimals, without zeros at the end.

    Example:
        >>> measure_text("share", 0.0812), measure_text("ratio", 1.5), measure_text("rank", 2)
        ('8.1%', '1.5', '2')
    """
    if MEASURES[measure] == RANK:
        return f"{value:.0f}"
    scale, sign = (100, "%") if MEASURES[measure] == PERCENT else (1, "")
    number = round(scale * value, digits) + 0.0  # which makes a 0 of -0
    return f"{number:.{digits}f}".rstrip("0").rstrip(".") + sign


def region_share_text(measured: Measure) -> str:
    """Format a region's share, on a long page with the screen that it is a part of."""
    return measure_text(SHARE, measured.share) + measured.of_screen


# === Verdicts ===


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The measured value of a region, judged by a requirement."""

    requirement: Requirement
    measured: Measure
    before: Measure | None
    """Measures of the same region in the baseline. None without a baseline."""

    @property
    def value(self) -> float:
        """The value of the required measure, percentages as 0..1. A drop is negative where the share has grown."""
        if self.requirement.measure == DROP:
            assert self.before is not None
            # What had no attention has none to lose.
            return 1 - self.measured.share / self.before.share if self.before.share else 0.0
        if self.requirement.measure == SCREEN:
            return self.measured.screen or 1
        return float(getattr(self.measured, self.requirement.measure))

    @property
    def passed(self) -> bool:
        """True if the requirement is met. Values are equal up to ROUNDING, for all operators."""
        value, limit = self.value, self.requirement.limit
        if abs(value - limit) <= ROUNDING:
            value = limit
        return OPERATORS[self.requirement.operator][0](value, limit)

    @property
    def value_text(self) -> str:
        """The value as text, with enough decimals to distinguish it from the limit."""
        measure, limit = self.requirement.measure, self.requirement.limit
        digits = range(DIGITS, MOST_DIGITS)
        enough = (n for n in digits if measure_text(measure, self.value, n) != measure_text(measure, limit, n))
        is_limit = abs(self.value - limit) <= ROUNDING
        return measure_text(measure, self.value, DIGITS if is_limit else next(enough, MOST_DIGITS))

    @property
    def sentence(self) -> str:
        """A sentence with both values, such as `button has a share of 6.2%, but at least 8% is required`."""
        required = self.requirement
        if required.measure == SCREEN:
            has = f"is on screen {self.value_text}"
        else:
            has = f"has a {required.measure} of {self.value_text}"
        more = self.measured.of_screen if required.measure == SHARE else ""
        if required.measure == DROP and self.before is not None:
            more = f" (from {region_share_text(self.before)} to {region_share_text(self.measured)})"
        return (
            f"{printable(required.region)} {has}{more}, "
            f"{'and' if self.passed else 'but'} {required.in_words} is required"
        )

    @property
    def caution(self) -> str:
        """Why the limit cannot be trusted, after "is" or "are". Empty if it can.

        Such as `within the noise: a share moves by up to 25% of itself when the same image is saved again`.
        """
        required = self.requirement
        share = self.before.share if required.measure == DROP and self.before else self.measured.share
        noise = noise_of(share)
        is_small = share < SMALL_SHARE
        is_drop = required.measure == DROP and required.limit <= noise + ROUNDING
        is_share = required.measure == SHARE and is_small and abs(required.limit - share) < noise * share
        what = f"a share below {SMALL_SHARE:.0%}" if is_small else "a share"
        told = f"within the noise: {what} moves by up to {noise:.0%} of itself {CAUSE}"
        return told if is_drop or is_share else ""


def judge(
    requirements: Sequence[Requirement], measured: Sequence[Measure], before: Sequence[Measure] = ()
) -> list[Verdict]:
    """Judge each requirement, in order, by the measures of all regions in the design and in the baseline."""
    now = {each.region.name: each for each in measured}
    then = {each.region.name: each for each in before}
    return [Verdict(each, now[each.region], then.get(each.region)) for each in requirements]


@dataclasses.dataclass(frozen=True)
class MeasuredDesign:
    """A design with its predicted map and the measures of its regions."""

    design: Design
    map: SaliencyMap
    """(h, w) of `design.size`, values 0..1."""
    measures: Sequence[Measure]
    empty: Sequence[int] = ()
    """The screens, 1 for the top, on which the map is nearly that of an empty page."""
    floors: Sequence[float] = ()
    """The share of each region with its content painted over, 0..1. Empty for a baseline."""

    @property
    def notes(self) -> list[str]:
        """Sentences on what the model does not see in the design."""
        emptiness = sentence_about(self.empty, len(self.map.screens), self.design.label)
        return [
            *filter(None, [emptiness]),
            *(
                f"the content of {printable(each.region.name)} adds no clear attention: its place has "
                f"{region_share_text(each)}, and {measure_text(SHARE, floor)} with the content painted over"
                for each, floor in zip(self.measures, self.floors, strict=False)
                if each.share <= floor or not Change.is_clear(floor, each.share)
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        """Convert the measures to values for JSON."""
        height, width = self.design.size
        regions = [each.as_json() for each in self.measures]
        for region, floor in zip(regions, self.floors, strict=False):
            region["floor"] = floor
        return {
            "image": self.design.label,
            "height": height,
            "width": width,
            "screens": len(self.map.screens),
            "kind": self.map.kind,
            "page": self.map.page,
            "empty_screens": list(self.empty),
            "regions": regions,
        }


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """The result of a check: the measured designs and the verdict on each requirement."""

    design: MeasuredDesign
    baseline: MeasuredDesign | None
    verdicts: Sequence[Verdict]

    @property
    def failed(self) -> list[Verdict]:
        """Verdicts on the requirements that are not met."""
        return [verdict for verdict in self.verdicts if not verdict.passed]

    @property
    def notes(self) -> list[str]:
        """Sentences on what neither the maps nor the limits can tell."""
        cautioned: dict[str, list[str]] = {}
        for verdict in self.verdicts:
            if verdict.caution:
                cautioned.setdefault(verdict.caution, []).append(printable(str(verdict.requirement)))
        cautions = [f"{', '.join(texts)} {'are' if texts[1:] else 'is'} {why}" for why, texts in cautioned.items()]
        return [*cautions, *self.design.notes, *(self.baseline.notes if self.baseline else [])]

    @property
    def sentence(self) -> str:
        """Verdict on the design, such as `a.png fails 1 of 2 requirements`."""
        failed, count = len(self.failed), len(self.verdicts)
        some = f"{failed} of {count} requirements" if failed else f"all {count} requirements"
        label = self.design.design.label
        return f"{label} {'fails' if failed else 'meets'} {some if count > 1 else 'the requirement'}"

    def as_json(self) -> dict[str, Any]:
        """Convert the result to values for JSON."""
        return {
            "schema": JSON_SCHEMA,
            "passed": not self.failed,
            "design": self.design.as_json(),
            "baseline": self.baseline.as_json() if self.baseline else None,
            "requirements": [
                {
                    "requirement": str(verdict.requirement),
                    **dataclasses.asdict(verdict.requirement),
                    "value": verdict.value,
                    "passed": verdict.passed,
                    "sentence": verdict.sentence,
                    "caution": verdict.caution and f"{verdict.requirement} is {verdict.caution}",
                }
                for verdict in self.verdicts
            ],
            "notes": self.notes,
        }


def judge_designs(
    model: Model, designs: Sequence[Design], requirements: Sequence[Requirement], kind: str = ""
) -> CheckResult:
    """Judge the first design. A second one is its baseline. All requirements are judged, whatever comes of one.

    Both are predicted as one `kind`, of KINDS. If it is empty, the designs decide.

    Raises:
        UserError: they are seen as two kinds.
    """
    measured = []
    for design, restored in zip(designs, _maps_of(model, designs, kind), strict=True):
        empty = empty_screens(model, design.resized, restored)
        measured.append(MeasuredDesign(design, restored, measure(restored, *design.regions), empty))
    first, before = measured[0], measured[1] if measured[1:] else None
    print("predicting what regions keep without their content ...", file=sys.stderr, flush=True)
    floors = [model.floor(designs[0].resized, first.map, each) for each in first.measures]
    first = dataclasses.replace(first, floors=floors)
    return CheckResult(first, before, judge(requirements, first.measures, before.measures if before else ()))


def _maps_of(model: Model, designs: Sequence[Design], kind: str) -> list[SaliencyMap]:
    """Predict one or two designs, the second as the first was seen. Raises `UserError` for two kinds."""
    maps = [model.predict(each.pixels, kind=kind, size=each.size) for each in designs]
    check_kinds([each.label for each in designs], maps, model)
    if maps[-1].page != maps[0].page:
        maps[-1] = model.predict(designs[-1].pixels, kind=maps[0].page, size=designs[-1].size)
    return maps


def verdicts_table(checked: CheckResult) -> Table:
    """Make a table of the requirements in order: measured value, share before and now, and verdict."""
    before = ["share before"] if checked.baseline else []
    table = text_table("requirement", "measured", *before, "share", "floor", "verdict")
    floors = {
        each.region: floor for each, floor in zip(checked.design.measures, checked.design.floors, strict=True)
    }
    for verdict in checked.verdicts:
        table.add_row(
            Text(printable(str(verdict.requirement))),
            verdict.value_text,
            *([region_share_text(verdict.before)] if verdict.before else []),
            region_share_text(verdict.measured),
            measure_text(SHARE, floors[verdict.measured.region]),
            Text(PASSED, "green") if verdict.passed else Text(FAILED, "bold red"),
        )
    return table


def write_junit(path: str | os.PathLike[str], checked: CheckResult, properties: Mapping[str, str]) -> None:
    """Write the verdicts as JUnit's XML: one test case for each requirement.

    Args:
        path: the file.
        checked: what the check found.
        properties: of the run, such as the model. Empty ones are left out.
    """
    counts = {"tests": str(len(checked.verdicts)), "failures": str(len(checked.failed)), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "attention", **counts})
    listed = ElementTree.SubElement(suite, "properties")
    for name, value in properties.items():
        if value:
            ElementTree.SubElement(listed, "property", {"name": name, "value": printable(value)})
    for verdict in checked.verdicts:
        names = {"classname": checked.design.design.label, "name": printable(str(verdict.requirement))}
        case = ElementTree.SubElement(suite, "testcase", {**names, "time": "0"})
        if not verdict.passed:
            failure = {"message": verdict.sentence, "type": "attention"}
            ElementTree.SubElement(case, "failure", failure).text = verdict.sentence
        said = [verdict.sentence] if verdict.passed else []
        if verdict.caution:
            said.append(f"{printable(str(verdict.requirement))} is {verdict.caution}")
        if said:
            ElementTree.SubElement(case, "system-out").text = "\n".join(said)
    ElementTree.indent(suites)
    with replacing(path) as partial:
        ElementTree.ElementTree(suites).write(partial, "utf-8", xml_declaration=True)
