"""How well 1, 2, 5 and 10 observers of an image predict the other half: the curve below `evaluate`'s ceiling.

    python -m benchmarks.observers --dataset-dir PREPARED [--splits 5]

PREPARED is the output of `fetch` for data whose observers are told apart. Prints a table in Markdown; all rows are
scored on the same validation images and the same halves, at the size of `trainer.evaluation.observers`. For each
metric, the blur and the share of the centre bias are those with which n observers score best on training images.

The score of n observers grows with n. `evaluate` compares models with all of a half, and with all but one.
"""

import argparse
import pathlib
from collections.abc import Sequence

import numpy as np

from trainer.data import tfrecords
from trainer.errors import UserError, reported
from trainer.evaluation import ceiling, observers
from trainer.evaluation.background import Background
from trainer.evaluation.observers import CHOICES, Choice, Observed
from trainer.evaluation.per_image import SPLIT_HALF, Scores
from trainer.metric_table import METRICS
from trainer.progress import Tracker

PREDICTING = (1, 2, 5, 10)
"""Numbers of observers; those that not every image has in a half are left out."""


def choose(images: Sequence[Observed], n: int, truth_blur: float) -> dict[str, Choice]:
    """Metric -> the choice with which `n` observers predict best on training images."""
    tables = []
    for index, image in enumerate(images):
        ((first, second),) = image.cases(SPLIT_HALF, (ceiling.FITTING, index), 1)
        truth, predicted = image.truth(second, truth_blur), image.predict(first[:n], CHOICES)
        rows = [observers.score_maps(dict.fromkeys(METRICS, predicted[choice]), truth) for choice in CHOICES]
        tables.append([[row[metric] for metric in METRICS] for row in rows])
    signs = [1 if row.higher_is_better else -1 for row in METRICS.values()]
    best = (np.mean(tables, axis=0) * signs).argmax(axis=0)
    return {metric: CHOICES[place] for metric, place in zip(METRICS, best, strict=True)}


def score(
    image: Observed, index: int, splits: int, chosen: dict[int, dict[str, Choice]], truth_blur: float
) -> dict[str, Scores]:
    """Row of the table -> mean scores of one image over some splits of its observers."""
    rows: dict[str, list[Scores]] = {}
    for first, second in image.cases(SPLIT_HALF, (ceiling.SCORING, index), splits):
        truth = image.truth(second, truth_blur)
        maps = {"centre bias": dict.fromkeys(METRICS, image.center_bias)}
        for n, choices in chosen.items():
            predicted = image.predict(first[:n], set(choices.values()))
            maps[f"{n} observer{'s' * (n > 1)}"] = {
                metric: predicted[choice] for metric, choice in choices.items()
            }
        for name, by_metric in maps.items():
            rows.setdefault(name, []).append(observers.score_maps(by_metric, truth))
    return {name: observers.mean(scores) for name, scores in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset-dir", required=True, type=pathlib.Path)
    parser.add_argument("--splits", type=int, default=5)
    arguments = parser.parse_args()
    folder = arguments.dataset_dir
    fitted = ceiling.fit(folder)
    sets = {}
    for split, most in (("train", ceiling.FITTED_ON), ("valid", ceiling.MOST_IMAGES)):
        examples = tfrecords.some(folder, split, most)
        background = Background(folder, examples)
        images = [Observed.of(example, background) for example in examples]
        sets[split] = [image for image in images if len(image.observers) > 1]
    if fitted is None or not sets["valid"]:
        raise UserError(f"no image of {folder} has two observers who are told apart; name other prepared data")
    fewest = min(len(image.observers) // 2 for images in sets.values() for image in images)
    numbers = [n for n in PREDICTING if n <= fewest]
    chosen = {}
    with Tracker("fit", len(numbers), "numbers of observers") as tracker:
        for n in numbers:
            chosen[n] = choose(sets["train"], n, fitted.truth_blur)
            tracker.advance()
    scores = []
    with Tracker("score", len(sets["valid"]), "images") as tracker:
        for index, image in enumerate(sets["valid"]):
            scores.append(score(image, index, arguments.splits, chosen, fitted.truth_blur))
            tracker.advance()
    labels = " | ".join(row.label for row in METRICS.values())
    print(f"\n| {len(scores)} images, {arguments.splits} splits | {labels} |")
    print("|---" * (len(METRICS) + 1) + "|")
    for name in scores[0]:
        values = observers.mean([each[name] for each in scores]).values()
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |")


if __name__ == "__main__":
    with reported():
        main()
