"""Merge the parts of all shards into a prepared dataset: its sums, its list of images, its files and its manifest.

The lines about the images are read in order, and what they add is added in this order. So the same images give the
same bytes, into however many shards they were cut.

A part has its records as if no image of another shard was put aside. If none was, its files become files of the
dataset, and are moved. Otherwise the records behind it move up, and their files are written anew.
"""

import bisect
import csv
import dataclasses
import itertools
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trainer.data import center_bias, sample, splits, statistics, tfrecords
from trainer.data.bad_images import BadImages
from trainer.data.center_bias import CenterBias
from trainer.data.plan import STAGES, Plan, file_edges, part_folder
from trainer.data.prepare import PART, GazeFacts, ImageFacts, Line, Part, read_lines
from trainer.data.prepared_data import CENTER_BIAS, IMAGES, OBJECTS, ORIGINALS, TEST, Manifest
from trainer.data.settings import SAMPLE
from trainer.data.source_layout import KINDS
from trainer.datasets import Dataset
from trainer.errors import ConflictError, ContentError, NotFoundError, check
from trainer.io import remove_path, replacing, write_array
from trainer.machine import code_version
from trainer.places import SourceObject
from trainer.texts import some

NO_GAZE = GazeFacts(False, False, 0, 0, 0, False)


def merge_parts(plan: Plan, objects: list[SourceObject], folder: pathlib.Path) -> Manifest:
    """Make the prepared dataset of the parts of all shards.

    The manifest is written last, and then the plan is removed. An image is put aside if its map is of another kind
    than the first one, or if it is a copy that is refused. If this is interrupted, it can be done again.

    Args:
        plan: the plan.
        objects: the files of the source, which are listed.
        folder: the folder of the dataset.

    Raises:
        NotFoundError: shards are not prepared yet.
        UserError: a part is damaged or of another plan, too many images are put aside, or all of a split.
        OSError: the folder cannot be written to.
    """
    parts = _checked_parts(plan, folder)
    facts = _Facts(dataclasses.replace(plan.bad, reasons=dict(plan.bad.reasons)), pedestal=plan.pedestal)
    kept: dict[str, list[int]] = {}
    with (folder / IMAGES).open("w", newline="", encoding="utf-8") as file:
        images = csv.writer(file)
        images.writerow(["split", "image", "digest", "group", "hash", "recording", *statistics.FEATURES])
        lines = (line for shard in range(len(parts)) for line in read_lines(folder, shard))
        for split, of_split in itertools.groupby(lines, key=lambda line: line.split):
            kept[split] = []
            for line in of_split:
                try:
                    image = facts.add(line, plan.is_own)
                except ContentError as error:
                    facts.bad.add(line.name, error)
                    facts.bad.check()
                    facts.n_bad[split] += 1
                    continue
                kept[split].append(line.index)
                told = [split, line.name, image.digest, line.group, line.hash, image.recording]
                images.writerow([*told, *_written(image.features)])
            if not kept[split]:
                first, n_images = next(iter(facts.bad.reasons.values())), plan.counts[split]
                raise ContentError(f"none of the {n_images:,} {KINDS[split]} images can be used: {first}")
    shards = {split: _place(plan, parts, folder, split, split, kept[split]) for split in kept}
    held_out = [split for split in kept if split != "train"]
    originals = [name for split in held_out for name in _place(plan, parts, folder, split, ORIGINALS, kept[split])]
    write_array(folder / CENTER_BIAS, facts.bias.astype(np.float32))
    _list_objects(objects, folder)
    manifest = _manifest(plan, facts, shards, originals)
    manifest.save(folder)
    remove_path(folder / STAGES)
    return manifest


def _checked_parts(plan: Plan, folder: pathlib.Path) -> list[Part]:
    """The parts of all shards. Their files are there, or were moved before."""
    missing = [shard for shard in range(len(plan.shards)) if not (part_folder(folder, shard) / PART).exists()]
    named = some(list(map(str, missing)))
    check(
        not missing,
        f"{len(missing)} of {len(plan.shards)} shards of {folder} are not prepared: {named}. Prepare them, and "
        "merge again",
        NotFoundError,
    )
    parts = [Part.load(folder, shard) for shard in range(len(plan.shards))]
    for shard, part in enumerate(parts):
        of_part = part_folder(folder, shard)
        check(
            part.plan == plan.digest,
            f"{of_part} is a part of another plan. Remove it, and prepare shard {shard} again",
            ConflictError,
        )
        n_images = sum(block.stop - block.start for block in plan.blocks(shard))
        lost = [name for name, size in part.sizes.items() if not _has(of_part / name, size, folder / name)]
        check(
            part.n_images == n_images and not lost,
            f"{of_part} has {part.n_images:,} of {n_images:,} images, and lacks {some(lost) or 'no file'}. Remove "
            f"it, and prepare shard {shard} again",
            ContentError,
        )
    return parts


def _has(path: pathlib.Path, size_bytes: int, moved: pathlib.Path) -> bool:
    """Whether a file of a part is whole, or its place in the dataset is taken already."""
    return moved.exists() or (path.exists() and path.stat().st_size == size_bytes)


# === Facts ===


@dataclasses.dataclass
class _Facts:
    """Facts about a dataset, collected from the lines about its images in order."""

    bad: BadImages
    """The images that are put aside."""
    n_bad: Counter[str] = dataclasses.field(default_factory=Counter)
    """Number of images of each split that were put aside after the plan was made."""
    first: ImageFacts | None = None
    original_sizes: Counter[str] = dataclasses.field(default_factory=Counter)
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
    bias: NDArray[np.float64] = dataclasses.field(
        default_factory=lambda: np.zeros((center_bias.FOLDS, *center_bias.SIZE))
    )
    """For each fold, the sum of the `histogram` of the training images, or of the images of a test set."""
    bias_cells: list[NDArray[np.float32]] = dataclasses.field(default_factory=list)
    """The `histogram` of each of them in the coarse cells of `statistics.GRID`."""
    _first_copies: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    """`Item.picture` or digest of the pixels -> split and origin of the first image of this picture."""

    def add(self, line: Line, is_own: bool) -> ImageFacts:
        """Add an image, and return what is known of it.

        Raises:
            ContentError: it cannot be used, its map is of another kind, or it is a copy that is refused.
                Example: a map of grey levels after a map of points.
        """
        image = line.facts
        if image is None:
            raise ContentError(line.reason)
        first = self.first = self.first or image
        if image.ground_truth != first.ground_truth:
            raise ContentError(
                f"{image.origin} is {image.ground_truth}, but {first.origin} is {first.ground_truth}: all maps of "
                "a dataset must be fixated pixels, or all must be densities. Replace one of the two kinds"
            )
        keys = (line.picture, image.digest)
        twins = [self._first_copies.setdefault(key, (line.split, image.stimulus)) for key in keys]
        twin_split, twin = next((each for each in twins if each[0] != line.split), twins[0])
        if twin_split != line.split:
            if is_own:
                raise ContentError(
                    f"{twin} and {image.stimulus} are the same image, or copies of one that were scaled, "
                    "compressed again, cropped or mirrored, one for training and one for validation. Remove one "
                    "of them, or put both into one split"
                )
            self.n_copies += 1
        gaze = image.gaze or NO_GAZE
        self.has_observers &= gaze.has_observers
        self.has_known_observers &= gaze.has_known_observers
        self.n_fixations += gaze.n_fixations
        self.n_pictured += gaze.n_fixations if gaze.is_pictured else 0
        self.n_outside += gaze.n_outside
        self.n_blinks += gaze.n_blinks
        self.original_sizes["x".join(map(str, image.original_size))] += 1
        if image.share is not None:
            histogram = image.share.histogram()
            self.bias[CenterBias.fold_of(len(self.bias_cells))] += histogram
            self.bias_cells.append(statistics.coarse(histogram).astype(np.float32))
        return image

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


def _written(features: Mapping[str, float]) -> list[str]:
    """The cells of the features. Empty for an unknown one. Example: `["76800", "1.33333", ...]`."""
    return [f"{features[name]:.6g}" if name in features else "" for name in statistics.FEATURES]


# === Files ===


def _place(
    plan: Plan, parts: Sequence[Part], folder: pathlib.Path, split: str, kind: str, kept: Sequence[int]
) -> list[str]:
    """Move the files of the parts with records of a split to the dataset, or write them anew.

    Args:
        plan: the plan.
        parts: the parts of all shards.
        folder: the folder of the dataset.
        split: the split.
        kind: the kind of the files: `split`, or ORIGINALS for the originals of its images.
        kept: for each image that is kept the index of its record in the parts, in ascending order.

    Returns:
        The names of the files.
    """
    names = plan.names(split, kind)
    edges = file_edges(plan.counts[split], len(names))
    of_parts = {
        name: (part_folder(folder, shard) / name, part.records[name])
        for shard, part in enumerate(parts)
        for name in part.records
    }
    used = []
    for number, name in enumerate(names):
        start = edges[number]
        wanted = kept[start : edges[number + 1]]
        if not wanted:  # all have moved up
            break
        path, n_records = of_parts.get(name, (folder / STAGES / name, 0))
        if not (folder / name).exists():
            if n_records == len(wanted) and (wanted[0], wanted[-1]) == (start, start + len(wanted) - 1):
                path.replace(folder / name)
            else:
                records = _moved_up(wanted, start, names, edges, of_parts, is_numbered=kind == split)
                with replacing(folder / name) as partial:
                    tfrecords.write_records(partial, records)
        path.unlink(missing_ok=True)  # later files need later records alone
        used.append(name)
    return used


def _moved_up(
    wanted: Sequence[int],
    start: int,
    names: Sequence[str],
    edges: Sequence[int],
    of_parts: Mapping[str, tuple[pathlib.Path, int]],
    is_numbered: bool,
) -> Iterator[bytes]:
    """Read the records with the indices `wanted`, and give them the indices from `start` on if they have any."""
    index = start
    for number, each in itertools.groupby(wanted, key=lambda index: bisect.bisect_right(edges, index) - 1):
        of_file = set(each)
        records = enumerate(tfrecords.raw_records(of_parts[names[number]][0]), edges[number])
        for before, record in itertools.islice(records, max(of_file) - edges[number] + 1):
            if before in of_file:
                yield tfrecords.shift_index(record, before - index) if is_numbered else record
                index += 1


# === Manifest ===


def _list_objects(objects: list[SourceObject], folder: pathlib.Path) -> None:
    with (folder / OBJECTS).open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow([field.name for field in dataclasses.fields(SourceObject)])
        lines.writerows(dataclasses.astuple(each) for each in objects)


def _manifest(
    plan: Plan,
    facts: _Facts,
    shards: dict[str, list[str]],
    originals: list[str],
) -> Manifest:
    config, is_sample = plan.config, plan.source == SAMPLE
    row = dataclasses.replace(Dataset.named(config.dataset), split=plan.split)
    published = sample.sample_counts(config.dataset) if is_sample else {"train": row.n_train, "valid": row.n_valid}
    counts = {split: plan.counts[split] - facts.n_bad[split] for split in plan.counts}
    usable = {split: n_images - facts.n_bad[split] for split, n_images in plan.found.items()}
    return Manifest(
        dataset=plan.dataset,
        source=plan.source,
        fingerprint=plan.fingerprint,
        image_size=plan.image_size,
        counts=counts,
        expected_counts=splits.expected_counts(
            row, published, usable, config.test_share, is_test_set=TEST in counts
        ),
        split=plan.split,
        ground_truth=facts.ground_truth,
        blur_sigma_px=plan.blur_sigma_px if facts.ground_truth == "points" else 0.0,
        has_fixations=facts.has_fixations,
        has_observers=facts.has_observers,
        has_known_observers=facts.has_known_observers,
        original_sizes=dict(sorted(facts.original_sizes.items())),
        shards=shards,
        originals=originals,
        code_version=code_version(),
        licence="" if is_sample else row.licence,
        citation="" if is_sample else row.citation,
        test_share=config.test_share,
        notes=[*plan.notes, *facts.notes],
        reading=plan.reading,
        bad_images=facts.bad.listed(),
        as_seen=plan.is_own,
        map_variation=statistics.variation(facts.bias_cells) if facts.bias_cells else 0.0,
    )
