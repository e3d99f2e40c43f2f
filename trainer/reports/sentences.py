"""Sentences about an evaluation: why it decided, what was measured, and where the candidate is worse."""

from typing import NamedTuple

from trainer import wording
from trainer.data import PreparedData
from trainer.evaluation import Ending, Evaluation, Role, ScoredDataset, Significance
from trainer.metrics import DENSITY, FIXATIONS, METRICS, metrics_that_need

OTHERS: dict[str, str] = {Role.CENTER_BIAS: "the centre bias", Role.CHAMPION: "the current default"}
"""The names of the models that the candidate is compared with, in sentences."""
HEADLINES: dict[str, tuple[str, str]] = {
    Ending.HELD: ("bad", "Held by a question about the data"),
    Ending.DISAGREE: ("bad", "Data and model disagree"),
    Ending.UNDECIDED: ("plain", "Not decided"),
}
"""End of an evaluation that promotes nothing -> colour and headline."""
COMPARED = {
    Significance.BETTER: "is not better by the margin of the gate than",
    Significance.WORSE: "is clearly worse than",
    Significance.NOT_SIGNIFICANT: "is not clearly better than",
    Significance.SAME: "predicts the same as",
}
"""Significance of a gain that promotes nothing -> words that compare the candidate."""
REGISTERS_NOTHING = "`evaluate` registers nothing: the pipeline does."


class Verdict(NamedTuple):
    """How an evaluation ended, and why, for a reader who knows no metric."""

    tone: str
    """`good`, `bad` or `plain`."""
    headline: str
    why: str
    """One or two sentences without numbers of a metric."""


def verdict(evaluation: Evaluation, registers: bool = True) -> Verdict:
    """The verdict, which has no effect unless the candidate is registered."""
    result, beats = evaluation.deciding, evaluation.beats_champion
    on = f"on {result.n_images:,} {PreparedData.images_of(evaluation.decides)}"
    better = (
        f"The candidate is {'clearly ' if evaluation.gate_confidence else ''}better than the current default {on}"
    )
    if not evaluation.passed_baseline:
        why = f"A map that is the same for every image tells more about where people look {on}."
        return Verdict("bad", "Worse than the centre bias", why)
    if is_undecided(evaluation, registers):
        return Verdict("plain", "Not compared with a default model", reason_of(evaluation, registers))
    if evaluation.gate in ("always", "never"):
        why = f"The gate is `{evaluation.gate}`, so no comparison decides."
    elif evaluation.promote:
        why = f"{better}." if beats else "No default model was compared with it."
    else:
        why = f"{_why_not(evaluation, better, on)} The current default stays."
    if evaluation.promote:
        return Verdict("good", "Becomes the default" if registers else "Would become the default", why)
    return Verdict(*HEADLINES.get(evaluation.end, ("plain", "Not promoted")), why)


def _why_not(evaluation: Evaluation, better: str, on: str) -> str:
    """Why the current default stays, as a sentence."""
    gain, known = evaluation.deciding.decisive_gain, evaluation.known
    if evaluation.end == Ending.UNDECIDED:
        return "There are too few images that neither model was trained on."
    if evaluation.end == Ending.DISAGREE:
        return f"{better}, but worse on the images on which the default was decided."
    if evaluation.end == Ending.HELD and known is not None and known.verdict == known.GONE:
        return f"{better}, but the images on which the default was decided are gone."
    if evaluation.end == Ending.HELD:
        return f"{better}, but a person must answer a question about the data."
    if evaluation.beats_champion:  # and still a challenger
        return "The two were compared on generated shapes alone, and the default was trained on real data."
    if gain is None or not evaluation.gate_confidence:
        return f"The candidate is not better than the current default {on}."
    return f"The candidate {COMPARED[gain.outcome]} the current default {on}."


def reason_of(evaluation: Evaluation, registers: bool) -> str:
    """The reason of the decision in an evaluation. It says `would become` unless the candidate is registered."""
    if is_undecided(evaluation, registers):
        return "No default model was compared with it."
    return evaluation.reason if registers else evaluation.conditional_reason


def is_undecided(evaluation: Evaluation, registers: bool) -> bool:
    """Whether an evaluation decides nothing: outside of a run it knows no default model unless one is given."""
    is_alone = not registers and not evaluation.run and Role.CHAMPION not in evaluation.model_configs
    return is_alone and evaluation.passed_baseline


def decisive_text(result: ScoredDataset, metric: str) -> str:
    """Say which interval of the gains decides, as a sentence. Empty if none does. `metric` is the gate's."""
    gain = result.decisive_gain
    if gain is None:
        return ""
    return (
        f"{METRICS[metric].label} decides: its interval is at {wording.percent(gain.level)}, the share of a "
        "year that this decision has, and holds for other images and the same people."
    )


def where_worse(result: ScoredDataset) -> list[str]:
    """Say in which metrics the candidate is significantly worse than the centre bias and the current default.

    Returns:
        A sentence for each model that is better in a metric.
    """
    labels = {
        model: ", ".join(METRICS[metric].label for metric in metrics)
        for model, metrics in result.worse.items()
        if metrics
    }
    return [
        f"The candidate is significantly worse than {OTHERS[model]} in {each}." for model, each in labels.items()
    ]


def how_measured(result: ScoredDataset) -> str:
    """Say what was measured on a dataset and at which size, and how its centre bias is made.

    Returns:
        Sentences. Empty for an evaluation of an earlier version, which scored all models at the size of the data.
    """
    if not result.image_sizes:
        return ""
    manifest = result.manifest
    densities, points = (
        ", ".join(METRICS[metric].label for metric in metrics_that_need(need)) for need in (DENSITY, FIXATIONS)
    )
    blurred = manifest.ground_truth == "points"
    maps = f"fixations blurred by {manifest.blur_sigma_px:g} pixels" if blurred else "the dataset's own maps"
    names: dict[str, str] = {Role.CANDIDATE: "the candidate", **OTHERS}
    sizes = [
        f"{names[model]} at {wording.size_text(size)}{_pages_text(result, model)}"
        for model, size in result.image_sizes.items()
    ]
    runtime = f", by {result.runtime}" if result.runtime else ""
    text = f"Each model answers at its own input size: {' and '.join(sizes)} pixels{runtime}. "
    text += f"{densities}: against {maps}, within {wording.size_text(result.map_size)} pixels. "
    if result.n_fixations:
        observers = f" by up to {result.n_observers:,} observers an image" if result.n_observers else ""
        text += f"{points}: on {result.n_fixations:,} fixations{observers}, at the original size of each image. "
        other = ", ".join(row.label for row in METRICS.values() if not row.is_of_map)
        text += f"One map is scored in all metrics but {other}, whose map is divided by the centre bias. "
    return text + result.center_bias_text


def _pages_text(result: ScoredDataset, model: str) -> str:
    """How many images a model saw as pages, and at which size. Empty if none."""
    of_model = result.pages.get(model)
    if of_model is None:
        return ""
    size = wording.size_text(of_model.image_size)
    return f" ({of_model.n_images:,} of {result.n_images:,} images as pages at {size})"
