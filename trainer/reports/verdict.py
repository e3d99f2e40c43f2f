"""The result of an evaluation in one headline and one sentence."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer.evaluation import gate, wording
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import CANDIDATE, CENTER_BIAS, CHAMPION, PerImage
from trainer.metric_table import METRICS
from trainer.reports import score_rows

THAN = {
    wording.BETTER: "significantly better than",
    wording.WORSE: "significantly worse than",
    wording.NOT_SIGNIFICANT: "not significantly different from",
    wording.SAME: "the same as",
}
"""Significance -> words that compare the candidate in a sentence."""
OTHERS = {CENTER_BIAS: "the centre bias", CHAMPION: "the current default"}


def headline(content: Mapping[str, Any], registers: bool) -> tuple[str, str]:
    """Return tone and headline of the decision, which has no effect unless the candidate is registered."""
    if not content["passed_baseline"]:
        return "bad", "Worse than the centre bias"
    if gate.is_undecided(content, registers):
        return "plain", "Not compared with a default model"
    if content["promote"]:
        return "good", "Becomes the default" if registers else "Would become the default"
    return "plain", "Not promoted"


def sentence(content: Mapping[str, Any], table: PerImage) -> str:
    """Say how good the candidate is on the images that decide, in the metric of the gate, and its worst image.

    Args:
        content: content of the EVALUATION file.
        table: The scores on these images.
    """
    name, level = content["decides"], content["shown_confidence"]
    result, metric = content["datasets"][name], gate.metric_of(content["gate"])
    means, row = result["models"], METRICS[metric]
    interval = score_rows.interval(metric, result["intervals"][CANDIDATE][metric])
    gains = {CENTER_BIAS: table.gains(CANDIDATE, CENTER_BIAS, level)[metric]}
    if CHAMPION in means:
        gains[CHAMPION] = Gain(**result["gains"][metric])
    comparisons = [
        f"{_than(gain)} that of {OTHERS[model]} ({_number(means[model][metric])})" for model, gain in gains.items()
    ]
    scores = table.scores[CANDIDATE][metric]
    worst = int((np.nanargmin if row.higher_is_better else np.nanargmax)(scores))
    return (
        f"On {result['n_images']:,} {wording.images_of(name)}, the candidate's {row.label} is "
        f"{_number(means[CANDIDATE][metric])}{f' ({interval})' if interval else ''}, {' and '.join(comparisons)}; "
        f"the worst image is {table.images[worst]} ({_number(scores[worst])})."
    )


def _than(gain: Gain) -> str:
    if gain.low is None and gain.mean:
        return "better than" if gain.mean > 0 else "worse than"
    return THAN[wording.significance(gain)]


def _number(score: float) -> str:
    return f"{round(score, 3) + 0.0:.3f}".replace("-", wording.MINUS)
