"""The gate: whether a candidate replaces the current default, and on which images that is decided."""

import dataclasses
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from trainer.data import SAMPLE, Manifest
from trainer.errors import SettingError
from trainer.evaluation import confidence, reasons
from trainer.evaluation.evaluation import BECOMES, CONFIDENCE, Ending, Gain, Known, Role, Scores
from trainer.evaluation.settings import EvaluateConfig, metric_of
from trainer.io import StrPath
from trainer.metrics import BASELINE_METRICS, METRICS
from trainer.models import Provenance


@dataclasses.dataclass(frozen=True)
class Decision:
    """The result of the gate for a candidate."""

    passed_baseline: bool
    """Whether the candidate is at least as good as the centre bias in one of BASELINE_METRICS."""
    beats_champion: bool | None
    """Whether the candidate is significantly better than the current default, by more than the margin. None
    without a current default."""
    promote: bool
    reason: str
    """One or more sentences for people."""
    end: Ending
    """Such as `Ending.HELD`."""

    @property
    def decided(self) -> bool:
        """Whether there were enough images that neither model was trained on, in enough groups."""
        return self.end != Ending.UNDECIDED


def measured_metric(gate: str, measured: Collection[str]) -> str:
    """Return the metric that a gate compares. Raises `UserError` if it is not one of `measured`."""
    metric = metric_of(gate)
    if metric not in measured:
        raise SettingError(
            f"the gate's metric {metric} could not be computed: choose one of {', '.join(measured)}"
        )
    return metric


def shown_confidence(config: EvaluateConfig) -> float:
    """The level of the intervals in reports. It is the gate's, or CONFIDENCE if the gate compares means only."""
    return config.gate_confidence or CONFIDENCE


def gate_level(config: EvaluateConfig, decision: int) -> float:
    """Return the level of the interval that decides: `shown_confidence`, unless decisions of a year count.

    Args:
        config: The gate.
        decision: Number of the decision in the last year, from 1. 0 if nothing is decided.
    """
    if not (decision and config.gate_confidence):
        return shown_confidence(config)
    return confidence.decision_level(config.gate_confidence, decision)


def decide(
    config: EvaluateConfig,
    models: Mapping[str, Scores],
    gain: Gain | None,
    reservation: str = "",
    undecided: str = "",
    default: str = "",
    known: Known | None = None,
    questions: Collection[str] = (),
) -> Decision:
    """Decide by the scores on the first dataset, by the known images and by what was found in the data.

    Args:
        config: The gate.
        models: Mean scores of each model.
        gain: The candidate's gain over the current default in `metric_of` the gate. None without a default.
        reservation: Why these scores do not count against the current default. Empty if they do.
        undecided: Why the scores cannot be compared. Empty if they can.
        default: Name of the current default, if it has one.
        known: The gain on the images on which the default was decided. None if it has none.
        questions: Sentences about the data that hold a promotion.

    Raises:
        UserError: the gate's metric could not be computed.
    """
    ours, bias = models[Role.CANDIDATE], models[Role.CENTER_BIAS]
    current = f"current default, `{default}`," if default else "current default"
    beats, comparison = None, "no default model was compared with it"
    if Role.CHAMPION in models and gain is not None:
        beats, comparison = _compare(config, ours, models[Role.CHAMPION], gain)
    if all(_is_worse(metric, ours, bias) for metric in BASELINE_METRICS):
        numbers = " and in ".join(reasons.against(metric, ours, bias) for metric in BASELINE_METRICS)
        reason = f"The candidate is worse than the centre bias in {numbers}."
        return Decision(False, beats, False, reason, Ending.CHALLENGER)
    if config.gate in ("always", "never"):
        promote = config.gate == "always"
        outcome = BECOMES if promote else "The candidate does not become the default"
        reason = f"{outcome}, because the gate is `{config.gate}`. {comparison[0].upper()}{comparison[1:]}."
        if promote and known is not None:
            reason += f" Known images: {known.text or known.verdict}."
        if promote and questions:
            reason += f" The data raise a question: {' '.join(questions)}"
        return Decision(True, beats, promote, reason, Ending.PROMOTED if promote else Ending.CHALLENGER)
    if undecided and not reservation and Role.CHAMPION in models:
        return Decision(True, None, False, f"Not decided, so the {current} stays: {undecided}.", Ending.UNDECIDED)
    if reservation or beats is False:
        return Decision(
            True, beats, False, f"The {current} stays: {reservation or comparison}.", Ending.CHALLENGER
        )
    if known is not None and known.verdict == Known.GONE:
        reason = (
            f"The {current} stays: {comparison}, but the {known.n_images:,} known images on which it was decided "
            "are not there any more. Restore them, or start anew with known_images=forget."
        )
        return Decision(True, beats, False, reason, Ending.HELD)
    if known is not None and known.verdict == Known.WORSE:
        reason = f"Data and model disagree, so the {current} stays: {comparison}, but {known.text}."
        return Decision(
            True,
            beats,
            False,
            " ".join([reason, reasons.what_changed(known), *questions, reasons.CONFIRM]),
            Ending.DISAGREE,
        )
    if questions:
        reason = f"Held by a question about the data, so the {current} stays: {comparison}."
        return Decision(True, beats, False, " ".join([reason, *questions, reasons.CONFIRM]), Ending.HELD)
    also = f", and {text}" if known is not None and (text := known.text) else ""
    return Decision(True, beats, True, f"{BECOMES}: {comparison}{also}.", Ending.PROMOTED)


def what_could_be_found(
    config: EvaluateConfig, manifest: Manifest, n_seen: int, decision: int, spread: float | None
) -> str:
    """Say which gain a decision could find, as a sentence. Empty if only means decide.

    Args:
        config: The gate.
        manifest: The data that decide.
        n_seen: Number of their held-out images that the current default was trained on.
        decision: Number of the decision in the last year.
        spread: Standard deviation of the gains on images at the last decision. None if that is not known.
    """
    n_images = manifest.counts[manifest.held_out] - n_seen
    if not config.gate_confidence or config.gate not in METRICS:
        return ""
    if n_images < confidence.MIN_DECIDING:
        return (
            f"Nothing will be decided: there are {n_images:,} held-out images that the current default was not "
            f"trained on, and a decision needs {confidence.MIN_DECIDING}. Add images, or promote the candidate "
            "yourself by `python -m pipeline registry set-default`."
        )
    in_spreads = confidence.detectable_gain(1.0, n_images, gate_level(config, decision))
    label = METRICS[config.gate].label
    look = f"With {n_images:,} images, as decision {decision:,} of this year"
    if spread is None:
        return f"{look}, a gain in {label} of {in_spreads:.2f} of its spreads is found half of the time."
    gain = f"a gain in {label} of {in_spreads * spread:.3f}"
    return f"{look}, {gain} is found half of the time, if gains spread as at the last one."


def reservation(manifest: Manifest, champion: Mapping[str, Any] | None) -> str:
    """Say why scores on a dataset do not count against the current default. Empty if they do.

    Synthetic patterns say nothing about photographs, so a network of the sample set must not replace one that was
    trained on real data. The scores count if the training data of the current default is unknown.

    Args:
        manifest: The dataset's.
        champion: Content of the current default's MODEL_CONFIG, if it has one.
    """
    source = (champion or {}).get("source", SAMPLE)
    if not Provenance(vars(manifest)).is_sample or source == SAMPLE:
        return ""
    return "it was trained on real data, and this comparison used only generated shapes"


def _is_worse(metric: str, ours: Scores, theirs: Scores) -> bool:
    higher, lower = (theirs, ours) if METRICS[metric].higher_is_better else (ours, theirs)
    return higher[metric] > lower[metric]


def _compare(config: EvaluateConfig, ours: Scores, theirs: Scores, gain: Gain) -> tuple[bool, str]:
    """Whether the candidate beats the current default, and the clause for the reason."""
    metric = measured_metric(config.gate, ours)
    row = METRICS[metric]
    decisive = gain.low if config.gate_confidence else gain.mean
    direction = "higher" if row.higher_is_better else "lower"
    clause = (
        f"the candidate's {row.label} is {ours[metric]:.4f}, the current default's {theirs[metric]:.4f} "
        f"({direction} is better), {reasons.difference_of(config, gain)}"
    )
    return decisive is not None and decisive > config.gate_margin, clause


# === Test sets ===


def deciding_dataset(gate_on: str, manifests: Mapping[str, Manifest]) -> str:
    """Name the dataset that decides: the first one with training images, or the first test set.

    A test set decides if `gate_on` is `test`, and if there is nothing else.

    Raises:
        UserError: `gate_on` is `test`, and there is no test set.
    """
    tests = [name for name, manifest in manifests.items() if manifest.is_test_set]
    others = [name for name in manifests if name not in tests]
    if gate_on != "test":
        return [*others, *tests][0]
    if not tests:
        raise SettingError(
            "gate_on is test, but there is no test set: set test_dataset, or set gate_on to finetune"
        )
    return tests[0]


def center_bias_folder(
    folders: Mapping[str, StrPath], manifests: Mapping[str, Manifest], name: str
) -> pathlib.Path:
    """The prepared dataset with the centre bias that is the baseline on dataset `name`.

    It is the dataset itself if it has training images, else the first one that has some. Test sets alone have
    their own.
    """
    trained = [other for other, manifest in manifests.items() if not manifest.is_test_set]
    return pathlib.Path(folders[trained[0] if trained and manifests[name].is_test_set else name])
