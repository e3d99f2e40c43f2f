"""Predict and score the validation images of one prepared data set."""

import collections
import functools
import itertools
import os
import pathlib
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from PIL import Image

from trainer import artifacts, metrics, preprocess
from trainer.data.tfrecords import Example, read
from trainer.errors import UserError
from trainer.evaluation.per_image import CENTER_BIAS, UNIFORM, PerImage, Scores
from trainer.progress import Tracker

BATCH_SIZE = 8

Size = tuple[int, int]
Map = npt.NDArray[np.float32]
Predictions = dict[str, Map]
"""Network -> what it predicts for one image, (H, W), 0..1, at the network's input size."""
Rows = dict[str, dict[str, Scores]]
"""Name of an image -> model -> its scores."""
Pending = collections.deque[tuple[str, Future[dict[str, Scores]]]]
"""Images whose scores are being computed, in the order of the data set."""


class Network:
    """A network as graphs, one for each size of input, which data sets of that size share."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self.of_size = functools.cache(self._of_size)
        """(H, W) -> from images (n, H, W, 3), 0..255, to maps (n, H, W, 1)."""

    def _of_size(self, size: Size) -> Callable[[npt.NDArray[np.float32]], tf.Tensor]:
        # The size of a batch is left open, so that the short last one is not traced again.
        forward: Callable[[npt.NDArray[np.float32]], tf.Tensor] = tf.function(
            self._model, [tf.TensorSpec((None, *size, 3), tf.float32)], autograph=False
        )
        return forward


class Scorer:
    """Scores networks, the centre bias of the training set and a uniform map on the same images.

    Images are read, predicted in batches and scored in threads as they come, so that memory does not grow with
    their number; only the fixations of the whole split are held, for the shuffled AUC.
    """

    def __init__(
        self, folder: pathlib.Path, manifest: artifacts.Manifest, networks: Mapping[str, Network]
    ) -> None:
        self._folder, self._manifest = folder, manifest
        self._forward = {model: network.of_size(manifest.image_size) for model, network in networks.items()}
        self._center_bias = Image.fromarray(np.load(folder / artifacts.CENTER_BIAS).astype(np.float32))
        self._fixations: dict[Size, npt.NDArray[np.int64]] = {}
        # What images of one size share is made once.
        self._center_bias_of = functools.lru_cache(16)(self._resize_center_bias)
        self._all_counts_of = functools.lru_cache(16)(self._count_all_fixations)

    def score(self, description: str) -> PerImage:
        """The scores of every image, in the order of the data set; `description` is for the progress."""
        if self._manifest.has_fixations:
            self._fixations = self._collect_fixations()
        rows: Rows = {}
        pending: Pending = collections.deque()
        most_pending = BATCH_SIZE + 4 * (os.cpu_count() or 1)
        with (
            ThreadPoolExecutor(os.cpu_count()) as pool,
            Tracker(description, self._manifest.counts["valid"], "images") as tracker,
        ):
            try:
                for example, predictions in self._predict(read(self._folder, "valid")):
                    pending.append((example.name, pool.submit(self._score_one, example, predictions)))
                    while len(pending) > most_pending:
                        _take(pending, rows, tracker)
                while pending:
                    _take(pending, rows, tracker)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return PerImage.of(rows)

    def draw(self, stems: dict[str, pathlib.Path]) -> dict[str, dict[str, pathlib.Path]]:
        """Write PNGs of some images, without the padding: the stimulus, its map, and each network's prediction.

        Args:
            stems: Name of an image -> path that its files' names start with.

        Returns:
            Name -> `stimulus`, `density` or the network -> the file written.
        """
        chosen = (example for example in read(self._folder, "valid") if example.name in stems)
        written: dict[str, dict[str, pathlib.Path]] = {}
        for example, predictions in self._predict(chosen):
            density = example.density / max(1, example.density.max())
            maps = {"density": density, **predictions}
            pictures = {"stimulus": example.stimulus} | {what: _grey(each) for what, each in maps.items()}
            stem = stems[example.name]
            # A network may be called by a part of its path.
            names = {what: f"{stem.name}-{urllib.parse.quote(what, safe='')}.png" for what in pictures}
            written[example.name] = {what: stem.with_name(name) for what, name in names.items()}
            for what, picture in pictures.items():
                Image.fromarray(picture[self._content(example)]).save(written[example.name][what])
        return written

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
                            "damaged or its training diverged; train it again, or name another model"
                        )
                yield example, predictions

    def _score_one(self, example: Example, predictions: Predictions) -> dict[str, Scores]:
        """Model -> scores of one image."""
        box = self._content(example)
        density = example.density[box]
        fitted = {model: prediction[box] for model, prediction in predictions.items()}
        fitted |= {CENTER_BIAS: self._center_bias_of(density.shape), UNIFORM: np.ones_like(density, np.float32)}
        scores: dict[str, Scores] = {
            model: {
                "cc": metrics.cc(each, density),
                "kld": metrics.kld(each, density),
                "sim": metrics.sim(each, density),
            }
            for model, each in fitted.items()
        }
        if not len(example.fixations):
            return scores
        size = example.original_size
        center_bias, others = self._center_bias_of(size), self._count_others(example)
        # Clipped as the delivered map is (bicubic overshoots), but not rounded to its grey levels.
        restored = {m: np.clip(preprocess.resize_back(each, size), 0, 1) for m, each in predictions.items()}
        restored |= {CENTER_BIAS: center_bias, UNIFORM: np.ones(size, np.float32)}
        for model, each in restored.items():
            scores[model] |= {
                "auc_judd": metrics.auc_judd(each, example.fixations),
                "nss": metrics.nss(each, example.fixations),
                "information_gain": metrics.information_gain(each, example.fixations, center_bias),
            }
            if others.any():
                scores[model]["shuffled_auc"] = metrics.shuffled_auc_of_counts(each, example.fixations, others)
        return scores

    def _content(self, example: Example) -> tuple[slice, slice]:
        """Where the image lies in the padded frame."""
        top, left, height, width = preprocess.content_box(example.original_size, self._manifest.image_size)
        return slice(top, top + height), slice(left, left + width)

    def _resize_center_bias(self, size: Size) -> Map:
        return np.asarray(self._center_bias.resize(size[::-1], Image.Resampling.BILINEAR))

    def _collect_fixations(self) -> dict[Size, npt.NDArray[np.int64]]:
        """Original size -> the fixations, (n, 2), of all images that have it."""
        found = collections.defaultdict(list)
        with Tracker("read fixations", self._manifest.counts["valid"], "images") as tracker:
            for example in read(self._folder, "valid"):
                found[example.original_size].append(np.asarray(example.fixations, np.int64).reshape(-1, 2))
                tracker.advance()
        return {size: np.concatenate(points) for size, points in found.items()}

    def _count_all_fixations(self, size: Size) -> npt.NDArray[np.int64]:
        """The fixations of all images in the pixels of an image of `size`, (h, w)."""
        scaled = [metrics.scale_points(points, other, size) for other, points in self._fixations.items()]
        return metrics.count_points(np.concatenate(scaled), size)

    def _count_others(self, example: Example) -> npt.NDArray[np.int64]:
        """The same without the image's own, which scaling leaves where they are."""
        size = example.original_size
        return self._all_counts_of(size) - metrics.count_points(example.fixations, size)


def _take(pending: Pending, rows: Rows, tracker: Tracker) -> None:
    name, future = pending.popleft()
    rows[name] = future.result()
    tracker.advance()


def _grey(map: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
    """A map of 0..1 as grey levels."""
    levels: npt.NDArray[np.uint8] = np.round(np.clip(map, 0, 1) * 255).astype(np.uint8)
    return levels
