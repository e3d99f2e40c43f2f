"""Predict and score the validation or test images of one prepared dataset."""

import collections
import functools
import itertools
import os
import pathlib
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from PIL import Image

from trainer import artifacts, metrics, preprocess
from trainer.artifacts import StrPath
from trainer.data import center_bias
from trainer.data.tfrecords import Example, read
from trainer.errors import UserError
from trainer.evaluation.per_image import CENTER_BIAS, UNIFORM, PerImage, Scores
from trainer.metric_table import BASELINE, DENSITY, FIXATIONS, METRICS, OTHER_COUNTS
from trainer.models.load import load_model
from trainer.progress import Tracker, map_ahead, open_pool

BATCH_SIZE = 8

Size = tuple[int, int]
Map = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]
Predictions = dict[str, Map]
"""Network -> its prediction for one image, (H, W), 0..1, at the network's input size."""
Network = Callable[[Size], Callable[[npt.NDArray[np.float32]], tf.Tensor]]
"""(H, W) -> function from images (n, H, W, 3), 0..255, to maps (n, H, W, 1)."""


# === The context of one image's metrics ===


def content(example: Example) -> tuple[slice, slice]:
    """Rows and columns of the image in its padded frame."""
    top, left, height, width = preprocess.content_box(example.original_size, example.density.shape)
    return slice(top, top + height), slice(left, left + width)


class Background:
    """The centre bias of a dataset and the fixations of some images, at any size.

    Args:
        folder: A prepared dataset, for its centre bias. If it is a test set, the images are its own, and the
            centre bias of each is made of other images (see `trainer.data.center_bias`).
        examples: The images whose fixations count; they may be of different sizes, or have no fixations.
    """

    def __init__(self, folder: pathlib.Path, examples: Iterable[Example]) -> None:
        self._center_bias = center_bias.CenterBias.read(folder)
        self._is_own = artifacts.Manifest.load(folder).is_test_set
        points = collections.defaultdict(list)
        for example in examples:
            points[example.original_size].append(np.asarray(example.fixations, np.int64).reshape(-1, 2))
        self._fixations = {size: np.concatenate(those) for size, those in points.items()}
        # Computed once per image size, and fold of a test set.
        self._resized = functools.lru_cache(32)(self._resize_center_bias)
        self._all_counts = functools.lru_cache(16)(self._count_all_fixations)

    def center_bias(self, example: Example, size: Size) -> Map:
        """The centre bias for an image when it has the `size` (h, w); it sums to 1 at its own size."""
        return self._resized(center_bias.fold_of(example.index) if self._is_own else None, size)

    def other_counts(self, example: Example, size: Size) -> Counts:
        """Fixations of all images but this one per pixel of it, when it has the `size` (h, w)."""
        own = metrics.scale_points(example.fixations, example.original_size, size)
        # The image's own fixations are scaled in the same way in both, so they cancel exactly.
        return self._all_counts(size) - metrics.count_points(own, size)

    def _resize_center_bias(self, fold: int | None, size: Size) -> Map:
        image = Image.fromarray(self._center_bias.without(fold).astype(np.float32))
        return np.asarray(image.resize(size[::-1], Image.Resampling.BILINEAR))

    def _count_all_fixations(self, size: Size) -> Counts:
        scaled = [metrics.scale_points(points, other, size) for other, points in self._fixations.items()]
        return metrics.count_points(np.concatenate(scaled), size)


# === The scores ===


def load_network(folder: StrPath) -> Network:
    """Load the network of a model folder as one graph per input size, which datasets of that size share."""
    model = load_model(folder)
    # The batch size is None, so that the smaller last batch needs no second trace.
    return functools.cache(
        lambda size: tf.function(model, [tf.TensorSpec((None, *size, 3), tf.float32)], autograph=False)
    )


class Scorer:
    """Scores networks, the centre bias and a uniform map on the same images.

    Images are read one after another, predicted in batches and scored in threads, so that memory does not grow
    with their number. Only the fixations of all images are kept, for the shuffled AUC.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        manifest: artifacts.Manifest,
        networks: Mapping[str, Network],
        bias_folder: pathlib.Path | None = None,
        left_out: Collection[str] = (),
        each: Callable[[Example, Predictions, Background], None] | None = None,
    ) -> None:
        """Prepare to score the held-out images in `folder`.

        Args:
            folder: Prepared dataset.
            manifest: Its manifest.
            networks: Name -> network.
            bias_folder: Prepared dataset whose images make the centre bias; `folder` if None.
            left_out: Names of images that are not scored.
            each: Called in threads with an image, its predictions without padding, and the background.
        """
        self._folder, self._manifest, self._left_out = folder, manifest, frozenset(left_out)
        self._bias_folder, self._each = bias_folder or folder, each
        self._forward = {model: network(manifest.image_size) for model, network in networks.items()}
        self.n_fixations = 0
        """Fixations on the images that are scored, known after `score`."""
        self.n_observers = 0
        """The most observers of one of them; 0 if observers are not told apart."""

    def score(self, description: str) -> PerImage:
        """Score every image, in the order of the dataset.

        Args:
            description: Name of this step on the progress bar.

        Raises:
            UserError: a prediction has values that are not finite.
        """
        score_one = functools.partial(self._score_one, Background(self._bias_folder, self._fixated()))
        rows = {}
        predicted = self._predict(self._examples())
        max_pending = BATCH_SIZE + 4 * (os.cpu_count() or 1)
        with open_pool() as pool, Tracker(description, self._n_images, "images") as tracker:
            for name, scores in map_ahead(pool, score_one, predicted, max_pending):
                rows[name] = scores
                tracker.advance()
        return PerImage.of(rows)

    def draw(self, stems: dict[str, pathlib.Path]) -> dict[str, dict[str, pathlib.Path]]:
        """Write PNGs of some images without their padding: the stimulus, its map, and each network's prediction.

        Args:
            stems: Name of an image -> path, to which the names of its files are appended.

        Returns:
            Name of an image -> `stimulus`, `density` or a network -> file.
        """
        chosen = (example for example in self._examples() if example.name in stems)
        files: dict[str, dict[str, pathlib.Path]] = {}
        for example, predictions in self._predict(chosen):
            maps = {"density": example.density / max(1, example.density.max()), **predictions}
            panels = {"stimulus": example.stimulus} | {name: _grey(values) for name, values in maps.items()}
            stem = stems[example.name]
            # The label of a network may contain a slash.
            names = {panel: f"{stem.name}-{urllib.parse.quote(panel, safe='')}.png" for panel in panels}
            files[example.name] = {panel: stem.with_name(name) for panel, name in names.items()}
            for panel, pixels in panels.items():
                Image.fromarray(pixels[content(example)]).save(files[example.name][panel])
        return files

    @property
    def _n_images(self) -> int:
        return self._manifest.counts[self._manifest.held_out] - len(self._left_out)

    def _examples(self) -> Iterator[Example]:
        examples = read(self._folder, self._manifest.held_out)
        return (example for example in examples if example.name not in self._left_out)

    def _predict(self, examples: Iterable[Example]) -> Iterator[tuple[Example, Predictions]]:
        """Each example with each network's prediction."""
        examples = iter(examples)
        while batch := list(itertools.islice(examples, BATCH_SIZE)):
            stimuli = np.stack([example.stimulus for example in batch]).astype(np.float32)
            outputs = {model: forward(stimuli).numpy()[..., 0] for model, forward in self._forward.items()}
            for row, example in enumerate(batch):
                predictions = {model: output[row] for model, output in outputs.items()}
                for model, prediction in predictions.items():
                    if not np.isfinite(prediction).all():
                        raise UserError(
                            f"the {model} model's prediction for {example.name} is not finite: its weights are "
                            "damaged or its training diverged; train it again, or choose another model"
                        )
                yield example, predictions

    def _score_one(
        self, background: Background, predicted: tuple[Example, Predictions]
    ) -> tuple[str, dict[str, Scores]]:
        """Name of an image, and model -> scores: each metric at the size that METRICS says."""
        example, predictions = predicted
        box = content(example)
        density = example.density[box]
        cropped = {model: prediction[box] for model, prediction in predictions.items()}
        if self._each is not None:
            self._each(example, cropped, background)
        scores = _scores(cropped, {DENSITY: density, BASELINE: background.center_bias(example, density.shape)})
        if not len(example.fixations):
            return example.name, scores
        size = example.original_size
        truth = {FIXATIONS: example.fixations, BASELINE: background.center_bias(example, size)}
        if (others := background.other_counts(example, size)).any():
            truth[OTHER_COUNTS] = others
        # Clipped like the maps that `predict` writes (bicubic overshoots), but not rounded to grey levels.
        restored = {m: np.clip(preprocess.resize_back(each, size), 0, 1) for m, each in predictions.items()}
        for model, more in _scores(restored, truth).items():
            scores[model] |= more
        return example.name, scores

    def _fixated(self) -> Iterator[Example]:
        """The examples, if they have fixations."""
        if not self._manifest.has_fixations:
            return
        with Tracker("read fixations", self._n_images, "images") as tracker:
            for example in self._examples():
                self.n_fixations += len(example.fixations)
                self.n_observers = max(self.n_observers, len(np.unique(example.observers)))
                yield example
                tracker.advance()


def _scores(predictions: Mapping[str, Map], truth: Mapping[str, Any]) -> dict[str, Scores]:
    """Model -> all metrics for which `truth` suffices, for the networks and the two baselines."""
    baseline: Map = truth[BASELINE]
    models = {**predictions, CENTER_BIAS: baseline, UNIFORM: np.ones_like(baseline)}
    names = [name for name, row in METRICS.items() if truth.keys() >= set(row.needs)]
    return {
        model: {name: metrics.score(name, prediction, truth) for name in names}
        for model, prediction in models.items()
    }


def _grey(values: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
    """A map with values of 0..1 as grey levels."""
    levels: npt.NDArray[np.uint8] = np.round(np.clip(values, 0, 1) * 255).astype(np.uint8)
    return levels
