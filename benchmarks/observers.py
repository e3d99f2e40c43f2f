"""How well one half of the observers predicts the other: the ceiling for any model of a data set.

    python benchmarks/observers.py --source FOLDER --dataset-dir PREPARED [--model FOLDER ...] [--splits 10]

FOLDER is a source in SALICON's layout, whose `.mat` files keep the observers apart, PREPARED what `fetch` made of
it. Takes ten minutes for 140 images on 2 cores. Prints a table in Markdown, whose rows are scored on the same
images and the same halves.

For each validation image the observers are split at random into halves A and B, `--splits` times. The truth is
half B: its fixations, and their density. The prediction of n observers of A is their density mixed with the centre
bias of the training set; the blur and the share of the centre bias are those under which B's fixations of training
images are most likely. A model's map stands in the place of A's. The blur that makes a truth's density is the one
whose densities of all observers resemble the maps of the source most.

What n observers can say grows with n, so that the row of the largest n is what a model can be asked to reach, not
a bound: a model may know more of people in general than half of the observers of one image show.
"""

import argparse
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

BLURS_PX = (12.0, 15.0, 18.0, 21.0, 24.0, 28.0, 32.0, 40.0)
BIAS_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
FITTED_ON = 60
"""Training images that the blurs and the share of the centre bias are chosen on."""
PREDICTING = (1, 2, 5, 10)

Map = npt.NDArray[np.float64]
Points = npt.NDArray[np.int64]
Size = tuple[int, int]


class Observed:
    """One image's observers, as sums that are quick to blur."""

    def __init__(self, item: Item) -> None:
        assert item.fixations is not None
        self.stimulus = decode.decode_stimulus(item.stimulus)
        self.size: Size = (self.stimulus.shape[0], self.stimulus.shape[1])
        self.observers = decode.read_observers(item.fixations, self.size)

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


def predicting_blurs(items: Sequence[Item], bias: Callable[[Size], Map]) -> dict[int, tuple[float, float]]:
    """For each number of observers, the blur and the share of the centre bias that make half B most likely."""
    gains: dict[int, Map] = {n: np.zeros((len(BLURS_PX), len(BIAS_SHARES))) for n in PREDICTING}
    for index, item in enumerate(items):
        image = Observed(item)
        first, second = image.halves((0, index))
        truth, prior = image.points(second), bias(image.size)
        for n, (row, blur) in itertools.product(PREDICTING, enumerate(BLURS_PX)):
            density = image.density(first[:n], blur)
            for column, share in enumerate(BIAS_SHARES):
                mixed = (1 - share) * density + share * prior
                gains[n][row, column] += metrics.information_gain(mixed, truth, prior)
    chosen = {}
    for n, table in gains.items():
        row, column = divmod(int(table.argmax()), len(BIAS_SHARES))
        chosen[n] = (BLURS_PX[row], BIAS_SHARES[column])
        print(
            f"{n} observers predict with a blur of {BLURS_PX[row]:g} px and {BIAS_SHARES[column]:.0%} centre bias"
        )
    return chosen


# === Scores ===


def score(prediction: Map, truth: Points, density: Map, others: Any, bias: Map) -> dict[str, float]:
    return {
        "auc_judd": metrics.auc_judd(prediction, truth),
        "shuffled_auc": metrics.shuffled_auc_of_counts(prediction, truth, others),
        "nss": metrics.nss(prediction, truth),
        "cc": metrics.cc(prediction, density),
        "kld": metrics.kld(prediction, density),
        "sim": metrics.sim(prediction, density),
        "information_gain": metrics.information_gain(prediction, truth, bias),
    }


def predictions(models: Sequence[str], images: Sequence[Observed], size: Size) -> dict[str, list[Map]]:
    """Each model's map of each image at the image's size, as `evaluate` scores it."""
    from trainer.serving.export import load_model

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
    images: Sequence[Observed],
    models: dict[str, list[Map]],
    bias: Callable[[Size], Map],
    splits: int,
    blur: float,
    chosen: dict[int, tuple[float, float]],
) -> dict[str, dict[str, npt.NDArray[np.float64]]]:
    """Row of the table -> metric -> the score of each image, the mean over its splits."""
    everyone = [metrics.count_points(image.points(range(len(image.observers))), image.size) for image in images]
    sizes = {image.size for image in images}
    if len(sizes) > 1:
        raise UserError(f"the images have {len(sizes)} sizes; this comparison takes a source of one")
    total = np.sum(everyone, axis=0)

    def of_image(index: int) -> dict[str, dict[str, float]]:
        image, prior, others = images[index], bias(images[index].size), total - everyone[index]
        scores: dict[str, list[dict[str, float]]] = {}
        for split in range(splits):
            first, second = image.halves((1, index, split))
            truth, density = image.points(second), image.density(second, blur)
            rows = {"centre bias": prior}
            for n, (width, share) in chosen.items():
                rows[f"{n} observers"] = (1 - share) * image.density(first[:n], width) + share * prior
            rows |= {name: maps[index] for name, maps in models.items()}
            for name, prediction in rows.items():
                scores.setdefault(name, []).append(score(prediction, truth, density, others, prior))
        return {
            name: {metric: float(np.mean([each[metric] for each in made])) for metric in HIGHER_IS_BETTER}
            for name, made in scores.items()
        }

    with ThreadPoolExecutor(os.cpu_count()) as pool, Tracker("score", len(images), "images") as tracker:
        table = []
        for made in pool.map(of_image, range(len(images))):
            table.append(made)
            tracker.advance()
    return {
        name: {metric: np.array([row[name][metric] for row in table]) for metric in HIGHER_IS_BETTER}
        for name in table[0]
    }


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
            blur, chosen = truth_blur(drawn), predicting_blurs(drawn, bias)
            images = [Observed(item) for item in layout.limited(items["valid"], given.images)]
    models = predictions(given.model, images, manifest.image_size)
    scores = score_all(images, models, bias, given.splits, blur, chosen)
    labels = [metrics.LABELS[metric] for metric in HIGHER_IS_BETTER]
    print(f"\n| {len(images)} images, {given.splits} splits | {' | '.join(labels)} |")
    print("|---" * (len(labels) + 1) + "|")
    for name, values in scores.items():
        print(f"| {name} | {' | '.join(f'{each.mean():.3f}' for each in values.values())} |")


if __name__ == "__main__":
    with reported():
        main()
