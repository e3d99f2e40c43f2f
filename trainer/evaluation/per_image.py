"""The scores of several models on each image of a data set, and the file that keeps them."""

import csv
import dataclasses
import pathlib
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from trainer.config import HIGHER_IS_BETTER
from trainer.errors import UserError

CANDIDATE, CHAMPION, CENTER_BIAS, UNIFORM = "candidate", "champion", "centre_bias", "uniform"
"""The models of an evaluation."""

Values = npt.NDArray[np.float64]
Scores = dict[str, float]
"""Metric -> value; a metric that cannot be computed is absent."""


@dataclasses.dataclass(frozen=True)
class PerImage:
    """Scores of models on the same images."""

    images: list[str]
    scores: dict[str, dict[str, Values]]
    """Model -> metric -> (n,), NaN for an image without; a metric that no image has is absent."""

    @classmethod
    def of(cls, rows: dict[str, dict[str, Scores]]) -> "PerImage":
        """Image -> model -> its scores, as columns."""
        models = next(iter(rows.values()), {})
        scores: dict[str, dict[str, Values]] = {}
        for model in models:
            columns = {
                metric: np.array([row[model].get(metric, np.nan) for row in rows.values()])
                for metric in HIGHER_IS_BETTER
            }
            scores[model] = {metric: each for metric, each in columns.items() if not np.isnan(each).all()}
        return cls(list(rows), scores)

    def values(self, model: str, metric: str) -> Values:
        """The scores of the images that have one."""
        column = self.scores[model][metric]
        return column[~np.isnan(column)]

    def means(self, model: str) -> Scores:
        return {metric: float(self.values(model, metric).mean()) for metric in self.scores[model]}

    def of_image(self, model: str, image: str) -> Scores:
        row = self.images.index(image)
        return {metric: float(each[row]) for metric, each in self.scores[model].items() if not np.isnan(each[row])}

    def only(self, images: Collection[str]) -> "PerImage":
        """The same of some images, in their order."""
        place = {image: index for index, image in enumerate(self.images)}
        kept = [place[image] for image in images]
        columns = {
            model: {metric: column[kept] for metric, column in each.items() if not np.isnan(column[kept]).all()}
            for model, each in self.scores.items()
        }
        return PerImage([self.images[index] for index in kept], columns)


def write(path: pathlib.Path, dataset: str, table: PerImage) -> None:
    """Append one line for each image and model; the cell of an absent score is empty."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(["dataset", "image", "model", *HIGHER_IS_BETTER])
        for index, image in enumerate(table.images):
            for model, columns in table.scores.items():
                scores = [columns[metric][index] if metric in columns else np.nan for metric in HIGHER_IS_BETTER]
                cells = ("" if np.isnan(score) else repr(float(score)) for score in scores)
                writer.writerow([dataset, image, model, *cells])


def read(path: pathlib.Path, remedy: str) -> dict[str, PerImage]:
    """Data set -> scores, as `write` wrote them; a `UserError` that ends with `remedy` where it did not."""
    rows: dict[str, dict[str, dict[str, Scores]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                scores = {metric: float(row[metric]) for metric in HIGHER_IS_BETTER if row[metric]}
                rows.setdefault(row["dataset"], {}).setdefault(row["image"], {})[row["model"]] = scores
        return {dataset: PerImage.of(images) for dataset, images in rows.items()}
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: {remedy}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} has no scores that can be read ({error!r}): {remedy}") from None
