"""Predict and score the validation or test images of one prepared dataset.

Each model answers for the original image as it does for users: at its own input size, with its own calibration
(`trainer.prediction.predictor`). Its map is scored at two sizes that do not depend on the model: at the image's
for metrics of fixations, and at `Original.MAP_SIZE` for metrics of maps.
"""

import collections
import dataclasses
import functools
import os
import pathlib
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from trainer.data import Example, Manifest, Original, PreparedData
from trainer.errors import UserError
from trainer.evaluation.evaluation import Role, Scores
from trainer.evaluation.per_image import LeftOut, PerImage
from trainer.machine import Tracker, map_ahead, open_pool
from trainer.metrics import (
    BASELINE,
    DENSITY,
    FIXATIONS,
    METRICS,
    OF_UNIFORM,
    OTHER_COUNTS,
    Values,
    count_points,
    metric_values,
    metrics_that_need,
    scale_points,
)
from trainer.network import PAGE, Frame
from trainer.prediction import Predictor, Prepared

MOST_PENDING = 8 + 4 * (os.cpu_count() or 1)
"""Number of images that are prepared or scored ahead of the network."""
KEPT_BYTES = 2**28
"""Memory for predictions that are drawn after all images are scored. Images beyond it are predicted again."""
LEFT_OUT_PX = 80
"""Longer side of the maps by whose scores observers are left out of densities. A blur of one degree has 1.5 pixels
or more there."""

Size = tuple[int, int]
Map = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]
Output = tuple[Prepared, dict[str, Map]]
"""How a model saw an image, without its inputs, and kind of images -> its maps of the padded screens."""
Predictions = dict[str, Map]
"""Model -> its map of one image, (h, w) in [0, 1], at the size of the image."""


# === Sizes ===


def small_size(size: Size, longer_side_px: int) -> Size:
    """(h, w) with a longer side of at most `longer_side_px`, in the proportions of `size`."""
    scale = min(1, longer_side_px / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def resize_map(prediction: npt.NDArray[Any], size: Size) -> npt.NDArray[np.float64]:
    """A map of the whole image, resized to (h, w)."""
    image = Image.fromarray(np.asarray(prediction, np.float32))
    return np.asarray(image.resize(size[::-1], Image.Resampling.BOX), np.float64)


# === The context of one image's metrics ===


def content(example: Example) -> tuple[slice, slice]:
    """Rows and columns of the image in its padded frame."""
    top, left, height, width = Frame(example.density.shape).box(example.original_size)
    return slice(top, top + height), slice(left, left + width)


class Background:
    """The centre bias of a dataset and the fixations of some images, at any size.

    Args:
        folder: A prepared dataset, for its centre bias. If it is a test set, the images are its own, and the
            centre bias of each is made of other images (see `trainer.data.center_bias`).
        examples: The images with the fixations that count. They may be of different sizes, or have no fixations.
    """

    def __init__(self, folder: pathlib.Path, examples: Iterable[Example]) -> None:
        self._center_bias = PreparedData(folder).center_bias
        self._is_own = Manifest.load(folder).is_test_set
        points = collections.defaultdict(list)
        for example in examples:
            points[example.original_size].append(np.asarray(example.fixations, np.int64).reshape(-1, 2))
        self._fixations = {size: np.concatenate(those) for size, those in points.items()}
        # Computed once per image size, and fold of a test set.
        self._resized = functools.lru_cache(32)(self._resize_center_bias)
        self._all_counts = functools.lru_cache(16)(self._count_all_fixations)

    def center_bias(self, example: Example, size: Size) -> Map:
        """The centre bias for an image when it has the `size` (h, w). It sums to 1 at its own size."""
        return self._resized(self._center_bias.fold_of(example.index) if self._is_own else None, size)

    def other_counts(self, example: Example, size: Size) -> Counts:
        """Fixations of all images but this one per pixel of it, when it has the `size` (h, w)."""
        own = scale_points(example.fixations, example.original_size, size)
        # The image's own fixations are scaled in the same way in both, so they cancel exactly.
        return self._all_counts(size) - count_points(own, size)

    def _resize_center_bias(self, fold: int | None, size: Size) -> Map:
        image = Image.fromarray(self._center_bias.without(fold).astype(np.float32))
        return np.asarray(image.resize(size[::-1], Image.Resampling.BILINEAR))

    def _count_all_fixations(self, size: Size) -> Counts:
        scaled = [scale_points(points, other, size) for other, points in self._fixations.items()]
        return count_points(np.concatenate(scaled), size)


# === The scores ===


@dataclasses.dataclass(frozen=True)
class _Image:
    """A held-out image in the form of each network's input. Its own pixels are no longer in memory."""

    example: Example
    original: Original
    prepared: dict[str, Prepared]
    """Model -> the image as it sees it. Models of the same sizes share it."""


@dataclasses.dataclass(frozen=True)
class _Predicted:
    """A held-out image with what each network answers."""

    example: Example
    original: Original
    outputs: dict[str, Output]
    """Model -> how it saw the image, and its maps of the padded screens by kind, (n, H, W) in [0, 1]."""


class Scorer:
    """Scores models, the centre bias and a uniform map on the same images.

    Threads decode and score the images, which are predicted one by one, so that memory does not grow with their
    number. Only the fixations of all images are kept, for the shuffled AUC.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        manifest: Manifest,
        predictors: Mapping[str, Predictor],
        bias_folder: pathlib.Path | None = None,
        left_out: Collection[str] = (),
        each: Callable[[Example, str, Predictions, Background], None] | None = None,
    ) -> None:
        """Prepare to score the held-out images in `folder`.

        Args:
            folder: Prepared dataset.
            manifest: Its manifest.
            predictors: Name -> model.
            bias_folder: Prepared dataset with the images that make the centre bias. `folder` if None.
            left_out: Names of images that are not scored.
            each: Called in threads with an image, its group, its predictions, and the background.
        """
        self._data, self._manifest, self._left_out = PreparedData(folder), manifest, frozenset(left_out)
        self._bias_folder, self._each = bias_folder or folder, each
        self._predictors = predictors
        self._kept: dict[str, dict[str, Output]] = {}
        """Name of an image -> `_Predicted.outputs`, of at most KEPT_BYTES."""
        self._room_bytes = KEPT_BYTES
        self.n_fixations = 0
        """Fixations on the images that are scored, known after `score`."""
        self.n_observers = 0
        """The most observers of one of them. 0 if observers are not told apart."""
        self.n_pages = dict.fromkeys(predictors, 0)
        """Model -> the number of images that it predicted as pages, known after `score`."""

    def score(self, description: str) -> PerImage:
        """Score every image, in the order of the dataset.

        Args:
            description: Name of this step on the progress bar.

        Raises:
            UserError: a prediction has values that are not finite.
        """
        score_one = functools.partial(self._score_one, Background(self._bias_folder, self._fixated()))
        rows, groups, left_out = {}, [], []
        with open_pool() as pool, Tracker(description, self._n_images, "images") as tracker:
            predicted = map(self._count, self._predict(pool, self._held_out()))
            for original, scores, without in map_ahead(pool, score_one, predicted, MOST_PENDING):
                rows[original.name] = scores
                groups.append(original.group)
                left_out.append(without)
                tracker.advance()
        return PerImage.of(rows, groups, left_out)

    def draw(self, stems: dict[str, pathlib.Path]) -> dict[str, dict[str, pathlib.Path]]:
        """Write PNGs of some images, fitted into `MAP_SIZE`: the stimulus, its map, and each model's prediction.

        Args:
            stems: Name of an image -> path, to which the names of its files are appended.

        Returns:
            Name of an image -> `stimulus`, `density` or a model -> file.
        """
        chosen = (pair for pair in self._held_out() if pair[0].name in stems)
        files: dict[str, dict[str, pathlib.Path]] = {}
        with open_pool() as pool:
            for example, original in chosen:
                stem, outputs = stems[original.name], self._kept.get(original.name)
                if outputs is None:
                    outputs = next(self._predict(pool, [(example, original)])).outputs
                stimulus = Frame(Original.MAP_SIZE).image(self._pixels(original))
                maps = {"density": original.density / original.density.max()}
                maps |= {model: _compared(each) for model, each in self._restored(example, outputs).items()}
                panels = {"stimulus": np.round(_content(stimulus, example.original_size)).astype(np.uint8)}
                panels |= {name: _grey(values) for name, values in maps.items()}
                # The label of a model may contain a slash.
                names = {panel: f"{stem.name}-{urllib.parse.quote(panel, safe='')}.png" for panel in panels}
                files[original.name] = {panel: stem.with_name(name) for panel, name in names.items()}
                for panel, pixels in panels.items():
                    Image.fromarray(pixels).save(files[original.name][panel])
        return files

    @property
    def _n_images(self) -> int:
        return self._manifest.counts[self._manifest.held_out] - len(self._left_out)

    def _held_out(self) -> Iterator[tuple[Example, Original]]:
        return (pair for pair in self._data.held_out() if pair[0].name not in self._left_out)

    def _predict(
        self, pool: ThreadPoolExecutor, images: Iterable[tuple[Example, Original]]
    ) -> Iterator[_Predicted]:
        """What each network answers for each image."""
        for image in map_ahead(pool, self._prepare, images, MOST_PENDING):
            outputs = {model: self._forward(model, image) for model in self._predictors}
            yield _Predicted(image.example, image.original, outputs)

    def _count(self, predicted: _Predicted) -> _Predicted:
        """Count an image of each kind, and keep its outputs for `draw`, if there is room."""
        for model, (seen, maps) in predicted.outputs.items():
            self.n_pages[model] += PAGE in maps and seen.page >= 0.5
            self._room_bytes -= sum(each.nbytes for each in maps.values())
        if self._room_bytes >= 0:
            self._kept[predicted.original.name] = predicted.outputs
        return predicted

    def _prepare(self, pair: tuple[Example, Original]) -> _Image:
        """The image fitted into the input of each network."""
        example, original = pair
        pixels, prepared = self._pixels(original), {}
        by_sizes: dict[tuple[tuple[str, Size], ...], Prepared] = {}
        for model, predictor in self._predictors.items():
            sizes = tuple(predictor.image_sizes.items())
            by_sizes[sizes] = by_sizes.get(sizes) or predictor.prepare(pixels)
            prepared[model] = by_sizes[sizes]
        return _Image(example, original, prepared)

    def _pixels(self, original: Original) -> npt.NDArray[np.uint8]:
        """(h, w, 3) RGB, decoded as for the training."""
        return self._data.pixels(original)

    def _forward(self, model: str, image: _Image) -> Output:
        """What a model answers for an image."""
        prepared = image.prepared[model]
        try:
            maps = self._predictors[model].forward(prepared)
        except UserError as error:
            raise UserError(f"{error} (the {model} model, on the image {image.example.name})") from None
        return prepared._replace(inputs={}), maps

    def _restored(self, example: Example, outputs: Mapping[str, Output]) -> Predictions:
        """The map of each model at the size of the image."""
        size = example.original_size
        return {model: self._predictors[model].restore(*each, size) for model, each in outputs.items()}

    def _score_one(
        self, background: Background, predicted: _Predicted
    ) -> tuple[Original, dict[str, Scores], LeftOut | None]:
        """The original of an image, and model -> scores: each metric at the size that METRICS says.

        Also the scores without one observer. None if it is not known who saw which images.
        """
        example, original = predicted.example, predicted.original
        predictions = self._restored(example, predicted.outputs)
        if self._each is not None:
            self._each(example, original.group, predictions, background)
        compared = {model: _compared(each) for model, each in predictions.items()}
        truth: dict[str, Any] = {DENSITY: original.density}
        compared[Role.CENTER_BIAS] = background.center_bias(example, original.density.shape)
        scores = _means(_values(compared, truth))
        if not len(example.fixations):
            return original, scores, None
        size = example.original_size
        truth = {FIXATIONS: example.fixations, BASELINE: background.center_bias(example, size)}
        if (others := background.other_counts(example, size)).any():
            truth[OTHER_COUNTS] = others
        values = _values({**predictions, Role.CENTER_BIAS: truth[BASELINE]}, truth)
        scores = {model: scores[model] | more for model, more in _means(values).items()}
        if not self._manifest.has_known_observers:
            return original, scores, None
        without = _without_observers(values, example.observers)
        if self._manifest.blur_sigma_px:
            for model, more in _without_each(compared, example, self._manifest.blur_sigma_px).items():
                without[model] |= more
        return original, scores, LeftOut(np.unique(example.observers), without)

    def _fixated(self) -> Iterator[Example]:
        """The examples, if they have fixations."""
        if not self._manifest.has_fixations:
            return
        with Tracker("read fixations", self._n_images, "images") as tracker:
            for example in self._data.examples(self._manifest.held_out):
                if example.name in self._left_out:
                    continue
                self.n_fixations += len(example.fixations)
                self.n_observers = max(self.n_observers, len(np.unique(example.observers)))
                yield example
                tracker.advance()


def _content(values: npt.NDArray[Any], size: Size) -> npt.NDArray[Any]:
    """The part of values in the frame `Original.MAP_SIZE` that an image of `size` (h, w) fills."""
    top, left, height, width = Frame(Original.MAP_SIZE).box(size)
    return values[top : top + height, left : left + width]


def _compared(prediction: Map) -> Map:
    """The map of a model, (h, w), at the size of `Original.density`."""
    fitted: Map = Frame(Original.MAP_SIZE).map_inside(prediction, (prediction.shape[0], prediction.shape[1]))
    return fitted


def _values(
    maps: Mapping[str, npt.NDArray[np.floating]], truth: Mapping[str, Any]
) -> dict[str, dict[str, Values | float]]:
    """Model -> `metrics.metric_values` of all metrics that `truth` allows, of the maps and of a uniform one."""
    names = [name for name, row in METRICS.items() if truth.keys() >= set(row.needs)]
    values = {model: {name: metric_values(name, each, truth) for name in names} for model, each in maps.items()}
    uniform, known = np.ones_like(maps[Role.CENTER_BIAS]), OF_UNIFORM
    values[Role.UNIFORM] = {
        name: known[name] if name in known else metric_values(name, uniform, truth) for name in names
    }
    return values


def _means(values: Mapping[str, Mapping[str, Values | float]]) -> dict[str, Scores]:
    """Model -> metric -> score."""
    return {
        model: {name: float(np.mean(each)) for name, each in of_model.items()}
        for model, of_model in values.items()
    }


# === The scores without one of the observers ===


def _without_observers(
    values: Mapping[str, Mapping[str, Values | float]], observers: npt.NDArray[np.int64]
) -> dict[str, dict[str, Values]]:
    """Model -> metric of fixations -> its score without each of the observers, (n,). NaN for the only one."""
    _, places, counts = np.unique(observers, return_inverse=True, return_counts=True)
    left = len(observers) - counts

    def means(each: Values | float) -> Values:
        sums = np.bincount(places, np.broadcast_to(each, len(observers)))
        scores: Values = np.divide(sums.sum() - sums, left, where=left > 0, out=np.full(len(sums), np.nan))
        return scores

    return {model: {name: means(each) for name, each in of_model.items()} for model, of_model in values.items()}


def _without_each(maps: Mapping[str, Map], example: Example, sigma_px: float) -> dict[str, dict[str, Values]]:
    """Model -> metric of densities -> its score without each of the observers, (n,). NaN for the only one.

    The density of the others is made anew as `blur` does, with `sigma_px` pixels of the original image, but
    at a small size, where it takes little time: only the differences between these scores count.
    """
    size = example.original_size
    small = small_size(size, LEFT_OUT_PX)
    resized = {model: resize_map(each, small) for model, each in maps.items()}

    def scores(observer: int) -> dict[str, Scores]:
        others = np.unique(example.fixations[example.observers != observer], axis=0)
        if not len(others):
            return {}
        counts = count_points(scale_points(others, size, small), small)
        density = ndimage.gaussian_filter(counts.astype(np.float64), sigma_px * max(small) / max(size))
        above = density - density.min()
        return _means(_values(resized, {DENSITY: above if above.any() else np.ones_like(above)}))

    rows = [scores(observer) for observer in np.unique(example.observers)]
    return {
        model: {
            name: np.array([row[model][name] if row else np.nan for row in rows])
            for name in metrics_that_need(DENSITY)
        }
        for model in (*maps, Role.UNIFORM)
    }


def _grey(values: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
    """A map with values of 0..1 as grey levels."""
    levels: npt.NDArray[np.uint8] = np.round(np.clip(values, 0, 1) * 255).astype(np.uint8)
    return levels
