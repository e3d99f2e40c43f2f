"""The parts of the reason that an evaluation gives for its decision."""

from trainer import wording
from trainer.evaluation import confidence
from trainer.evaluation.evaluation import Gain, Known, Scores, Significance
from trainer.evaluation.settings import EvaluateConfig
from trainer.metrics import METRICS

CONFIRM = (
    "If the data are right, set the default to this version: `python -m pipeline registry set-default challenger`."
)


def what_changed(known: Known) -> str:
    """Which of data and model changed, as a sentence."""
    if known.n_changed:
        return (
            f"The data changed: the recordings of {known.n_changed:,} of the {known.n_shared:,} known images in "
            "them are others now."
        )
    if known.n_shared:
        return (
            f"The model changed: the recordings of the {known.n_shared:,} known images in the data are the "
            "same, so it has learned to do worse on them."
        )
    return "Which of them changed is not known: none of the known images is in the data."


def too_few_to_decide(title: str, n_images: int, n_seen: int, n_units: int, config: EvaluateConfig) -> str:
    """Say that there are too few images to decide on. Empty if there are enough, or if only means decide.

    Args:
        title: Name of the images, such as `validation images of osie`.
        n_images: Number of all.
        n_seen: Number of images that one of the models was trained on.
        n_units: Number of the others, where a group counts as one. 0 if there are none.
        config: The gate.
    """
    if n_units >= confidence.MIN_DECIDING or not (config.gate_confidence or n_seen):
        return ""
    facts = f"there are {n_images:,} {title}"
    if n_seen:
        facts = (
            f"one of the two models was trained on {n_seen:,} of the {n_images:,} {title}, or on others of their "
            f"groups, which leaves {wording.count_text(n_units, n_units < n_images - n_seen)}"
        )
    elif n_units < n_images:
        facts = f"the {n_images:,} {title} belong to {n_units:,} groups"
    return f"{facts}, and a decision needs {confidence.MIN_DECIDING}"


def against(metric: str, ours: Scores, theirs: Scores) -> str:
    """Two scores in words, such as `CC (0.300 against 0.400)`."""
    row = METRICS[metric]
    direction = "" if row.higher_is_better else ", lower is better"
    return f"{row.label} ({ours[metric]:.3f} against {theirs[metric]:.3f}{direction})"


def difference_of(config: EvaluateConfig, gain: Gain) -> str:
    """The gain in words, with its significance and the margin, as the end of a sentence."""
    if not gain.mean:
        return "no difference"
    margin = config.gate_margin
    difference = f"{Significance.BETTER if gain.mean > 0 else Significance.WORSE} by {abs(gain.mean):.4f}"
    if not config.gate_confidence:
        return f"{difference} (gate_margin is {margin:g})" if margin else difference
    if gain.low is None or gain.high is None:
        least = confidence.MIN_DECIDING
        return f"{difference}, but {wording.too_few(gain.n_images, gain.level, gain.of_groups, least)}"
    interval = f"{wording.percent(gain.level)} confidence interval of the gain: {gain.low:.4f} to {gain.high:.4f}"
    if margin:
        interval += f", and all of it must be above {margin:g}"
    if gain.outcome == Significance.NOT_SIGNIFICANT:
        return f"{difference}, but not significantly ({interval})"
    return f"significantly {difference} ({interval})"
