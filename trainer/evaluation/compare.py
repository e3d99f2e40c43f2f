"""Compare models on the same images: scores with intervals, paired differences, and where they differ most."""

import dataclasses
from typing import Any

import numpy as np

from trainer.config import HIGHER_IS_BETTER
from trainer.errors import check_choice
from trainer.evaluation import confidence, wording
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import CENTER_BIAS, PerImage
from trainer.evaluation.shared_scores import Shared
from trainer.metrics import LABELS
from trainer.progress import Tracker

DIFFERING = 6
"""Images that are shown, those on which the models differ most."""
METRIC = "kld"
"""The metric of the verdicts where none is named."""


@dataclasses.dataclass(frozen=True)
class Difference(Gain):
    """The gain of a model over the first one."""

    p_adjusted: float
    """For as many comparisons as there are, by Holm."""
    certain: str
    """`better` or `worse` where the interval says so, and of several comparisons `p_adjusted` too; `the same`
    where no image differs; else `not certain`."""


@dataclasses.dataclass(frozen=True)
class Result:
    """How models compare on one data set; the first of them is what the others are compared with."""

    n_images: int
    metric: str
    """The metric of `verdicts` and `differing`."""
    means: dict[str, dict[str, float]]
    """Label -> metric -> mean over the images; CENTER_BIAS behind the models."""
    intervals: dict[str, dict[str, list[float] | None]]
    """The same with low and high; None where there are too few images."""
    differences: dict[str, dict[str, Difference]]
    """Label of each but the first -> metric -> its gain over the first."""
    differing: dict[str, dict[str, float]]
    """Image -> label -> score, of the images on which the models differ most, those first."""
    verdicts: dict[str, str]
    """Label of each but the first -> a sentence for people."""
    notes: list[str]
    """What must be known to read the figures."""


def compare(dataset: str, shared: Shared, metric: str = "", level: float = confidence.CONFIDENCE) -> Result:
    """Compare what `shared` holds; `metric` is for the verdicts, `level` the confidence of the intervals.

    Raises:
        UserError: the metric is not one that all were measured in.
    """
    table = shared.table
    labels = [label for label in table.scores if label != CENTER_BIAS]
    in_all = list(table.scores[labels[0]])
    if metric:
        check_choice(f"metric of {dataset}", metric, in_all)
    metric = metric or (METRIC if METRIC in in_all else in_all[0])
    intervals: dict[str, dict[str, list[float] | None]] = {label: {} for label in table.scores}
    differences: dict[str, dict[str, Difference]] = {label: {} for label in labels[1:]}
    with Tracker(f"compare on {dataset}", len(in_all), "metrics") as tracker:
        for each in in_all:
            for label in table.scores:
                found = confidence.interval(table.values(label, each), level)
                intervals[label][each] = list(found) if found else None
            for label, difference in _differences(table, labels, each, level).items():
                differences[label][each] = difference
            tracker.advance()
    return Result(
        n_images=len(table.images),
        metric=metric,
        means={label: table.means(label) for label in table.scores},
        intervals=intervals,
        differences=differences,
        differing=_differing(table, labels, metric),
        verdicts={label: _verdict(label, labels[0], found, metric, level) for label, found in differences.items()},
        notes=shared.notes,
    )


def _differences(table: PerImage, labels: list[str], metric: str, level: float) -> dict[str, Difference]:
    """The gains of all but the first in one metric, which the first's images are paired with."""
    first, *others = labels
    theirs = table.values(first, metric)
    gains = [
        confidence.gain(table.values(each, metric), theirs, HIGHER_IS_BETTER[metric], level) for each in others
    ]
    adjusted = confidence.holm([gain.p_value for gain in gains])
    found = {}
    for label, gain, p_value in zip(others, gains, adjusted, strict=True):
        certain = wording.certainty(gain)
        # One comparison follows the gate's rule, the interval alone.
        if len(others) > 1 and certain != wording.SAME and p_value >= 1 - level:
            certain = wording.NOT_CERTAIN
        found[label] = Difference(**dataclasses.asdict(gain), p_adjusted=p_value, certain=certain)
    return found


def _differing(table: PerImage, labels: list[str], metric: str) -> dict[str, dict[str, float]]:
    """The images with the largest span of scores."""
    columns = np.stack([table.scores[label][metric] for label in labels])
    spans = np.nan_to_num(columns.max(axis=0) - columns.min(axis=0))
    order = np.argsort(-spans, kind="stable")[:DIFFERING]
    return {
        table.images[index]: {label: float(table.scores[label][metric][index]) for label in labels}
        for index in order
        if spans[index] > 0
    }


def _verdict(label: str, first: str, found: dict[str, Difference], metric: str, level: float) -> str:
    """Whether a model is better than the first one, in one metric with the numbers, in the others by name."""
    gain = found[metric]
    name, percent = LABELS[metric], f"{100 * level:g}%"
    if gain.certain == wording.SAME:
        return f"{label} has the same {name} as {first} on every image."
    if gain.low is None:
        return (
            f"{gain.n_images:,} images are too few to be {percent} certain which of {label} and {first} has the "
            f"better {name}; it takes {confidence.fewest(level)}."
        )
    how = f"{gain.certain} than" if gain.certain != wording.NOT_CERTAIN else "not certainly different from"
    p_value = wording.p_value(gain.p_adjusted)
    numbers = (
        f"gain {wording.signed(gain.mean)}, {percent} interval {wording.signed(gain.low)} to "
        f"{wording.signed(gain.high)}, p {p_value if '<' in p_value else f'= {p_value}'}; better on "
        f"{gain.better_on:,} of {gain.n_images:,} images"
    )
    sentence = f"{label} is {how} {first} in {name} ({numbers})."
    others = []
    for tone in wording.CERTAINTIES:
        named = [LABELS[each] for each, other in found.items() if other.certain == tone and each != metric]
        if named:
            others.append(f"{tone} in {', '.join(named)}")
    return f"{sentence} It is {'; '.join(others)}." if others else sentence


def as_json(results: dict[str, Result], places: dict[str, Any], level: float) -> dict[str, Any]:
    """The comparison for a machine; `places` says what each label stands for."""
    described = {dataset: dataclasses.asdict(result) for dataset, result in results.items()}
    return {"confidence": level, "models": places, "datasets": described}
