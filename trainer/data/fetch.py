"""Fetch a dataset: find the files of each image at the source, check them, and write a prepared dataset.

TensorFlow is loaded once all files are found and paired, so that fingerprints and most errors take no time.
"""

import dataclasses
import itertools
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING

from trainer.data import sample, source_layout, splits, statistics
from trainer.data.bad_images import BadImages
from trainer.data.copies import with_copies
from trainer.data.prepared_data import MANIFEST, SPLITS, TEST, Manifest
from trainer.data.settings import CUSTOM, SAMPLE, FetchConfig, parse_image_size
from trainer.data.sources import OpenedSource, source_of
from trainer.data.splits import SplitImages
from trainer.datasets import HASH, Dataset
from trainer.errors import ContentError, PlaceError, SettingError, UserError
from trainer.io import is_taken, replacing, temporary_folder_beside
from trainer.machine import code_version, load_tensorflow
from trainer.places import DamagedArchiveError, source_places
from trainer.texts import visible

if TYPE_CHECKING:
    from trainer.data.prepare import Facts
    from trainer.data.recordings.proposal import Proposal


def fingerprint_data(dataset: str, source: str, private_sources: bool = False) -> str:
    """`Source.fingerprint` of a source. Nothing is fetched.

    Args:
        dataset: a name in `trainer.datasets.table.DATASETS`.
        source: as `FetchConfig.source`.
        private_sources: as `FetchConfig.private_sources`.

    Raises:
        UserError: the dataset is unknown, or the source may not be read.
    """
    return source_of(dataset, source_places(source, (SAMPLE,)), private_sources).fingerprint()


def fetch_dataset(
    config: FetchConfig, output: str | os.PathLike[str], cache_dir: str | None = None, test_of: str = ""
) -> Manifest:
    """Write the prepared dataset `output`, a folder that must be empty or not exist.

    Args:
        config: the dataset and its source.
        output: the folder.
        cache_dir: folder that keeps downloaded archives. Empty for none, None for the folder of the
            environment.
        test_of: empty for data to train on. Else these data test a model, and this names the dataset that the
            model is trained on. All images, or the share that `config` keeps apart, are only tested on. They
            have the image size of the other dataset, unless `config` has one. Example: osie, to test a model
            of salicon, has `test_of="salicon"`.

    Raises:
        UserError: the source has an error (see `sources`, `archive_files`, `source_layout`, `decode`), or the
            output cannot be written. Nothing is left at `output` or next to it.
    """
    row = Dataset.named(config.dataset)
    at = source_of(config.dataset, config.places, config.private_sources)
    default_size = Dataset.named(test_of or config.dataset).image_size
    image_size = parse_image_size(config.image_size) if config.image_size else default_size
    output = pathlib.Path(output)
    if is_taken(output):
        raise PlaceError(f"{output} exists already. Remove it, or name another folder")
    with replacing(output, last=MANIFEST) as partial, temporary_folder_beside(output) as folder:
        partial.mkdir()
        with at.open(folder, cache_dir) as source:
            # Archives of authors do not change: a bad image there is a damaged copy, unless a part is accepted.
            bad = BadImages(config.max_bad_share if row.any_count or config.accepts_partial else 0.0)
            found = _find_images(config, row, source, bad, is_test_set=bool(test_of))
            items = _chosen(config, source, found, is_test_set=bool(test_of))
            load_tensorflow()
            from trainer.data.prepare import prepare_dataset

            name, blur_px = prepared_name(config.dataset, source.name), found.row.blur_sigma_px
            facts = prepare_dataset(
                items, blur_px, image_size, partial, name, bad, is_own=row.any_count, confirmed=found.confirmed
            )
            if row.any_count:  # `find_recordings` prints its notes itself, and these came later
                print("".join(f"note: {visible(note)}\n" for note in facts.notes), end="")
        manifest = _manifest(config, source, image_size, found, facts)
        manifest.save(partial)
    return manifest


def propose_reading(config: FetchConfig, cache_dir: str | None = None) -> "Proposal":
    """Look at the tables and pictures of recordings of one's own, and propose what they mean. Nothing is written.

    Args:
        config: the recordings, and what is known of them.
        cache_dir: as in `fetch_dataset`.

    Raises:
        UserError: the recordings have an error that no reading mends, such as no table of positions.
    """
    if config.dataset != CUSTOM:
        raise SettingError(f"a reading is proposed for recordings of your own (dataset {CUSTOM}) alone")
    from trainer.data.recordings.custom import propose_recordings

    at = source_of(config.dataset, config.places, config.private_sources)
    with tempfile.TemporaryDirectory() as folder, at.open(pathlib.Path(folder), cache_dir) as source:
        return propose_recordings(source.members, Dataset.named(CUSTOM), source.name, config)


def prepared_name(dataset: str, source: str) -> str:
    """`Manifest.dataset` of a dataset from `source`: its own name, or the name of the sample set in its form.

    Example: `sample-maps` for salicon from `sample`.
    """
    return sample.sample_name(dataset) if source == SAMPLE else dataset


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
) -> dict[str, list[source_layout.Item]]:
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


def _manifest(
    config: FetchConfig, source: OpenedSource, image_size: tuple[int, int], found: SplitImages, facts: "Facts"
) -> Manifest:
    row, is_sample = found.row, source.name == SAMPLE
    published = sample.sample_counts(config.dataset) if is_sample else {"train": row.n_train, "valid": row.n_valid}
    usable = {name: len(items) - facts.n_bad[name] for name, items in found.split.items()}
    return Manifest(
        dataset=prepared_name(config.dataset, source.name),
        source=source.name,
        fingerprint=source.fingerprint,
        image_size=image_size,
        counts=facts.counts,
        expected_counts=splits.expected_counts(
            row, published, usable, config.test_share, is_test_set=TEST in facts.counts
        ),
        split=row.split,
        ground_truth=facts.ground_truth,
        blur_sigma_px=row.blur_sigma_px if facts.ground_truth == "points" else 0.0,
        has_fixations=facts.has_fixations,
        has_observers=facts.has_observers,
        has_known_observers=facts.has_known_observers,
        original_sizes=dict(sorted(facts.original_sizes.items())),
        shards=facts.shards,
        originals=facts.originals,
        objects=source.objects,
        code_version=code_version(),
        licence="" if is_sample else row.licence,
        citation="" if is_sample else row.citation,
        test_share=config.test_share,
        notes=[*found.notes, *facts.notes],
        reading=found.reading,
        bad_images=facts.bad.listed(),
        as_seen=row.any_count,
        map_variation=statistics.variation(facts.bias_cells) if facts.bias_cells else 0.0,
    )
