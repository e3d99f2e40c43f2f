"""What the images and fixations of a dataset are like, in numbers that are compared with other data.

Example: images of this week are darker, or have fewer observers, than the images of last week.
"""

import csv
import math
import pathlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageStat

from trainer.data import prepared_data
from trainer.data.center_bias import CenterBias
from trainer.data.prepared_data import Distribution, MeanMap, Statistics
from trainer.data.source_layout import Gaze, Size
from trainer.io import StrPath

GRID = (12, 16)
"""(height, width) of the coarse centre bias, cells."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
LARGE = 0.5
"""Smallest difference of means that is large, in standard deviations: Cohen's medium effect, "visible to the naked
eye of a careful observer" (A power primer, Psychological Bulletin 112, 1992, p. 156)."""
Z = 2.99
"""Standard errors by which a difference must lie above `LARGE`: 95% for the nine features of all and of the added
images together (Bonferroni)."""
FEW = 0.5
"""Share of last time's images below which a part of the data seems to be missing. The interval that decides about
a model is then 1.4 times as wide."""


@dataclass(frozen=True)
class Feature:
    """A number that each image has."""

    label: str
    unit: str = ""
    is_log: bool = False
    """Whether images are compared by its logarithm to the base 2, since its values are far apart."""
    least_std: float = 0.02
    """A smaller standard deviation counts as this: where all images are alike, no tiny difference is large."""

    def shown(self, value: float) -> float:
        """Convert a value that is compared, perhaps a logarithm, to the unit of the feature."""
        return 2**value if self.is_log else value

    def text(self, value: float) -> str:
        """Format a value that is compared, perhaps a logarithm, in the unit of the feature."""
        number = self.shown(value)
        return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


FEATURES = {
    "pixels": Feature("Pixels", "height \N{MULTIPLICATION SIGN} width", is_log=True, least_std=0.25),
    "aspect": Feature("Width / height", is_log=True, least_std=0.25),
    "luminance": Feature("Luminance", "mean, 0 to 1"),
    "contrast": Feature("Contrast", "standard deviation of the luminance"),
    "fixations": Feature("Fixations", is_log=True, least_std=0.25),
    "observers": Feature("Observers", is_log=True, least_std=0.25),
    "x": Feature("Attention across", "mean position, 0 left to 1 right"),
    "y": Feature("Attention down", "mean position, 0 top to 1 bottom"),
    "distance": Feature("Attention off centre", "mean distance, 0 to 0.71"),
}
"""Column of `prepared_data.IMAGES` -> what it holds. Positions are relative to the sides of the image."""


def measure_image(
    stimulus: NDArray[np.uint8], density: NDArray[np.uint8], original_size: Size, gaze: Gaze | None
) -> dict[str, float]:
    """The features of one image that are known.

    Args:
        stimulus: (h, w, 3) RGB at the network's input size, without padding.
        density: (h, w), not all 0.
        original_size: (height, width) of the image at the source, pixels.
        gaze: Its fixations. None if only the density is known.
    """
    height, width = original_size
    grey = ImageStat.Stat(Image.fromarray(stimulus).convert("L"))  # the luma of ITU-R BT.601
    y, x = ((np.arange(n) + 0.5) / n for n in density.shape)
    share = density / density.sum(dtype=np.float64)
    distance = np.hypot(y[:, None] - 0.5, x - 0.5)
    values = {
        "pixels": height * width,
        "aspect": width / height,
        "luminance": grey.mean[0] / 255,
        "contrast": grey.stddev[0] / 255,
        "x": float(share.sum(axis=0) @ x),
        "y": float(share.sum(axis=1) @ y),
        "distance": float((share * distance).sum()),
    }
    if gaze is not None:
        values["fixations"] = len(gaze.points)
        if gaze.observers is not None:
            values["observers"] = len(np.unique(gaze.observers))
    return values


def read_statistics(folder: StrPath, without: Collection[str] = ()) -> Statistics | None:
    """The statistics of a prepared dataset. They do not depend on the order of its images.

    Args:
        folder: The prepared dataset.
        without: Digests of images to leave out.

    Returns:
        None for data without `IMAGES`, and if no image is left.
    """
    path = pathlib.Path(folder) / prepared_data.IMAGES
    if not path.exists():
        return None
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["digest"] not in without]
    values = {name: [float(row[name]) for row in rows if row.get(name)] for name in FEATURES}
    if not values["pixels"]:
        return None
    known = {name: each for name, each in values.items() if len(each) == len(rows)}
    statistics = Statistics(
        images=len(rows), values={name: _distribution(each, FEATURES[name]) for name, each in known.items()}
    )
    if (pathlib.Path(folder) / prepared_data.CENTER_BIAS).exists() and not without:
        manifest = prepared_data.Manifest.load(folder)
        cells = coarse(CenterBias.read(pathlib.Path(folder)).histogram)
        statistics["center_bias"] = MeanMap(
            cells=[[_rounded(cell) for cell in row] for row in cells],
            images=manifest.counts[manifest.bias_split],
            variation=manifest.map_variation,
        )
    return statistics


def _distribution(values: list[float], feature: Feature) -> Distribution:
    numbers = np.sort(np.log2(values) if feature.is_log else np.array(values))  # sums depend on the order
    return Distribution(
        mean=_rounded(numbers.mean()),
        std=_rounded(numbers.std()),
        quantiles=[_rounded(number) for number in np.quantile(numbers, QUANTILES)],
    )


def coarse(share: NDArray[np.floating]) -> NDArray[np.float64]:
    """The sum in each cell of a `GRID` of a map that has the size of a centre bias."""
    height, width = GRID
    cells: NDArray[np.float64] = (
        share.astype(np.float64).reshape(height, -1, width, share.shape[1] // width).sum((1, 3))
    )
    return cells


def variation(cells: Sequence[NDArray[np.float32]]) -> float:
    """`prepared_data.Manifest.map_variation` of maps in coarse cells. Each map sums to 1."""
    maps = np.sort(np.array(cells, np.float64), axis=0)  # sums depend on the order
    mean = maps.mean(axis=0)
    squares = (maps**2).mean(axis=0)
    return _rounded(float(np.sum(squares[mean > 0] / mean[mean > 0]) - 1))


def _rounded(number: float) -> float:
    return float(f"{number:.7g}")


# === Compare ===


@dataclass(frozen=True)
class Shift:
    """The difference of a feature between two datasets."""

    effect: float
    """Difference of the means in pooled standard deviations (Cohen's d). Of centre biases, their divergence."""
    is_large: bool
    """Whether the difference is large, and not by chance."""

    @classmethod
    def of_values(cls, now: NDArray[np.floating], last: NDArray[np.floating], least_std: float) -> "Shift":
        """Compare a number that images of two datasets have, (n,) and (m,), as `DataShift.of` does."""
        ours, theirs = ((float(each.mean()), float(each.std())) for each in (now, last))
        return cls.of_moments(ours, theirs, len(now), len(last), least_std)

    @classmethod
    def of_moments(
        cls, ours: tuple[float, float], theirs: tuple[float, float], n: int, m: int, least_std: float
    ) -> "Shift":
        """Compare n images with m others, by the mean and the standard deviation of both."""
        pooled = math.sqrt((n * ours[1] ** 2 + m * theirs[1] ** 2) / max(1, n + m - 2))
        effect = (ours[0] - theirs[0]) / max(least_std, pooled)
        error = math.sqrt((n + m) / (n * m) + effect**2 / (2 * (n + m)))
        return cls(effect, abs(effect) - Z * error > LARGE)


@dataclass(frozen=True)
class DataShift:
    """How the images of a dataset differ from the images of last time."""

    now: Statistics
    last: Statistics
    LARGE: ClassVar[float] = LARGE

    def of(self, feature: str) -> Shift | None:
        """Compare a feature. None if one of both lacks it.

        A difference is large if the confidence interval of its size lies above `LARGE`. Its standard error is from
        Hedges and Olkin (Statistical Methods for Meta-Analysis, 1985, p. 86) for two independent samples. Images
        that both datasets have make it smaller, so that growing data are not named by chance.
        """
        if feature not in self.now["values"] or feature not in self.last["values"]:
            return None
        ours, theirs = ((each["values"][feature]["mean"], each["values"][feature]["std"]) for each in self._both)
        n, m = (each["images"] for each in self._both)
        return Shift.of_moments(ours, theirs, n, m, FEATURES[feature].least_std)

    @property
    def _both(self) -> tuple[Statistics, Statistics]:
        return self.now, self.last

    def divergence(self) -> Shift | None:
        """Compare both centre biases by the Kullback-Leibler divergence, in nats. None unless both are known.

        A normal distribution that moves by `LARGE` standard deviations diverges by half of its square, so more is
        large. Mean maps of images of one kind diverge by half of their variation divided by their number. Three
        times as much is taken for chance. (Halves of 700 images of SALICON, of 700 of ADD1000 and of the generated
        data reach 2.9 times in 200 draws.)
        """
        if "center_bias" not in self.now or "center_bias" not in self.last:
            return None
        ours, theirs = self.now["center_bias"], self.last["center_bias"]
        p, q = (np.array(each["cells"]) + 1e-6 for each in (ours, theirs))
        p, q = p / p.sum(), q / q.sum()
        effect = float((p * np.log(p / q)).sum())
        by_chance = sum(each["variation"] / max(1, each["images"]) for each in (ours, theirs)) / 2
        return Shift(effect, effect > LARGE**2 / 2 + 3 * by_chance)

    def warnings(self, added: Statistics | None) -> list[str]:
        """Clauses about large differences from last time, of all images or of the images that were added.

        Example: `luminance: 0.2, last time 0.5 (-1.3 standard deviations)`.
        """
        now, last, found = self.now, self.last, []
        if now["images"] < FEW * last["images"]:
            found.append(f"{now['images']:,} images, last time {last['images']:,}")
        for name in last["values"]:
            if name in FEATURES and name not in now["values"]:
                found.append(f"{FEATURES[name].label.lower()}: not known for all images, as it was last time")
        groups = {"": self}
        if added:
            groups[f" of {added['images']:,} added images"] = DataShift(added, last)
        for name, feature in FEATURES.items():
            for group, of_group in groups.items():
                difference = of_group.of(name)
                if difference and difference.is_large:
                    ours, theirs = (feature.text(each["values"][name]["mean"]) for each in of_group._both)
                    found.append(
                        f"{feature.label.lower()}{group}: {ours}, last time {theirs} ({difference.effect:+.1f} "
                        "standard deviations)"
                    )
                    break
        bias = self.divergence()
        if bias and bias.is_large:
            found.append(f"centre bias: diverges from that of last time by {bias.effect:.2f} nats")
        return found
