"""Judge a trained model on held-out images, beside the centre bias, a uniform map and the current default.

Density metrics (CC, KLD, SIM) compare maps at the network's input size, without the padding. Point metrics
(AUC, sAUC, NSS, IG) look at the original image size, at the original fixations, and are absent where a data set
has none. Every figure is the mean over images of a figure of one image.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from trainer import artifacts, files
from trainer.config import DENSITY_METRICS, HIGHER_IS_BETTER, POINT_METRICS, EvaluateConfig
from trainer.errors import UserError
from trainer.evaluation import confidence, gate, per_image
from trainer.evaluation.per_image import CANDIDATE, CHAMPION, PerImage
from trainer.loading import load_tensorflow
from trainer.progress import Tracker

PICTURES_PER_GROUP = 3
SPOKEN = {CANDIDATE: "candidate", CHAMPION: "current default"}
"""What sentences call the models."""

Path = str | os.PathLike[str]


def evaluate(
    config: EvaluateConfig,
    candidate: Path,
    datasets: Mapping[str, Path],
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
        `gate.require_baseline` to stop at it.

    Raises:
        UserError: a folder is not what it should be, the gate's metric cannot be computed, or a prediction is
            not finite.
    """
    manifests = _check(config, datasets, pathlib.Path(output))
    load_tensorflow()
    from trainer.evaluation.scoring import Network, Scorer
    from trainer.models.load import load_model

    folders = {CANDIDATE: candidate} | ({CHAMPION: champion} if champion is not None else {})
    networks = {model: Network(load_model(folder)) for model, folder in folders.items()}
    decides = next(iter(datasets))
    results: dict[str, dict[str, Any]] = {}
    with files.replacing(output) as partial:
        partial.mkdir()
        for name, folder in datasets.items():
            scorer = Scorer(pathlib.Path(folder), manifests[name], networks)
            table = scorer.score(f"evaluate {name}")
            per_image.write(partial / artifacts.PER_IMAGE, name, table)
            results[name] = _describe(manifests[name], folder) | _summary(config, table, f"compare on {name}")
            groups = _ranked(table)
            if name == decides and CHAMPION in networks:
                influence = gate.influence(config, table, PICTURES_PER_GROUP)
                results[name]["influence"] = dataclasses.asdict(influence)
                groups |= {"gains": list(influence.gains), "losses": list(influence.losses)}
            inside = pathlib.Path(artifacts.PREDICTIONS, name)
            results[name]["pictures"] = _draw(scorer, table, groups, partial, inside)
        evaluation = _conclude(config, results, decides, folders)
        files.write_json(partial / artifacts.EVALUATION, evaluation)
    return evaluation


def _conclude(
    config: EvaluateConfig, results: dict[str, dict[str, Any]], decides: str, folders: dict[str, Path]
) -> dict[str, Any]:
    """The content of `artifacts.EVALUATION`: the results of each data set, and what follows from them."""
    deciding = results[decides]
    gains = {metric: confidence.Gain(**each) for metric, each in deciding["gains"].items()}
    configs = {model: _model_config(folder) for model, folder in folders.items()}
    reservation = gate.reservation(deciding["manifest"], configs.get(CHAMPION))
    decision = gate.decide(config, deciding["models"], gains, reservation)
    cautions = [gate.caution(SPOKEN[model], each, deciding["manifest"]) for model, each in configs.items()]
    return {
        "datasets": results,
        "decides": decides,
        "gate": config.gate,
        "gate_margin": config.gate_margin,
        "gate_confidence": config.gate_confidence,
        "shown_confidence": gate.shown_confidence(config),
        **dataclasses.asdict(decision),
        "reason": " ".join(filter(None, [decision.reason, *cautions])),
        "model_folders": {model: str(pathlib.Path(folder).absolute()) for model, folder in folders.items()},
        "model_configs": configs,
        "code_version": artifacts.code_version(),
    }


def _check(
    config: EvaluateConfig, datasets: Mapping[str, Path], output: pathlib.Path
) -> dict[str, artifacts.Manifest]:
    """The manifests, after everything that can be known to be wrong before hours of work is ruled out."""
    if not datasets:
        raise UserError("no data set to evaluate on; name at least one prepared folder")
    if files.is_taken(output):
        raise UserError(f"{output} is there already; name another folder for the evaluation, or remove it")
    manifests = artifacts.load_manifests(datasets)
    first, manifest = next(iter(manifests.items()))
    if config.gate in POINT_METRICS and not manifest.has_fixations:
        raise UserError(
            f"the gate {config.gate} needs fixations, and data set {first} has only maps; choose one of "
            f"{', '.join(DENSITY_METRICS)}"
        )
    return manifests


def _describe(manifest: artifacts.Manifest, folder: Path) -> dict[str, Any]:
    """What the models were measured on."""
    described = dataclasses.asdict(manifest) | {"image_size": list(manifest.image_size)}
    # One entry for each shard and source object: long, and in the manifest itself.
    del described["shards"], described["objects"]
    return {
        "folder": str(pathlib.Path(folder).absolute()),
        "has_fixations": manifest.has_fixations,
        "manifest": described,
    }


def _summary(config: EvaluateConfig, table: PerImage, description: str) -> dict[str, Any]:
    """The mean scores of each model with their intervals, and the candidate's gains over the champion."""
    level = gate.shown_confidence(config)
    intervals: dict[str, dict[str, list[float] | None]] = {model: {} for model in table.scores}
    gains = {}
    with Tracker(description, len(table.scores[CANDIDATE]), "metrics") as tracker:
        for metric in table.scores[CANDIDATE]:
            for model in table.scores:
                found = confidence.interval(table.values(model, metric), level)
                intervals[model][metric] = list(found) if found else None
            if CHAMPION in table.scores:
                ours, theirs = table.values(CANDIDATE, metric), table.values(CHAMPION, metric)
                gain = confidence.gain(ours, theirs, HIGHER_IS_BETTER[metric], level)
                gains[metric] = dataclasses.asdict(gain)
            tracker.advance()
    return {
        "models": {model: table.means(model) for model in table.scores},
        "intervals": intervals,
        "gains": gains,
        "n_images": len(table.images),
        "n_images_with_fixations": len(table.values(CANDIDATE, "nss")) if "nss" in table.scores[CANDIDATE] else 0,
    }


def _ranked(table: PerImage) -> dict[str, list[str]]:
    """The best, median and worst images by the candidate's KLD; in a small set an image is in the first only."""
    klds = dict(zip(table.images, table.scores[CANDIDATE]["kld"], strict=True))
    names = sorted(klds, key=lambda name: klds[name])
    count, middle = min(PICTURES_PER_GROUP, len(names)), len(names) // 2
    start = max(0, middle - count // 2)
    groups = {"best": names[:count], "median": names[start : start + count], "worst": names[-count:]}
    chosen: dict[str, str] = {}
    for group, members in groups.items():
        for name in members:
            chosen.setdefault(name, group)
    return {group: [name for name in chosen if chosen[name] == group] for group in groups}


def _draw(
    scorer: Any, table: PerImage, groups: dict[str, list[str]], folder: pathlib.Path, inside: pathlib.Path
) -> list[dict[str, Any]]:
    """Write the pictures of each group's images, once where an image is in two; what they are."""
    (folder / inside).mkdir(parents=True)
    names = dict.fromkeys(name for members in groups.values() for name in members)
    pictures = scorer.draw({name: folder / inside / f"{table.images.index(name):06d}" for name in names})
    return [
        {
            "group": group,
            "image": name,
            "scores": {
                model: table.of_image(model, name) for model in (CANDIDATE, CHAMPION) if model in table.scores
            },
            "files": {what: (inside / file.name).as_posix() for what, file in pictures[name].items()},
        }
        for group, members in groups.items()
        for name in members
    ]


def _model_config(folder: Path) -> Any:
    """What the model folder says of how it was trained; None where it says nothing."""
    path = pathlib.Path(folder) / artifacts.MODEL_CONFIG
    return files.read_json(path, "train the model again") if path.exists() else None
