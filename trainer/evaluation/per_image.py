"""The scores of several models on each image of a dataset, and the CSV file that stores them."""

import csv
import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from trainer.errors import UserError
from trainer.evaluation import confidence
from trainer.evaluation.confidence import Gain, Interval, Values
from trainer.evaluation.metric_table import METRICS

CANDIDATE, CHAMPION, CENTER_BIAS, UNIFORM = "candidate", "champion", "centre_bias", "uniform"
"""The models of an evaluation."""
OBSERVERS = "observers"
"""The name of the scores of people, next to those of models."""
LEAVE_ONE_OUT, SPLIT_HALF = "leave_one_out", "split_half"
"""Who predicts whom in the scores of people: all others one observer, or one half of them the other half."""

Scores = dict[str, float]
"""Metric -> value; a metric that cannot be computed is absent."""


@dataclasses.dataclass(frozen=True)
class PerImage:
    """Scores of models on the same images."""

    images: list[str]
    scores: dict[str, dict[str, Values]]
    """Model -> metric -> (n,), NaN for an image without a score; a metric without any score is absent."""
    groups: list[str] = dataclasses.field(default_factory=list)
    """Name of the group of each image, empty for an image of its own; an empty list if there are no groups."""

    @classmethod
    def of(cls, rows: Mapping[str, Mapping[str, Scores]], groups: Sequence[str] = ()) -> "PerImage":
        """Make columns of rows: image -> model -> scores. `groups` are those of the images, in their order."""
        models = next(iter(rows.values()), {})
        scores: dict[str, dict[str, Values]] = {}
        for model in models:
            columns = {
                metric: np.array([row[model].get(metric, np.nan) for row in rows.values()]) for metric in METRICS
            }
            scores[model] = {metric: column for metric, column in columns.items() if not np.isnan(column).all()}
        return cls(list(rows), scores, list(groups) if any(groups) else [])

    @functools.cached_property
    def units(self) -> npt.NDArray[np.int64]:
        """The number of each image's unit, (n,), from 0. A unit is a group, or an image without a group."""
        units = [(group, "" if group else image) for image, group in self._pairs]
        places = {unit: place for place, unit in enumerate(dict.fromkeys(units))}
        return np.array([places[unit] for unit in units], np.int64)

    @property
    def n_units(self) -> int:
        """Number of units, each of which is a group of images or an image without a group."""
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

    def intervals(self, model: str, level: float) -> dict[str, Interval | None]:
        """Metric -> confidence interval of `means`; None for too few units."""
        return {
            metric: confidence.mean_interval(self.values(model, metric), level) for metric in self.scores[model]
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
            )
            for metric in self.scores[ours]
        }

    def of_image(self, model: str, image: str) -> Scores:
        """The scores of a model on one image; `ValueError` for an image that is not in the table."""
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
        return PerImage([self.images[index] for index in kept], scores, groups if any(groups) else [])

    @property
    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Each image and its group."""
        return itertools.zip_longest(self.images, self.groups, fillvalue="")


def append_scores(path: pathlib.Path, dataset: str, table: PerImage) -> None:
    """Append one line per image and model; the cell of a missing score is empty."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(["dataset", "image", "group", "model", *METRICS])
        for index, (image, group) in enumerate(table._pairs):
            for model, columns in table.scores.items():
                scores = [columns[metric][index] if metric in columns else np.nan for metric in METRICS]
                cells = ("" if np.isnan(score) else repr(float(score)) for score in scores)
                writer.writerow([dataset, image, group, model, *cells])


def read_scores(path: pathlib.Path, remedy: str) -> dict[str, PerImage]:
    """Read what `append_scores` wrote: dataset -> scores; a metric without a column is absent.

    Raises:
        UserError: the file does not exist or is not such a file; the message ends with `remedy`.
    """
    rows: dict[str, dict[str, dict[str, Scores]]] = {}
    groups: dict[str, dict[str, str]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                scores = {metric: float(row[metric]) for metric in METRICS if row.get(metric)}
                rows.setdefault(row["dataset"], {}).setdefault(row["image"], {})[row["model"]] = scores
                groups.setdefault(row["dataset"], {})[row["image"]] = row.get("group") or ""
        return {dataset: PerImage.of(images, list(groups[dataset].values())) for dataset, images in rows.items()}
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: {remedy}") from None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a table of scores ({error!r}): {remedy}") from None
