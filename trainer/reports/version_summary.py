"""Why a version became the default or not, in three lines, by what a registry records of it. Loads no NumPy."""

from trainer.evaluation import VersionRecord
from trainer.metrics import METRICS
from trainer.models import PRETRAINED, PRETRAINED_VERSION

DIGITS = 4
"""Decimal places, as in the reasons of the gate."""


def summary_lines(record: VersionRecord) -> dict[str, str]:
    """The three lines about a version: their names -> their texts. What the record does not say is left out."""
    found = {"Gain": _gain(record), "Known": _known(record), "Decided": _decision(record)}
    return {name: text for name, text in found.items() if text}


def short_gain(record: VersionRecord) -> str:
    """The gain in a cell of a table, such as `KLD +0.052 (0.021 to 0.083)`. Empty if there is none."""
    gain = record.gain
    if gain is None:
        return ""
    ends = _ends(gain.low, gain.high, 3)
    return f"{_label(gain.metric)} {gain.mean:+.3f}" + (f" ({ends})" if ends else "")


def opponent(record: VersionRecord) -> str:
    """The default that a version was compared with. Empty if that is not known."""
    number = record.compared_with
    if number is None:
        return ""
    return PRETRAINED if number == PRETRAINED_VERSION else f"version {number}"


def _gain(record: VersionRecord) -> str:
    gain, default = record.gain, opponent(record)
    if gain is None:
        return ""
    images = f"{gain.n_images:,} {'groups of images' if gain.of_groups else 'images'}"
    over = f" than {default}" if default else ""
    interval = _interval(gain.low, gain.high, gain.level, ", too few for an interval")
    return f"{_label(gain.metric)} {_difference(gain.mean)}{over} on {images}{interval}"


def _known(record: VersionRecord) -> str:
    known, findings = record.known, record.findings
    parts = []
    if known and known.verdict == "gone":
        parts.append("The images on which the default was decided are gone.")
    elif known and known.verdict == "forgotten":
        parts.append("The images on which the default was decided were forgotten, as a person wanted it.")
    elif known:
        text = f"{known.verdict.capitalize()} on the {known.n_images or 0:,} known images"
        interval = _interval(known.low, known.high, known.level)
        measured = f": {_difference(known.mean)}{interval}" if known.mean is not None else ""
        parts.append(f"{text}{measured}.")
    if findings:
        parts.append(f"Data: {' '.join(findings)}")
    elif findings is not None:
        parts.append("The check of the data found nothing.")
    return " ".join(parts)


def _decision(record: VersionRecord) -> str:
    parts = []
    if record.decision:
        parts.append(f"Decision {record.decision} of its year.")
    if record.could_find is not None:
        parts.append(f"A gain of {record.could_find:.{DIGITS}f} would have been found half of the time.")
    if record.held:
        parts.append("Held: otherwise it would have become the default.")
    return " ".join(parts)


def _label(metric: str) -> str:
    return METRICS[metric].label if metric in METRICS else metric


def _difference(mean: float) -> str:
    return f"{'better' if mean > 0 else 'worse'} by {abs(mean):.{DIGITS}f}" if mean else "the same"


def _interval(low: float | None, high: float | None, level: float | None, otherwise: str = "") -> str:
    ends = _ends(low, high, DIGITS)
    shown = f"{100 * level:.4g}% " if level else ""
    return f" ({shown}interval of the gain: {ends})" if ends else otherwise


def _ends(low: float | None, high: float | None, digits: int) -> str:
    """The interval of a gain, such as `0.0213 to 0.0829`. Empty if there is none."""
    return "" if low is None or high is None else f"{low:.{digits}f} to {high:.{digits}f}"
