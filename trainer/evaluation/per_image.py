"""The scores of several models on each image of a dataset, and the CSV file that stores them."""

import csv
import dataclasses
import pathlib
from collections.abc import Collection, Mapping

import numpy as np

from trainer.errors import UserError
from trainer.evaluation import confidence
from trainer.evaluation.confidence import Gain, Interval, Values
from trainer.metric_table import METRICS

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

    @classmethod
    def of(cls, rows: Mapping[str, Mapping[str, Scores]]) -> "PerImage":
        """Make columns of rows: image -> model -> scores."""
        models = next(iter(rows.values()), {})
        scores: dict[str, dict[str, Values]] = {}
        for model in models:
            columns = {
                metric: np.array([row[model].get(metric, np.nan) for row in rows.values()]) for metric in METRICS
            }
            scores[model] = {metric: column for metric, column in columns.items() if not np.isnan(column).all()}
        return cls(list(rows), scores)

    def values(self, model: str, metric: str) -> Values:
        """The scores of a model in one metric, without the images that have none."""
        column = self.scores[model][metric]
        return column[~np.isnan(column)]

    def means(self, model: str) -> Scores:
        """Metric -> mean of a model's scores over the images that have one."""
        return {metric: float(self.values(model, metric).mean()) for metric in self.scores[model]}

    def intervals(self, model: str, level: float) -> dict[str, Interval | None]:
        """Metric -> confidence interval of `means`; None for too few images."""
        return {metric: confidence.interval(self.values(model, metric), level) for metric in self.scores[model]}

    def gains(self, ours: str, theirs: str, level: float) -> dict[str, Gain]:
        """Metric -> gain of the model `ours` over the model `theirs`."""
        return {
            metric: confidence.gain(
                self.values(ours, metric), self.values(theirs, metric), METRICS[metric].higher_is_better, level
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
        return PerImage([self.images[index] for index in kept], scores)


def write(path: pathlib.Path, dataset: str, table: PerImage) -> None:
    """Append one line per image and model; the cell of a missing score is empty."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(["dataset", "image", "model", *METRICS])
        for index, image in enumerate(table.images):
            for model, columns in table.scores.items():
                scores = [columns[metric][index] if metric in columns else np.nan for metric in METRICS]
                cells = ("" if np.isnan(score) else repr(float(score)) for score in scores)
                writer.writerow([dataset, image, model, *cells])


def read(path: pathlib.Path, remedy: str) -> dict[str, PerImage]:
    """Read what `write` wrote: dataset -> scores; a metric without a column is absent.

    Raises:
        UserError: the file does not exist or is not such a file; the message ends with `remedy`.
    """
    rows: dict[str, dict[str, dict[str, Scores]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                scores = {metric: float(row[metric]) for metric in METRICS if row.get(metric)}
                rows.setdefault(row["dataset"], {}).setdefault(row["image"], {})[row["model"]] = scores
        return {dataset: PerImage.of(images) for dataset, images in rows.items()}
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: {remedy}") from None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a table of scores ({error!r}): {remedy}") from None
