"""Whether a candidate takes the current default's place: the gate."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from trainer import metrics
from trainer.config import HIGHER_IS_BETTER, SAMPLE, EvaluateConfig
from trainer.errors import GateError, UserError
from trainer.evaluation import confidence
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import CANDIDATE, CENTER_BIAS, CHAMPION, PerImage, Scores


@dataclasses.dataclass(frozen=True)
class Decision:
    """What an evaluation means for the candidate."""

    passed_baseline: bool
    """Whether the candidate is at least as good as the centre bias in KLD or in CC."""
    beats_champion: bool | None
    """Whether it surely is better than the current default by more than the margin; None where there is none."""
    promote: bool
    reason: str
    """A sentence for people."""


def metric_of(config: EvaluateConfig, measured: Collection[str]) -> str:
    """The metric that compares the candidate with the champion: KLD where the gate names none.

    Raises:
        UserError: it is not among those that were measured.
    """
    metric = config.gate if config.gate in HIGHER_IS_BETTER else "kld"
    if metric not in measured:
        raise UserError(f"the gate's metric {metric} could not be computed; choose one of {', '.join(measured)}")
    return metric


def shown_confidence(config: EvaluateConfig) -> float:
    """The confidence of the intervals that are shown; those that decide have it unless means alone decide."""
    return config.gate_confidence or confidence.CONFIDENCE


def decide(
    config: EvaluateConfig, models: Mapping[str, Scores], gains: Mapping[str, Gain], reservation: str = ""
) -> Decision:
    """The decision that follows from the data set that decides.

    Args:
        config: The gate.
        models: Mean scores of each model.
        gains: The candidate's gain over the champion in each metric, with `shown_confidence`.
        reservation: Why these scores do not count against the champion, whatever they are; empty where they do.
    """
    ours, bias = models[CANDIDATE], models[CENTER_BIAS]
    beats, comparison = None, "there is no default model yet"
    if CHAMPION in models:
        beats, comparison = _compare(config, ours, models[CHAMPION], gains)
    if ours["kld"] > bias["kld"] and ours["cc"] < bias["cc"]:
        reason = (
            f"The candidate is below the centre bias in KLD ({ours['kld']:.3f} against {bias['kld']:.3f}, lower "
            f"is better) and in CC ({ours['cc']:.3f} against {bias['cc']:.3f}), so it is worth less than always "
            "answering with the mean map of the training set; train it longer, or look at its data and loss curve."
        )
        return Decision(False, beats, False, reason)
    if config.gate == "never":
        reason = f"The candidate does not become the default, because the gate is `never`; {comparison}."
        return Decision(True, beats, False, reason)
    if config.gate == "always":
        reason = f"The candidate becomes the default, because the gate is `always`; {comparison}."
        return Decision(True, beats, True, reason)
    if reservation:
        return Decision(True, beats, False, f"The current default stays: {reservation}.")
    if beats is not False:
        return Decision(True, beats, True, f"The candidate becomes the default: {comparison}.")
    return Decision(True, beats, False, f"The current default stays: {comparison}.")


def caution(model: str, model_config: Mapping[str, Any] | None, manifest: Mapping[str, Any]) -> str:
    """A sentence for people where a model may have been trained on some of the images that judge it, else nothing.

    The shuffled split of a data set is another one as soon as an image comes or goes.

    Args:
        model: What to call it.
        model_config: Content of its MODEL_CONFIG, where it has one.
        manifest: What `Manifest` says of the data.
    """
    dataset, fingerprint = manifest["dataset"], manifest["fingerprint"]
    while model_config is not None and manifest["split"] != "given":
        found = model_config.get("fingerprint", fingerprint)
        are_drawn = {model_config.get("source") == SAMPLE, manifest["source"] == SAMPLE}
        if model_config.get("dataset") == dataset and len(are_drawn) == 1 and found != fingerprint:
            return (
                f"The {model} was trained on another state of {dataset} (fingerprint {found[:8]}, here "
                f"{fingerprint[:8]}), which was split otherwise: it may have seen some of these images, and then "
                "looks better than it is."
            )
        model_config = model_config.get("base_model")
    return ""


def reservation(manifest: Mapping[str, Any], champion: Mapping[str, Any] | None) -> str:
    """Why scores on the data of `manifest` do not count against a champion, by its configuration.

    Drawn patterns say nothing about photographs, so that a network of the sample set must not take the place of
    one of real data. Empty where the scores count, as they do where it is not known what the champion learnt.
    """
    learnt = (champion or {}).get("source", SAMPLE)
    if manifest["source"] != SAMPLE or learnt == SAMPLE:
        return ""
    return (
        f"it learnt from {learnt}, while the two were compared on the drawn patterns of the sample set alone; "
        "gate=always makes the candidate the default all the same, as does `python -m pipeline registry "
        "set-default VERSION` afterwards"
    )


def require_baseline(evaluation: dict[str, Any]) -> None:
    """Raise `GateError` with the numbers where the candidate is below the centre bias."""
    if not evaluation["passed_baseline"]:
        raise GateError(f"{evaluation['reason']} (data set {evaluation['decides']})")


def _compare(config: EvaluateConfig, ours: Scores, theirs: Scores, gains: Mapping[str, Gain]) -> tuple[bool, str]:
    """Whether the candidate beats the champion, and the clause that says so."""
    metric = metric_of(config, ours)
    gain = gains[metric]
    least = gain.low if config.gate_confidence else gain.mean
    label, direction = metrics.LABELS[metric], "higher" if HIGHER_IS_BETTER[metric] else "lower"
    how = "better" if gain.mean > 0 else "worse" if gain.mean < 0 else "no different"
    by = f" by {abs(gain.mean):.4f}" if gain.mean else ""
    clause = (
        f"the candidate's {label} is {ours[metric]:.4f}, the current default's {theirs[metric]:.4f} "
        f"({direction} is better), which is {how}{by}{_certainty(config, gain)}"
    )
    return least is not None and least > config.gate_margin, clause


def _certainty(config: EvaluateConfig, gain: Gain) -> str:
    """How certain a gain is, and what margin is asked, as the end of a sentence."""
    margin = config.gate_margin
    if not config.gate_confidence:
        return f" where more than {margin:g} is asked" if margin else ""
    percent = f"{100 * config.gate_confidence:g}%"
    if gain.low is None or gain.high is None:
        needed = confidence.fewest(config.gate_confidence)
        images = "1 image is" if gain.n_images == 1 else f"{gain.n_images} images are"
        return f", but {images} too few to be {percent} certain; it takes {needed}"
    if not gain.mean:
        return ""
    doubt = ", but not for certain" if gain.low <= 0 <= gain.high else ""
    asked = f", all of which must be above {margin:g}" if margin else ""
    return f"{doubt} ({percent} interval of the gain: {gain.low:.4f} to {gain.high:.4f}{asked})"


# === Which images decided ===


@dataclasses.dataclass(frozen=True)
class Influence:
    """How the comparison with the champion hangs on single images."""

    metric: str
    turning_point: int | None
    """How many of the images with the largest gains would have to be left out until the candidate no
    longer beats the champion (where it does not: with the largest losses, until it does); None where no number is
    enough."""
    gains: dict[str, float]
    """The images with the largest gains, largest first, and their gains."""
    losses: dict[str, float]
    """The images with the largest losses, largest first, and their gains, which are below 0."""


def influence(config: EvaluateConfig, table: PerImage, count: int) -> Influence:
    """What decided, with at most `count` images with gains and as many with losses."""
    metric = metric_of(config, table.scores[CANDIDATE])
    ours, theirs = (table.scores[model][metric] for model in (CANDIDATE, CHAMPION))
    differences = confidence.gains_of(ours, theirs, HIGHER_IS_BETTER[metric])
    found = {table.images[index]: float(differences[index]) for index in np.flatnonzero(~np.isnan(differences))}
    ascending = sorted(found, key=lambda image: found[image])
    return Influence(
        metric=metric,
        turning_point=confidence.turning_point(list(found.values()), config.gate_margin, config.gate_confidence),
        gains={image: found[image] for image in ascending[::-1][:count] if found[image] > 0},
        losses={image: found[image] for image in ascending[:count] if found[image] < 0},
    )
