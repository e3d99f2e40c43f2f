"""Evaluate a trained model on held-out images, next to the centre bias, a uniform map and the current default.

Metrics that need a density map (CC, KLD, SIM) are computed at the input size of the network, without padding.
Metrics that need fixations (AUC, sAUC, NSS, IG) are computed at the original image size; they are absent for a
dataset without fixations. Every figure is a mean over images.
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trainer import artifacts, files
from trainer.artifacts import StrPath
from trainer.config import EvaluateConfig
from trainer.errors import UserError, now
from trainer.evaluation import confidence, gate, per_image
from trainer.evaluation.per_image import CANDIDATE, CHAMPION, PerImage
from trainer.loading import load_tensorflow
from trainer.metric_table import DENSITY, FIXATIONS, METRICS, metrics_that_need

PICTURES_PER_GROUP = 3
NAMES = {CANDIDATE: "candidate", CHAMPION: "current default"}
"""The names of the models in sentences."""


def evaluate(
    config: EvaluateConfig,
    candidate: StrPath,
    datasets: Mapping[str, StrPath],
    output: StrPath,
    champion: StrPath | None = None,
    trained_on: Iterable[StrPath] = (),
    run: str = "",
) -> dict[str, Any]:
    """Evaluate models on validation and test images and decide whether the candidate is promoted.

    Images of a test set that are also in the candidate's training data are left out.

    Args:
        config: The gate.
        candidate: Model folder.
        datasets: Name -> prepared folder. The first one decides, or the first test set if `gate_on` is `test`.
        output: Folder to write; it must be empty or not exist.
        champion: Model folder of the current default, if there is one.
        trained_on: Prepared data of the candidate's training that is not in `datasets`.
        run: Name of the run, if it is one of the pipeline.

    Returns:
        The content of `artifacts.EVALUATION`; `gate.require_baseline` refuses one worse than the centre bias.

    Raises:
        UserError: a folder is not valid, the gate's metric cannot be computed, or a prediction is not finite.
    """
    manifests, decides = _check(config, datasets, pathlib.Path(output))
    training = gate.training_data([*datasets.values(), *trained_on], _model_config(candidate))
    left_out = {
        name: gate.overlap(datasets[name], training)
        for name, manifest in manifests.items()
        if manifest.is_test_set
    }
    load_tensorflow()
    from trainer.evaluation.ceiling import Ceiling
    from trainer.evaluation.scoring import Scorer, load_network

    folders = {CANDIDATE: candidate} | ({CHAMPION: champion} if champion is not None else {})
    networks = {model: load_network(folder) for model, folder in folders.items()}
    results: dict[str, dict[str, Any]] = {}
    with files.replacing(output, last=artifacts.EVALUATION) as partial:
        partial.mkdir()
        for name in sorted(datasets, key=lambda name: name != decides):
            bias, unfit = gate.center_bias_folder(datasets, manifests, name), left_out.get(name, [])
            data, manifest = pathlib.Path(datasets[name]), manifests[name]
            ceiling = Ceiling(data, manifest, bias) if manifest.has_observers else None
            scorer = Scorer(data, manifest, networks, bias, unfit, ceiling.add if ceiling else None)
            results[name] = _describe(manifests[name], datasets[name], bias, unfit)
            results[name] |= _score(config, name, scorer, partial, name == decides)
            if ceiling is not None:
                results[name]["ceiling"] = ceiling.describe(gate.shown_confidence(config))
        compared = {each.fingerprint: each.test_share for each in map(artifacts.Manifest.load, training)}
        evaluation = _conclude(config, results, decides, folders, compared)
        evaluation |= {"run": run, "date": now(), "code_version": artifacts.code_version()}
        files.write_json(partial / artifacts.EVALUATION, evaluation)
    return evaluation


def _check(
    config: EvaluateConfig, datasets: Mapping[str, StrPath], output: pathlib.Path
) -> tuple[dict[str, artifacts.Manifest], str]:
    """Return the manifests and the deciding dataset; find every error that can be found before the slow part."""
    if not datasets:
        raise UserError("no dataset to evaluate on; name at least one prepared folder")
    check_output(output)
    manifests = artifacts.load_manifests(datasets)
    decides = gate.deciding_dataset(config.gate_on, manifests)
    if config.gate in metrics_that_need(FIXATIONS) and not manifests[decides].has_fixations:
        raise UserError(
            f"the gate {config.gate} needs fixations, but dataset {decides} has only maps; choose one of "
            f"{', '.join(metrics_that_need(DENSITY))}"
        )
    return manifests, decides


def check_output(output: StrPath) -> None:
    """Raise `UserError` if there is something at the place of an evaluation."""
    if files.is_taken(pathlib.Path(output)):
        raise UserError(f"{output} exists already; choose another folder for the evaluation, or remove it")


def _score(
    config: EvaluateConfig, dataset: str, scorer: Any, output: pathlib.Path, decides: bool
) -> dict[str, Any]:
    """Score the models on one dataset, and write the scores of each image and some pictures."""
    table = scorer.score(f"evaluate {dataset}")
    per_image.write(output / artifacts.PER_IMAGE, dataset, table)
    groups = _ranked(table) | _extremes(table) | (_extreme_gains(config, table) if decides else {})
    return _summary(config, table) | {"pictures": _draw(scorer, table, groups, output, dataset)}


def _describe(
    manifest: artifacts.Manifest, folder: StrPath, bias: pathlib.Path, left_out: list[str]
) -> dict[str, Any]:
    """The facts about the dataset that are stored with its scores."""
    training = artifacts.Manifest.load(bias)
    facts = dataclasses.asdict(manifest) | {"image_size": list(manifest.image_size)}
    # Long: one entry per shard and source object. The manifest itself has them.
    del facts["shards"], facts["objects"]
    return {
        "folder": str(pathlib.Path(folder).absolute()),
        "has_fixations": manifest.has_fixations,
        "manifest": facts,
        "center_bias": [training.fingerprint, training.counts["train"]],
        "left_out": left_out,
    }


def _summary(config: EvaluateConfig, table: PerImage) -> dict[str, Any]:
    """The mean scores of each model with their intervals, and the candidate's gains over the current default."""
    level = gate.shown_confidence(config)
    gains = table.gains(CANDIDATE, CHAMPION, level) if CHAMPION in table.scores else {}
    measured = [metric for metric in metrics_that_need(FIXATIONS) if metric in table.scores[CANDIDATE]]
    return {
        "models": {model: table.means(model) for model in table.scores},
        "intervals": {model: table.intervals(model, level) for model in table.scores},
        "gains": {metric: dataclasses.asdict(gain) for metric, gain in gains.items()},
        "n_images": len(table.images),
        "n_images_with_fixations": max((len(table.values(CANDIDATE, metric)) for metric in measured), default=0),
    }


def _conclude(
    config: EvaluateConfig,
    results: dict[str, dict[str, Any]],
    decides: str,
    folders: dict[str, StrPath],
    compared: Mapping[str, float],
) -> dict[str, Any]:
    """The content of `artifacts.EVALUATION`: the results on each dataset, and the decision.

    `compared` is that of `gate.held_out_caution`.
    """
    deciding = results[decides]
    gains = {metric: confidence.Gain(**gain) for metric, gain in deciding["gains"].items()}
    model_configs = {model: _model_config(folder) for model, folder in folders.items()}
    reservation = gate.reservation(deciding["manifest"], model_configs.get(CHAMPION))
    precedence = gate.precedence(deciding["manifest"], model_configs[CANDIDATE], model_configs.get(CHAMPION))
    decision = gate.decide(config, deciding["models"], gains, reservation, precedence)
    remarks = []
    for name, result in results.items():
        manifest, title = result["manifest"], confidence.images_of(name)
        if artifacts.TEST in manifest["counts"]:
            remarks.append(gate.overlap_note(title, result["left_out"], result["n_images"]))
            remarks += [
                gate.held_out_caution(NAMES[model], model_config, manifest, compared)
                for model, model_config in model_configs.items()
            ]
        elif name == decides:
            remarks += [
                gate.caution(NAMES[model], model_config, manifest) for model, model_config in model_configs.items()
            ]
    decided = f"Decided on the {deciding['n_images']:,} {confidence.images_of(decides)}."
    return {
        "datasets": results,
        "decides": decides,
        "gate_on": config.gate_on,
        "gate": config.gate,
        "gate_margin": config.gate_margin,
        "gate_confidence": config.gate_confidence,
        "shown_confidence": gate.shown_confidence(config),
        **dataclasses.asdict(decision),
        "reason": " ".join(filter(None, [decision.reason, decided if config.gate_on == "test" else "", *remarks])),
        "model_folders": {model: str(pathlib.Path(folder).absolute()) for model, folder in folders.items()},
        "model_configs": model_configs,
    }


def _model_config(folder: StrPath) -> Any:
    """The content of the model folder's MODEL_CONFIG; None without one."""
    path = pathlib.Path(folder) / artifacts.MODEL_CONFIG
    return files.read_json(path, "train the model again", artifacts.ModelConfig) if path.exists() else None


# === Pictures ===


def _ranked(table: PerImage) -> dict[str, list[str]]:
    """The best, median and worst images by the candidate's KLD, each image in one group only."""
    klds = dict(zip(table.images, table.scores[CANDIDATE]["kld"], strict=True))
    names = sorted(klds, key=lambda name: klds[name])
    count, middle = min(PICTURES_PER_GROUP, len(names)), len(names) // 2
    start = max(0, middle - count // 2)
    groups = {"best": names[:count], "median": names[start : start + count], "worst": names[-count:]}
    group_of: dict[str, str] = {}
    for group, members in groups.items():
        for name in members:
            group_of.setdefault(name, group)
    return {group: [name for name in group_of if group_of[name] == group] for group in groups}


def _extremes(table: PerImage) -> dict[str, list[str]]:
    """The candidate's best and its worst image in each metric but KLD, as groups such as `best nss`."""
    groups: dict[str, list[str]] = {}
    for metric, scores in table.scores[CANDIDATE].items():
        if metric != "kld":
            ends = table.images[int(np.nanargmin(scores))], table.images[int(np.nanargmax(scores))]
            worst, best = ends if METRICS[metric].higher_is_better else ends[::-1]
            groups |= {f"best {metric}": [best], f"worst {metric}": [worst]} if best != worst else {}
    return groups


def _extreme_gains(config: EvaluateConfig, table: PerImage) -> dict[str, list[str]]:
    """The images with the largest gains over the current default and those with the largest losses."""
    if CHAMPION not in table.scores:
        return {}
    metric = gate.measured_metric(config.gate, table.scores[CANDIDATE])
    ours, theirs = (table.scores[model][metric] for model in (CANDIDATE, CHAMPION))
    gains = np.nan_to_num(confidence.gains_of(ours, theirs, METRICS[metric].higher_is_better))
    ascending = np.argsort(gains, kind="stable")
    return {
        "gains": [table.images[i] for i in ascending[::-1][:PICTURES_PER_GROUP] if gains[i] > 0],
        "losses": [table.images[i] for i in ascending[:PICTURES_PER_GROUP] if gains[i] < 0],
    }


def _draw(
    scorer: Any, table: PerImage, groups: dict[str, list[str]], folder: pathlib.Path, dataset: str
) -> list[dict[str, Any]]:
    """Write the pictures of the images in the groups, once per image, and describe them."""
    inside = pathlib.Path(artifacts.PREDICTIONS, dataset)
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
            "files": {panel: (inside / file.name).as_posix() for panel, file in pictures[name].items()},
        }
        for group, members in groups.items()
        for name in members
    ]
