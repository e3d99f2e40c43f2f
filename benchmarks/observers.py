"""How well one half of the observers predicts the other: an upper bound for models on a dataset.

    python -m benchmarks.observers --source FOLDER --dataset-dir PREPARED [--model FOLDER ...] [--splits 10]

FOLDER is a source in SALICON's layout, whose `.mat` files keep the observers apart. PREPARED is the output of
`fetch` for it. 140 images take a quarter of an hour on 2 cores. Prints a table in Markdown; all rows are scored on
the same images and the same halves.

For each validation image, `--splits` random splits divide the observers into halves A and B. The truth is half B:
its fixations and their density. The prediction of n observers is the density of n observers of A, mixed with the
centre bias of the training images. For each metric, the blur and the share of the centre bias are those with which
n observers score best on training images. The map of a model is scored in the same way. The blur of the truth is
the one whose densities of all observers are most similar to the maps of the source.

The score of n observers grows with n. The row of the largest n is what a model can be expected to reach, but not a
strict bound: a model may know more about people in general than half of the observers of one image show.
"""

import argparse
import functools
import itertools
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from trainer import artifacts, datasets, metrics, preprocess, storage
from trainer.data import decode, layout, sources
from trainer.data.layout import Item
from trainer.errors import UserError, reported
from trainer.metric_table import BASELINE, DENSITY, FIXATIONS, METRICS, OTHER_COUNTS
from trainer.progress import Tracker

BLURS_PX = (12.0, 15.0, 18.0, 21.0, 25.0, 30.0, 36.0)
BIAS_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3)
CHOICES = tuple(itertools.product(BLURS_PX, BIAS_SHARES))
"""Blur and share of the centre bias of a prediction."""
FITTED_ON = 40
"""Number of training images for the choice."""
PREDICTING = (1, 2, 5, 10)
"""Numbers of observers; those that not every image has in a half are left out."""

Map = npt.NDArray[np.float64]
Points = npt.NDArray[np.int64]
Size = tuple[int, int]
Choice = tuple[float, float]
Truth = Mapping[str, Any]
"""The needs of METRICS for one image."""


class Observed:
    """One image and the fixations of its observers."""

    def __init__(self, item: Item) -> None:
        assert item.fixations
        self.stimulus = decode.decode_stimulus(item.stimulus)
        self.size: Size = (self.stimulus.shape[0], self.stimulus.shape[1])
        gaze = decode.read_gaze(item.fixations, self.size)
        numbers = np.zeros(len(gaze.points)) if gaze.observers is None else gaze.observers
        self.observers = [gaze.points[numbers == number] for number in np.unique(numbers)]

    def points(self, chosen: Iterable[int]) -> Points:
        """Fixations (n, 2) of the chosen observers."""
        return np.concatenate([self.observers[observer] for observer in chosen])

    def density(self, chosen: Iterable[int], blur_px: float) -> Map:
        """Distribution (h, w) of the chosen observers' fixations."""
        counts = metrics.count_points(self.points(chosen), self.size).astype(np.float64)
        blurred: Map = ndimage.gaussian_filter(counts, blur_px, mode="constant")
        blurred /= blurred.sum()
        return blurred

    def halves(self, seed: Sequence[int]) -> tuple[list[int], list[int]]:
        """The observers, split at random."""
        order = np.random.default_rng(seed).permutation(len(self.observers)).tolist()
        middle = len(order) // 2
        return order[:middle], order[middle:]


def center_bias(prepared: pathlib.Path) -> Callable[[Size], Map]:
    """The mean map of the training set as a distribution at any size."""
    small = Image.fromarray(np.load(prepared / artifacts.CENTER_BIAS).astype(np.float32))

    @functools.lru_cache(16)
    def at(size: Size) -> Map:
        resized: Map = np.array(small.resize(size[::-1], Image.Resampling.BILINEAR), np.float64)
        resized /= resized.sum()
        return resized

    return at


class Halves:
    """Images whose observers are split into a half that predicts and a half that is the truth."""

    def __init__(self, images: Sequence[Observed], bias: Callable[[Size], Map], blur: float, salt: int) -> None:
        self.images, self._bias, self._blur, self._salt = images, bias, blur, salt
        everyone = [image.points(range(len(image.observers))) for image in images]
        self._counts = [
            metrics.count_points(points, image.size) for points, image in zip(everyone, images, strict=True)
        ]
        self._total = np.sum(self._counts, axis=0)

    def split(self, index: int, number: int) -> tuple[list[int], Truth]:
        """The observers of an image's first half, and the truth of the second."""
        image = self.images[index]
        first, second = image.halves((self._salt, index, number))
        return first, {
            FIXATIONS: image.points(second),
            OTHER_COUNTS: self._total - self._counts[index],
            DENSITY: image.density(second, self._blur),
            BASELINE: self._bias(image.size),
        }

    def map(self, function: Callable[[int], Any], description: str) -> list[Any]:
        """The results of `function` for the index of each image, computed on all cores."""
        results = []
        n_images = len(self.images)
        with ThreadPoolExecutor(os.cpu_count()) as pool, Tracker(description, n_images, "images") as tracker:
            for result in pool.map(function, range(n_images)):
                results.append(result)
                tracker.advance()
        return results


# === Choices on training images ===


def truth_blur(items: Sequence[Item]) -> float:
    """The blur with which the densities of all observers are most similar to the maps of the source (CC)."""
    scores = np.zeros((len(items), len(BLURS_PX)))
    for row, item in enumerate(items):
        image, decoded = Observed(item), decode.decode(item, 0)
        everyone = range(len(image.observers))
        for column, blur in enumerate(BLURS_PX):
            scores[row, column] = metrics.cc(image.density(everyone, blur), decoded.density)
    best = int(scores.mean(0).argmax())
    print(f"blur of the truth: {BLURS_PX[best]:g} px (CC with the maps of the source: {scores.mean(0)[best]:.3f})")
    return BLURS_PX[best]


def choose(fitted: Halves, numbers: Sequence[int]) -> dict[int, dict[str, Choice]]:
    """For each number of observers and each metric, the choice with the best mean score."""

    def of_image(index: int) -> Map:
        first, truth = fitted.split(index, 0)
        return np.array(
            [
                [
                    [metrics.score(name, mixed, truth) for name in METRICS]
                    for mixed in mixtures(fitted.images[index], first[:n], truth, CHOICES).values()
                ]
                for n in numbers
            ]
        )

    table = np.mean(fitted.map(of_image, "fit"), axis=0)  # (numbers, choices, metrics)
    signs = np.array([1 if row.higher_is_better else -1 for row in METRICS.values()])
    best = (signs * table).argmax(axis=1)
    chosen = {
        n: {metric: CHOICES[place] for metric, place in zip(METRICS, row, strict=True)}
        for n, row in zip(numbers, best, strict=True)
    }
    for n, by_metric in chosen.items():
        choices = ", ".join(
            f"{METRICS[metric].label} {blur:g} px {share:.0%}" for metric, (blur, share) in by_metric.items()
        )
        print(f"blur and share of the centre bias of {count(n)}: {choices}")
    return chosen


def count(n: int) -> str:
    """The name of a row of the table."""
    return "1 observer" if n == 1 else f"{n} observers"


def mixtures(
    image: Observed, observers: Sequence[int], truth: Truth, choices: Iterable[Choice]
) -> dict[Choice, Map]:
    """Choice -> prediction of some observers."""
    densities = {blur: image.density(observers, blur) for blur in {blur for blur, _ in choices}}
    return {(blur, share): (1 - share) * densities[blur] + share * truth[BASELINE] for blur, share in choices}


# === Scores ===


def predictions(models: Sequence[str], images: Sequence[Observed], size: Size) -> dict[str, list[Map]]:
    """Model -> map of each image at the size of the image, as `evaluate` scores it."""
    from trainer.models.load import load_model

    maps: dict[str, list[Map]] = {}
    for folder in models:
        network = load_model(folder)
        with Tracker(f"predict {folder}", len(images), "images") as tracker:
            maps[folder] = []
            for image in images:
                output = network(preprocess.prepare_stimulus(image.stimulus, size)[None]).numpy()[0, ..., 0]
                maps[folder].append(np.clip(preprocess.resize_back(output, image.size), 0, 1))
                tracker.advance()
    return maps


def score_all(
    halves: Halves, models: dict[str, list[Map]], splits: int, chosen: dict[int, dict[str, Choice]]
) -> dict[str, dict[str, float]]:
    """Row of the table -> metric -> the mean score over images and splits."""

    def of_split(index: int, number: int) -> dict[str, list[float]]:
        first, truth = halves.split(index, number)
        center_bias: Map = truth[BASELINE]
        rows = {"centre bias": dict.fromkeys(METRICS, center_bias)}
        for n, choices in chosen.items():
            mixed = mixtures(halves.images[index], first[:n], truth, set(choices.values()))
            rows[count(n)] = {metric: mixed[choice] for metric, choice in choices.items()}
        rows |= {name: dict.fromkeys(METRICS, maps[index]) for name, maps in models.items()}
        return {row: [metrics.score(name, maps[name], truth) for name in METRICS] for row, maps in rows.items()}

    def of_image(index: int) -> dict[str, Map]:
        tables = [of_split(index, number) for number in range(splits)]
        return {row: np.mean([table[row] for table in tables], axis=0) for row in tables[0]}

    by_image = halves.map(of_image, "score")
    means = {row: np.mean([table[row] for table in by_image], axis=0) for row in by_image[0]}
    return {row: dict(zip(METRICS, map(float, values), strict=True)) for row, values in means.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--dataset-dir", required=True, type=pathlib.Path)
    parser.add_argument("--dataset", default="salicon")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--images", type=int, default=0, help="limit the number of images, for a quick try")
    arguments = parser.parse_args()
    manifest, bias = artifacts.Manifest.load(arguments.dataset_dir), center_bias(arguments.dataset_dir)
    with tempfile.TemporaryDirectory() as scratch:
        objects = storage.list_objects(arguments.source)
        with sources.opened(arguments.source, objects, pathlib.Path(scratch)) as members:
            items = layout.find_items(members, datasets.get(arguments.dataset), arguments.source).items
            training = layout.limited(items["train"], FITTED_ON)
            blur = truth_blur(training)
            fitted = [Observed(item) for item in training]
            images = [Observed(item) for item in layout.limited(items["valid"], arguments.images)]
    numbers = usable([*fitted, *images], arguments.source)
    chosen = choose(Halves(fitted, bias, blur, salt=0), numbers)
    models = predictions(arguments.model, images, manifest.image_size)
    scores = score_all(Halves(images, bias, blur, salt=1), models, arguments.splits, chosen)
    labels = " | ".join(row.label for row in METRICS.values())
    print(f"\n| {len(images)} images, {arguments.splits} splits | {labels} |")
    print("|---" * (len(METRICS) + 1) + "|")
    for name, values in scores.items():
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in values.values())} |")


def usable(images: Sequence[Observed], source: str) -> list[int]:
    """The numbers in PREDICTING that every image has in a half."""
    sizes = {image.size for image in images}
    if len(sizes) > 1:
        raise UserError(f"the images of {source} have {len(sizes)} sizes; this benchmark needs images of one size")
    fewest = min(len(image.observers) for image in images)
    numbers = [n for n in PREDICTING if n <= fewest // 2]
    if not numbers:
        raise UserError(f"an image of {source} has {fewest} observers with fixations; it needs at least 2")
    median = np.median([len(points) for image in images for points in image.observers])
    print(f"{fewest} or more observers per image, with a median of {median:g} fixations")
    return numbers


if __name__ == "__main__":
    with reported():
        main()
