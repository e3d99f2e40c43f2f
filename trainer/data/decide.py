"""Decide what must be known of all images of a source at once.

That is which files belong to an image, how tables are read, the split, the copies of a picture, and the order.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from trainer.data import sample, source_layout, splits
from trainer.data.bad_images import BadImages
from trainer.data.copies import with_copies
from trainer.data.plan import Plan, cut, output_files, source_bytes
from trainer.data.prepared_data import SPLITS, TEST
from trainer.data.settings import CUSTOM, SAMPLE, FetchConfig, parse_image_size
from trainer.data.source_layout import Item
from trainer.data.sources import OpenedSource
from trainer.data.splits import SplitImages
from trainer.datasets import HASH, Dataset
from trainer.errors import ContentError, UserError
from trainer.machine import load_tensorflow
from trainer.places import DamagedArchiveError

Items = Mapping[str, Sequence[Item]]
"""Split -> its images in order."""


def decide_images(
    config: FetchConfig, source: OpenedSource, test_of: str, most_bytes: int, most_files: int
) -> tuple[Plan, Items]:
    """Decide about the images of a source.

    Every stimulus is read, for its hash, and every table. Of maps and files of fixations, only some are read, of
    recordings of one's own.

    Args:
        config: the dataset and its source.
        source: the source, while it is open.
        test_of: as in `trainer.data.fetch.fetch_dataset`.
        most_bytes: the bytes at the source of the images of a shard, unless it is of one file.
        most_files: the number of files that a shard becomes.

    Returns:
        The plan, and the images of each split that it counts.

    Raises:
        UserError: the source has an error (see `source_layout`, `splits`, `recordings`).
    """
    row = Dataset.named(config.dataset)
    # Archives of authors do not change: a bad image there is a damaged copy, unless a part is accepted.
    bad = BadImages(config.max_bad_share if row.any_count or config.accepts_partial else 0.0)
    found = _find_images(config, row, source, bad, is_test_set=bool(test_of))
    items = _chosen(config, source, found, is_test_set=bool(test_of))
    load_tensorflow()
    pedestal = _ask(items, found.confirmed) if row.any_count else 0
    counts = {split: len(each) for split, each in items.items()}
    image_size = asked_image_size(config, test_of)
    files = output_files(counts, image_size)
    plan = Plan(
        config=config.shown,
        dataset=prepared_name(config.dataset, source.name),
        source=source.name,
        fingerprint=source.fingerprint,
        image_size=image_size,
        split=found.row.split,
        blur_sigma_px=found.row.blur_sigma_px,
        pedestal=pedestal,
        found={split: len(each) for split, each in found.split.items()},
        counts=counts,
        shards=[(each.start, each.stop) for each in cut(source_bytes(items, files), most_bytes, most_files)],
        bad=bad,
        notes=list(found.notes),
        reading=found.reading,
    )
    return plan, items


def asked_image_size(config: FetchConfig, test_of: str) -> tuple[int, int]:
    """(H, W) of the images to prepare, pixels: what is asked for, else what the dataset that is trained has."""
    size = config.image_size
    return parse_image_size(size) if size else Dataset.named(test_of or config.dataset).image_size


def prepared_name(dataset: str, source: str) -> str:
    """`Manifest.dataset` of a dataset from `source`: its own name, or the name of the sample set in its form.

    Example: `sample-maps` for salicon from `sample`.
    """
    return sample.sample_name(dataset) if source == SAMPLE else dataset


def _ask(items: Items, confirmed: Sequence[str]) -> int:
    """The `pedestal_of` maps of one's own. The pictures are asked about maps, unless a person overrules them."""
    from trainer.data import own_maps  # loads TensorFlow

    all_items = [item for each in items.values() for item in each]
    pedestal = own_maps.pedestal_of(all_items)
    if "pictures" not in confirmed:
        own_maps.ask_pictures(all_items)
    return pedestal


def _find_images(
    config: FetchConfig, row: Dataset, source: OpenedSource, bad: BadImages, is_test_set: bool
) -> SplitImages:
    """Find the images of each split with their maps and fixations."""
    if row.any_count:
        from trainer.data.recordings.custom import find_recordings  # Polars takes a moment to load

        return find_recordings(source.members, row, source.name, config, bad, is_test_set)
    try:
        images = source_layout.find_items(source.members, row, source.name, bad)
    except UserError as error:
        if not config.source or isinstance(error, DamagedArchiveError):
            raise
        raise ContentError(
            f"{error} ({source.name} was read as the dataset {config.dataset}. Recordings of your own are the "
            f"dataset {CUSTOM})"
        ) from None
    if config.source == SAMPLE:  # the number of its images is fixed
        method, notes = row.split, []
    else:
        method, notes = splits.split_method_of(row, len(images.items)), images.notes
    items = images.items
    if method == HASH or config.test_share:
        items, about_copies = with_copies(items)
        notes = [*notes, *about_copies]
    split = splits.split_items(items, images.labels, method, row, source.name, config.test_share)
    if TEST in split:
        notes = [*notes, splits.kept_apart_text(split, config.test_share)]
    return SplitImages(split, dataclasses.replace(row, split=method), notes)


def _chosen(
    config: FetchConfig, source: OpenedSource, found: SplitImages, is_test_set: bool
) -> dict[str, list[Item]]:
    """The images to prepare of each split. Raises `UserError` if a split lacks images."""
    split, row = found.split, found.row
    splits.check_counts(split, row, source.name, config.accepts_partial, is_test_set)
    splits.check_kept_apart(split, source.name, config.test_share)
    items = splits.only_tested(split, row) if is_test_set else {name: split[name] for name in SPLITS}
    chosen = {name: splits.limited(each, config.max_examples) for name, each in items.items()}
    if all(item.picture for each in chosen.values() for item in each):
        return chosen
    # Copies do not move this split, so they are looked for among the images that are used.
    marked, notes = with_copies([item for each in chosen.values() for item in each])
    found.notes.extend(notes)
    rest = iter(marked)
    return {name: list(itertools.islice(rest, len(each))) for name, each in chosen.items()}
