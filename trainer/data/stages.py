"""Prepare a dataset in three stages, each by a process of its own, on this machine or on several.

1. `decide` lists the source, and writes the plan.
2. `prepare_shard` prepares the images of one shard, in any order and at the same time as other shards.
3. `merge` makes the prepared dataset of the parts.

All of them have the folder of the dataset, which may be the mount of a bucket. A stage that was interrupted is run
again. The files are the same, byte for byte, as `fetch_dataset` writes them in one process.

What is read of the source: `decide` reads each image, for its hash, each table, and few maps. A shard reads its
own images and their files (see `Source.open_part`). So of a folder, images are fetched twice in all and maps once.
An archive of 100 GB is fetched, and if it is a tarball unpacked, once more by each machine.
"""

import dataclasses
import pathlib
import sys
import threading
from collections.abc import Sequence

from trainer.data.decide import asked_image_size, decide_images
from trainer.data.plan import PLAN, STAGES, Objects, Plan, ShardImages, part_folder
from trainer.data.prepared_data import MANIFEST, SHARD_BYTES as FILE_BYTES, TEST, Manifest
from trainer.data.prepared_source import PreparedSource
from trainer.data.settings import FetchConfig
from trainer.data.sources import source_of
from trainer.errors import PlaceError, SettingError, check, reported
from trainer.io import StrPath, remove_path, replacing, temporary_folder_beside
from trainer.machine import end_with_parent, load_tensorflow
from trainer.places import ARCHIVES, stored_at

SHARD_FILES = 50
"""Files that a shard becomes: 5 GB, or 20,000 images of 240 x 320, which take 8 cores some minutes."""


def decide(
    config: FetchConfig,
    folder: StrPath,
    cache_dir: str | None = None,
    test_of: str = "",
    most_bytes: int = round(FetchConfig.SHARD_GIGABYTES * 10**9),
    most_files: int = SHARD_FILES,
) -> int:
    """Write the plan of a dataset, and return its number of shards, at least 1.

    If it is there already, nothing is written, and the source is only listed.

    Args:
        config: as in `fetch_dataset`.
        folder: the folder of the dataset. It has nothing else, or does not exist.
        cache_dir: as in `fetch_dataset`.
        test_of: as in `fetch_dataset`.
        most_bytes: the bytes at the source of the images of a shard, unless one file of the dataset has more.
        most_files: the number of files of the dataset that a shard becomes.

    Raises:
        PlaceError: the folder has something else.
        ConflictError: the folder has another plan.
        UserError: as `fetch_dataset`.
    """
    path = pathlib.Path(folder)
    at = source_of(config.dataset, config.places, config.private_sources)
    check(
        PreparedSource.at(config.places) is None,
        f"{config.shown.source} is prepared already. Train on it as it is",
        SettingError,
    )
    if (path / STAGES / PLAN).exists():
        before = Plan.load(path)
        asked = (config.shown, asked_image_size(config, test_of), bool(test_of), at.fingerprint())
        if (before.config, before.image_size, TEST in before.counts, before.fingerprint) == asked:
            return len(before.shards)
    others = sorted(each.name for each in path.iterdir() if each.name != STAGES) if path.is_dir() else []
    check(not others, f"{folder} has {others[:1]} already. Remove it, or name another folder", PlaceError)
    with temporary_folder_beside(path) as scratch:
        with at.open(scratch, cache_dir, when_read=True) as source:
            plan, items = decide_images(config, source, test_of, most_bytes, most_files)
        plan.save(path, items, source.objects)
    return len(plan.shards)


def scratch_bytes(folder: StrPath) -> list[int]:
    """The room that each shard needs on a disk at most, bytes: for its files of the source, and for its part.

    Of archives at addresses, each shard fetches all. An archive may be unpacked, and takes twice its size.

    Args:
        folder: the folder of a dataset that was decided.

    Raises:
        ContentError: it was not.
    """
    path = pathlib.Path(folder)
    plan, everything = Plan.load(path), Objects.load(path)
    is_download = all(place.is_download for place in plan.config.places)  # also without a place
    n_bytes = []
    for shard, (start, stop) in enumerate(plan.shards):
        objects = everything if is_download else ShardImages.load(path, shard).objects
        fetched = sum(each.size_bytes * (2 if each.name.lower().endswith(ARCHIVES) else 1) for each in objects)
        originals = sum(each.size_bytes for each in objects)
        n_bytes.append(fetched + originals + (stop - start) * FILE_BYTES)
    return n_bytes


def prepare_shard(folder: StrPath, shard: int, source: str = "", cache_dir: str | None = None) -> None:
    """Prepare the images of a shard. If that is done already, nothing happens.

    Args:
        folder: the folder of a dataset that was decided.
        shard: number of the shard, counted from 0.
        source: `FetchConfig.source`, if its addresses have keys, which no plan keeps. Else empty.
        cache_dir: as in `fetch_dataset`.

    Raises:
        NotFoundError: there is no such shard.
        ConflictError: the source has changed.
        UserError: as `fetch_dataset`.
    """
    path = pathlib.Path(folder)
    plan = Plan.load(path)
    plan.check_shard(shard)
    load_tensorflow()
    from trainer.data.prepare import PART, is_prepared, prepare_part

    if is_prepared(plan, shard, path):
        return
    config = dataclasses.replace(plan.config, source=source or plan.config.source)
    at, images = source_of(config.dataset, config.places, config.private_sources), ShardImages.load(path, shard)
    with (
        temporary_folder_beside(path) as scratch,
        at.open_part(images.objects, plan.fingerprint, scratch, cache_dir) as members,
        replacing(part_folder(path, shard), last=PART) as part,
    ):
        part.mkdir()
        prepare_part(plan, shard, images.items(members, plan.source), part)


def merge(folder: StrPath) -> Manifest:
    """Make the prepared dataset of its parts, and remove the plan. If that is done already, nothing happens.

    Args:
        folder: the folder of a dataset whose shards are prepared.

    Raises:
        NotFoundError: shards are not prepared yet.
        UserError: as `fetch_dataset`.
    """
    path = pathlib.Path(folder)
    if (path / MANIFEST).exists():
        remove_path(path / STAGES)
        return Manifest.load(path)
    plan = Plan.load(path)
    load_tensorflow()
    from trainer.data.merge import merge_parts

    return merge_parts(plan, Objects.load(path), path)


def main(arguments: Sequence[str]) -> None:
    """Prepare a shard as a process or a task: `python -m trainer.data.stages FOLDER SHARD [SOURCE]`.

    FOLDER may be `gs://`, where its bucket is mounted. It ends with its parent.
    """
    threading.Thread(target=end_with_parent, daemon=True).start()
    folder, shard, *source = arguments
    with reported():
        prepare_shard(stored_at(folder).mounted, int(shard), *source)


if __name__ == "__main__":
    main(sys.argv[1:])
