"""Why a version became the default or not, in three lines, by what a registry records of it. Loads no NumPy."""

from collections.abc import Mapping
from typing import Any

from trainer.evaluation.metric_table import METRICS
from trainer.models.model_names import PRETRAINED
from trainer.models.registry_layout import PRETRAINED_VERSION

DIGITS = 4
"""Decimal places, as in the reasons of the gate."""


def lines(record: Mapping[str, Any]) -> dict[str, str]:
    """The three lines about a version: their names -> their texts. What the record does not say is left out.

    Args:
        record: The content of the version's `version.json`, as `lifecycle.registry.version_records` describes it.
    """
    found = {"Gain": _gain(record), "Known": _known(record), "Decided": _decision(record)}
    return {name: text for name, text in found.items() if text}


def short_gain(record: Mapping[str, Any]) -> str:
    """The gain in a cell of a table, such as `KLD +0.052 (0.021 to 0.083)`; empty if there is none."""
    gain = record.get("gain")
    if not gain:
        return ""
    return f"{_label(gain)} {gain['mean']:+.3f}" + (f" ({_ends(gain, 3)})" if _has_interval(gain) else "")


def opponent(record: Mapping[str, Any]) -> str:
    """The default that a version was compared with; empty if that is not known."""
    number = record.get("compared_with")
    if number is None:
        return ""
    return PRETRAINED if number == PRETRAINED_VERSION else f"version {number}"


def _gain(record: Mapping[str, Any]) -> str:
    gain, default = record.get("gain"), opponent(record)
    if not gain:
        return ""
    images = f"{gain['n_images']:,} {'groups of images' if gain.get('of_groups') else 'images'}"
    over = f" than {default}" if default else ""
    return f"{_label(gain)} {_difference(gain)}{over} on {images}{_interval(gain, ', too few for an interval')}"


def _known(record: Mapping[str, Any]) -> str:
    known, findings = record.get("known"), record.get("findings")
    parts = []
    if known and known["verdict"] == "gone":
        parts.append("The images on which the default was decided are gone.")
    elif known and known["verdict"] == "forgotten":
        parts.append("The images on which the default was decided were forgotten, as a person wanted it.")
    elif known:
        text = f"{known['verdict'].capitalize()} on the {known.get('n_images', 0):,} known images"
        measured = f": {_difference(known)}{_interval(known)}" if known.get("mean") is not None else ""
        parts.append(f"{text}{measured}.")
    if findings:
        parts.append(f"Data: {' '.join(findings)}")
    elif findings is not None:
        parts.append("The check of the data found nothing.")
    return " ".join(parts)


def _decision(record: Mapping[str, Any]) -> str:
    parts = []
    if record.get("decision"):
        parts.append(f"Decision {record['decision']} of its year.")
    if record.get("could_find") is not None:
        parts.append(f"A gain of {record['could_find']:.{DIGITS}f} would have been found half of the time.")
    if record.get("held"):
        parts.append("Held: otherwise it would have become the default.")
    return " ".join(parts)


def _label(gain: Mapping[str, Any]) -> str:
    metric = gain.get("metric", "")
    return METRICS[metric].label if metric in METRICS else metric


def _difference(gain: Mapping[str, Any]) -> str:
    mean = gain["mean"]
    return f"{'better' if mean > 0 else 'worse'} by {abs(mean):.{DIGITS}f}" if mean else "the same"


def _has_interval(gain: Mapping[str, Any]) -> bool:
    return gain.get("low") is not None and gain.get("high") is not None


def _interval(gain: Mapping[str, Any], otherwise: str = "") -> str:
    if not _has_interval(gain):
        return otherwise
    level = f"{100 * gain['level']:.4g}% " if gain.get("level") else ""
    return f" ({level}interval of the gain: {_ends(gain, DIGITS)})"


def _ends(gain: Mapping[str, Any], digits: int) -> str:
    return f"{gain['low']:.{digits}f} to {gain['high']:.{digits}f}"
