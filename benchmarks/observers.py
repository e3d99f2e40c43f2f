"""How well one half of the observers predicts the other: the ceiling for any model of a data set.

    python -m benchmarks.observers --source FOLDER --dataset-dir PREPARED [--model FOLDER ...] [--splits 10]

FOLDER is a source in SALICON's layout, whose `.mat` files keep the observers apart, PREPARED what `fetch` made of
it. Takes a quarter of an hour for 140 images on 2 cores. Prints a table in Markdown, whose rows are scored on the
same images and the same halves.

For each validation image the observers are split at random into halves A and B, `--splits` times. The truth is
half B: its fixations, and their density. The prediction of n observers of A is their density mixed with the centre
bias of the training set. For each metric the blur and the share of the centre bias are those under which n
observers score best on training images. A model's map stands in the place of A's. The blur that makes a truth's
density is the one whose densities of all observers resemble the maps of the source most.

What n observers can say grows with n, so that the row of the largest n is what a model can be asked to reach, not
a bound: a model may know more of people in general than half of the observers of one image show.
"""

import argparse
import dataclasses
import functools
import itertools
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from trainer import artifacts, datasets, metrics, preprocess, storage
from trainer.config import HIGHER_IS_BETTER
from trainer.data import decode, layout, sources
from trainer.data.layout import Item
from trainer.errors import UserError, reported
from trainer.progress import Tracker

BLURS_PX = (12.0, 15.0, 18.0, 21.0, 25.0, 30.0, 36.0)
BIAS_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3)
CHOICES = tuple(itertools.product(BLURS_PX, BIAS_SHARES))
"""Blur and share of the centre bias that a prediction can be made with."""
FITTED_ON = 40
"""Training images that the choice is made on."""
PREDICTING = (1, 2, 5, 10)
"""Numbers of observers, of which those that all images have in a half are taken."""

Map = npt.NDArray[np.float64]
Points = npt.NDArray[np.int64]
Size = tuple[int, int]
Choice = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Truth:
    """What a prediction of one image is scored against."""

    points: Points
    density: Map
    others: Any
    """How often each pixel is fixated in the other images."""
    prior: Map
    """The centre bias."""


SCORES: dict[str, Callable[[Map, Truth], float]] = {
    "auc_judd": lambda shown, truth: metrics.auc_judd(shown, truth.points),
    "shuffled_auc": lambda shown, truth: metrics.shuffled_auc_of_counts(shown, truth.points, truth.others),
    "nss": lambda shown, truth: metrics.nss(shown, truth.points),
    "cc": lambda shown, truth: metrics.cc(shown, truth.density),
    "kld": lambda shown, truth: metrics.kld(shown, truth.density),
    "sim": lambda shown, truth: metrics.sim(shown, truth.density),
    "information_gain": lambda shown, truth: metrics.information_gain(shown, truth.points, truth.prior),
}


class Observed:
    """One image's observers, as sums that are quick to blur."""

    def __init__(self, item: Item) -> None:
        assert item.fixations is not None
        self.stimulus = decode.decode_stimulus(item.stimulus)
        self.size: Size = (self.stimulus.shape[0], self.stimulus.shape[1])
        found = decode.read_observers(item.fixations, self.size)
        self.observers = [each for each in found if len(each)]

    def points(self, chosen: Iterable[int]) -> Points:
        return np.concatenate([self.observers[each] for each in chosen])

    def density(self, chosen: Iterable[int], blur_px: float) -> Map:
        """Distribution (h, w) of the chosen observers' fixations."""
        counts = metrics.count_points(self.points(chosen), self.size).astype(np.float64)
        blurred: Map = ndimage.gaussian_filter(counts, blur_px, mode="constant")
        blurred /= blurred.sum()
        return blurred

    def halves(self, seed: Sequence[int]) -> tuple[list[int], list[int]]:
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
    """Images, each of which is split into a half that predicts and one that is the truth."""

    def __init__(self, images: Sequence[Observed], bias: Callable[[Size], Map], blur: float, salt: int) -> None:
        self.images, self._bias, self._blur, self._salt = images, bias, blur, salt
        everyone = [image.points(range(len(image.observers))) for image in images]
        self._counts = [
            metrics.count_points(points, image.size) for points, image in zip(everyone, images, strict=True)
        ]
        self._total = np.sum(self._counts, axis=0)

    def split(self, index: int, number: int) -> tuple[list[int], Truth]:
        """The observers of the first half of an image, and the truth of the second."""
        image = self.images[index]
        first, second = image.halves((self._salt, index, number))
        others, prior = self._total - self._counts[index], self._bias(image.size)
        return first, Truth(image.points(second), image.density(second, self._blur), others, prior)

    def each(self, made: Callable[[int], Any], what: str) -> list[Any]:
        """What `made` makes of each image's index, on all cores."""
        found = []
        with ThreadPoolExecutor(os.cpu_count()) as pool, Tracker(what, len(self.images), "images") as tracker:
            for one in pool.map(made, range(len(self.images))):
                found.append(one)
                tracker.advance()
        return found


# === What is chosen on training images ===


def truth_blur(items: Sequence[Item]) -> float:
    """The blur under which all observers' densities resemble the maps of the source most (CC)."""
    scores = np.zeros((len(items), len(BLURS_PX)))
    for row, item in enumerate(items):
        image, decoded = Observed(item), decode.decode(item, 0)
        everyone = range(len(image.observers))
        for column, blur in enumerate(BLURS_PX):
            scores[row, column] = metrics.cc(image.density(everyone, blur), decoded.density)
    best = int(scores.mean(0).argmax())
    print(f"blur of the truth: {BLURS_PX[best]:g} px (CC {scores.mean(0)[best]:.3f} with the maps of the source)")
    return BLURS_PX[best]


def choose(fitted: Halves, numbers: Sequence[int]) -> dict[int, dict[str, Choice]]:
    """For each number of observers and each metric, the choice under which they predict best."""

    def of_image(index: int) -> Map:
        first, truth = fitted.split(index, 0)
        return np.array(
            [
                [
                    [score(mixed, truth) for score in SCORES.values()]
                    for mixed in mixtures(fitted.images[index], first[:n], truth, CHOICES).values()
                ]
                for n in numbers
            ]
        )

    table = np.mean(fitted.each(of_image, "fit"), axis=0)  # (numbers, choices, metrics)
    signs = np.array([1 if HIGHER_IS_BETTER[metric] else -1 for metric in SCORES])
    best = (signs * table).argmax(axis=1)
    chosen = {
        n: {metric: CHOICES[place] for metric, place in zip(SCORES, row, strict=True)}
        for n, row in zip(numbers, best, strict=True)
    }
    for n, each in chosen.items():
        listed = ", ".join(
            f"{metrics.LABELS[metric]} {blur:g} px {share:.0%}" for metric, (blur, share) in each.items()
        )
        print(f"blur and share of the centre bias of {called(n)}: {listed}")
    return chosen


def called(n: int) -> str:
    return "1 observer" if n == 1 else f"{n} observers"


def mixtures(
    image: Observed, observers: Sequence[int], truth: Truth, choices: Iterable[Choice]
) -> dict[Choice, Map]:
    """What some observers predict, for each choice."""
    densities = {blur: image.density(observers, blur) for blur in {blur for blur, _ in choices}}
    return {(blur, share): (1 - share) * densities[blur] + share * truth.prior for blur, share in choices}


# === Scores ===


def predictions(models: Sequence[str], images: Sequence[Observed], size: Size) -> dict[str, list[Map]]:
    """Each model's map of each image at the image's size, as `evaluate` scores it."""
    from trainer.models.load import load_model

    made: dict[str, list[Map]] = {}
    for folder in models:
        network = load_model(folder)
        with Tracker(f"predict {folder}", len(images), "images") as tracker:
            made[folder] = []
            for image in images:
                answered = network(preprocess.prepare_stimulus(image.stimulus, size)[None]).numpy()[0, ..., 0]
                made[folder].append(np.clip(preprocess.resize_back(answered, image.size), 0, 1))
                tracker.advance()
    return made


def score_all(
    halves: Halves, models: dict[str, list[Map]], splits: int, chosen: dict[int, dict[str, Choice]]
) -> dict[str, dict[str, float]]:
    """Row of the table -> metric -> the mean score over images and splits."""

    def of_split(index: int, number: int) -> dict[str, list[float]]:
        first, truth = halves.split(index, number)
        rows = {"centre bias": dict.fromkeys(SCORES, truth.prior)}
        for n, choices in chosen.items():
            mixed = mixtures(halves.images[index], first[:n], truth, set(choices.values()))
            rows[called(n)] = {metric: mixed[choice] for metric, choice in choices.items()}
        rows |= {name: dict.fromkeys(SCORES, maps[index]) for name, maps in models.items()}
        return {
            row: [score(maps[metric], truth) for metric, score in SCORES.items()] for row, maps in rows.items()
        }

    def of_image(index: int) -> dict[str, Map]:
        found = [of_split(index, number) for number in range(splits)]
        return {row: np.mean([each[row] for each in found], axis=0) for row in found[0]}

    table = halves.each(of_image, "score")
    means = {row: np.mean([each[row] for each in table], axis=0) for row in table[0]}
    return {row: dict(zip(SCORES, map(float, values), strict=True)) for row, values in means.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--dataset-dir", required=True, type=pathlib.Path)
    parser.add_argument("--dataset", default="salicon")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--images", type=int, default=0, help="only so many, for trying out")
    given = parser.parse_args()
    manifest, bias = artifacts.Manifest.load(given.dataset_dir), center_bias(given.dataset_dir)
    with tempfile.TemporaryDirectory() as scratch:
        objects = storage.list_objects(given.source)
        with sources.opened(given.source, objects, pathlib.Path(scratch)) as members:
            items = layout.find_items(members, datasets.get(given.dataset), given.source)
            drawn = layout.limited(items["train"], FITTED_ON)
            blur = truth_blur(drawn)
            fitted = [Observed(item) for item in drawn]
            images = [Observed(item) for item in layout.limited(items["valid"], given.images)]
    numbers = usable([*fitted, *images], given.source)
    chosen = choose(Halves(fitted, bias, blur, salt=0), numbers)
    models = predictions(given.model, images, manifest.image_size)
    scores = score_all(Halves(images, bias, blur, salt=1), models, given.splits, chosen)
    labels = " | ".join(metrics.LABELS[each] for each in SCORES)
    print(f"\n| {len(images)} images, {given.splits} splits | {labels} |")
    print("|---" * (len(SCORES) + 1) + "|")
    for name, values in scores.items():
        print(f"| {name} | {' | '.join(f'{each:.3f}' for each in values.values())} |")


def usable(images: Sequence[Observed], source: str) -> list[int]:
    """Of PREDICTING, what every image has in a half."""
    sizes = {image.size for image in images}
    if len(sizes) > 1:
        raise UserError(f"the images of {source} have {len(sizes)} sizes; this comparison takes a source of one")
    fewest = min(len(image.observers) for image in images)
    numbers = [n for n in PREDICTING if n <= fewest // 2]
    if not numbers:
        raise UserError(f"an image of {source} has {fewest} observers with fixations; it takes 2 at least")
    clicks = np.median([len(points) for image in images for points in image.observers])
    print(f"{fewest} observers an image or more, with {clicks:g} fixations in the median")
    return numbers


if __name__ == "__main__":
    with reported():
        main()
