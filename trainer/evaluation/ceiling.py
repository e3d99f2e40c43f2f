"""The ceiling of a dataset: how well its observers predict each other, and how far models come towards that.

One observer is predicted by all others, and one half of them by the other half. The prediction of some observers
is the density of their fixations, a Gaussian blur of them, mixed with the centre bias (the gold standard
of Kümmerer et al. 2015). Models and the centre bias are scored against the same held-out observers, so that all
three can be compared.

The blur and the share of the centre bias with which observers predict best are chosen on training images, one pair
for each metric. A test set has none: each half of its images is scored with the choices of the other half. Scores
are means over some of the held-out images, because they change little with more of them.
"""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage, optimize

from trainer.data import Example, Manifest, PreparedData
from trainer.evaluation import confidence
from trainer.evaluation.confidence import Values
from trainer.evaluation.evaluation import CeilingScores, Choice, HeldOutScores, NoCeiling, Role, Scores, Share
from trainer.evaluation.per_image import PerImage
from trainer.evaluation.scoring import Background, Size, content, resize_map, small_size
from trainer.machine import Tracker, announce, map_ahead, open_pool
from trainer.metrics import (
    BASELINE,
    DENSITY,
    FIXATIONS,
    METRICS,
    OTHER_COUNTS,
    correlation,
    metric_value,
    metrics_that_need,
    scale_points,
)

LEAVE_ONE_OUT, SPLIT_HALF = "leave_one_out", "split_half"
"""Who predicts whom in the scores of people: all others one observer, or one half of them the other half."""
PROTOCOLS = {LEAVE_ONE_OUT: tuple(metrics_that_need(FIXATIONS)), SPLIT_HALF: tuple(METRICS)}
"""Protocol -> its metrics. The few fixations of one observer make no density to compare with."""

LONGER_SIDE_PX = 160
"""Size at which observers are scored. The blurs are 1.6 px or more there, so that rounding fixations to pixels
changes little. Each metric takes a sixteenth of the time that it takes at 480 x 640."""
MOST_LEFT_OUT = 10
"""Number of observers that are left out one by one. Of more, they are chosen at random for each image."""
N_SPLITS = 2

BLURS = tuple(0.01 * 1.25**step for step in range(10))
"""Standard deviations of the Gaussian, divided by the longer side: 0.01 to 0.075."""
BIAS_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35)
MOST_IMAGES = 500
"""Number of held-out images that are scored. If there are more, they are chosen at random."""
FITTED_ON = 40
"""Number of images for the choices."""
MOST_SPLITS = {LEAVE_ONE_OUT: MOST_LEFT_OUT, SPLIT_HALF: N_SPLITS}
FITTING, SCORING = 0, 1
"""Seeds of the splits."""

Map = npt.NDArray[np.float64]
Points = npt.NDArray[np.int64]
Truth = Mapping[str, Any]
"""The needs of METRICS."""


CHOICES = tuple(Choice(*pair) for pair in itertools.product(BLURS, BIAS_SHARES))


class ObserverSplit(NamedTuple):
    """A division of the observers into those who predict and those who are the truth."""

    predicting: list[int]
    held_out: list[int]


@dataclasses.dataclass(frozen=True)
class Observed:
    """One image as its observers saw it."""

    observers: list[Points]
    """The fixations (n, 2) of each observer, (y, x) in pixels of `size`. Nobody has none."""
    size: Size
    center_bias: Map
    """(h, w)."""
    other_counts: npt.NDArray[np.int64]
    """Fixations of all other images per pixel, (h, w)."""
    _everyone: dict[float, Map] = dataclasses.field(default_factory=dict, repr=False)
    """Blur -> the blurred fixations of all observers, (h, w)."""

    @classmethod
    def of(cls, example: Example, background: Background) -> "Observed":
        """The image with a longer side of LONGER_SIDE_PX, or at its own size if that is smaller."""
        size = small_size(example.original_size, LONGER_SIDE_PX)
        points = scale_points(example.fixations, example.original_size, size)
        observers = [points[example.observers == observer] for observer in np.unique(example.observers)]
        bias = background.center_bias(example, size).astype(np.float64)
        others = background.other_counts(example, size) if observers else np.zeros(size, np.int64)
        return cls(observers, size, bias / bias.sum(), others)

    def density(self, chosen: Collection[int], blur: float) -> Map:
        """Distribution (h, w) of the fixations of some observers."""
        rest = set(range(len(self.observers))).difference(chosen)
        if len(rest) < len(chosen):  # blurring is linear, so that leaving one out needs no blur of all others
            if blur not in self._everyone:
                self._everyone[blur] = self._blurred(range(len(self.observers)), blur)
            blurred = np.maximum(self._everyone[blur] - self._blurred(rest, blur), 0)
        else:
            blurred = self._blurred(chosen, blur)
        density: Map = blurred / blurred.sum()
        return density

    def predict(self, predicting: Collection[int], choices: Collection[Choice]) -> dict[Choice, Map]:
        """The predictions of some observers, distributions (h, w)."""
        densities = {blur: self.density(predicting, blur) for blur in {choice.blur for choice in choices}}
        return {
            choice: (1 - choice.bias) * densities[choice.blur] + choice.bias * self.center_bias
            for choice in choices
        }

    def truth(self, held_out: Collection[int], blur: float | None) -> Truth:
        """The needs of the metrics. No density without a `blur`, no OTHER_COUNTS if other images have none."""
        truth: dict[str, Any] = {
            FIXATIONS: np.concatenate([self.observers[observer] for observer in held_out]),
            BASELINE: self.center_bias,
        }
        if blur is not None:
            truth[DENSITY] = self.density(held_out, blur)
        if self.other_counts.any():
            truth[OTHER_COUNTS] = self.other_counts
        return truth

    def observer_splits(self, protocol: str, seed: Sequence[int], most: int) -> list[ObserverSplit]:
        """At most `most` left-out observers or random halves. The first half of an odd number is the smaller."""
        random, n = np.random.default_rng(seed), len(self.observers)
        if protocol == LEAVE_ONE_OUT:
            left_out = random.permutation(n)[:most].tolist()
            return [ObserverSplit([other for other in range(n) if other != one], [one]) for one in left_out]
        orders = [random.permutation(n).tolist() for _ in range(most)]
        return [ObserverSplit(order[: n // 2], order[n // 2 :]) for order in orders]

    def _blurred(self, chosen: Collection[int], blur: float) -> Map:
        """The fixations of some observers, blurred without reflection at the borders, (h, w)."""
        counts = np.zeros(self.size)
        for observer in chosen:
            np.add.at(counts, tuple(self.observers[observer].T), 1)
        # Not by products of matrices: their threads and those of the images would wait for each other.
        blurred: Map = ndimage.gaussian_filter(counts, blur * max(self.size), mode="constant")
        return blurred


def score_maps(maps: Mapping[str, Map], truth: Truth) -> Scores:
    """Metric -> the score of its map, without the metrics for which `truth` does not suffice."""
    return {
        metric: metric_value(metric, prediction, truth)
        for metric, prediction in maps.items()
        if truth.keys() >= set(METRICS[metric].needs)
    }


@dataclasses.dataclass(frozen=True)
class Fitted:
    """How observers predict best on some images."""

    truth_blur: float
    """The blur by which densities of all observers are most similar (CC) to the maps of the dataset."""
    choices: dict[str, dict[str, Choice]]
    """Protocol -> metric -> the choice with the best mean score."""


def fit_observers(folder: pathlib.Path) -> Fitted | None:
    """Choose on training images of a prepared dataset. None if none of them has two observers."""
    return _fit(folder, PreparedData(folder).some_examples("train", FITTED_ON))


def fit_halves(folder: pathlib.Path, trained_on: pathlib.Path) -> list[Fitted | None]:
    """Fit a test set in two folds: the choices for its even-indexed images are made on odd ones, and vice versa.

    `trained_on` is the prepared dataset with the centre bias.
    """
    data = PreparedData(folder)
    examples = data.some_examples(data.manifest.held_out, 2 * FITTED_ON)
    return [_fit(trained_on, [each for each in examples if each.index % 2 != half]) for half in range(2)]


def _fit(bias_folder: pathlib.Path, candidates: Sequence[Example]) -> Fitted | None:
    examples = [each for each in candidates if _n_observers(each) > 1]
    if not examples:
        return None
    announce(f"learning on {len(examples)} training images how well people predict each other")
    background = Background(bias_folder, examples)
    images = [Observed.of(example, background) for example in examples]
    truth_blur = _truth_blur(images, examples)

    def tables(index: int) -> dict[str, Values]:
        return {protocol: _score_choices(images[index], protocol, index, truth_blur) for protocol in PROTOCOLS}

    by_image = []
    with open_pool() as pool, Tracker("how well people predict each other", len(images), "images") as tracker:
        for of_image in map_ahead(pool, tables, range(len(images)), 2 * (os.cpu_count() or 1)):
            by_image.append(of_image)
            tracker.advance()
    choices = {}
    for protocol, names in PROTOCOLS.items():
        signs = np.array([1 if METRICS[name].higher_is_better else -1 for name in names])
        best = (signs * np.mean([each[protocol] for each in by_image], axis=0)).argmax(axis=0)
        choices[protocol] = {name: CHOICES[place] for name, place in zip(names, best, strict=True)}
    return Fitted(truth_blur, choices)


def _truth_blur(images: Sequence[Observed], examples: Sequence[Example]) -> float:
    maps = [
        resize_map(example.density[content(example)], image.size)
        for example, image in zip(examples, images, strict=True)
    ]

    def difference(blur: float) -> float:
        """Minus the sum of the CC of the densities of all observers with the maps of the dataset."""
        return -sum(
            correlation(image.density(range(len(image.observers)), blur), density)
            for image, density in zip(images, maps, strict=True)
        )

    bounds = (BLURS[0], BLURS[-1])
    return float(optimize.minimize_scalar(difference, bounds=bounds, method="bounded", options={"xatol": 2e-4}).x)


def _score_choices(image: Observed, protocol: str, index: int, truth_blur: float) -> Values:
    """The scores of one split with each choice, (choices, metrics). 0 where a metric cannot be computed."""
    (split,) = image.observer_splits(protocol, (FITTING, index), 1)
    names = PROTOCOLS[protocol]
    truth = image.truth(split.held_out, truth_blur if protocol == SPLIT_HALF else None)
    predicted = image.predict(split.predicting, CHOICES)
    rows = [score_maps(dict.fromkeys(names, predicted[choice]), truth) for choice in CHOICES]
    return np.array([[row.get(name, 0.0) for name in names] for row in rows])


class Ceiling:
    """Collects the scores of observers, centre bias and models on held-out images.

    Args:
        folder: The prepared dataset to evaluate on. Its observers are told apart.
        manifest: Its manifest.
        trained_on: The prepared dataset with the training images.
    """

    def __init__(self, folder: pathlib.Path, manifest: Manifest, trained_on: pathlib.Path) -> None:
        self._fitted = fit_halves(folder, trained_on) if manifest.is_test_set else [fit_observers(trained_on)]
        self._n_images = manifest.counts[manifest.held_out]
        chosen = np.random.default_rng(0).permutation(self._n_images)[:MOST_IMAGES]
        self._chosen = frozenset(chosen.tolist())
        self._rows: dict[int, dict[str, dict[str, Scores]]] = {}
        self._groups: dict[int, str] = {}
        self._n_observers: dict[int, int] = {}

    def add(
        self,
        example: Example,
        group: str,
        predictions: Mapping[str, npt.NDArray[np.float32]],
        background: Background,
    ) -> None:
        """Score one image, in any thread. An image that was not chosen or has one observer is left out.

        Args:
            example: A held-out image.
            group: Name of its group. Empty for an image of its own.
            predictions: Model -> its map, at any size.
            background: Of all held-out images.
        """
        fitted = self._fitted[example.index % len(self._fitted)]
        if fitted is None or example.index not in self._chosen:
            return
        n_observers = self._n_observers[example.index] = _n_observers(example)
        if n_observers < 2:
            return
        self._groups[example.index] = group
        image = Observed.of(example, background)
        maps = {model: resize_map(each, image.size) for model, each in predictions.items()}
        maps[Role.CENTER_BIAS] = image.center_bias
        self._rows[example.index] = {
            protocol: _score(image, protocol, example.index, fitted, maps) for protocol in PROTOCOLS
        }

    def describe(self, level: float) -> CeilingScores | NoCeiling:
        """Return the scores and shares, or why there is no ceiling.

        Args:
            level: Of the confidence intervals.
        """
        fits = [each for each in self._fitted if each is not None]
        if not fits:
            return NoCeiling("No image on which the blur is chosen has two observers.")
        if not self._rows:
            n_images = len(self._n_observers)
            return NoCeiling(f"None of {n_images:,} images has two observers, who could predict each other.")
        numbers = [self._n_observers[index] for index in sorted(self._rows)]
        return CeilingScores(
            n_images=len(numbers),
            n_chosen_of=self._n_images,
            n_too_few=len(self._n_observers) - len(numbers),
            n_observers=(min(numbers), float(np.median(numbers)), max(numbers)),
            truth_blur=float(np.mean([each.truth_blur for each in fits])),
            n_units=self._table(LEAVE_ONE_OUT).n_units,
            leave_one_out=self._describe(LEAVE_ONE_OUT, fits, level),
            split_half=self._describe(SPLIT_HALF, fits, level),
        )

    def _table(self, protocol: str) -> PerImage:
        """The scores of each image, by its index."""
        indices = sorted(self._rows)
        rows = {str(index): self._rows[index][protocol] for index in indices}
        return PerImage.of(rows, [self._groups[index] for index in indices])

    def _describe(self, protocol: str, fits: Sequence[Fitted], level: float) -> HeldOutScores:
        table = self._table(protocol)

        def share(model: str, metric: str) -> Share:
            scores, start, end = (table.values(each, metric) for each in (model, Role.CENTER_BIAS, Role.OBSERVERS))
            higher = METRICS[metric].higher_is_better
            return confidence.share(scores, start, end, higher, level)

        models = [model for model in table.scores if model not in (Role.CENTER_BIAS, Role.OBSERVERS)]
        return HeldOutScores(
            means={model: table.means(model) for model in table.scores},
            intervals={model: table.intervals(model, level) for model in table.scores},
            shares={model: {metric: share(model, metric) for metric in table.scores[model]} for model in models},
            choices={
                metric: [fitted.choices[protocol][metric] for fitted in fits] for metric in PROTOCOLS[protocol]
            },
        )


def _score(
    image: Observed, protocol: str, index: int, fitted: Fitted, maps: Mapping[str, Map]
) -> dict[str, Scores]:
    """Model, centre bias or Role.OBSERVERS -> the mean scores over the splits of one image."""
    choices = fitted.choices[protocol]
    rows: dict[str, list[Scores]] = {model: [] for model in (*maps, Role.OBSERVERS)}
    for split in image.observer_splits(protocol, (SCORING, index), MOST_SPLITS[protocol]):
        truth = image.truth(split.held_out, fitted.truth_blur if protocol == SPLIT_HALF else None)
        predicted = image.predict(split.predicting, set(choices.values()))
        theirs = {metric: predicted[choice] for metric, choice in choices.items()}
        rows[Role.OBSERVERS].append(score_maps(theirs, truth))
        for model, prediction in maps.items():
            rows[model].append(score_maps(dict.fromkeys(choices, prediction), truth))
    return {
        model: {metric: float(np.mean([each[metric] for each in scores])) for metric in scores[0]}
        for model, scores in rows.items()
    }


def _n_observers(example: Example) -> int:
    return len(np.unique(example.observers))
