"""Saliency maps of many images: threads read and write, while the network answers batch by batch.

What is in memory does not grow with the number of images: so many are read ahead, so many wait to be written, and
the pixels that are decoded at once have a limit.
"""

import collections
import dataclasses
import itertools
import os
import pathlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from PIL import Image

from trainer.config import MEGAPIXEL, PREDICT_DEFAULTS, PredictConfig
from trainer.errors import PlaceError, UserError
from trainer.picture import Picture, Pixels
from trainer.prediction.inputs import Input
from trainer.prediction.regions import Measure, Region, measure
from trainer.prediction.render import Map
from trainer.prediction.results import OVER_IMAGE, write_result
from trainer.storage import is_remote

if TYPE_CHECKING:
    from trainer.prediction.predictor import Predictor

PIXELS_AT_ONCE = 48 * MEGAPIXEL
"""Of images that are decoded, restored or written at the same time; a larger one is alone.

Each takes some 15 bytes, in a TIFF of floats 24.
"""
BYTES_PER_PIXEL = 4
"""A file with more for each pixel allowed is not read: RGBA needs no more without any compression."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Paths = dict[str, pathlib.Path]
"""Format -> the file to write."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one image."""

    input: Input
    error: str = ""
    """Why there is no map; empty if all is well."""
    size: tuple[int, int] | None = None
    """(h, w) pixels."""
    written: Paths = dataclasses.field(default_factory=dict)
    measures: Sequence[Measure] = ()
    thumbnail: tuple[Pixels, Map] | None = None
    """The image and its map, small."""


@dataclasses.dataclass(frozen=True)
class _Prepared:
    """An image as the network takes it; its own pixels are gone."""

    input: Input
    paths: Paths
    size: tuple[int, int]
    stimulus: Map
    """(H, W, 3)."""
    thumbnail: Pixels | None


def predict(
    predictor: "Predictor",
    inputs: Sequence[Input],
    paths: Sequence[Paths],
    config: PredictConfig = PREDICT_DEFAULTS,
    regions: Sequence[Region] = (),
    thumbnail_px: int = 0,
) -> Generator[Outcome, None, None]:
    """Write the maps of images.

    Args:
        predictor: the network.
        inputs: the images.
        paths: the files to write for each image, by format.
        config: how to read and to draw; what to write is in `paths`.
        regions: to be measured in each.
        thumbnail_px: longer side of the thumbnails to make for a contact sheet; none if it is 0.

    Yields:
        What came of each image, in their order. An image that cannot be read is among them, with the reason.

    Raises:
        UserError: no result can be written any more, or the network's answers are not finite.
    """
    pool = ThreadPoolExecutor(os.cpu_count())
    worker = _Worker(predictor, config, regions, thumbnail_px)
    most_pending = config.batch_size + 2 * (os.cpu_count() or 1)
    try:
        prepared = _ahead(pool, worker.prepare, zip(inputs, paths, strict=True), most_pending)
        predicted = _predict(predictor, prepared, config.batch_size)
        yield from _ahead(pool, worker.finish, predicted, most_pending)
    finally:
        pool.shutdown(cancel_futures=True)


def failures(
    inputs: Sequence[Input], config: PredictConfig = PREDICT_DEFAULTS, regions: Sequence[Region] = ()
) -> list[Outcome]:
    """What `predict` would yield where it can read none of the images; nothing where it can read one.

    So a mistake is answered without a network. An image on Cloud Storage counts as readable.
    """
    found = []
    for image in inputs:
        if is_remote(image.name):
            return []
        try:
            _open(image, config, regions)
        except UserError as error:
            found.append(Outcome(image, str(error)))
        else:
            return []
    return found


def _ahead(
    pool: ThreadPoolExecutor, do: Callable[[Item], Result], items: Iterable[Item], most_pending: int
) -> Iterator[Result]:
    """`map` in threads, in order, with at most so many items taken of which the result is not."""
    pending: collections.deque[Future[Result]] = collections.deque()
    for item in items:
        pending.append(pool.submit(do, item))
        if len(pending) >= most_pending:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _predict(
    predictor: "Predictor", images: Iterator[_Prepared | Outcome], batch_size: int
) -> Iterator[tuple[_Prepared | Outcome, Map | None]]:
    """Each image with its prediction (H, W); failures pass through."""
    while taken := list(itertools.islice(images, batch_size)):
        batch = [each.stimulus for each in taken if isinstance(each, _Prepared)]
        maps = iter(predictor.predict_prepared(np.stack(batch)) if batch else ())
        for each in taken:
            yield each, next(maps) if isinstance(each, _Prepared) else None


class _Budget:
    """Lets so many pixels be in work at once, and one image whatever its size."""

    def __init__(self, pixels: int) -> None:
        self._free, self._users = pixels, 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        """Wait until there is room for so many pixels, and keep it."""
        with self._changed:
            self._changed.wait_for(lambda: pixels <= self._free or not self._users)
            self._free, self._users = self._free - pixels, self._users + 1
        try:
            yield
        finally:
            with self._changed:
                self._free, self._users = self._free + pixels, self._users - 1
                self._changed.notify_all()


class _Worker:
    """What threads do before and after the network. They wait for room only while they hold none."""

    def __init__(
        self, predictor: "Predictor", config: PredictConfig, regions: Sequence[Region], thumbnail_px: int
    ) -> None:
        self._predictor, self._config, self._regions = predictor, config, regions
        self._thumbnail_px = thumbnail_px
        self._budget = _Budget(PIXELS_AT_ONCE)

    def prepare(self, job: tuple[Input, Paths]) -> _Prepared | Outcome:
        """Read an image."""
        image, paths = job
        try:
            picture = _open(image, self._config, self._regions)
            with self._budget.taken(picture.size[0] * picture.size[1]):
                pixels = picture.decode()
                thumbnail = shrink(pixels, self._thumbnail_px) if self._thumbnail_px else None
                return _Prepared(image, paths, picture.size, self._predictor.prepare(pixels), thumbnail)
        except UserError as error:
            return Outcome(image, str(error))

    def finish(self, job: tuple[_Prepared | Outcome, Map | None]) -> Outcome:
        """Write what is wanted of an image."""
        image, prediction = job
        if isinstance(image, Outcome) or prediction is None:
            assert isinstance(image, Outcome)
            return image
        with self._budget.taken(image.size[0] * image.size[1]):
            restored = self._predictor.restore(prediction, image.size)
            # Decoded once more, rather than kept while others are read and predicted.
            over_image = any(each in OVER_IMAGE for each in image.paths)
            try:
                pixels = open_input(image.input, self._config.most_pixels).decode() if over_image else None
            except UserError as error:
                return Outcome(image.input, str(error))
            measures = measure(restored, self._regions)
            for name, path in image.paths.items():
                try:
                    write_result(path, name, restored, pixels, self._config)
                except PlaceError as error:  # such as a name that is too long with what is added to it
                    return Outcome(image.input, str(error))
        thumbnail = None
        if image.thumbnail is not None:
            thumbnail = image.thumbnail, self._predictor.restore(prediction, image.thumbnail.shape[:2])
        return Outcome(image.input, "", image.size, image.paths, measures, thumbnail)


def open_input(input: Input, most_pixels: int) -> Picture:
    """An image of which the header is read; a `UserError` where it is no picture or too large."""
    return Picture(input.read(most_pixels * BYTES_PER_PIXEL), input.shown, most_pixels)


def _open(input: Input, config: PredictConfig, regions: Sequence[Region]) -> Picture:
    """The same, with a `UserError` where a region is not inside it."""
    picture = open_input(input, config.most_pixels)
    for region in regions:
        region.box(picture.size, input.shown)
    return picture


def shrink(pixels: Pixels, longer_px: int) -> Pixels:
    """An image (h, w, 3) whose longer side has at most so many pixels."""
    small = Image.fromarray(pixels)
    small.thumbnail((longer_px, longer_px))
    return np.asarray(small)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome for a machine to read."""
    if outcome.error:
        return {"image": outcome.input.name, "error": outcome.error}
    assert outcome.size is not None
    return {
        "image": outcome.input.name,
        "height": outcome.size[0],
        "width": outcome.size[1],
        "results": {name: str(path) for name, path in outcome.written.items()},
        "regions": [each.as_json() for each in outcome.measures],
    }
