"""From the files of each image to shards at the network's input size, in one pass.

Images are prepared by threads, a bounded number at a time, and written in order: the memory needed does not
depend on how many there are, and the same files give the same bytes.
"""

import os
import pathlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainer import preprocess
from trainer.artifacts import CENTER_BIAS
from trainer.data import decode, tfrecords
from trainer.data.layout import Item
from trainer.errors import UserError
from trainer.progress import Tracker

CENTER_BIAS_SIZE = (120, 160)
MAX_WORKERS = 32

FloatMap = NDArray[np.float64]


@dataclass(frozen=True)
class _Prepared:
    """What becomes of one image."""

    origin: str
    record: bytes
    ground_truth: str
    has_fixations: bool
    original_size: tuple[int, int]
    share: FloatMap | None
    """The map's part in the centre bias; None for validation images."""


@dataclass
class Facts:
    """What is known of a data set once all of its images are prepared."""

    first: _Prepared | None = None
    shards: dict[str, list[str]] = field(default_factory=dict)
    original_sizes: Counter[str] = field(default_factory=Counter)
    bias: FloatMap = field(default_factory=lambda: np.zeros(CENTER_BIAS_SIZE))

    def add(self, image: _Prepared) -> None:
        """Take note of one more image; a `UserError` where its map is of another kind than the others."""
        first = self.first = self.first or image
        if image.ground_truth != first.ground_truth:
            raise UserError(
                f"{image.origin} is {image.ground_truth}, but {first.origin} is {first.ground_truth}: the maps of "
                "a data set must all be fixated pixels or all densities; replace the one or the other"
            )
        self.original_sizes["x".join(map(str, image.original_size))] += 1
        if image.share is not None:
            self.bias += image.share

    @property
    def ground_truth(self) -> str:
        assert self.first is not None
        return self.first.ground_truth

    @property
    def has_fixations(self) -> bool:
        assert self.first is not None
        return self.first.has_fixations

    def center_bias(self) -> NDArray[np.float32]:
        """Mean map of the training images, float32 that sums to 1."""
        bias: NDArray[np.float32] = (self.bias / self.bias.sum()).astype(np.float32)
        return bias


def prepare(
    items: dict[str, list[Item]],
    blur_sigma_px: float,
    image_size: tuple[int, int],
    folder: pathlib.Path,
    dataset: str,
) -> Facts:
    """Write the shards of all splits, and the centre bias of the training images, into `folder`.

    Args:
        items: for each split its images, in the order of their examples; none is empty.
        blur_sigma_px: what makes points a density, in original pixels.
        image_size: (H, W) of the network's input, pixels.
        folder: an existing folder.
        dataset: name to show with the progress.

    Raises:
        UserError: an image or its map cannot be used (see `decode`), or the maps are not all of one kind.
        OSError: the folder cannot be written to.
    """
    facts = Facts()
    with Tracker(f"prepare {dataset}", sum(map(len, items.values())), "images") as tracker, _pool() as in_order:
        for split, split_items in items.items():
            is_training = split == "train"

            def prepare_at(
                index: int, items: list[Item] = split_items, is_training: bool = is_training
            ) -> _Prepared:
                return _prepare_one(index, items[index], blur_sigma_px, image_size, is_training)

            with tfrecords.ShardWriter(folder, split, len(split_items), image_size) as writer:
                for image in in_order(prepare_at, range(len(split_items))):
                    facts.add(image)
                    writer.write(image.record)
                    tracker.advance()
            facts.shards[split] = writer.names
    np.save(folder / CENTER_BIAS, facts.center_bias())
    return facts


def _prepare_one(
    index: int, item: Item, blur_sigma_px: float, image_size: tuple[int, int], is_training: bool
) -> _Prepared:
    image = decode.decode(item, blur_sigma_px)
    original_size = (image.stimulus.shape[0], image.stimulus.shape[1])
    box = preprocess.content_box(original_size, image_size)
    density = _rounded(preprocess.prepare_map(image.density, image_size))
    if not density.any():
        raise UserError(
            f"the map of {item.stimulus.origin} is empty once it is {image_size[0]} x {image_size[1]} pixels; "
            "take a larger image_size, or replace the map"
        )
    fixations = np.zeros((0, 2), np.int64) if image.fixations is None else image.fixations
    example = tfrecords.Example(
        index=index,
        name=item.name,
        stimulus=_rounded(preprocess.prepare_stimulus(image.stimulus, image_size)),
        density=density,
        original_size=original_size,
        fixations=fixations,
        fixations_prepared=decode.rescale_points(fixations, box, original_size),
    )
    return _Prepared(
        origin=(item.map or item.stimulus).origin,
        record=tfrecords.serialize(example),
        ground_truth=image.ground_truth,
        has_fixations=image.fixations is not None,
        original_size=original_size,
        share=_share(density, box) if is_training else None,
    )


def _rounded(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.clip(np.round(values), 0, 255).astype(np.uint8)


def _share(density: NDArray[np.uint8], box: tuple[int, int, int, int]) -> FloatMap:
    """The image's part of a prepared map in relative coordinates, `CENTER_BIAS_SIZE`, summing to 1."""
    top, left, height, width = box
    content = density[top : top + height, left : left + width].astype(np.float32)
    resized = Image.fromarray(content).resize(CENTER_BIAS_SIZE[::-1], Image.Resampling.BOX)
    share: FloatMap = np.asarray(resized, np.float64)
    share /= share.sum()
    return share


InOrder = Callable[[Callable[[int], _Prepared], Sequence[int]], Iterator[_Prepared]]


@contextmanager
def _pool() -> Iterator[InOrder]:
    """A function that maps another in threads, twice as many calls in flight as there are threads at most."""
    n_workers = min(os.cpu_count() or 1, MAX_WORKERS)
    pool = ThreadPoolExecutor(n_workers)

    def in_order(function: Callable[[int], _Prepared], indices: Sequence[int]) -> Iterator[_Prepared]:
        waiting: deque[Future[_Prepared]] = deque()
        for index in indices:
            waiting.append(pool.submit(function, index))
            if len(waiting) >= 2 * n_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    try:
        yield in_order
    finally:
        # After an error nothing that has not begun needs to.
        pool.shutdown(cancel_futures=True)
