"""Prepare images: from the files of each image to shards at the network's input size, in one pass.

Held-out images are also kept as the source has them, for the evaluation of models of any input size.

Threads prepare a bounded number of images at a time, and the records are written in order. Memory therefore does
not depend on the number of images, and the same files give the same bytes.
"""

import csv
import functools
import hashlib
import math
import os
import pathlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trainer import witness
from trainer.data import center_bias, decode, honest_maps, statistics, tfrecords
from trainer.data.bad_images import BadImages
from trainer.data.center_bias import CenterBias
from trainer.data.prepared_data import CENTER_BIAS, IMAGES, ORIGINALS, TEST
from trainer.data.recordings import pictures
from trainer.data.recordings.contradictions import doubt_pictures
from trainer.data.source_layout import KINDS, MOST_IMAGE_BYTES, Gaze, Item
from trainer.errors import ContentError
from trainer.io import write_array
from trainer.machine import Tracker, map_ahead, open_pool
from trainer.network import Frame
from trainer.places import Member

MAX_WORKERS = 32
MOST_JUDGED = 100
"""Maps of one's own by which all are judged: what most of them have, most of all have."""
JPEG_START = b"\xff\xd8"
"""The first bytes of a JPEG."""

NO_GAZE = Gaze(np.zeros((0, 2), np.int64), None)
FloatMap = NDArray[np.float64]


@dataclass(frozen=True)
class _Prepared:
    """One prepared image."""

    origin: str
    """Name of the map in messages."""
    stimulus: str
    """Name of the stimulus in messages."""
    name: str
    digest: str
    """Digest of the stimulus's pixels, as in `prepared_data.IMAGES`."""
    recording: str
    """Digests of where people looked, as in `prepared_data.IMAGES`."""
    record: bytes
    original: bytes
    """The record of its original. Empty for a training image."""
    features: dict[str, float]
    """The known features of the image, by their names in `statistics.FEATURES`."""
    ground_truth: str
    gaze: Gaze | None
    """The fixations. None if only a density is known."""
    original_size: tuple[int, int]
    histogram: FloatMap | None
    """What the image adds to the centre bias. None for validation images."""


@dataclass
class Facts:
    """Facts about a dataset, collected while its images are prepared."""

    bad: BadImages
    """The images that are put aside."""
    n_bad: Counter[str] = field(default_factory=Counter)
    """Number of images of each split that were put aside while they were prepared."""
    first: _Prepared | None = None
    shards: dict[str, list[str]] = field(default_factory=dict)
    originals: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    original_sizes: Counter[str] = field(default_factory=Counter)
    has_observers: bool = True
    """Whether the observers of all images are told apart."""
    has_known_observers: bool = True
    """Whether they are numbered alike in all images."""
    n_fixations: int = 0
    n_pictured: int = 0
    """Fixations that are pixels of pictures."""
    n_outside: int = 0
    n_blinks: int = 0
    """Fixations that are left out, as in `Gaze`."""
    pedestal: int = 0
    """As `honest_maps.pedestal_of` the maps."""
    n_copies: int = 0
    """Images of one split that are copies of one of another."""
    bias: FloatMap = field(default_factory=lambda: np.zeros((center_bias.FOLDS, *center_bias.SIZE)))
    """For each fold, the sum of the `histogram` of the training images, or of the images of a test set."""
    bias_cells: list[NDArray[np.float32]] = field(default_factory=list)
    """The `histogram` of each of them in the coarse cells of `statistics.GRID`."""
    _first_copies: dict[str, tuple[str, str]] = field(default_factory=dict)
    """`Item.picture` or digest of the pixels -> split and origin of the first image of this picture."""

    def add(self, image: _Prepared, split: str, picture: str, is_own: bool) -> None:
        """Add an image.

        Raises:
            ContentError: its map is of another kind, or it is a copy that is refused. Example: a map of grey
                levels after a map of points.
        """
        first = self.first = self.first or image
        if image.ground_truth != first.ground_truth:
            raise ContentError(
                f"{image.origin} is {image.ground_truth}, but {first.origin} is {first.ground_truth}: all maps of "
                "a dataset must be fixated pixels, or all must be densities. Replace one of the two kinds"
            )
        twins = [self._first_copies.setdefault(key, (split, image.stimulus)) for key in (picture, image.digest)]
        twin_split, twin = next((each for each in twins if each[0] != split), twins[0])
        if twin_split != split:
            if is_own:
                raise ContentError(
                    f"{twin} and {image.stimulus} are the same image, or copies of one that were scaled, "
                    "compressed again, cropped or mirrored, one for training and one for validation. Remove one "
                    "of them, or put both into one split"
                )
            self.n_copies += 1
        gaze = image.gaze or NO_GAZE
        self.has_observers &= gaze.observers is not None
        self.has_known_observers &= gaze.has_known_observers
        self.n_fixations += len(gaze.points)
        self.n_pictured += len(gaze.points) if gaze.is_pictured else 0
        self.n_outside += gaze.n_outside
        self.n_blinks += gaze.n_blinks
        self.original_sizes["x".join(map(str, image.original_size))] += 1
        if image.histogram is not None:
            self.bias[CenterBias.fold_of(len(self.bias_cells))] += image.histogram
            self.bias_cells.append(statistics.coarse(image.histogram).astype(np.float32))

    @property
    def ground_truth(self) -> str:
        """`density` or `points`, of all images."""
        assert self.first is not None
        return self.first.ground_truth

    @property
    def has_fixations(self) -> bool:
        """Whether fixated pixels are known."""
        assert self.first is not None
        return self.first.gaze is not None

    @property
    def notes(self) -> list[str]:
        """Sentences about what a reader must know. None if all is well.

        Example: `12 validation images are copies of training images.`
        """
        notes, total = self.bad.notes(), self.n_fixations + self.n_outside + self.n_blinks
        if self.pedestal:
            notes.append(
                f"Most maps are nowhere black, and have a background at about level {self.pedestal} of 255. The "
                "darkest level of each map is subtracted from it."
            )
        if self.n_pictured:
            mean = self.n_pictured / sum(self.original_sizes.values())
            notes.append(f"Fixations: {self.n_pictured:,}, about {mean:,.0f} an image, from pictures.")
        for count, what in (
            (self.n_outside, "they are outside of their image"),
            (self.n_blinks, "their positions are not numbers (a blink?)"),
        ):
            if count:
                notes.append(f"{count:,} of {total:,} fixations are left out: {what}.")
        if self.n_copies:
            notes.append(f"{self.n_copies:,} validation images are copies of training images.")
        return notes


def prepare_dataset(
    items: dict[str, list[Item]],
    blur_sigma_px: float,
    image_size: tuple[int, int],
    folder: pathlib.Path,
    dataset: str,
    bad: BadImages,
    is_own: bool = False,
    confirmed: Collection[str] = (),
) -> Facts:
    """Write the shards and originals of all splits, `IMAGES`, and the centre bias of the training or test images.

    An image is put aside if its files cannot be used (see `decode`), if its map is of another kind than the first
    one, or if it is a copy that is refused.

    Args:
        items: split -> its images, in the order of their examples. No split is empty.
        blur_sigma_px: standard deviation of the Gaussian that turns points into a density, in original pixels.
        image_size: (H, W) of the network's input, pixels.
        folder: an existing folder, to write into.
        dataset: its name, for the progress line.
        bad: the images that were put aside before. More are added here.
        is_own: whether these are recordings of one's own. Then pictures are decoded as people see them, and maps
            of another form than grey levels are errors. Copies of a picture in two splits are errors, too. For a
            published dataset, `Facts.notes` count such copies.
        confirmed: the checks of one's own recordings that a person overrules.

    Raises:
        UserError: too many images are put aside, or all of a split, or most maps of one's own are no maps of
            attention (see `honest_maps`).
        OSError: the folder cannot be written to.
    """
    facts = Facts(bad)
    n_images = sum(map(len, items.values()))
    n_threads = min(os.cpu_count() or 1, MAX_WORKERS)
    with (
        Tracker(f"prepare {dataset}", n_images, "images") as tracker,
        open_pool(n_threads) as pool,
        (folder / IMAGES).open("w", newline="", encoding="utf-8") as file,
    ):
        images = csv.writer(file)
        images.writerow(["split", "image", "digest", "group", "hash", "recording", *statistics.FEATURES])
        if is_own:
            all_items = [item for each in items.values() for item in each]
            facts.pedestal = _pedestal_of(all_items, pool, n_threads)
            if "pictures" not in confirmed:
                _ask_pictures(all_items, pool)
        for split, split_items in items.items():
            decoded = functools.partial(
                decode.decode, blur_sigma_px=blur_sigma_px, as_seen=is_own, has_pedestal=facts.pedestal > 0
            )
            prepare_one = functools.partial(_prepare_one, split_items, split, decoded, image_size, is_own)
            n_items = len(split_items)
            with (
                tfrecords.ShardWriter(folder, split, n_items, image_size) as writer,
                tfrecords.ShardWriter(folder, ORIGINALS, n_items, image_size) as originals,
            ):
                prepared = map_ahead(pool, prepare_one, range(len(split_items)), 2 * n_threads)
                for item, image in zip(split_items, prepared, strict=True):
                    tracker.advance()
                    try:
                        if isinstance(image, ContentError):
                            raise image
                        facts.add(image, split, item.picture, is_own)
                    except ContentError as error:
                        bad.add(item.name, error)
                        bad.check()
                        facts.n_bad[split] += 1
                        continue
                    writer.write(tfrecords.shift_index(image.record, facts.n_bad[split]))
                    if image.original:
                        originals.write(image.original)
                    told = [split, image.name, image.digest, item.group, item.hash, image.recording]
                    images.writerow([*told, *_written(image.features)])
            facts.shards[split] = writer.names
            facts.originals += originals.names
            facts.counts[split] = len(split_items) - facts.n_bad[split]
            if not facts.counts[split]:
                first = next(iter(bad.reasons.values()))
                raise ContentError(f"none of the {len(split_items):,} {KINDS[split]} images can be used: {first}")
    write_array(folder / CENTER_BIAS, facts.bias.astype(np.float32))
    return facts


def _pedestal_of(items: Sequence[Item], pool: ThreadPoolExecutor, n_threads: int) -> int:
    """`honest_maps.pedestal_of` the maps of one's own, at most `MOST_JUDGED` of them, which are spread evenly.

    Where images have fixations too, these are compared with the maps. Files that cannot be used are put aside
    later.
    """
    with_map = [item for item in items if item.map]
    chosen = with_map[:: math.ceil(len(with_map) / MOST_JUDGED) or 1]
    measured = [each for each in map_ahead(pool, _measure_map, chosen, 2 * n_threads) if each]
    honest_maps.check_fixations([(each.map, each.looked) for each in measured if each.looked])
    return honest_maps.pedestal_of([(each.origin, each.traits) for each in measured])


def _ask_pictures(items: Sequence[Item], pool: ThreadPoolExecutor) -> None:
    """Ask the pictures about maps and files of fixations. Those of tables were asked before."""
    of_files = [item for item in items if item.map or isinstance(item.fixations, Member)]
    of_files.sort(key=lambda item: item.name)
    asked = of_files[: pictures.ENOUGH_ASKED]
    read = dict(enumerate(pool.map(_look, asked)))
    looked = {image: each[0] for image, each in read.items() if each}
    sizes = {image: each[1] for image, each in read.items() if each}
    testimony = pictures.PictureWitness([item.stimulus for item in asked]).ask_about(looked, sizes)
    for doubt in doubt_pictures(testimony, f"{len(of_files):,} images"):
        raise doubt


def _look(item: Item) -> tuple[witness.Looked, tuple[int, int]] | None:
    """Where people looked at an image, by its own files, and its (height, width). None if one cannot be used."""
    try:
        decoded = decode.decode(item, blur_sigma_px=1, as_seen=True)
    except ContentError:
        return None
    size = decoded.stimulus.shape[0], decoded.stimulus.shape[1]
    if decoded.gaze is not None:
        return witness.Looked.of_points(decoded.gaze.points, size), size
    return witness.Looked.of_density(decoded.density, size), size


@dataclass(frozen=True)
class _Measured:
    """A map of one's own."""

    origin: str
    traits: honest_maps.Traits
    map: witness.Grid
    looked: witness.Looked | None
    """Where people looked, if fixations are known too."""


def _measure_map(item: Item) -> _Measured | None:
    """Measure a map of one's own. None for points, and if a file cannot be used."""
    assert item.map is not None
    try:
        stimulus = decode.decode_stimulus(item.stimulus, as_seen=True)
        size = stimulus.shape[0], stimulus.shape[1]
        levels = decode.decode_map(item.map, size, as_seen=True)
        points = None if item.fixations is None else decode.read_gaze(item.fixations, size, as_seen=True).points
    except ContentError:
        return None
    if decode.is_points(levels):
        return None
    looked = None if points is None else witness.Looked.of_points(points, size)
    traits = honest_maps.Traits.of(levels, stimulus)
    return _Measured(item.map.origin, traits, witness.to_grid(levels), looked)


def _prepare_one(
    items: Sequence[Item],
    split: str,
    decoded: Callable[[Item], decode.Decoded],
    image_size: tuple[int, int],
    is_own: bool,
    index: int,
) -> _Prepared | ContentError:
    """Prepare one image. An error about its files is returned."""
    item = items[index]
    try:
        image = decoded(item)
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
    return _Prepared(
        origin=(item.map or item.stimulus).origin,
        stimulus=item.stimulus.origin,
        name=item.name,
        digest=_digest(item, image.stimulus, is_own),
        recording=_recording(image),
        record=tfrecords.serialize(example),
        original=tfrecords.serialize_original(original) if original else b"",
        features=statistics.measure_image(
            _content(stimulus, box), _content(density, box), original_size, image.gaze
        ),
        ground_truth=image.ground_truth,
        gaze=image.gaze,
        original_size=original_size,
        histogram=(
            center_bias.histogram_of(
                gaze.points, original_size, None if image.gaze is not None else _content(density, box)
            )
            if split in ("train", TEST)
            else None
        ),
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


def _written(features: Mapping[str, float]) -> list[str]:
    """The cells of the features. Empty for an unknown one. Example: `["76800", "1.33333", ...]`."""
    return [f"{features[name]:.6g}" if name in features else "" for name in statistics.FEATURES]
