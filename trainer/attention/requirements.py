"""Requirements on the attention of regions: how they are written, and whether a design meets them."""

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence

from trainer.errors import UserError, check, look_up, nearest, printable
from trainer.prediction.regions import Measure

OPERATORS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    ">=": (operator.ge, "at least"),
    "<=": (operator.le, "at most"),
    ">": (operator.gt, "more than"),
    "<": (operator.lt, "less than"),
}
"""Operator -> the function that compares, and the words of a sentence."""
PERCENT, NUMBER, RANK = "a percentage from 0% to 100%", "a number of at least 0", "a whole number of at least 1"
SHARE, DROP = "share", "drop"
MEASURES = {SHARE: PERCENT, "peak": PERCENT, "ratio": NUMBER, "rank": RANK, DROP: PERCENT}
"""Measure of a region -> how the limit of a requirement on it is written."""
EXAMPLES = {PERCENT: "8%", NUMBER: "1.5", RANK: "2"}
FORM = "NAME>=8%, NAME.rank<=2 or NAME.ratio>1.5, in quotes, since a shell takes < and > for itself"
ROUNDING = 1e-6
"""Largest difference at which a value equals its limit; maps have seven digits."""
DIGITS, MOST_DIGITS = 1, 6
"""Decimals of a number in messages: usually, and at most, where fewer would make it look like its limit."""


@dataclasses.dataclass(frozen=True)
class Requirement:
    """A requirement on one measure of a region; `str` gives the text of `--require` without spaces."""

    region: str
    measure: str
    """One of MEASURES."""
    operator: str
    """One of OPERATORS."""
    limit: float
    """Limit of the measure; percentages are 0..1."""

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
        return shown(self.measure, self.limit, MOST_DIGITS)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The measured value of a region, judged by a requirement."""

    requirement: Requirement
    measured: Measure
    before: Measure | None
    """Measures of the same region in the baseline; None without a baseline."""

    @property
    def value(self) -> float:
        """The value of the required measure, percentages as 0..1; a drop is negative where the share has grown."""
        if self.requirement.measure == DROP:
            assert self.before is not None
            # What had no attention has none to lose.
            return 1 - self.measured.share / self.before.share if self.before.share else 0.0
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
        digits = DIGITS
        if abs(self.value - limit) > ROUNDING:
            while digits < MOST_DIGITS and shown(measure, self.value, digits) == shown(measure, limit, digits):
                digits += 1
        return shown(measure, self.value, digits)

    @property
    def sentence(self) -> str:
        """A sentence with the measured value and the required one."""
        required = self.requirement
        change = ""
        if required.measure == DROP and self.before is not None:
            change = f" (from {shown(SHARE, self.before.share)} to {shown(SHARE, self.measured.share)})"
        verdict = "and" if self.passed else "but"
        return (
            f"{printable(required.region)} has a {required.measure} of {self.value_text}{change}, "
            f"{verdict} {required.in_words} is required"
        )


def parse(text: str, regions: Collection[str]) -> Requirement:
    """Parse `REGION[.MEASURE]OPERATOR LIMIT`; the measure is the share if none is named.

    Args:
        text: such as `button>=8%` or `button.rank <= 2`.
        regions: the names of all regions; they may contain any character.

    Raises:
        UserError: it has another form, or names another region, or its limit is out of range.
    """
    match = re.fullmatch(r"\s*(.+?)\s*(>=|<=|>|<)\s*([^<>=\s]+)\s*", text, re.DOTALL)
    # `button=>8%` would name a region `button=`.
    if match is None or (match[1] not in regions and match[1].endswith(("=", "<", ">"))):
        raise UserError(f"requirement {text!r} is not of the form {FORM}")
    name, sign, limit = match.groups()
    measure = SHARE
    if name not in regions and "." in name:
        before, _, after = name.rpartition(".")
        if before.strip() in regions or after in MEASURES:
            name, measure = before.strip(), after.strip()
            look_up("measure", measure, MEASURES)
    wrong = f"requirement {text!r} names the region {name!r}, which is not given{nearest(name, regions)}"
    check(name in regions, f"{wrong} (given: {', '.join(regions)})")
    return Requirement(name, measure, sign, _limit(f"requirement {text!r}", measure, limit))


def parse_max_drop(text: str) -> float:
    """Parse the limit of `--max-drop` to 0..1; raises `UserError` unless it is a percentage."""
    return _limit(f"max_drop {text!r}", DROP, text.strip())


def all_requirements(texts: Sequence[str], max_drop: str, regions: Collection[str]) -> list[Requirement]:
    """Collect the requirements, each once; `--max-drop` is for regions without a required drop of their own.

    Raises:
        UserError: as `parse`.
    """
    required = [parse(text, regions) for text in texts]
    if max_drop:
        limit = parse_max_drop(max_drop)
        own = {each.region for each in required if each.measure == DROP}
        required += [Requirement(name, DROP, "<=", limit) for name in regions if name not in own]
    return list(dict.fromkeys(required))


def judge(
    requirements: Sequence[Requirement], measured: Sequence[Measure], before: Sequence[Measure] = ()
) -> list[Verdict]:
    """Judge each requirement, in order, by the measures of all regions in the design and in the baseline."""
    now = {each.region.name: each for each in measured}
    then = {each.region.name: each for each in before}
    return [Verdict(each, now[each.region], then.get(each.region)) for each in requirements]


def shown(measure: str, value: float, digits: int = DIGITS) -> str:
    """Format a value of a measure with at most `digits` decimals, without zeros at the end."""
    if MEASURES[measure] == RANK:
        return f"{value:.0f}"
    scale, sign = (100, "%") if MEASURES[measure] == PERCENT else (1, "")
    number = round(scale * value, digits) + 0.0  # which makes a 0 of -0
    return f"{number:.{digits}f}".rstrip("0").rstrip(".") + sign


def _limit(what: str, measure: str, text: str) -> float:
    """Parse the limit of a measure, percentages to 0..1; messages call the text that has it `what`."""
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
    range_text = f"the limit of a {measure} is {kind}, such as {EXAMPLES[kind]}"
    check(fits[kind], f"{what} has the limit {text!r}; {range_text}")
    return value / 100 if is_percent else value
