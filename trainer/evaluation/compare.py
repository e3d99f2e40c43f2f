"""Compare models on the same images: find them, score them, and test their paired differences.

A model is named by a pipeline run, an evaluation, a registered version or a model folder. Its scores come from
its evaluation, or all models are evaluated again.
"""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from trainer import wording
from trainer.data import Manifest, PreparedData
from trainer.errors import (
    AmbiguousError,
    ContentError,
    MismatchError,
    NotFoundError,
    SettingError,
    UserError,
    check,
    check_choice,
)
from trainer.evaluation import confidence, gate
from trainer.evaluation.evaluation import (
    CONFIDENCE,
    Evaluation,
    Gain,
    Intervals,
    Role,
    ScoredDataset,
    Scores,
    Significance,
)
from trainer.evaluation.per_image import LeftOut, PerImage
from trainer.evaluation.run_folders import RunFolder
from trainer.io import local_path
from trainer.machine import load_tensorflow
from trainer.metrics import BASELINE, LEAD, METRICS, OTHER_COUNTS, metrics_that_need
from trainer.models import Provenance, find_model
from trainer.network import EVALUATION, LEFT_OUT, PER_IMAGE, ModelFolder
from trainer.places import Stored, stored_at

KINDS = (
    "a run (runs/TIME), an evaluation (the output folder of `python -m trainer evaluate`), a registered version "
    "(msinet@3), a model folder or pretrained"
)
RUN_EVALUATION = "evaluate-model/evaluation"
"""Relative to the folder of a run's attempt."""
RESERVED = {Role.CENTER_BIAS, Role.UNIFORM, "stimulus", "density"}
"""Reserved names: in tables and pictures they label something other than a model."""
EVALUATE_AGAIN = "evaluate the model again"
EVALUATE_TOGETHER = (
    "evaluate all models on the same images with --dataset-dir DIR, the folder of a prepared dataset"
)
N_DIFFERING = 6
"""Number of images to show, those with the largest differences between the models."""
PHRASES = {
    Significance.BETTER: "significantly better",
    Significance.WORSE: "significantly worse",
    Significance.NOT_SIGNIFICANT: "not significantly different",
    Significance.SAME: "the same",
}

Files = dict[str, dict[str, pathlib.Path]]
"""Image -> `stimulus`, `density` or the label of a model -> PNG file."""

# === The models ===


@dataclasses.dataclass(frozen=True)
class ModelScores:
    """The evaluation of a model on one dataset."""

    table: PerImage
    manifest: Manifest
    """That of the data, without its files."""
    folder: pathlib.Path | None
    """The prepared data. None if it no longer exists or has changed."""
    center_bias: tuple[str, int]
    """Fingerprint of the data that the centre bias is made of, and the number of its images there."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One of the models to compare."""

    label: str
    """The shortest end of `name` that no other contestant has."""
    name: str
    """The name that the user gave."""
    model: pathlib.Path | None
    """The model folder. None if it no longer exists."""
    measured: dict[str, ModelScores]
    """Dataset -> evaluation. Empty for a model that was not evaluated."""
    facts: dict[str, Any]
    """Where the model comes from, for people."""

    @property
    def notice(self) -> str:
        """A warning about a model of the sample set. Empty for others, and if the model no longer exists."""
        return Provenance.of_folder(self.model).notice(self.label) if self.model else ""

    @property
    def config(self) -> dict[str, Any] | None:
        """The content of its MODEL_CONFIG. None without one, and if the model no longer exists."""
        config = ModelFolder(self.model).known_config(EVALUATE_AGAIN) if self.model else None
        return None if config is None else dict(config)

    @functools.cached_property
    def predictor(self) -> Any:
        """The `Predictor` of a model folder that exists, loaded on first use."""
        assert self.model is not None
        load_tensorflow()
        from trainer.prediction import Predictor

        return Predictor(self.model)


def find_contestants(names: Sequence[str]) -> list[Contestant]:
    """Find the models with these names, in their order.

    Raises:
        UserError: a name stands for no model, two names are equal, or there are fewer than two.
    """
    if len(names) < 2:
        raise SettingError("compare needs two or more models: to evaluate one, use `python -m trainer evaluate`")
    names = [name.rstrip("/") for name in names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SettingError(f"{', '.join(repeated)} is named twice: name each model once")
    return [_find(name, label) for name, label in zip(names, _labels(names), strict=True)]


def _labels(names: Sequence[str]) -> list[str]:
    """The shortest ends of paths that differ from each other and are not RESERVED."""
    parts = [name.split("/") for name in names]
    for more in range(max(map(len, parts))):
        # The number of a version is meaningless without the model's name.
        labels = ["/".join(path[-1 - path[-1].isdecimal() - more :]) for path in parts]
        if len(set(labels)) == len(labels) and not RESERVED.intersection(labels):
            return labels
    reserved = min(RESERVED.intersection(names))
    raise AmbiguousError(
        f"the name {reserved} has another meaning in reports: write ./{reserved}, or the whole path"
    )


def _find(name: str, label: str) -> Contestant:
    folder = local_path(name)
    place = stored_at(name)
    if not place.is_local and (evaluation := _download(place)) is not None:
        return _evaluated(name, label, evaluation)
    if (run := RunFolder(folder)).is_run:
        attempt = run.latest_attempt
        if attempt is None or not (attempt / RUN_EVALUATION).is_dir():
            raise NotFoundError(
                f"the run {folder} has no evaluation yet: finish it with `make run-pipeline RESUME={folder}`"
            )
        return _evaluated(name, label, attempt / RUN_EVALUATION)
    if (folder / EVALUATION).is_file() and not ModelFolder(folder).has_weights:
        return _evaluated(name, label, folder)
    try:
        model = find_model(name)
    except UserError as error:
        raise UserError(f"{name} cannot be compared ({error}): name {KINDS}") from None
    if (model / EVALUATION).is_file():
        return _evaluated(name, label, model, model)
    return Contestant(label, name, model, {}, {"model": str(model)})


def _evaluated(name: str, label: str, folder: pathlib.Path, model: pathlib.Path | None = None) -> Contestant:
    """The candidate of an evaluation folder. Its model is in `model`, or else where the evaluation says."""
    evaluation = Evaluation.read(folder, EVALUATE_AGAIN)
    tables, scored = PerImage.read_all(folder / PER_IMAGE, EVALUATE_AGAIN), evaluation.datasets
    has = {
        "folder": all(result.folder for result in scored.values()),
        "image_sizes": all(Role.CANDIDATE in result.image_sizes for result in scored.values()),
        "model_folders": Role.CANDIDATE in evaluation.model_folders,
        **{dataset: dataset in tables for dataset in scored},
    }
    for key, is_there in has.items():
        check(is_there, f"{folder} is from an earlier version (it has no {key!r}): {EVALUATE_AGAIN}", ContentError)
    measured = {
        dataset: ModelScores(tables[dataset], result.manifest, _same_data(result), result.origin_of_bias)
        for dataset, result in scored.items()
    }
    path = model or pathlib.Path(evaluation.model_folders[Role.CANDIDATE])
    sizes = [_sizes(each) for each in scored.values()]
    facts = {
        "evaluation": str(folder),
        "model": str(path),
        "code": evaluation.code_version,
        "input size": ", ".join(dict.fromkeys(itertools.chain.from_iterable(sizes))),
        "maps by": ", ".join(sorted({each.runtime or "TensorFlow" for each in scored.values()})),
    }
    existing = path if ModelFolder(path).has_weights else None
    return Contestant(label, name, existing, measured, facts)


def _sizes(result: ScoredDataset) -> list[str]:
    """The input sizes of the candidate on a dataset, such as `240 x 320`. The size for pages comes last."""
    pages = result.pages.get(Role.CANDIDATE)
    seen = [result.image_sizes[Role.CANDIDATE], *([pages.image_size] if pages else [])]
    return [wording.size_text(size) for size in seen]


def _same_data(result: ScoredDataset) -> pathlib.Path | None:
    """The folder of the prepared data. None if it no longer exists or has changed."""
    folder = pathlib.Path(result.folder)
    try:
        manifest = Manifest.load(folder)
    except UserError:
        return None
    return folder if manifest.fingerprint == result.manifest.fingerprint else None


def _download(place: Stored) -> pathlib.Path | None:
    """Download an evaluation from Cloud Storage to a folder that is removed at exit. None for anything else."""
    try:
        objects = {each.name: each for each in place.objects()}
    except UserError:
        if "@" not in str(place).rpartition("/")[2]:
            raise
        return None  # it may be a registered version, which `find_model` looks up
    if EVALUATION not in objects or PER_IMAGE not in objects or ModelFolder.among(objects):
        return None
    names = (EVALUATION, PER_IMAGE, LEFT_OUT)
    return place.local_for_now([objects[name] for name in names if name in objects])


# === Their scores on the same images ===


@dataclasses.dataclass(frozen=True)
class SharedScores:
    """The scores of all models on one dataset."""

    table: PerImage
    """Label -> scores. Also Role.CENTER_BIAS if it is the same for all models, and known in each metric."""
    notes: list[str]
    """Sentences on how the scores were chosen, and what was left out."""
    folder: pathlib.Path | None
    """Prepared data with these images, if it still exists."""


def find_shared(contestants: Sequence[Contestant]) -> dict[str, SharedScores]:
    """Dataset -> the stored scores that all models have.

    Raises:
        UserError: a model was not evaluated, or the models have no image or no metric in common.
    """
    for contestant in contestants:
        if not contestant.measured:
            raise NotFoundError(f"{contestant.name} is a model without scores: {EVALUATE_TOGETHER}")
    by_dataset, left_out = {}, []
    for dataset in dict.fromkeys(dataset for contestant in contestants for dataset in contestant.measured):
        missing = [contestant.label for contestant in contestants if dataset not in contestant.measured]
        if missing:
            left_out.append(f"{dataset} (not evaluated on it: {', '.join(missing)})")
            continue
        shared = _shared({contestant.label: contestant.measured[dataset] for contestant in contestants})
        if any(shared.table.scores.values()):
            by_dataset[dataset] = shared
        else:
            numbers = [f"{each.label} {len(each.measured[dataset].table.images):,}" for each in contestants]
            counts = ", ".join(numbers)
            left_out.append(f"{dataset} (no image and metric in common. Images: {counts})")
    if not by_dataset:
        raise MismatchError(
            f"the models have no scores in common: {' and '.join(left_out)}. To compare them, {EVALUATE_TOGETHER}"
        )
    for shared in by_dataset.values():
        shared.notes.extend(f"Left out: {dataset}." for dataset in left_out)
    return _tests_first(by_dataset)


def _tests_first(shared: Mapping[str, SharedScores]) -> dict[str, SharedScores]:
    """The datasets with test sets first, since no epoch was chosen on their images."""
    return dict(sorted(shared.items(), key=lambda item: not PreparedData.is_test_set(item[0])))


def _shared(measured: Mapping[str, ModelScores]) -> SharedScores:
    """The scores on the images that all models have, in the metrics that are comparable."""
    first, *others = measured.values()
    common = set(first.table.images).intersection(*(other.table.images for other in others))
    images = [image for image in first.table.images if image in common]
    tables = {label: each.table.only(images).scores.get(Role.CANDIDATE, {}) for label, each in measured.items()}
    # The centre bias is made of the training images, and a setting can limit their number.
    data = list(dict.fromkeys(_origin(each) for each in measured.values()))
    left_out = metrics_that_need(BASELINE) if len(data) > 1 else ()
    kept = [
        metric
        for metric in METRICS
        if metric not in left_out and all(metric in table for table in tables.values())
    ]
    scores = {label: {metric: table[metric] for metric in kept} for label, table in tables.items()}
    notes = _notes(measured, len(images), data)
    folder = None
    if len(data) == 1 and kept:
        bias = first.table.only(images).scores.get(Role.CENTER_BIAS, {})
        if missing := [METRICS[metric].label for metric in kept if metric not in bias]:
            notes.append(f"Left out: the centre bias, of which no {', '.join(missing)} is stored.")
        else:
            scores[Role.CENTER_BIAS] = {metric: bias[metric] for metric in kept}
        folder = next((each.folder for each in measured.values() if each.folder is not None), None)
    kept_tables = [each.table.only(images) for each in measured.values()]
    fewest = min(kept_tables, key=lambda table: table.n_units)
    if any(table.groups != fewest.groups for table in kept_tables):
        count = wording.count_text(fewest.n_units, of_groups=True)
        notes.append(f"The evaluations have different groups of images. The one with the fewest counts: {count}.")
    without = _left_out(dict(zip(measured, kept_tables, strict=True)))
    return SharedScores(PerImage(images, scores, fewest.groups, without), notes, folder)


def _left_out(tables: Mapping[str, PerImage]) -> LeftOut | None:
    """The scores of each candidate without one observer. None unless all have the same observers."""
    parts = {label: table.left_out for label, table in tables.items() if table.left_out is not None}
    if len(parts) < len(tables):
        return None
    first = next(iter(parts.values()))
    for each in parts.values():
        if not (np.array_equal(each.images, first.images) and np.array_equal(each.observers, first.observers)):
            return None
    scores = {label: each.scores[Role.CANDIDATE] for label, each in parts.items()}
    common = set(METRICS).intersection(*scores.values())
    columns = {
        label: {metric: of[metric] for metric in common}
        for label, of in (scores | {Role.CENTER_BIAS: first.scores[Role.CENTER_BIAS]}).items()
    }
    return LeftOut(first.observers, columns, first.images)


def _origin(measured: ModelScores) -> tuple[str, str, int]:
    """Fingerprints of the scored images and of the training images of the centre bias, and how many these are."""
    return measured.manifest.fingerprint, *measured.center_bias


def _notes(measured: Mapping[str, ModelScores], n_images: int, data: list[Any]) -> list[str]:
    """How the evaluations differ, in numbers."""
    notices = (Provenance(vars(each.manifest)).scores_notice() for each in measured.values())
    notes = [*dict.fromkeys(notice for notice in notices if notice)]
    counts = {label: len(each.table.images) for label, each in measured.items()}
    if max(counts.values()) > n_images:
        images = ", ".join(f"{label} on {count:,}" for label, count in counts.items())
        notes.append(
            f"Compared on the {n_images:,} images that all models were evaluated on ({images}). "
            f"The fixations of the other images count in {_metric_labels(OTHER_COUNTS)}, too."
        )
    if len(data) > 1:
        scored, biases = {each[0] for each in data}, {each[1] for each in data}
        is_one_test_set = len(scored) == 1 and not biases <= scored
        if not is_one_test_set:
            versions = ", ".join(f"{fingerprint[:8]} with {n_train:,}" for fingerprint, _, n_train in data)
            notes.append(
                f"The models were evaluated on different data (fingerprint and training images: {versions}). "
                "Images with the same name may have different maps."
            )
        notes.append(
            f"Left out: {_metric_labels(BASELINE)}, because the centre bias is that of the training images, and "
            "the models were trained on different ones."
        )
    return notes


def _metric_labels(need: str) -> str:
    return ", ".join(METRICS[metric].label for metric in metrics_that_need(need))


def evaluate_again(
    contestants: Sequence[Contestant], datasets: Mapping[str, pathlib.Path]
) -> dict[str, SharedScores]:
    """Evaluate all models on the validation or test images of prepared datasets.

    Raises:
        UserError: a split has no images, or a model's folder no longer exists.
    """
    manifests = Manifest.load_all(datasets)
    biases = {name: gate.center_bias_folder(datasets, manifests, name) for name in datasets}
    if missing := _missing(contestants):
        raise NotFoundError(f"these models no longer exist: {', '.join(missing)}. Name their current folders")
    shared = {}
    for name, folder in datasets.items():
        table = _scorer(contestants, folder, biases[name]).score(f"evaluate {name}")
        del table.scores[Role.UNIFORM]
        notes = [notice] if (notice := Provenance(vars(manifests[name])).scores_notice()) else []
        shared[name] = SharedScores(table, notes, folder)
    return _tests_first(shared)


def draw_images(
    contestants: Sequence[Contestant], shared: SharedScores, images: Collection[str], folder: pathlib.Path
) -> Files:
    """Write the pictures of some images. Without the data or a model there are none, and a note says why."""
    missing_models = _missing(contestants)
    if shared.folder is None or missing_models:
        missing = ", ".join(missing_models) or "the data of the evaluation"
        shared.notes.append(
            f"No pictures, because this no longer exists: {missing}. Use --dataset-dir to get some."
        )
        return {}
    folder.mkdir(parents=True)
    stems = {image: folder / f"{index:06d}" for index, image in enumerate(images)}
    pictures: Files = _scorer(contestants, shared.folder).draw(stems)
    return pictures


def _missing(contestants: Sequence[Contestant]) -> list[str]:
    """Labels of the models without a folder now, with the path where it was."""
    return [f"{each.label} ({each.facts['model']})" for each in contestants if each.model is None]


def _scorer(contestants: Sequence[Contestant], folder: pathlib.Path, bias: pathlib.Path | None = None) -> Any:
    """A `Scorer` of all models on prepared data, with the centre bias of the data in `bias` if not its own."""
    predictors = {contestant.label: contestant.predictor for contestant in contestants}
    from trainer.evaluation.scoring import Scorer

    return Scorer(folder, Manifest.load(folder), predictors, bias)


# === The comparison ===


@dataclasses.dataclass(frozen=True)
class Difference(Gain):
    """The gain of a model over the first one."""

    p_adjusted: float
    """The p-value, corrected for the number of comparisons (Holm)."""
    significance: Significance
    """The `outcome` by `p_adjusted`."""

    @property
    def outcome(self) -> Significance:
        """The significance by the corrected p-value."""
        return self.significance

    @property
    def p_shown(self) -> float:
        """The corrected p-value."""
        return self.p_adjusted


@dataclasses.dataclass(frozen=True)
class DatasetComparison:
    """The comparison on one dataset. All models are compared with the first one."""

    n_images: int
    n_units: int
    """Number of values of every interval. A group of images is one, and so is an image of its own."""
    metric: str
    """The metric of `verdicts` and `differing`."""
    means: dict[str, Scores]
    """Label -> metric -> mean over the images. Role.CENTER_BIAS comes after the models."""
    intervals: dict[str, Intervals]
    """Label -> metric -> confidence interval of the mean. None for too few images."""
    differences: dict[str, dict[str, Difference]]
    """Label of each model but the first -> metric -> its gain over the first."""
    differing: dict[str, dict[str, float]]
    """Image -> label -> score. The images with the largest differences, in descending order."""
    verdicts: dict[str, str]
    """Label of each model but the first -> a sentence for people."""
    notes: list[str]
    """Sentences on how the scores were chosen, and what was left out."""
    over_people: list[str]
    """The metrics with intervals for other images and other people. The rest are for the same people."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The comparison of models on all datasets that they share."""

    contestants: list[Contestant]
    shared: dict[str, SharedScores]
    results: dict[str, DatasetComparison]
    """Dataset -> comparison. Test sets come first."""
    level: float
    """Level of the confidence intervals."""

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        datasets: Mapping[str, pathlib.Path],
        metric: str = "",
        level: float = CONFIDENCE,
    ) -> "Comparison":
        """Compare the models with these names.

        Args:
            names: Two or more. All are compared with the first.
            datasets: Name -> prepared data, on which all models are evaluated again. Without any, the stored
                scores count.
            metric: As in `compare_models`.
            level: Likewise.

        Raises:
            UserError: a name stands for no model, or the models have no scores in common.
        """
        contestants = find_contestants(names)
        shared = evaluate_again(contestants, datasets) if datasets else find_shared(contestants)
        results = {name: compare_models(name, shared[name], metric, level) for name in shared}
        return cls(contestants, shared, results, level)

    def draw_images(self, dataset: str, folder: pathlib.Path) -> Files:
        """Draw the images of a dataset on which the models differ most, into a new folder."""
        return draw_images(self.contestants, self.shared[dataset], self.results[dataset].differing, folder)


def compare_models(
    dataset: str, shared: SharedScores, metric: str = "", level: float = CONFIDENCE
) -> DatasetComparison:
    """Compare the models in `shared`.

    Args:
        dataset: Name of the dataset, for error messages.
        shared: Scores of two or more models on the same images.
        metric: The metric of the verdicts. Empty for LEAD.
        level: Level of the confidence intervals.

    Raises:
        UserError: not all models were measured in this metric.
    """
    table = shared.table
    labels = [label for label in table.scores if label != Role.CENTER_BIAS]
    measured = list(table.scores[labels[0]])
    if metric:
        check_choice(f"metric of {dataset}", metric, measured)
    metric = metric or (LEAD if LEAD in measured else measured[0])
    differences = _differences(table, labels, level)
    return DatasetComparison(
        n_images=len(table.images),
        n_units=table.n_units,
        metric=metric,
        means={label: table.means(label) for label in table.scores},
        intervals={label: table.intervals(label, level) for label in table.scores},
        differences=differences,
        differing=_differing(table, labels, metric),
        verdicts={label: _verdict(label, labels[0], of, metric, level) for label, of in differences.items()},
        notes=shared.notes,
        over_people=table.over_people,
    )


def _differences(table: PerImage, labels: list[str], level: float) -> dict[str, dict[str, Difference]]:
    """Label of each model but the first -> metric -> its gain over the first."""
    first, *others = labels
    gains = {label: table.gains(label, first, level) for label in others}
    differences: dict[str, dict[str, Difference]] = {label: {} for label in others}
    for metric in table.scores[first]:
        adjusted = confidence.holm([gains[label][metric].p_value for label in others])
        for label, p_adjusted in zip(others, adjusted, strict=True):
            gain = gains[label][metric]
            significance = gain.outcome
            if significance != Significance.SAME and p_adjusted >= 1 - level:
                significance = Significance.NOT_SIGNIFICANT
            differences[label][metric] = Difference(
                **dataclasses.asdict(gain), p_adjusted=p_adjusted, significance=significance
            )
    return differences


def _differing(table: PerImage, labels: list[str], metric: str) -> dict[str, dict[str, float]]:
    """The images with the largest range of scores."""
    columns = np.stack([table.scores[label][metric] for label in labels])
    ranges = np.nan_to_num(np.ptp(columns, axis=0))
    descending = np.argsort(-ranges, kind="stable")[:N_DIFFERING]
    return {
        table.images[index]: {label: float(table.scores[label][metric][index]) for label in labels}
        for index in descending
        if ranges[index] > 0
    }


def _verdict(label: str, first: str, differences: dict[str, Difference], metric: str, level: float) -> str:
    """Whether a model is better than the first one: in one metric with the numbers, in the others by name."""
    gain, name = differences[metric], METRICS[metric].label
    if gain.significance == Significance.SAME:
        return f"{label} has the same {name} as {first} on every image."
    if gain.low is None:
        too_few = wording.too_few(gain.n_images, level, gain.of_groups, confidence.MIN_IMAGES)
        return f"{too_few}, so the {name} of {label} and {first} cannot be compared."
    mean, low, high = map(wording.signed, (gain.mean, gain.low, gain.high))
    p_value = wording.p_value_text(gain.p_adjusted)
    numbers = (
        f"gain {mean}, {wording.percent(level)} confidence interval {low} to {high}, "
        f"p {p_value if '<' in p_value else f'= {p_value}'}, better on {gain.better_on:,} of "
        f"{wording.count_text(gain.n_images, gain.of_groups)}"
    )
    preposition = "from" if gain.significance == Significance.NOT_SIGNIFICANT else "than"
    sentence = f"{label} is {PHRASES[gain.significance]} {preposition} {first} in {name} ({numbers})."
    others = {
        phrase: [
            METRICS[other].label
            for other, each in differences.items()
            if other != metric and each.significance == of
        ]
        for of, phrase in PHRASES.items()
    }
    more = [f"{phrase} in {', '.join(labels)}" for phrase, labels in others.items() if labels]
    alone = "The p-values are not corrected for the number of metrics."
    return f"{sentence} It is {', and '.join(more)}. {alone}" if more else sentence
