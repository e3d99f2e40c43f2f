"""Prepare the images of a shard: from the files of each image to records at the network's input size.

Held-out images are also kept as the source has them, for the evaluation of models of any input size.

Threads prepare a bounded number of images at a time, and the records are written in order. Memory therefore does
not depend on the number of images, and the same files give the same bytes. What no shard knows by itself, such as
copies in another split, is decided when the parts of all shards are merged.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from trainer.data import center_bias, decode, statistics, tfrecords
from trainer.data.plan import MOST_BYTES, Plan, part_folder
from trainer.data.prepared_data import ORIGINALS, TEST
from trainer.data.source_layout import MOST_IMAGE_BYTES, Gaze, Item, Size
from trainer.errors import ConflictError, ContentError, check
from trainer.io import is_taken, parse_json, read_json, write_json
from trainer.machine import Tracker, map_ahead, open_pool
from trainer.network import Frame

MAX_WORKERS = 32
JPEG_START = b"\xff\xd8"
"""The first bytes of a JPEG."""
PART, FACTS = "part.json", "facts.jsonl"
"""The files of a part beside its records: its index, and a line about each image."""

NO_GAZE = Gaze(np.zeros((0, 2), np.int64), None)


@dataclasses.dataclass(frozen=True)
class GazeFacts:
    """What is known of the fixations of an image."""

    has_observers: bool
    has_known_observers: bool
    """As in `Gaze`."""
    n_fixations: int
    n_outside: int
    n_blinks: int
    is_pictured: bool

    @classmethod
    def of(cls, gaze: Gaze) -> Self:
        """Count the fixations."""
        return cls(
            gaze.observers is not None,
            gaze.has_known_observers,
            len(gaze.points),
            gaze.n_outside,
            gaze.n_blinks,
            gaze.is_pictured,
        )


@dataclasses.dataclass(frozen=True)
class ImageFacts:
    """What is known of an image that was prepared."""

    origin: str
    """Name of the map in messages."""
    stimulus: str
    """Name of the stimulus in messages."""
    digest: str
    """Digest of the stimulus's pixels, as in `prepared_data.IMAGES`."""
    recording: str
    """Digests of where people looked, as in `prepared_data.IMAGES`."""
    features: dict[str, float]
    """The known features of the image, by their names in `statistics.FEATURES`."""
    ground_truth: str
    """The form of the map's file: `density` or `points`."""
    gaze: GazeFacts | None
    """None if only a density is known."""
    original_size: Size
    share: center_bias.Share | None
    """What the image adds to the centre bias. None for validation images."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of `FACTS`: an image of the shard, in order."""

    split: str
    name: str
    group: str
    picture: str
    hash: str
    """As in `Item`."""
    index: int = -1
    """Index of its record, if no image of another shard is put aside. -1 without a record."""
    reason: str = ""
    """Why it cannot be used. Empty if it was prepared."""
    facts: ImageFacts | None = None
    """None if it cannot be used."""


@dataclasses.dataclass(frozen=True)
class Part:
    """What was prepared of a shard: its index, which is written last."""

    plan: str
    """`Plan.digest`."""
    n_images: int
    """Number of lines of `FACTS`."""
    records: dict[str, int]
    """File -> number of its records."""
    sizes: dict[str, int]
    """File -> its size in bytes."""

    @classmethod
    def load(cls, folder: pathlib.Path, shard: int) -> Self:
        """Read the index of a part of the dataset in `folder`. Raises `ContentError` if it is not there."""
        part: Self = read_json(part_folder(folder, shard) / PART, _remedy(folder, shard), cls, MOST_BYTES)
        return part


@dataclasses.dataclass(frozen=True)
class _Prepared:
    """One prepared image."""

    facts: ImageFacts
    record: bytes
    """Its record, with its position in the split as index."""
    original: bytes
    """The record of its original. Empty for a training image."""


def is_prepared(plan: Plan, shard: int, folder: pathlib.Path) -> bool:
    """Whether the part of a shard is in the `folder` of its dataset.

    Raises:
        ConflictError: a part of another plan is there.
    """
    part = part_folder(folder, shard)
    if not is_taken(part):
        return False
    check(
        Part.load(folder, shard).plan == plan.digest,
        f"{part} is a part of another plan. Remove it, and prepare shard {shard} again",
        ConflictError,
    )
    return True


def prepare_part(plan: Plan, shard: int, items: Sequence[Item], folder: pathlib.Path) -> None:
    """Write the records of the images of a shard, their originals, and a line about each. The index is the last.

    An image is put aside if its files cannot be used (see `decode`). The others move up, as if no image of another
    shard was put aside.

    Args:
        plan: the plan.
        shard: number of the shard, counted from 0.
        items: its images, in the order of `plan.blocks(shard)`.
        folder: an empty folder for the part.

    Raises:
        UserError: more images are put aside than may be.
        OSError: the folder cannot be written to.
    """
    bad = dataclasses.replace(plan.bad, reasons=dict(plan.bad.reasons))
    n_threads = min(os.cpu_count() or 1, MAX_WORKERS)
    of_all = f", shard {shard} of {len(plan.shards)}" if len(plan.shards) > 1 else ""
    records: Counter[str] = Counter()
    with (
        Tracker(f"prepare {plan.dataset}{of_all}", len(items), "images") as tracker,
        open_pool(n_threads) as pool,
        (folder / FACTS).open("w", encoding="utf-8") as lines,
    ):
        rest = iter(items)
        for block in plan.blocks(shard):
            numbered = list(enumerate(itertools.islice(rest, block.stop - block.start), block.start))
            prepared = map_ahead(pool, functools.partial(_prepare_one, plan, block.split), numbered, 2 * n_threads)
            writer, originals = (
                tfrecords.ShardWriter(folder, kind, plan.counts[block.split], plan.image_size, block.start)
                for kind in (block.split, ORIGINALS)
            )
            index = block.start
            with writer, originals:
                for (position, item), image in zip(numbered, prepared, strict=True):
                    tracker.advance()
                    line = Line(block.split, item.name, item.group, item.picture, item.hash)
                    if isinstance(image, ContentError):
                        bad.add(item.name, image)
                        bad.check()
                        line = dataclasses.replace(line, reason=str(image))
                    else:
                        line = dataclasses.replace(line, index=index, facts=image.facts)
                        writer.write(tfrecords.shift_index(image.record, position - index))
                        records[writer.names[-1]] += 1
                        if image.original:
                            originals.write(image.original)
                            records[originals.names[-1]] += 1
                        index += 1
                    lines.write(json.dumps(dataclasses.asdict(line)) + "\n")
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    write_json(folder / PART, dataclasses.asdict(Part(plan.digest, len(items), dict(records), sizes)))


def read_lines(folder: pathlib.Path, shard: int) -> Iterator[Line]:
    """The lines about the images of a part, in order. Raises `ContentError` if one is damaged."""
    path = part_folder(folder, shard) / FACTS
    with path.open(encoding="utf-8") as file:
        for text in file:
            line: Line = parse_json(text.encode(), str(path), _remedy(folder, shard), Line)
            yield line


def _remedy(folder: pathlib.Path, shard: int) -> str:
    return f"remove {part_folder(folder, shard)} if it is there, and prepare shard {shard}"


def _prepare_one(plan: Plan, split: str, numbered: tuple[int, Item]) -> _Prepared | ContentError:
    """Prepare one image, with its position in the split. An error about its files is returned."""
    index, item = numbered
    image_size, is_own = plan.image_size, plan.is_own
    try:
        image = decode.decode(item, plan.blur_sigma_px, as_seen=is_own, has_pedestal=plan.pedestal > 0)
    except ContentError as error:
        return error
    original_size = (image.stimulus.shape[0], image.stimulus.shape[1])
    box = Frame(image_size).box(original_size)
    density = _rounded(Frame(image_size).map(image.density))
    original = None if split == "train" else _original(item, image.density, original_size)
    for levels, (height, width), remedy in (
        (density, image_size, "use a larger image_size, or replace the map"),
        (original.density if original else density, tfrecords.Original.MAP_SIZE, "replace the map"),
    ):
        if not levels.any():
            shrunk = f"the map of {item.stimulus.origin} is empty after shrinking it to {height} x {width} pixels"
            return ContentError(f"{shrunk}: {remedy}")
    gaze = image.gaze or NO_GAZE
    stimulus = _rounded(Frame(image_size).image(image.stimulus))
    example = tfrecords.Example(
        index=index,
        name=item.name,
        stimulus=stimulus,
        density=density,
        original_size=original_size,
        fixations=gaze.points,
        fixations_prepared=decode.rescale_points(gaze.points, box, original_size),
        observers=np.zeros(0, np.int64) if gaze.observers is None else gaze.observers,
    )
    known = image.gaze is not None
    facts = ImageFacts(
        origin=(item.map or item.stimulus).origin,
        stimulus=item.stimulus.origin,
        digest=_digest(item, image.stimulus, is_own),
        recording=_recording(image),
        features=statistics.measure_image(
            _content(stimulus, box), _content(density, box), original_size, image.gaze
        ),
        ground_truth=image.ground_truth,
        gaze=None if image.gaze is None else GazeFacts.of(image.gaze),
        original_size=original_size,
        share=(
            center_bias.Share.of(gaze.points, original_size, None if known else _content(density, box))
            if split in ("train", TEST)
            else None
        ),
    )
    return _Prepared(
        facts, tfrecords.serialize(example), tfrecords.serialize_original(original) if original else b""
    )


def _original(item: Item, density: NDArray[np.uint8], original_size: tuple[int, int]) -> tfrecords.Original:
    """What an evaluation needs of a held-out image. Its `density` is (h', w'), of any size."""
    compared = _rounded(Frame(tfrecords.Original.MAP_SIZE).map_inside(density, original_size))
    return tfrecords.Original(item.name, item.stimulus.content(MOST_IMAGE_BYTES), compared, item.group)


def _digest(item: Item, stimulus: NDArray[np.uint8], is_own: bool) -> str:
    """Digest (hex) of the pixels and the size: equal for copies of a file, in any dataset and under any name."""
    if is_own and item.stimulus.content(MOST_IMAGE_BYTES).startswith(JPEG_START):
        # A JPEG of one's own was decoded by Pillow, which rounds otherwise than TensorFlow.
        stimulus = decode.decode_stimulus(item.stimulus)
    digest = hashlib.blake2b(str(stimulus.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(stimulus).data)
    return digest.hexdigest()


def _recording(image: decode.Decoded) -> str:
    """Digests (hex) of where people looked, see `prepared_data.ListedImage.recording`."""
    size, parts = str(image.stimulus.shape[:2]).encode(), []
    if image.gaze is not None:
        points, observers = image.gaze.points, image.gaze.observers
        each = [points] if observers is None else [points[observers == one] for one in np.unique(observers)]
        parts = [str(sorted(map(tuple, of_one.tolist()))).encode() for of_one in each]
    if image.ground_truth == "density":
        parts.append(image.density.tobytes())
    return " ".join(sorted(hashlib.blake2b(part, key=size, digest_size=4).hexdigest() for part in parts))


def _rounded(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.clip(np.round(values), 0, 255).astype(np.uint8)


def _content(pixels: NDArray[np.uint8], box: tuple[int, int, int, int]) -> NDArray[np.uint8]:
    """The unpadded part `box` of a prepared image or map."""
    top, left, height, width = box
    return pixels[top : top + height, left : left + width]
