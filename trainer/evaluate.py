"""Judge a trained model on held-out images, beside the centre bias, a uniform map and the current default.

Density metrics (CC, KLD, SIM) compare maps at the network's input size, without the padding. Point metrics
(AUC, sAUC, NSS, IG) look at the original image size, at the original fixations, and are absent where a data set
has none. Every figure is the mean over images of a figure of one image.
"""

import csv
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np

from trainer import artifacts, metrics
from trainer.config import HIGHER_IS_BETTER, EvaluateConfig
from trainer.errors import GateError, UserError
from trainer.export import load_model
from trainer.scoring import CANDIDATE, CENTER_BIAS, CHAMPION, POINT_METRICS, Scorer, Scores, Table

PICTURES_PER_GROUP = 3

Path = str | os.PathLike[str]


def evaluate(
    config: EvaluateConfig,
    candidate: Path,
    datasets: dict[str, Path],
    output: Path,
    champion: Path | None = None,
) -> dict[str, Any]:
    """Evaluate models on the `valid` split of prepared data sets and decide whether the candidate is promoted.

    Args:
        config: The gate.
        candidate: Model folder.
        datasets: Name -> prepared folder; the first one decides.
        output: Folder to write; it must be empty or not exist.
        champion: Model folder of the current default, where there is one.

    Returns:
        The content of `artifacts.EVALUATION`. A candidate below the centre bias is written as well; call
        `require_baseline` to stop at it.

    Raises:
        UserError: a folder is not what it should be, the gate's metric cannot be computed, or a prediction is
            not finite.
    """
    manifests = _check(config, datasets, pathlib.Path(output))
    folders = {CANDIDATE: candidate} | ({CHAMPION: champion} if champion is not None else {})
    networks = {model: load_model(folder, dtype="float32") for model, folder in folders.items()}
    results: dict[str, dict[str, Any]] = {}
    with artifacts.replacing(output) as partial:
        partial.mkdir()
        for name, folder in datasets.items():
            scorer = Scorer(pathlib.Path(folder), manifests[name], networks)
            table = scorer.score(f"evaluate {name}")
            _write_table(partial / artifacts.PER_IMAGE, name, table)
            results[name] = _summary(table, manifests[name])
            results[name]["pictures"] = _draw(scorer, table, partial, pathlib.Path(artifacts.PREDICTIONS, name))
        decides = next(iter(datasets))
        evaluation = {
            "datasets": results,
            "decides": decides,
            "gate": config.gate,
            "gate_margin": config.gate_margin,
            **dataclasses.asdict(decide(config, results[decides]["models"])),
            "model_configs": {model: _model_config(folder) for model, folder in folders.items()},
            "code_version": artifacts.code_version(),
        }
        artifacts.write_json(partial / artifacts.EVALUATION, evaluation)
    return evaluation


@dataclasses.dataclass(frozen=True)
class Decision:
    """What an evaluation means for the candidate."""

    passed_baseline: bool
    """Whether the candidate is at least as good as the centre bias in KLD or in CC."""
    beats_champion: bool | None
    """Whether it is better than the current default by more than the margin; None where there is none."""
    promote: bool
    reason: str
    """A sentence for people."""


def decide(config: EvaluateConfig, models: dict[str, Scores]) -> Decision:
    """The decision that follows from each model's mean scores on the data set that decides.

    The gate's metric, KLD where the gate names none, compares the candidate with the champion.
    """
    ours, bias = models[CANDIDATE], models[CENTER_BIAS]
    beats, comparison = None, "there is no default model yet"
    if CHAMPION in models:
        beats, comparison = _compare(config, ours, models[CHAMPION])
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
    if beats is not False:
        return Decision(True, beats, True, f"The candidate becomes the default: {comparison}.")
    return Decision(True, beats, False, f"The current default stays: {comparison}.")


def require_baseline(evaluation: dict[str, Any]) -> None:
    """Raise `GateError` with the numbers where the candidate is below the centre bias."""
    if not evaluation["passed_baseline"]:
        raise GateError(f"{evaluation['reason']} (data set {evaluation['decides']})")


def _compare(config: EvaluateConfig, ours: Scores, theirs: Scores) -> tuple[bool, str]:
    """Whether the candidate beats the champion, and the clause that says so."""
    metric = config.gate if config.gate in HIGHER_IS_BETTER else "kld"
    if metric not in ours:
        raise UserError(f"the gate's metric {metric} could not be computed; choose one of {', '.join(ours)}")
    gain = ours[metric] - theirs[metric] if HIGHER_IS_BETTER[metric] else theirs[metric] - ours[metric]
    beats = gain > config.gate_margin
    margin = f" where more than {config.gate_margin:g} is asked" if config.gate_margin else ""
    label, direction = metrics.LABELS[metric], "higher" if HIGHER_IS_BETTER[metric] else "lower"
    how = "better" if gain > 0 else "worse" if gain < 0 else "no different"
    by = f" by {abs(gain):.4f}" if gain else ""
    clause = (
        f"the candidate's {label} is {ours[metric]:.4f}, the current default's {theirs[metric]:.4f} "
        f"({direction} is better), which is {how}{by}{margin}"
    )
    return beats, clause


def _check(
    config: EvaluateConfig, datasets: dict[str, Path], output: pathlib.Path
) -> dict[str, artifacts.Manifest]:
    """The manifests, after everything that can be known to be wrong before hours of work is ruled out."""
    if not datasets:
        raise UserError("no data set to evaluate on; name at least one prepared folder")
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise UserError(f"{output} is there already; name another folder for the evaluation, or remove it")
    manifests = {name: artifacts.Manifest.load(folder) for name, folder in datasets.items()}
    for name, manifest in manifests.items():
        if not manifest.counts.get("valid"):
            raise UserError(f"data set {name} has no validation images ({manifest.counts}); prepare it with some")
    first, manifest = next(iter(manifests.items()))
    if config.gate in POINT_METRICS and not manifest.has_fixations:
        known = ", ".join(metric for metric in HIGHER_IS_BETTER if metric not in POINT_METRICS)
        raise UserError(
            f"the gate {config.gate} needs fixations, and data set {first} has only maps; choose one of {known}"
        )
    return manifests


def _write_table(path: pathlib.Path, dataset: str, table: Table) -> None:
    """Append one line for each image and model; the cell of an absent metric is empty."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["dataset", "image", "model", *HIGHER_IS_BETTER])
        if new:
            writer.writeheader()
        for (_, image), models in table.items():
            for model, scores in models.items():
                writer.writerow({"dataset": dataset, "image": image, "model": model, **scores})


def _summary(table: Table, manifest: artifacts.Manifest) -> dict[str, Any]:
    """The mean scores of each model, and what they were measured on."""
    rows = list(table.values())
    means = {}
    for model in rows[0]:
        values = {
            metric: [row[model][metric] for row in rows if metric in row[model]] for metric in HIGHER_IS_BETTER
        }
        means[model] = {metric: float(np.mean(each)) for metric, each in values.items() if each}
    described = dataclasses.asdict(manifest) | {"image_size": list(manifest.image_size)}
    # One entry for each shard and source object: long, and in the manifest itself.
    del described["shards"], described["objects"]
    return {
        "models": means,
        "n_images": len(rows),
        "n_images_with_fixations": sum("nss" in row[CANDIDATE] for row in rows),
        "has_fixations": manifest.has_fixations,
        "manifest": described,
    }


def _draw(scorer: Scorer, table: Table, folder: pathlib.Path, inside: pathlib.Path) -> list[dict[str, Any]]:
    """Write the pictures of the best, median and worst images by the candidate's KLD; what they are."""
    keys = sorted(table, key=lambda key: table[key][CANDIDATE]["kld"])
    count, middle = min(PICTURES_PER_GROUP, len(keys)), len(keys) // 2
    start = max(0, middle - count // 2)
    groups = {"best": keys[:count], "median": keys[start : start + count], "worst": keys[-count:]}
    # In a small set an image may be in two groups; it is shown in the first.
    chosen: dict[tuple[int, str], str] = {}
    for group, members in groups.items():
        for key in members:
            chosen.setdefault(key, group)
    (folder / inside).mkdir(parents=True)
    files = {key: f"{group}-{key[0]:06d}" for key, group in chosen.items()}
    pictures = scorer.draw({index: folder / inside / name for (index, _), name in files.items()})
    return [
        {
            "group": group,
            "image": key[1],
            "kld": table[key][CANDIDATE]["kld"],
            "files": {what: (inside / file.name).as_posix() for what, file in pictures[key[0]].items()},
        }
        for key, group in chosen.items()
    ]


def _model_config(folder: Path) -> Any:
    """What the model folder says of how it was trained; None where it says nothing."""
    path = pathlib.Path(folder) / artifacts.MODEL_CONFIG
    return artifacts.read_json(path, "train the model again") if path.exists() else None
