"""How well the observers of one image predict each other: one by all others, and one half by the other half.

The prediction of some observers is the density of their fixations, which is a Gaussian blur of them, mixed with
the centre bias (the gold standard of Kümmerer et al. 2015). Models and the centre bias are scored against the same
held-out observers, so that all three can be compared.
"""

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from trainer import metrics
from trainer.data.tfrecords import Example
from trainer.evaluation.background import Background, Size
from trainer.evaluation.per_image import LEAVE_ONE_OUT, SPLIT_HALF, Scores
from trainer.metric_table import BASELINE, DENSITY, FIXATIONS, METRICS, OTHER_COUNTS, metrics_that_need

PROTOCOLS = {LEAVE_ONE_OUT: tuple(metrics_that_need(FIXATIONS)), SPLIT_HALF: tuple(METRICS)}
"""Protocol -> its metrics. The few fixations of one observer make no density to compare with."""

LONGER_SIDE_PX = 160
"""Size at which observers are scored. The blurs are 1.6 px or more there, so that rounding fixations to pixels
changes little; each metric takes a sixteenth of the time that it takes at 480 x 640."""
MOST_LEFT_OUT = 10
"""Number of observers that are left out one by one; of more, they are chosen at random for each image."""
N_SPLITS = 2

BLURS = tuple(0.01 * 1.25**step for step in range(10))
"""Standard deviations of the Gaussian, divided by the longer side: 0.01 to 0.075."""
BIAS_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35)

Map = npt.NDArray[np.float64]
Points = npt.NDArray[np.int64]
Truth = Mapping[str, Any]
"""The needs of METRICS."""


class Choice(NamedTuple):
    """How fixations become a prediction."""

    blur: float
    """Standard deviation of the Gaussian, divided by the longer side."""
    bias: float
    """Share of the centre bias, 0..1."""


CHOICES = tuple(Choice(*pair) for pair in itertools.product(BLURS, BIAS_SHARES))


class Case(NamedTuple):
    """Observers who predict, and those who are the truth."""

    predicting: list[int]
    held_out: list[int]


@dataclasses.dataclass(frozen=True)
class Observed:
    """One image as its observers saw it."""

    observers: list[Points]
    """The fixations (n, 2) of each observer, (y, x) in pixels of `size`; nobody has none."""
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
        size = small_size(example.original_size)
        points = metrics.scale_points(example.fixations, example.original_size, size)
        observers = [points[example.observers == observer] for observer in np.unique(example.observers)]
        bias = background.center_bias(size).astype(np.float64)
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
        """The needs of the metrics; no density without a `blur`, no OTHER_COUNTS if other images have none."""
        truth: dict[str, Any] = {
            FIXATIONS: np.concatenate([self.observers[observer] for observer in held_out]),
            BASELINE: self.center_bias,
        }
        if blur is not None:
            truth[DENSITY] = self.density(held_out, blur)
        if self.other_counts.any():
            truth[OTHER_COUNTS] = self.other_counts
        return truth

    def cases(self, protocol: str, seed: Sequence[int], most: int) -> list[Case]:
        """At most `most` left-out observers or random halves; the first half of an odd number is the smaller."""
        random, n = np.random.default_rng(seed), len(self.observers)
        if protocol == LEAVE_ONE_OUT:
            left_out = random.permutation(n)[:most].tolist()
            return [Case([other for other in range(n) if other != one], [one]) for one in left_out]
        orders = [random.permutation(n).tolist() for _ in range(most)]
        return [Case(order[: n // 2], order[n // 2 :]) for order in orders]

    def _blurred(self, chosen: Collection[int], blur: float) -> Map:
        """The fixations of some observers, blurred without reflection at the borders, (h, w)."""
        counts = np.zeros(self.size)
        for observer in chosen:
            np.add.at(counts, tuple(self.observers[observer].T), 1)
        # Not by products of matrices: their threads and those of the images would wait for each other.
        blurred: Map = ndimage.gaussian_filter(counts, blur * max(self.size), mode="constant")
        return blurred


def small_size(size: Size) -> Size:
    """(h, w) with a longer side of at most LONGER_SIDE_PX, in the proportions of `size`."""
    scale = min(1, LONGER_SIDE_PX / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def shrink(prediction: npt.NDArray[Any], size: Size) -> Map:
    """A model's map of the whole image, resized to (h, w)."""
    image = Image.fromarray(np.asarray(prediction, np.float32))
    return np.asarray(image.resize(size[::-1], Image.Resampling.BOX), np.float64)


def score_maps(maps: Mapping[str, Map], truth: Truth) -> Scores:
    """Metric -> the score of its map, without the metrics for which `truth` does not suffice."""
    return {
        metric: metrics.score(metric, prediction, truth)
        for metric, prediction in maps.items()
        if truth.keys() >= set(METRICS[metric].needs)
    }


def mean(rows: Sequence[Scores]) -> Scores:
    """The mean of scores that have the same metrics."""
    return {metric: float(np.mean([row[metric] for row in rows])) for metric in rows[0]}
