"""Fetch a dataset: find the files of each image at the source, check them, and write a prepared dataset.

TensorFlow is loaded once all files are found and paired, so that fingerprints and most errors take no time.
"""

import hashlib
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainer import datasets, storage
from trainer.artifacts import MANIFEST, SPLITS, Manifest, SourceObject, code_version
from trainer.config import SAMPLE, FetchConfig, parse_image_size
from trainer.data import layout, sample, sources
from trainer.errors import UserError
from trainer.files import is_mounted, is_taken, replacing
from trainer.loading import load_tensorflow

if TYPE_CHECKING:
    from trainer.data.prepare import Facts


def fingerprint(dataset: str, source: str) -> str:
    """A digest (hex) of the names, sizes and checksums of all files at the source.

    It does not depend on the place of the files. On Cloud Storage only the listing is read.

    Args:
        dataset: a name in `trainer.datasets.DATASETS`.
        source: as `FetchConfig.source`.

    Raises:
        UserError: the dataset is unknown, or the source is empty or may not be read.
    """
    row = datasets.get(dataset)
    source = _resolved(dataset, row, source)
    return sample.fingerprint(dataset) if source == SAMPLE else _digest(storage.list_objects(source))


def fetch_dataset(config: FetchConfig, output: str | os.PathLike[str]) -> Manifest:
    """Write the prepared dataset `output`, a folder that must be empty or not exist.

    Raises:
        UserError: the source has an error (see `storage`, `sources`, `layout`, `decode`), or the output cannot be
            written. Nothing is left at `output` or next to it.
    """
    row = datasets.get(config.dataset)
    source = _resolved(config.dataset, row, config.source)
    image_size = parse_image_size(config.image_size) if config.image_size else row.image_size
    output = pathlib.Path(output)
    if is_taken(output):
        raise UserError(f"{output} exists already; remove it, or name another folder")
    objects = [] if source == SAMPLE else storage.list_objects(source)
    with replacing(output, last=MANIFEST) as partial, _scratch(output) as scratch:
        partial.mkdir()
        place = source
        if source == SAMPLE:
            place = str(scratch / SAMPLE)
            sample.generate(config.dataset, place)
            objects = storage.list_objects(place)
        with sources.opened(place, objects, scratch) as members:
            if row.any_count:
                from trainer.data.own.find import find_recordings  # PyArrow takes a moment to load

                found, row = find_recordings(members, row, source, config)
            else:
                found = layout.find_items(members, row, source)
            layout.check_counts(found.items, row, source, config.accepts_partial)
            items = {split: layout.limited(found.items[split], config.max_examples) for split in SPLITS}
            load_tensorflow()
            from trainer.data.prepare import prepare

            facts = prepare(items, row.blur_sigma_px, image_size, partial, config.dataset)
        manifest = _manifest(config.dataset, row, source, objects, image_size, facts, found)
        manifest.save(partial)
    return manifest


def _manifest(
    dataset: str,
    row: datasets.Dataset,
    source: str,
    objects: list[SourceObject],
    image_size: tuple[int, int],
    facts: "Facts",
    found: layout.Found,
) -> Manifest:
    n_found = {split: len(items) for split, items in found.items.items()}
    return Manifest(
        dataset=dataset,
        source=source,
        fingerprint=sample.fingerprint(dataset) if source == SAMPLE else _digest(objects),
        image_size=image_size,
        counts=facts.counts,
        expected_counts=n_found if row.any_count else {"train": row.n_train, "valid": row.n_valid},
        split=row.split,
        ground_truth=facts.ground_truth,
        blur_sigma_px=row.blur_sigma_px if facts.ground_truth == "points" else 0.0,
        has_fixations=facts.has_fixations,
        has_observers=facts.has_observers,
        original_sizes=dict(sorted(facts.original_sizes.items())),
        shards=facts.shards,
        objects=objects,
        code_version=code_version(),
        licence=row.licence,
        citation=row.citation,
        notes=[*found.notes, *facts.notes],
    )


def leave_out(output: str | os.PathLike[str]) -> None:
    """Write a folder `output` without a dataset, with a file that says so, for a run that does not need one."""
    folder = pathlib.Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "not-fetched.txt").write_text(
        "A model replaces base training, so the data of base training is not needed.\n"
    )


def _resolved(dataset: str, row: datasets.Dataset, source: str) -> str:
    if row.any_count and source in ("", SAMPLE):
        raise UserError(
            f"{dataset} is recordings of your own, but source is {source!r}; give their folder or archive, here "
            "or on gs://"
        )
    if source or row.source:
        return source or row.source
    raise UserError(
        f"{dataset} has no default source: give its folder or archive, a gs:// address, or `{SAMPLE}` as source"
    )


def _digest(objects: Iterable[SourceObject]) -> str:
    lines = sorted(f"{file.name}\t{file.size_bytes}\t{file.crc32c}\n" for file in objects)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@contextmanager
def _scratch(output: pathlib.Path) -> Iterator[pathlib.Path]:
    """A temporary folder for downloads, next to the output, because that disk has room for data."""
    # On a mounted bucket every unpacked file would be uploaded.
    with tempfile.TemporaryDirectory(
        prefix=".fetch-", dir=None if is_mounted(output) else output.parent
    ) as folder:
        yield pathlib.Path(folder)
