"""Compare models on the same images: scores with confidence intervals, and paired differences."""

import dataclasses

import numpy as np

from trainer.errors import check_choice
from trainer.evaluation import confidence
from trainer.evaluation.confidence import Gain, Interval
from trainer.evaluation.per_image import CENTER_BIAS, PerImage
from trainer.evaluation.shared_scores import Shared
from trainer.metric_table import METRICS

N_DIFFERING = 6
"""Number of images to show, those with the largest differences between the models."""
METRIC = "kld"
"""The default metric of the verdicts."""
PHRASES = {
    confidence.BETTER: "significantly better",
    confidence.WORSE: "significantly worse",
    confidence.NOT_SIGNIFICANT: "not significantly different",
    confidence.SAME: "the same",
}


@dataclasses.dataclass(frozen=True)
class Difference(Gain):
    """The gain of a model over the first one."""

    p_adjusted: float
    """The p-value, corrected for the number of comparisons (Holm)."""
    significance: str
    """The words of `wording.significance` for `p_adjusted`."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The comparison on one dataset. All models are compared with the first one."""

    n_images: int
    metric: str
    """The metric of `verdicts` and `differing`."""
    means: dict[str, dict[str, float]]
    """Label -> metric -> mean over the images; CENTER_BIAS comes after the models."""
    intervals: dict[str, dict[str, Interval | None]]
    """Label -> metric -> confidence interval of the mean; None for too few images."""
    differences: dict[str, dict[str, Difference]]
    """Label of each model but the first -> metric -> its gain over the first."""
    differing: dict[str, dict[str, float]]
    """Image -> label -> score; the images with the largest differences, in descending order."""
    verdicts: dict[str, str]
    """Label of each model but the first -> a sentence for people."""
    notes: list[str]
    """What a reader must know about the figures."""


def compare(dataset: str, shared: Shared, metric: str = "", level: float = confidence.CONFIDENCE) -> Result:
    """Compare the models in `shared`.

    Args:
        dataset: Name of the dataset, for error messages.
        shared: Scores of two or more models on the same images.
        metric: The metric of the verdicts; empty for METRIC.
        level: Level of the confidence intervals.

    Raises:
        UserError: not all models were measured in this metric.
    """
    table = shared.table
    labels = [label for label in table.scores if label != CENTER_BIAS]
    measured = list(table.scores[labels[0]])
    if metric:
        check_choice(f"metric of {dataset}", metric, measured)
    metric = metric or (METRIC if METRIC in measured else measured[0])
    differences = _differences(table, labels, level)
    return Result(
        n_images=len(table.images),
        metric=metric,
        means={label: table.means(label) for label in table.scores},
        intervals={label: table.intervals(label, level) for label in table.scores},
        differences=differences,
        differing=_differing(table, labels, metric),
        verdicts={label: _verdict(label, labels[0], of, metric, level) for label, of in differences.items()},
        notes=shared.notes,
    )


def _differences(table: PerImage, labels: list[str], level: float) -> dict[str, dict[str, Difference]]:
    """Label of each model but the first -> metric -> its gain over the first."""
    first, *others = labels
    gains = {label: table.gains(label, first, level) for label in others}
    differences: dict[str, dict[str, Difference]] = {label: {} for label in others}
    for metric in table.scores[first]:
        adjusted = confidence.holm([gains[label][metric].p_value for label in others])
        for label, p_adjusted in zip(others, adjusted, strict=True):
            gain = gains[label][metric]
            significance = confidence.significance(gain)
            if significance != confidence.SAME and p_adjusted >= 1 - level:
                significance = confidence.NOT_SIGNIFICANT
            differences[label][metric] = Difference(
                **dataclasses.asdict(gain), p_adjusted=p_adjusted, significance=significance
            )
    return differences


def _differing(table: PerImage, labels: list[str], metric: str) -> dict[str, dict[str, float]]:
    """The images with the largest range of scores."""
    columns = np.stack([table.scores[label][metric] for label in labels])
    ranges = np.nan_to_num(np.ptp(columns, axis=0))
    descending = np.argsort(-ranges, kind="stable")[:N_DIFFERING]
    return {
        table.images[index]: {label: float(table.scores[label][metric][index]) for label in labels}
        for index in descending
        if ranges[index] > 0
    }


def _verdict(label: str, first: str, differences: dict[str, Difference], metric: str, level: float) -> str:
    """Whether a model is better than the first one: in one metric with the numbers, in the others by name."""
    gain, name = differences[metric], METRICS[metric].label
    if gain.significance == confidence.SAME:
        return f"{label} has the same {name} as {first} on every image."
    if gain.low is None:
        return f"{confidence.too_few(gain.n_images, level)}; the {name} of {label} and {first} cannot be compared."
    low, high, p_value = (
        confidence.signed(gain.low),
        confidence.signed(gain.high),
        confidence.p_value_text(gain.p_adjusted),
    )
    numbers = (
        f"gain {confidence.signed(gain.mean)}, {confidence.percent(level)} confidence interval "
        f"{low} to {high}, p {p_value if '<' in p_value else f'= {p_value}'}; better on "
        f"{gain.better_on:,} of {gain.n_images:,} images"
    )
    preposition = "from" if gain.significance == confidence.NOT_SIGNIFICANT else "than"
    sentence = f"{label} is {PHRASES[gain.significance]} {preposition} {first} in {name} ({numbers})."
    others = []
    for significance, phrase in PHRASES.items():
        same = [
            other for other, gain in differences.items() if gain.significance == significance and other != metric
        ]
        if same:
            others.append(f"{phrase} in {', '.join(METRICS[other].label for other in same)}")
    return f"{sentence} It is {'; '.join(others)}." if others else sentence
