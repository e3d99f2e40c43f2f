"""The gate: whether a candidate replaces the current default, and which images of a test set are left out."""

import dataclasses
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from trainer import artifacts, generated
from trainer.artifacts import SPLITS, Manifest, StrPath
from trainer.config import SAMPLE, EvaluateConfig
from trainer.errors import GateError, UserError, some
from trainer.evaluation import confidence
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import CANDIDATE, CENTER_BIAS, CHAMPION, Scores
from trainer.metric_table import METRICS

BECOMES = "The candidate becomes the default"
REGISTERS_NOTHING = "`evaluate` registers nothing; the pipeline does."


@dataclasses.dataclass(frozen=True)
class Decision:
    """The result of the gate for a candidate."""

    passed_baseline: bool
    """Whether the candidate is at least as good as the centre bias in KLD or in CC."""
    beats_champion: bool | None
    """Whether the candidate is significantly better than the current default, by more than the margin; None
    without a current default."""
    promote: bool
    reason: str
    """One or more sentences for people."""


def metric_of(gate: str) -> str:
    """The metric that compares the candidate with the current default: KLD if the gate is `always` or `never`."""
    return gate if gate in METRICS else "kld"


def measured_metric(gate: str, measured: Collection[str]) -> str:
    """`metric_of` the gate; `UserError` if it is not one of `measured`."""
    metric = metric_of(gate)
    if metric not in measured:
        raise UserError(f"the gate's metric {metric} could not be computed; choose one of {', '.join(measured)}")
    return metric


def shown_confidence(config: EvaluateConfig) -> float:
    """The level of the intervals in reports: that of the gate, or the default if the gate compares means only."""
    return config.gate_confidence or confidence.CONFIDENCE


def decide(
    config: EvaluateConfig,
    models: Mapping[str, Scores],
    gains: Mapping[str, Gain],
    reservation: str = "",
    precedence: str = "",
) -> Decision:
    """Decide by the scores on the first dataset.

    Args:
        config: The gate.
        models: Mean scores of each model.
        gains: The candidate's gain over the current default in each metric, at the level `shown_confidence`.
        reservation: Why these scores do not count against the current default; empty if they do.
        precedence: Why the candidate need not beat the current default; empty if it must.

    Raises:
        UserError: the gate's metric could not be computed.
    """
    ours, bias = models[CANDIDATE], models[CENTER_BIAS]
    beats, comparison = None, "there is no default model yet"
    if CHAMPION in models:
        beats, comparison = _compare(config, ours, models[CHAMPION], gains)
    if ours["kld"] > bias["kld"] and ours["cc"] < bias["cc"]:
        reason = (
            f"The candidate is worse than the centre bias in KLD ({ours['kld']:.3f} against {bias['kld']:.3f}, "
            f"lower is better) and in CC ({ours['cc']:.3f} against {bias['cc']:.3f}). The mean map of the "
            "training images is a better prediction. Train the candidate longer, or check its data and its loss "
            "curve."
        )
        return Decision(False, beats, False, reason)
    if config.gate in ("always", "never"):
        promote = config.gate == "always"
        outcome = BECOMES if promote else "The candidate does not become the default"
        reason = f"{outcome}, because the gate is `{config.gate}`; {comparison}."
    else:
        promote = bool(precedence) or (not reservation and beats is not False)
        outcome = BECOMES if promote else "The current default stays"
        comparison = f"{precedence}; {comparison}" if precedence else comparison
        reason = f"{outcome}: {reservation or comparison}."
    return Decision(True, beats, promote, reason)


def caution(model: str, model_config: Mapping[str, Any] | None, manifest: Mapping[str, Any]) -> str:
    """Warn if a model may have been trained on some of the validation images; else empty.

    The shuffled split of a dataset changes with the number of its images.

    Args:
        model: Name of the model in the sentence.
        model_config: Content of its MODEL_CONFIG, if it has one.
        manifest: Content of the dataset's `Manifest`.
    """
    dataset, fingerprint = manifest["dataset"], manifest["fingerprint"]
    for config in generated.trainings(model_config) if manifest["split"] != "given" else ():
        trained_on = config.get("fingerprint", fingerprint)
        is_same_kind = generated.is_sample(config) == generated.is_sample(manifest)
        if config.get("dataset") == dataset and is_same_kind and trained_on != fingerprint:
            return (
                f"The {model} was trained on another version of {dataset} (fingerprint {trained_on[:8]}, here "
                f"{fingerprint[:8]}) with another split. Some of these images may have been in its training set, "
                "so its scores may be too good."
            )
    return ""


def reservation(manifest: Mapping[str, Any], champion: Mapping[str, Any] | None) -> str:
    """Say why scores on a dataset do not count against the current default; empty if they do.

    Synthetic patterns say nothing about photographs, so a network of the sample set must not replace one that was
    trained on real data. The scores count if the training data of the current default is unknown.

    Args:
        manifest: Content of the dataset's `Manifest`.
        champion: Content of the current default's MODEL_CONFIG, if it has one.
    """
    source = (champion or {}).get("source", SAMPLE)
    if not generated.is_sample(manifest) or source == SAMPLE:
        return ""
    return (
        f"it was trained on {source}, but this comparison used only generated shapes; to "
        "promote the candidate anyway, set gate=always, or run `python -m pipeline registry set-default VERSION` "
        "later"
    )


def precedence(
    manifest: Mapping[str, Any], candidate: Mapping[str, Any] | None, champion: Mapping[str, Any] | None
) -> str:
    """Say why a candidate need not beat the current default; empty if it must. The opposite of `reservation`.

    A network of the sample set is of no use on photographs, so on real data one that was trained on real data
    replaces it, even if a few images do not show that it is better. A candidate of unknown training data must beat
    it.

    Args:
        manifest: Content of the dataset's `Manifest`.
        candidate: Content of the candidate's MODEL_CONFIG, if it has one.
        champion: As for `reservation`.
    """
    source = (candidate or {}).get("source", SAMPLE)
    if generated.is_sample(manifest) or source == SAMPLE or not generated.is_sample(champion):
        return ""
    return f"the current default was {generated.MARK}, the candidate on real data"


def reason_of(evaluation: Mapping[str, Any], registers: bool) -> str:
    """The reason of the decision in an evaluation; it says `would become` unless the candidate is registered."""
    if is_undecided(evaluation, registers):
        return "No default model was compared with it."
    reason = str(evaluation["reason"])
    return reason if registers else reason.replace(BECOMES, "The candidate would become the default", 1)


def is_undecided(evaluation: Mapping[str, Any], registers: bool) -> bool:
    """Whether an evaluation decides nothing: outside of a run it knows no default model unless one is given."""
    is_alone = not registers and not evaluation.get("run") and CHAMPION not in evaluation["model_configs"]
    return is_alone and bool(evaluation["passed_baseline"])


def require_baseline(evaluation: dict[str, Any]) -> None:
    """Raise `GateError` with the numbers if the candidate is worse than the centre bias."""
    if not evaluation["passed_baseline"]:
        raise GateError(f"{evaluation['reason']} (dataset {evaluation['decides']})")


def _compare(config: EvaluateConfig, ours: Scores, theirs: Scores, gains: Mapping[str, Gain]) -> tuple[bool, str]:
    """Whether the candidate beats the current default, and the clause for the reason."""
    metric = measured_metric(config.gate, ours)
    row, gain = METRICS[metric], gains[metric]
    decisive = gain.low if config.gate_confidence else gain.mean
    direction = "higher" if row.higher_is_better else "lower"
    clause = (
        f"the candidate's {row.label} is {ours[metric]:.4f}, the current default's {theirs[metric]:.4f} "
        f"({direction} is better), {_difference(config, gain)}"
    )
    return decisive is not None and decisive > config.gate_margin, clause


def _difference(config: EvaluateConfig, gain: Gain) -> str:
    """The gain in words, with its significance and the margin, as the end of a sentence."""
    if not gain.mean:
        return "no difference"
    margin, level = config.gate_margin, config.gate_confidence
    difference = f"{confidence.BETTER if gain.mean > 0 else confidence.WORSE} by {abs(gain.mean):.4f}"
    if not level:
        return f"{difference} (gate_margin is {margin:g})" if margin else difference
    if gain.low is None or gain.high is None:
        return f"{difference}, but {confidence.too_few(gain.n_images, level)}"
    interval = f"{confidence.percent(level)} confidence interval of the gain: {gain.low:.4f} to {gain.high:.4f}"
    if margin:
        interval += f"; all of it must be above {margin:g}"
    if confidence.significance(gain) == confidence.NOT_SIGNIFICANT:
        return f"{difference}, but not significantly ({interval})"
    return f"significantly {difference} ({interval})"


# === Test sets ===


def deciding_dataset(gate_on: str, manifests: Mapping[str, Manifest]) -> str:
    """Name the dataset that decides: the first one to train on, or the first test set if `gate_on` is `test`.

    Raises:
        UserError: there is no such dataset, or test sets alone.
    """
    tests = [name for name, manifest in manifests.items() if manifest.is_test_set]
    others = [name for name in manifests if name not in tests]
    if not others:
        raise UserError(
            f"{tests[0]} is a test set, and the centre bias comes from training images; name the prepared data "
            "that the model was trained on as well"
        )
    if gate_on != "test":
        return others[0]
    if not tests:
        raise UserError("gate_on is test, but there is no test set; set test_dataset, or set gate_on to finetune")
    return tests[0]


def center_bias_folder(
    folders: Mapping[str, StrPath], manifests: Mapping[str, Manifest], name: str
) -> pathlib.Path:
    """The prepared dataset whose centre bias is the baseline on dataset `name`: its own, or of the first one if
    it is a test set, which has no training images.
    """
    own = manifests[name].is_test_set
    return pathlib.Path(folders[deciding_dataset("finetune", manifests) if own else name])


def training_data(folders: Iterable[StrPath], model_config: Mapping[str, Any] | None) -> list[StrPath]:
    """Find the prepared datasets that a model may have been trained on.

    Args:
        folders: prepared datasets; test sets do not count.
        model_config: content of its MODEL_CONFIG, if it has one. If the origin of all its weights is known, the
            fingerprints of its data tell; else every dataset counts.
    """
    configs = list(generated.trainings(model_config))
    fingerprints = {config.get("fingerprint") for config in configs}
    known = bool(configs) and all("fingerprint" in config for config in configs)
    manifests = {folder: Manifest.load(folder) for folder in folders}
    return [
        folder
        for folder, manifest in manifests.items()
        if not manifest.is_test_set and (not known or manifest.fingerprint in fingerprints)
    ]


def overlap(folder: StrPath, training: Sequence[StrPath]) -> list[str]:
    """Find the images of a test set, by name, that are also in a split of prepared datasets to train on.

    Images are the same if their pixels are. Validation images count because they choose the best epoch.

    Raises:
        UserError: no image is left, or a folder has no `artifacts.IMAGES`.
    """
    manifest = Manifest.load(folder)
    known = {digest for data in training for _, digest in artifacts.images(data, SPLITS)}
    images = artifacts.images(folder, [manifest.held_out])
    names = sorted(name for name, digest in images if digest in known)
    if images and len(names) == len(images):
        raise UserError(
            f"all {len(images):,} test images of {manifest.dataset} are also in the training data; choose another "
            "test_dataset or test_source, or prepare all data with the same test_share. The validation images are "
            "evaluated without a test set"
        )
    return names


def overlap_note(title: str, names: Sequence[str], n_images: int) -> str:
    """A sentence about the images that were left out; empty if none was.

    Args:
        title: name of the test set's images, such as `test images of osie`.
        names: those that were left out.
        n_images: number of the others.
    """
    if not names:
        return ""
    are, they = ("is", "it is") if len(names) == 1 else ("are", "they are")
    all_images = f"{len(names) + n_images:,} {title}"
    return (
        f"{len(names):,} of the {all_images} {are} also in the training data, so {they} left out: {some(names)}."
    )


def held_out_caution(
    model: str, model_config: Mapping[str, Any] | None, manifest: Mapping[str, Any], compared: Mapping[str, float]
) -> str:
    """Warn if a model was trained on data of the test set's name that is not at hand; else empty.

    Args:
        model: Name of the model in the sentence.
        model_config: Content of its MODEL_CONFIG, if it has one.
        manifest: Content of the test set's `Manifest`.
        compared: Fingerprint and `Manifest.test_share` of the training data with which the images were compared. A
            model that kept less apart had validation images that this data does not have.
    """
    dataset = manifest["dataset"]
    is_split_here = manifest["split"] != "given" or manifest.get("test_share")
    for config in generated.trainings(model_config) if is_split_here else ():
        is_same_kind = generated.is_sample(config) == generated.is_sample(manifest)
        is_compared = compared.get(config.get("fingerprint", ""), 1.0) <= config.get("test_share", 0.0)
        if config.get("dataset") == dataset and is_same_kind and not is_compared:
            return (
                f"The {model} was trained on {dataset} too. Some of the test images may have been in its training "
                "or validation set, so its scores on them may be too good."
            )
    return ""
