"""Sentences about an evaluation: why it decided, what was measured, and where the candidate is worse."""

from trainer import wording
from trainer.evaluation import Evaluation, Role, ScoredDataset
from trainer.metrics import DENSITY, FIXATIONS, METRICS, metrics_that_need

OTHERS: dict[str, str] = {Role.CENTER_BIAS: "the centre bias", Role.CHAMPION: "the current default"}
"""The names of the models that the candidate is compared with, in sentences."""
REGISTERS_NOTHING = "`evaluate` registers nothing: the pipeline does."


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
