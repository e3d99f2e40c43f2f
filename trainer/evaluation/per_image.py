"""The scores of several models on each image of a dataset, and the CSV files that store them."""

import csv
import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from trainer.errors import ContentError, NotFoundError
from trainer.evaluation import confidence
from trainer.evaluation.confidence import Values
from trainer.evaluation.evaluation import Gain, Intervals, Scores
from trainer.metrics import METRICS
from trainer.network import LEFT_OUT


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """The scores of images without one of their observers, one for each pair of an image and an observer."""

    observers: npt.NDArray[np.int64]
    """(k,): the observer who is left out. A number is the same person on all images."""
    scores: dict[str, dict[str, Values]]
    """Model -> metric -> (k,). NaN for the only observer of an image. A metric may be absent."""
    images: npt.NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    """(k,): the places of the images in a table, ascending. Empty for a single image."""

    @classmethod
    def joined(cls, parts: Sequence["LeftOut | None"]) -> "LeftOut | None":
        """Join the scores of each image of a table. None if one of the images has none."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or not known:
            return None
        scores = {
            model: {
                metric: np.concatenate([part.scores[model][metric] for part in known])
                for metric in columns
                if all(metric in part.scores[model] for part in known)
            }
            for model, columns in known[0].scores.items()
        }
        images = np.repeat(np.arange(len(known)), [len(part.observers) for part in known])
        return cls(np.concatenate([part.observers for part in known]), scores, images)

    def of_image(self, place: int) -> "LeftOut":
        """The scores of one image."""
        rows = slice(*np.searchsorted(self.images, [place, place + 1]))
        scores = {
            model: {metric: column[rows] for metric, column in columns.items()}
            for model, columns in self.scores.items()
        }
        return LeftOut(self.observers[rows], scores)


@dataclasses.dataclass(frozen=True)
class PerImage:
    """Scores of models on the same images."""

    images: list[str]
    scores: dict[str, dict[str, Values]]
    """Model -> metric -> (n,), NaN for an image without a score. A metric without any score is absent."""
    groups: list[str] = dataclasses.field(default_factory=list)
    """Name of the group of each image, empty for an image of its own. An empty list if there are no groups."""
    left_out: LeftOut | None = None
    """The scores without one observer. None if it is not known who saw which images."""

    @classmethod
    def of(
        cls,
        rows: Mapping[str, Mapping[str, Scores]],
        groups: Sequence[str] = (),
        left_out: Sequence[LeftOut | None] = (),
    ) -> "PerImage":
        """Make columns of rows: image -> model -> scores.

        `groups` and `left_out` have one entry for each image, in the same order.
        """
        models = next(iter(rows.values()), {})
        scores: dict[str, dict[str, Values]] = {}
        for model in models:
            columns = {
                metric: np.array([row[model].get(metric, np.nan) for row in rows.values()]) for metric in METRICS
            }
            scores[model] = {metric: column for metric, column in columns.items() if not np.isnan(column).all()}
        return cls(list(rows), scores, list(groups) if any(groups) else [], LeftOut.joined(left_out))

    @classmethod
    def read_all(cls, path: pathlib.Path, remedy: str) -> "dict[str, PerImage]":
        """Read what `append_scores` wrote: dataset -> scores. A metric without a column is absent.

        Raises:
            UserError: the file does not exist or is not such a file. The message ends with `remedy`.
        """
        rows: dict[str, dict[str, dict[str, Scores]]] = {}
        groups: dict[str, dict[str, str]] = {}
        left_out: dict[tuple[str, str], dict[str, dict[int, Scores]]] = {}
        reading, beside = path, path.with_name(LEFT_OUT)
        try:
            for row, scores in _read(path):
                rows.setdefault(row["dataset"], {}).setdefault(row["image"], {})[row["model"]] = scores
                groups.setdefault(row["dataset"], {})[row["image"]] = row.get("group") or ""
            reading = beside
            for row, scores in _read(beside) if beside.exists() else ():
                of_models = left_out.setdefault((row["dataset"], row["image"]), {})
                of_models.setdefault(row["model"], {})[int(row["observer"])] = scores
            return {
                dataset: cls.of(
                    images,
                    list(groups[dataset].values()),
                    [_left_out(left_out.get((dataset, image))) for image in images],
                )
                for dataset, images in rows.items()
            }
        except FileNotFoundError:
            raise NotFoundError(f"{path} does not exist: {remedy}") from None
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ContentError(f"{reading} is not a table of scores ({error!r}): {remedy}") from None

    @functools.cached_property
    def units(self) -> npt.NDArray[np.int64]:
        """The number of each image's unit, (n,), from 0. A unit is a group, or an image without a group."""
        units = [(group, "" if group else image) for image, group in self._pairs]
        places = {unit: place for place, unit in enumerate(dict.fromkeys(units))}
        return np.array([places[unit] for unit in units], np.int64)

    @property
    def n_units(self) -> int:
        """Number of units. A unit is a group of images, or an image without a group.

        Example: four pages of one site and two single pages are three units.
        """
        return int(self.units.max(initial=-1)) + 1

    @property
    def is_grouped(self) -> bool:
        """Whether images belong together, so that there are fewer units than images."""
        return self.n_units < len(self.images)

    def values(self, model: str, metric: str) -> Values:
        """The scores of a model in one metric, of each unit: the mean over its images that have a score.

        Units without a score are left out. All means and intervals are over these values, since images of a group
        resemble each other and are not a sample of all possible images.
        """
        column = self.scores[model][metric]
        known = ~np.isnan(column)
        if not self.is_grouped:
            return column[known]
        counts = np.bincount(self.units[known], minlength=self.n_units)
        sums = np.bincount(self.units[known], column[known], minlength=self.n_units)
        means: Values = sums[counts > 0] / counts[counts > 0]
        return means

    def means(self, model: str) -> Scores:
        """Metric -> mean of a model's scores over the units that have one."""
        return {metric: float(self.values(model, metric).mean()) for metric in self.scores[model]}

    def intervals(self, model: str, level: float) -> Intervals:
        """Metric -> confidence interval of `means`. None for too few units."""
        return {
            metric: confidence.mean_interval(self.values(model, metric), level, self.people(metric, model))
            for metric in self.scores[model]
        }

    def gains(self, ours: str, theirs: str, level: float) -> dict[str, Gain]:
        """Metric -> gain of the model `ours` over the model `theirs`."""
        return {
            metric: confidence.gain(
                self.values(ours, metric),
                self.values(theirs, metric),
                METRICS[metric].higher_is_better,
                level,
                of_groups=self.is_grouped,
                people=self.people(metric, ours, theirs),
            )
            for metric in self.scores[ours]
        }

    def people(self, metric: str, ours: str, theirs: str = "") -> confidence.People | None:
        """What the choice of the people adds to the variance of a model's mean, or of its gain over another model.

        None if it is not known who saw which images, or what the metric would be without one of them.
        """
        models = [ours, theirs] if theirs else [ours]
        if self.left_out is None or any(metric not in self.left_out.scores.get(model, {}) for model in models):
            return None
        images, observers = self.left_out.images, self.left_out.observers
        scores, without = self.scores[ours][metric], self.left_out.scores[ours][metric]
        if theirs:
            scores = scores - self.scores[theirs][metric]
            without = without - self.left_out.scores[theirs][metric]
        known = ~np.isnan(scores)
        in_unit = np.bincount(self.units[known], minlength=self.n_units)
        weights = known / np.maximum(1, in_unit)[self.units] / np.count_nonzero(in_unit)
        from_mean = np.nan_to_num(scores - weights @ np.nan_to_num(scores))
        # An image's score is a mean over its n people: without one of them, it moves by 1 / (n - 1) of the
        # distance of that one from it. Scores without one are compared with their own mean, since a density of
        # fewer people is harder to predict.
        n_people = np.bincount(images, minlength=len(scores))
        means = np.bincount(images, np.nan_to_num(without), len(scores)) / np.maximum(1, n_people)
        distances = np.nan_to_num((n_people[images] - 1) * (means[images] - without))
        shares = weights[images] / n_people[images]
        return confidence.people_of(
            shares * (from_mean[images] + distances), shares, observers, self.units[images]
        )

    @property
    def over_people(self) -> list[str]:
        """The metrics with intervals that hold for other people, too."""
        model, columns = next(iter(self.scores.items()))
        return [metric for metric in columns if self.people(metric, model) is not None]

    def of_image(self, model: str, image: str) -> Scores:
        """The scores of a model on one image. `ValueError` for an image that is not in the table."""
        row = self.images.index(image)
        scores = {metric: float(column[row]) for metric, column in self.scores[model].items()}
        return {metric: score for metric, score in scores.items() if not np.isnan(score)}

    def only(self, images: Collection[str]) -> "PerImage":
        """The scores of some images, in the order of `images`."""
        place = {image: index for index, image in enumerate(self.images)}
        kept = [place[image] for image in images]
        scores = {
            model: {metric: column[kept] for metric, column in columns.items() if not np.isnan(column[kept]).all()}
            for model, columns in self.scores.items()
        }
        groups = [self.groups[index] for index in kept] if self.groups else []
        left_out = LeftOut.joined([self.left_out.of_image(index) for index in kept]) if self.left_out else None
        return PerImage([self.images[index] for index in kept], scores, groups if any(groups) else [], left_out)

    @property
    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Each image and its group."""
        return itertools.zip_longest(self.images, self.groups, fillvalue="")


def append_scores(path: pathlib.Path, dataset: str, table: PerImage) -> None:
    """Append one line per image and model. The cell of a missing score is empty.

    The scores without one observer are appended to LEFT_OUT beside `path`, one line per image, observer and model.
    """
    keys = ([dataset, image, group] for image, group in table._pairs)
    _append(path, ["dataset", "image", "group"], keys, table.scores)
    if table.left_out:
        pairs = zip(table.left_out.images.tolist(), table.left_out.observers.tolist(), strict=True)
        keys = ([dataset, table.images[place], str(observer)] for place, observer in pairs)
        _append(path.with_name(LEFT_OUT), ["dataset", "image", "observer"], keys, table.left_out.scores)


def _append(
    path: pathlib.Path, names: list[str], keys: Iterable[list[str]], scores: Mapping[str, Mapping[str, Values]]
) -> None:
    """Append a line for each of `keys` and each model."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow([*names, "model", *METRICS])
        for index, key in enumerate(keys):
            for model, columns in scores.items():
                row = [columns[metric][index] if metric in columns else np.nan for metric in METRICS]
                writer.writerow([*key, model, *("" if np.isnan(score) else repr(float(score)) for score in row)])


def _read(path: pathlib.Path) -> Iterator[tuple[dict[str, str], Scores]]:
    """Each line of a file of scores, and its scores."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield row, {metric: float(row[metric]) for metric in METRICS if row.get(metric)}


def _left_out(of_models: Mapping[str, Mapping[int, Scores]] | None) -> LeftOut | None:
    """Make columns of the scores of one image: model -> observer -> scores without that one."""
    if of_models is None:
        return None
    observers = list(next(iter(of_models.values())))
    columns = {
        model: {
            metric: np.array([rows[observer].get(metric, np.nan) for observer in observers])
            for metric in METRICS
            if len(observers) == 1 or metric in rows[observers[0]]
        }
        for model, rows in of_models.items()
    }
    return LeftOut(np.array(observers), columns)
