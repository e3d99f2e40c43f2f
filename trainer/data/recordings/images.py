"""Find the images among one's own files, with their maps and fixations, and the splits that their folders tell."""

import dataclasses
import os
import posixpath
from collections.abc import Sequence

from trainer.artifacts import TEST
from trainer.data import layout
from trainer.data.layout import Item
from trainer.data.recordings.splits import Picture, Usable, folder_labels, label_of
from trainer.data.roles import IMAGE_SUFFIXES, MOST_IMAGE_BYTES, ROLES, folder_word
from trainer.datasets import Dataset
from trainer.errors import UserError, some
from trainer.picture import open_header, orientation_of
from trainer.pool import map_ahead, open_pool
from trainer.progress import Tracker
from trainer.sources import Member

MAX_WORKERS = 32


@dataclasses.dataclass(frozen=True)
class Images:
    """The images of a source."""

    items: list[Item]
    """With their own files of maps and fixations, if there are any."""
    labels: list[str]
    """The split of each item by its folder; empty without one."""
    by_folder: bool
    """Whether folders split the training from the validation."""
    for_tests: list[str] = dataclasses.field(default_factory=list)
    """Paths of the images in test/ that are left out of the items; to train on the others, they need no maps."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """Sentences for people."""


def find_images(members: Sequence[Member], row: Dataset, source: str, split: str, is_all_tested: bool) -> Images:
    """Find the images among the files of a source, and the files of their maps and fixations.

    Args:
        members: the files, without tables.
        row: the row of the dataset `custom`.
        source: its name in messages.
        split: `FetchConfig.split`.
        is_all_tested: only images in test/ are used, if there are any.

    Raises:
        UserError: there is no image, or a map has no counterpart (see `layout`).
    """
    roles = [folder_word(member.path, ROLES) for member in members]
    pictures = [
        (member, role)
        for member, role in zip(members, roles, strict=True)
        if member.path.lower().endswith(IMAGE_SUFFIXES)
    ]
    if "map" in roles or "fixations" in roles:
        paths = [member.path for member, role in pictures if role == "stimulus"]
        return _with_maps(members, paths, dataclasses.replace(row, split=split), source, is_all_tested)
    if not pictures:
        raise UserError(
            f"{source} has no image ({', '.join(IMAGE_SUFFIXES)}) among its files; put the images there"
        )
    paths = [member.path for member, _ in pictures]
    # Names without the folders that all images share, so that an archive gives the same names as its folder.
    shared = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    items = [Item(member.path[len(shared) :].lstrip("/"), member, None, None) for member, _ in pictures]
    return Images(items, *folder_labels(paths, split))


def _with_maps(
    members: Sequence[Member], paths: Sequence[str], row: Dataset, source: str, is_all_tested: bool
) -> Images:
    """The images at `paths` with their files of maps and fixations, split by the setting in `row.split`."""
    labels, by_folder = folder_labels(paths, row.split)
    for_tests = [path for path, label in zip(paths, labels, strict=True) if label == TEST]
    if for_tests:  # only the images that are used need maps
        members = [member for member in members if (label_of(member.path) == TEST) == is_all_tested]
    by_folder = by_folder and not (for_tests and is_all_tested)
    found = layout.find_items(members, dataclasses.replace(row, split="given" if by_folder else "shuffle"), source)
    pairs = [(item, split if by_folder else "") for split, items in found.items.items() for item in items]
    pairs.sort(key=lambda pair: (pair[0].name, pair[1]))
    items = [item for item, _ in pairs]
    if for_tests and is_all_tested:
        return Images(items, [TEST] * len(items), by_folder, notes=found.notes)
    return Images(items, [label for _, label in pairs], by_folder, for_tests, found.notes)


def has_maps(items: Sequence[Item]) -> bool:
    """Whether the images have maps or fixations in files of their own."""
    return items[0].map is not None or items[0].fixations is not None


def check_maps(items: Sequence[Item], source: str) -> None:
    """Raise `UserError` unless the images have maps or fixations in files of their own."""
    if not has_maps(items):
        raise UserError(
            f"{source} has {len(items):,} images, but nothing that tells where people looked: put a table of "
            "fixations (.csv, .tsv, .txt or .parquet) beside them; or the images into a folder named stimuli, and "
            "their maps into one named maps, or fixations"
        )


def read_pictures(members: Sequence[Member]) -> list[Picture]:
    """Read the headers of image files, in their order; raises `UserError` for a file that is no image."""
    n_threads = min(os.cpu_count() or 1, MAX_WORKERS)
    pictures = []
    with Tracker("read images", len(members), "images") as tracker, open_pool(n_threads) as pool:
        for picture in map_ahead(
            pool, lambda index: _read_picture(members[index]), range(len(members)), 4 * n_threads
        ):
            pictures.append(picture)
            tracker.advance()
    return pictures


def _read_picture(member: Member) -> Picture:
    data = member.content(MOST_IMAGE_BYTES)
    try:
        picture = open_header(data)
        is_turned = orientation_of(picture) != 1
    except (OSError, ValueError, SyntaxError):
        raise UserError(f"{member.origin} does not decode as an image; export it again") from None
    return Picture((picture.height, picture.width), is_turned)


def turned_text(found: Usable) -> list[str]:
    """A list with a sentence about images that viewers turn; empty without such an image."""
    turned = [
        item.stimulus.path for item, picture in zip(found.items, found.pictures, strict=True) if picture.is_turned
    ]
    if not turned:
        return []
    return [
        f"Images with an orientation tag, by which viewers turn them: {len(turned):,} ({some(turned)}). They are "
        "read without it, so fixations on the turned image are misplaced."
    ]
