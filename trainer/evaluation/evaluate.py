"""Evaluate a trained model on held-out images, next to the centre bias, a uniform map and the current default.

Each model answers for the original images at its own input size, as it does for users. Metrics that need a
density map (CC, KLD, SIM) are computed at one size for all models, `Original.MAP_SIZE`, without padding. Metrics
that need fixations (AUC, sAUC, NSS, IG) are computed at the original image size. They are absent for a dataset
without fixations. Every figure is a mean over images, or over the means of groups where images belong together.
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trainer import wording
from trainer.data import Manifest, PreparedData
from trainer.errors import SettingError
from trainer.evaluation import confidence, gate, per_image, reasons, recorded, seen
from trainer.evaluation.evaluation import (
    KNOWN,
    KNOWN_LEVEL,
    PREDICTIONS,
    RECORDED,
    Evaluation,
    Gain,
    Known,
    Pages,
    Picture,
    Role,
    ScoredDataset,
    Significance,
)
from trainer.evaluation.per_image import PerImage
from trainer.evaluation.seen import Seen
from trainer.evaluation.settings import FORGET, KEEP, EvaluateConfig, metric_of
from trainer.io import StrPath, replacing
from trainer.machine import announce, code_version, load_tensorflow
from trainer.metrics import LEAD, METRICS
from trainer.network import EVALUATION, PAGE, PER_IMAGE, PICTURE
from trainer.texts import now

PICTURES_PER_GROUP = 3
NAMES: dict[str, str] = {Role.CANDIDATE: "candidate", Role.CHAMPION: "current default"}
"""The names of the models in sentences."""


def evaluate_models(
    config: EvaluateConfig,
    candidate: StrPath,
    datasets: Mapping[str, StrPath],
    output: StrPath,
    champion: StrPath | None = None,
    trained_on: Iterable[StrPath] = (),
    run: str = "",
    decision: int = 0,
    data_warnings: Sequence[str] = (),
    questions: Sequence[str] = (),
    n_known: int = 0,
) -> Evaluation:
    """Evaluate models on validation and test images and decide whether the candidate is promoted.

    Images that the candidate or the current default was trained on are left out.

    Args:
        config: The gate.
        candidate: Model folder.
        datasets: Name -> prepared folder. The first one decides, or the first test set if `gate_on` is `test`.
        output: Folder to write. It must be empty or not exist.
        champion: Model folder of the current default, if there is one.
        trained_on: Prepared data of the candidate's training that is not in `datasets`.
        run: Name of the run, if it is one of the pipeline.
        decision: Number of the decision in the last year, as in `gate.gate_level`.
        data_warnings: Sentences about the data of the run, for the report.
        questions: Those among them that hold a promotion.
        n_known: Number of known images that the current default was registered with (`trainer.evaluation.known`).

    Returns:
        What is in the output, too. Its `require_baseline` refuses a candidate that is worse than the centre bias.

    Raises:
        UserError: a folder is not valid, the gate's metric cannot be computed, or a prediction is not finite.
    """
    manifests, decides = _check(config, datasets, pathlib.Path(output))
    folders: dict[str, StrPath] = {Role.CANDIDATE: candidate}
    if champion is not None:
        folders[Role.CHAMPION] = champion
    models = {model: Seen.by(folder, [*datasets.values(), *trained_on]) for model, folder in folders.items()}
    left_out = {name: _left_out(datasets[name], manifest, models) for name, manifest in manifests.items()}
    n_images = manifests[decides].counts[manifests[decides].held_out]
    n_seen = len(left_out[decides])
    if n_seen == n_images:  # then all are scored, and nothing is decided
        left_out[decides] = []
    load_tensorflow()
    from trainer.evaluation import known
    from trainer.prediction import Predictor

    announce("loading the models")
    predictors = {model: Predictor(folder) for model, folder in folders.items()}
    results: dict[str, ScoredDataset] = {}
    with replacing(output, last=EVALUATION) as partial:
        partial.mkdir()
        for name in sorted(datasets, key=lambda name: name != decides):
            data = _Data(name, pathlib.Path(datasets[name]), manifests[name], left_out[name])
            bias = gate.center_bias_folder(datasets, manifests, name)
            results[name] = _score(config, data, bias, predictors, partial, decision if name == decides else None)
        known_before = known.open_known(champion) if champion is not None and config.known_images == KEEP else None
        on_known = _on_known(config, known_before, predictors, models, datasets[decides], n_known)
        evaluation = _conclude(config, results, decides, models, n_seen, on_known, questions)
        agrees = on_known is None or on_known.verdict == Known.NOT_WORSE
        evaluation = dataclasses.replace(
            evaluation,
            n_known=_keep(partial, datasets, trained_on, decides, known_before if agrees else None),
            model_folders={model: str(pathlib.Path(folder).absolute()) for model, folder in folders.items()},
            decision=decision,
            data_warnings=list(data_warnings),
            questions=list(questions),
            run=run,
        )
        evaluation.write(partial)
    return evaluation


@dataclasses.dataclass(frozen=True)
class _Data:
    """A prepared dataset that models are scored on."""

    name: str
    folder: pathlib.Path
    manifest: Manifest
    left_out: list[str]
    """Names of the images that are not scored."""


def _check(
    config: EvaluateConfig, datasets: Mapping[str, StrPath], output: pathlib.Path
) -> tuple[dict[str, Manifest], str]:
    """Return the manifests and the deciding dataset. Find every error that can be found before the slow part."""
    if not datasets:
        raise SettingError("no dataset to evaluate on: name at least one prepared folder")
    Evaluation.check_output(output)
    manifests = Manifest.load_all(datasets)
    decides = gate.deciding_dataset(config.gate_on, manifests)
    config.check_measurable(decides, manifests[decides].has_fixations)
    return manifests, decides


def _left_out(folder: StrPath, manifest: Manifest, models: Mapping[str, Seen]) -> list[str]:
    """The names of the held-out images that one of the models has seen.

    Raises `UserError` if the candidate has seen all images of a test set.
    """
    names = {model: each.among(folder) for model, each in models.items()}
    if manifest.is_test_set:
        seen.check_some_unseen(folder, names[Role.CANDIDATE])
    return sorted(set().union(*names.values()))


def _score(
    config: EvaluateConfig,
    data: _Data,
    bias: pathlib.Path,
    predictors: Mapping[str, Any],
    output: pathlib.Path,
    decision: int | None,
) -> ScoredDataset:
    """Score the models on one dataset, and write the scores of each image and some pictures.

    `bias` is the prepared data with the centre bias. `decision` is the number of the decision that is made on this
    dataset. None if another one decides.
    """
    from trainer.evaluation.ceiling import Ceiling
    from trainer.evaluation.scoring import Scorer

    folder, manifest = data.folder, data.manifest
    ceiling = Ceiling(folder, manifest, bias) if manifest.has_observers else None
    scorer = Scorer(folder, manifest, predictors, bias, data.left_out, ceiling.add if ceiling else None)
    table = scorer.score(f"evaluate {data.name}")
    per_image.append_scores(output / PER_IMAGE, data.name, table)
    groups = _ranked(table) | _extremes(table) | ({} if decision is None else _extreme_gains(config, table))
    result = _summary(config, data, bias, table, _draw(scorer, table, groups, output, data.name))
    if decision is not None and Role.CHAMPION in table.scores:
        result = _with_decisive(config, table, result, decision)
    return dataclasses.replace(
        result,
        n_fixations=scorer.n_fixations,
        n_observers=scorer.n_observers,
        image_sizes={model: list(each.image_sizes[PICTURE]) for model, each in predictors.items()},
        runtime=predictors[Role.CANDIDATE].runtime,
        pages={
            model: Pages(count, list(predictors[model].image_sizes[PAGE]))
            for model, count in scorer.n_pages.items()
            if count
        },
        ceiling=ceiling.describe(gate.shown_confidence(config)) if ceiling else None,
    )


def _on_known(
    config: EvaluateConfig,
    folder: pathlib.Path | None,
    predictors: Mapping[str, Any],
    models: Mapping[str, Seen],
    data: StrPath,
    n_known: int,
) -> Known | None:
    """The candidate's gain over the current default on the known images in a folder. None if there never were any.

    `data` is the prepared data that decide, and `n_known` the number of images that there should be.
    """
    if config.known_images == FORGET:
        return Known(Known.FORGOTTEN) if n_known else None
    if folder is None:
        return Known(Known.GONE, n_known) if n_known else None
    from trainer.evaluation.scoring import Scorer

    manifest = Manifest.load(folder)
    # Images that the candidate was trained on flatter it, so they are left out if enough others are there.
    trained_on = models[Role.CANDIDATE].among(folder, splits=("train",))
    enough = manifest.counts[manifest.held_out] - len(trained_on) >= confidence.MIN_DECIDING
    table = Scorer(folder, manifest, predictors, left_out=trained_on if enough else ()).score(
        "evaluate known images"
    )
    metric = metric_of(config.gate)
    gain = table.gains(Role.CANDIDATE, Role.CHAMPION, KNOWN_LEVEL)[
        metric if metric in table.scores[Role.CANDIDATE] else LEAD
    ]
    shared = recorded.compare(recorded.read_lines(data), recorded.read_lines(folder))
    return Known.of(gain, len(table.images), len(shared.comparable), len(shared.changed))


def _keep(
    output: pathlib.Path,
    datasets: Mapping[str, StrPath],
    trained_on: Iterable[StrPath],
    decides: str,
    before: pathlib.Path | None,
) -> int:
    """Write what a later run compares its data and its candidate with. Returns the number of known images."""
    from trainer.evaluation import known

    first, *others = datasets.values()
    by_step: dict[str, StrPath] = {}
    for folder in (*trained_on, *others):
        by_step["test" if Manifest.load(folder).is_test_set else "base"] = folder
    recorded.write_recorded(output / RECORDED, {"finetune": first, **by_step})
    scored = PerImage.read_all(output / PER_IMAGE, "")[decides].images
    return known.write_known(output / KNOWN, datasets[decides], scored, before)


def _summary(
    config: EvaluateConfig, data: _Data, bias: pathlib.Path, table: PerImage, pictures: list[Picture]
) -> ScoredDataset:
    """The mean scores of each model with their intervals, and the candidate's gains over the current default."""
    from trainer.data import Original

    level, source = gate.shown_confidence(config), Manifest.load(bias)
    models = [model for model in (Role.CENTER_BIAS, Role.CHAMPION) if model in table.scores]
    against = {model: table.gains(Role.CANDIDATE, model, level) for model in models}
    return ScoredDataset(
        folder=str(data.folder.absolute()),
        has_fixations=data.manifest.has_fixations,
        manifest=data.manifest,
        center_bias=(source.fingerprint, source.counts[source.bias_split]),
        left_out=data.left_out,
        models={model: table.means(model) for model in table.scores},
        intervals={model: table.intervals(model, level) for model in table.scores},
        gains=against.get(Role.CHAMPION, {}),
        worse={
            model: [metric for metric, gain in each.items() if gain.outcome == Significance.WORSE]
            for model, each in against.items()
        },
        n_images=len(table.images),
        n_units=table.n_units,
        over_people=table.over_people,
        pictures=pictures,
        map_size=list(Original.MAP_SIZE),
    )


def _with_decisive(config: EvaluateConfig, table: PerImage, result: ScoredDataset, decision: int) -> ScoredDataset:
    """Replace the gain in the gate's metric by the one that decides, so that all that is shown is one interval.

    It holds for other images and the same people, at the level of this decision.
    """
    metric = gate.measured_metric(config.gate, table.scores[Role.CANDIDATE])
    models = table.values(Role.CANDIDATE, metric), table.values(Role.CHAMPION, metric)
    higher, level = METRICS[metric].higher_is_better, gate.gate_level(config, decision)
    gain = confidence.gain(*models, higher, level, of_groups=table.is_grouped)
    gains = confidence.gains_of(*models, higher)
    low, high = confidence.deciding_interval(gains, gain.level) or (None, None)
    decisive: Gain = dataclasses.replace(gain, low=low, high=high)
    spread = None if low is None else float(gains.std(ddof=1))
    others = [each for each in result.worse[Role.CHAMPION] if each != metric]
    is_worse = decisive.outcome == Significance.WORSE
    return dataclasses.replace(
        result,
        gains=result.gains | {metric: decisive},
        worse=result.worse | {Role.CHAMPION: [*([metric] if is_worse else []), *others]},
        decisive_gain=decisive,
        spread=spread,
        could_find=None if spread is None else confidence.detectable_gain(spread, len(gains), gain.level),
    )


def _conclude(
    config: EvaluateConfig,
    results: dict[str, ScoredDataset],
    decides: str,
    models: Mapping[str, Seen],
    n_seen: int,
    on_known: Known | None,
    questions: Sequence[str],
) -> Evaluation:
    """The results on each dataset, and the decision.

    `n_seen` is the number of deciding images that one of the models was trained on. If these are all, all are
    scored.
    """
    deciding = results[decides]
    n_images, n_units = deciding.n_images, deciding.n_units
    n_all = n_images + len(deciding.left_out)
    n_unseen = n_units if n_seen < n_all else 0
    undecided = reasons.too_few_to_decide(PreparedData.images_of(decides), n_all, n_seen, n_unseen, config)
    model_configs = {model: each.model_config for model, each in models.items()}
    reservation = gate.reservation(deciding.manifest, model_configs.get(Role.CHAMPION))
    if Role.CHAMPION in models and not reservation:
        reservation = models[Role.CANDIDATE].caution(NAMES[Role.CANDIDATE], deciding.manifest).removesuffix(".")
    default = (model_configs.get(Role.CHAMPION) or {}).get("name", "")
    decision = gate.decide(
        config, deciding.models, deciding.decisive_gain, reservation, undecided, default, on_known, questions
    )
    remarks = []
    for name, result in results.items():
        if name == decides or result.manifest.is_test_set:
            remarks.append(result.left_out_note(PreparedData.images_of(name)))
            remarks += [each.caution(NAMES[model], result.manifest) for model, each in models.items()]
    decided = (
        f"Decided on the {n_images:,} {PreparedData.images_of(decides)}{wording.in_groups(n_units, n_images)}."
        if decision.decided
        else ""
    )
    return Evaluation(
        datasets=results,
        decides=decides,
        gate_on=config.gate_on,
        gate=config.gate,
        gate_margin=config.gate_margin,
        gate_confidence=config.gate_confidence,
        shown_confidence=gate.shown_confidence(config),
        passed_baseline=decision.passed_baseline,
        beats_champion=decision.beats_champion,
        promote=decision.promote,
        end=decision.end,
        decided=decision.decided,
        known=on_known,
        reason=" ".join(filter(None, [decision.reason, decided if config.gate_on == "test" else "", *remarks])),
        model_configs=model_configs,
        date=now(),
        code_version=code_version(),
    )


# === Pictures ===


def _ranked(table: PerImage) -> dict[str, list[str]]:
    """The best, median and worst images by the candidate's KLD, each image in one group only."""
    klds = dict(zip(table.images, table.scores[Role.CANDIDATE][LEAD], strict=True))
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
    for metric, scores in table.scores[Role.CANDIDATE].items():
        if metric != LEAD:
            ends = table.images[int(np.nanargmin(scores))], table.images[int(np.nanargmax(scores))]
            worst, best = ends if METRICS[metric].higher_is_better else ends[::-1]
            groups |= {f"best {metric}": [best], f"worst {metric}": [worst]} if best != worst else {}
    return groups


def _extreme_gains(config: EvaluateConfig, table: PerImage) -> dict[str, list[str]]:
    """The images with the largest gains over the current default and those with the largest losses."""
    if Role.CHAMPION not in table.scores:
        return {}
    metric = gate.measured_metric(config.gate, table.scores[Role.CANDIDATE])
    ours, theirs = (table.scores[model][metric] for model in (Role.CANDIDATE, Role.CHAMPION))
    gains = np.nan_to_num(confidence.gains_of(ours, theirs, METRICS[metric].higher_is_better))
    ascending = np.argsort(gains, kind="stable")
    return {
        "gains": [table.images[i] for i in ascending[::-1][:PICTURES_PER_GROUP] if gains[i] > 0],
        "losses": [table.images[i] for i in ascending[:PICTURES_PER_GROUP] if gains[i] < 0],
    }


def _draw(
    scorer: Any, table: PerImage, groups: dict[str, list[str]], folder: pathlib.Path, dataset: str
) -> list[Picture]:
    """Write the pictures of the images in the groups, once per image, and describe them."""
    inside = pathlib.Path(PREDICTIONS, dataset)
    (folder / inside).mkdir(parents=True)
    names = dict.fromkeys(name for members in groups.values() for name in members)
    pictures = scorer.draw({name: folder / inside / f"{table.images.index(name):06d}" for name in names})
    return [
        Picture(
            group,
            name,
            {
                model: table.of_image(model, name)
                for model in (Role.CANDIDATE, Role.CHAMPION)
                if model in table.scores
            },
            {panel: (inside / file.name).as_posix() for panel, file in pictures[name].items()},
        )
        for group, members in groups.items()
        for name in members
    ]
