"""A plan: what must be known of all images at once, before each shard of them is prepared by itself.

It says which images there are, in which order, and which files they become. It is kept as JSON in a folder
`stages` within the folder of the prepared dataset, for processes on other machines:

- `plan.json`: what all shards need. It is written last.
- `objects.json`: the files of the source, which the dataset lists.
- `shard-00003.json`: the images of a shard, and the files of the source that have them.
- `part-00003/`: what was prepared of this shard.
"""

import dataclasses
import hashlib
import itertools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from trainer.data.bad_images import BadImages
from trainer.data.prepared_data import shard_count, shard_name
from trainer.data.settings import CUSTOM, FetchConfig
from trainer.data.source_layout import Fixations, Item, Size
from trainer.data.ueyes import ScreenFixations
from trainer.errors import ConflictError, NotFoundError, check
from trainer.io import read_json, replacing
from trainer.places import Member, SourceObject

STAGES = "stages"
"""Name of the folder within a prepared dataset that has its plan, until it is merged."""
PLAN, OBJECTS = "plan.json", "objects.json"
MOST_BYTES = 2**29
"""Largest file of a plan that is read. One has 200 MB for 20,000 images with 1,000 fixations of tables on each."""
DECIDE_AGAIN = "remove the folder and decide again"
"""Remedy for a plan that is damaged."""


def cut(sizes: Sequence[int], most_bytes: int, most_items: int) -> list[range]:
    """Cut a sequence of items into ranges that follow one another, each as long as the limits allow.

    An item that alone has more than `most_bytes` is a range of its own.
    Example: `cut([4, 4, 9, 1], 8, 2)` is `[range(0, 2), range(2, 3), range(3, 4)]`.

    Args:
        sizes: the bytes of each item.
        most_bytes: the largest sum of a range, at least 1.
        most_items: the largest number of items of a range, at least 1.
    """
    ranges: list[range] = []
    start = n_bytes = 0
    for index, size in enumerate(sizes):
        if index > start and (n_bytes + size > most_bytes or index - start == most_items):
            ranges.append(range(start, index))
            start, n_bytes = index, 0
        n_bytes += size
    return [*ranges, range(start, len(sizes))] if sizes else []


@dataclasses.dataclass(frozen=True)
class Block:
    """Images of a split that follow one another and fill whole files."""

    split: str
    start: int
    """Index of the first image within the split."""
    stop: int
    """One more than the index of the last one."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is decided of all images of a dataset."""

    config: FetchConfig
    """The settings. Addresses in `source` have no queries, which may be keys."""
    dataset: str
    """`Manifest.dataset`."""
    source: str
    """`OpenedSource.name`."""
    fingerprint: str
    image_size: Size
    """(H, W) of the network's input, pixels."""
    split: str
    """The split method in use."""
    blur_sigma_px: float
    """Standard deviation of the Gaussian that turns points into a density, in original pixels."""
    pedestal: int
    """`honest_maps.pedestal_of` the maps. If it is not 0, the darkest level of each map is subtracted from it."""
    found: dict[str, int]
    """Number of images of each split at the source, of which `counts` may be a part."""
    counts: dict[str, int]
    """Number of images of each split that are prepared, in order. At least one of each."""
    shards: list[tuple[int, int]]
    """Each shard's files: the first one in the list of `files`, and one more than the last one."""
    bad: BadImages
    """The images that were put aside."""
    notes: list[str]
    """How the source was understood, in sentences for people."""
    reading: str
    """How tables were read, as TOML."""
    digest: str = ""
    """Digest (hex) of the images of all shards, by which a part is known to be of this plan. Empty in memory."""

    @property
    def is_own(self) -> bool:
        """Whether these are recordings of one's own.

        Then pictures are decoded as people see them. Maps of another form than grey levels are errors, and copies
        of a picture in two splits, too. Copies of a published dataset are counted.
        """
        return self.config.dataset == CUSTOM

    @property
    def files(self) -> list[Block]:
        """The files with the images, in order. A file has the images of a block unless some are put aside."""
        return output_files(self.counts, self.image_size)

    def blocks(self, shard: int) -> list[Block]:
        """The images of a shard: one block for each split that it has a part of."""
        files = self.files[slice(*self.shards[shard])]
        of_splits = itertools.groupby(files, key=lambda file: file.split)
        blocks = ((split, [*each]) for split, each in of_splits)
        return [Block(split, each[0].start, each[-1].stop) for split, each in blocks]

    def names(self, split: str, kind: str) -> list[str]:
        """The names of the files of a split, if no image is put aside. `kind` is `split`, or ORIGINALS."""
        count = shard_count(self.counts[split], self.image_size)
        return [shard_name(kind, number, count) for number in range(count)]

    def check_shard(self, shard: int) -> None:
        """Raise `NotFoundError` if there is no shard with this number."""
        n_shards = len(self.shards)
        check(
            0 <= shard < n_shards,
            f"there is no shard {shard}: the plan has {n_shards}, counted from 0 to {n_shards - 1}",
            NotFoundError,
        )

    def save(self, folder: pathlib.Path, items: Mapping[str, Sequence[Item]], objects: list[SourceObject]) -> Self:
        """Write the plan of the dataset in `folder`. The same plan may be there already.

        Args:
            folder: The folder of the prepared dataset.
            items: Split -> its images in order, as many as `counts` says.
            objects: The files of the source.

        Returns:
            The plan with its digest.

        Raises:
            ConflictError: another plan is there.
            UserError: nothing can be written there.
        """
        stages, by_name = folder / STAGES, {each.name: each for each in objects}
        is_there = (stages / PLAN).exists()
        digest = hashlib.sha256()
        for shard in range(len(self.shards)):
            of_shard = [item for block in self.blocks(shard) for item in _of(items, block)]
            text = _json(ShardImages.of(of_shard, by_name))
            digest.update(text.encode())
            if not is_there:
                _write(stages / shard_images(shard), text)
        saved = dataclasses.replace(self, digest=digest.hexdigest())
        if is_there:
            check(
                (stages / PLAN).read_text(encoding="utf-8") == _json(saved),
                f"{folder} has the plan of other images or settings. Remove it, or name another folder",
                ConflictError,
            )
            return saved
        _write(stages / OBJECTS, _json(Objects(objects)))
        _write(stages / PLAN, _json(saved))
        return saved

    @classmethod
    def load(cls, folder: pathlib.Path) -> Self:
        """Read the plan of the dataset in `folder`. Raises `ContentError` if there is none, or it is damaged."""
        remedy = f"{folder} has no plan of a dataset. Decide first, or {DECIDE_AGAIN}"
        plan: Self = read_json(folder / STAGES / PLAN, remedy, cls, MOST_BYTES)
        return plan


def output_files(counts: Mapping[str, int], image_size: Size) -> list[Block]:
    """The files of each split with their images, evenly filled, as `ShardWriter` fills them."""
    files = []
    for split, n_images in counts.items():
        edges = file_edges(n_images, shard_count(n_images, image_size))
        files += [Block(split, start, stop) for start, stop in itertools.pairwise(edges)]
    return files


def file_edges(n_images: int, n_files: int) -> list[int]:
    """The index of the first image of each file, and the number of images. Example: [0, 4, 7] for 7 and 2."""
    return [-(-number * n_images // n_files) for number in range(n_files + 1)]


def source_bytes(items: Mapping[str, Sequence[Item]], files: Iterable[Block]) -> list[int]:
    """The bytes that the images of each file have at the source. A member of an unknown size counts as 0."""
    return [sum(member.size_bytes or 0 for item in _of(items, file) for member in item.members) for file in files]


def _of(items: Mapping[str, Sequence[Item]], block: Block) -> Sequence[Item]:
    return items[block.split][block.start : block.stop]


def part_folder(folder: pathlib.Path, shard: int) -> pathlib.Path:
    """Where the part of a shard is, within the folder of the dataset."""
    return folder / STAGES / f"part-{shard:05d}"


def shard_images(shard: int) -> str:
    """Name of the file with the images of a shard."""
    return f"shard-{shard:05d}.json"


# === The images of a shard ===


@dataclasses.dataclass(frozen=True)
class Objects:
    """Files of the source."""

    objects: list[SourceObject]

    @classmethod
    def load(cls, folder: pathlib.Path) -> list[SourceObject]:
        """The files of the source of the dataset in `folder`. Raises `ContentError` as `Plan.load`."""
        loaded: Objects = read_json(folder / STAGES / OBJECTS, DECIDE_AGAIN, cls, MOST_BYTES)
        return loaded.objects


@dataclasses.dataclass(frozen=True)
class PlannedFixations:
    """`Fixations`, in the form in which a plan keeps them."""

    origin: str
    points: list[float]
    """y and x of each in turn. Example: [3, 4, 12, 20] for two."""
    observers: list[int] | None
    size: Size | None
    has_known_observers: bool
    on_screen: bool
    """Whether they are `ScreenFixations`."""

    @classmethod
    def of(cls, fixations: Fixations) -> Self:
        """Keep these."""
        return cls(
            fixations.origin,
            fixations.points.ravel().tolist(),
            None if fixations.observers is None else fixations.observers.tolist(),
            fixations.size,
            fixations.has_known_observers,
            isinstance(fixations, ScreenFixations),
        )

    def fixations(self) -> Fixations:
        """Give them back."""
        return (ScreenFixations if self.on_screen else Fixations)(
            self.origin,
            np.array(self.points, np.float64).reshape(-1, 2),
            None if self.observers is None else np.array(self.observers, np.int64),
            self.size,
            self.has_known_observers,
        )


@dataclasses.dataclass(frozen=True)
class PlannedImage:
    """An `Item`, in the form in which a plan keeps it: with the paths of its members."""

    name: str
    stimulus: str
    map: str
    """Empty without one."""
    fixations: str
    """Empty without a file of its own."""
    recorded: PlannedFixations | None
    """Its part of a file of many images."""
    group: str
    picture: str
    hash: str

    @classmethod
    def of(cls, item: Item) -> Self:
        """Keep this one."""
        given = item.fixations
        return cls(
            item.name,
            item.stimulus.path,
            item.map.path if item.map else "",
            given.path if isinstance(given, Member) else "",
            PlannedFixations.of(given) if isinstance(given, Fixations) else None,
            item.group,
            item.picture,
            item.hash,
        )

    def item(self, members: Mapping[str, Member]) -> Item:
        """Give it back, with its members by their paths. Raises `KeyError` without one of them."""
        recorded = self.recorded.fixations() if self.recorded else None
        return Item(
            self.name,
            members[self.stimulus],
            members[self.map] if self.map else None,
            members[self.fixations] if self.fixations else recorded,
            group=self.group,
            picture=self.picture,
            hash=self.hash,
        )


@dataclasses.dataclass(frozen=True)
class ShardImages:
    """The images of a shard, and the files of the source that have them."""

    images: list[PlannedImage]
    objects: list[SourceObject]

    @classmethod
    def of(cls, items: Sequence[Item], objects: Mapping[str, SourceObject]) -> Self:
        """Keep these images, and those of the source's `objects`, by name, that have a member of one."""
        names = {member.object for item in items for member in item.members} - {""}
        return cls([PlannedImage.of(item) for item in items], [objects[name] for name in sorted(names)])

    @classmethod
    def load(cls, folder: pathlib.Path, shard: int) -> Self:
        """Read the images of a shard of the dataset in `folder`. Raises `ContentError` as `Plan.load`."""
        loaded: Self = read_json(folder / STAGES / shard_images(shard), DECIDE_AGAIN, cls, MOST_BYTES)
        return loaded

    def items(self, members: Iterable[Member], source: str) -> list[Item]:
        """The images with their members. Raises `ConflictError` if the source lacks one of these."""
        by_path = {member.path: member for member in members}
        try:
            return [image.item(by_path) for image in self.images]
        except KeyError as error:
            raise ConflictError(
                f"{source} has no {error.args[0]} any more. Restore it, or {DECIDE_AGAIN}"
            ) from None


def _json(value: Any) -> str:
    return json.dumps(dataclasses.asdict(value)) + "\n"


def _write(path: pathlib.Path, text: str) -> None:
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
