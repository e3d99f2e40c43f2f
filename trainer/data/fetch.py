"""From source to a prepared data set: find what belongs together, check it, write it.

TensorFlow is loaded when all files are found and paired, so that fingerprints and most mistakes take no time.
"""

import hashlib
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from trainer import datasets, storage
from trainer.artifacts import SPLITS, Manifest, SourceObject, code_version
from trainer.config import SAMPLE, FetchConfig, parse_image_size
from trainer.data import layout, sample, sources
from trainer.errors import UserError
from trainer.files import is_taken, replacing
from trainer.loading import load_tensorflow


def fingerprint(dataset: str, source: str) -> str:
    """A digest (hex) of what is at the source now: names, sizes and checksums of its files.

    The same files have the same fingerprint wherever they are. On Cloud Storage this reads the listing only.

    Args:
        dataset: name of the data set's row.
        source: as `FetchConfig.source`.

    Raises:
        UserError: unknown data set, or nothing that may be read at the source.
    """
    row = datasets.get(dataset)
    source = _resolved(dataset, row, source)
    return sample.fingerprint(dataset) if source == SAMPLE else _digest(storage.list_objects(source))


def fetch_dataset(config: FetchConfig, output: str | os.PathLike[str]) -> Manifest:
    """Make the prepared data set `output`, a folder that must not exist or be empty.

    Raises:
        UserError: whatever is wrong with the source (see `storage`, `sources`, `layout`, `decode`), or with the
            place to write to. Nothing is left at `output` then, nor beside it.
    """
    row = datasets.get(config.dataset)
    source = _resolved(config.dataset, row, config.source)
    image_size = parse_image_size(config.image_size) if config.image_size else row.image_size
    output = pathlib.Path(output)
    if is_taken(output):
        raise UserError(f"{output} exists already; remove it, or name another folder")
    objects = [] if source == SAMPLE else storage.list_objects(source)
    with replacing(output) as partial, _scratch(output) as scratch:
        partial.mkdir()
        place = source
        if source == SAMPLE:
            place = str(scratch / SAMPLE)
            sample.draw(config.dataset, place)
            objects = storage.list_objects(place)
        with sources.opened(place, objects, scratch) as members:
            items = layout.find_items(members, row, source)
            layout.check_counts(items, row, source, config.accepts_partial)
            items = {split: layout.limited(items[split], config.max_examples) for split in SPLITS}
            load_tensorflow()
            from trainer.data.prepare import prepare

            facts = prepare(items, row.blur_sigma_px, image_size, partial, config.dataset)
        manifest = Manifest(
            dataset=config.dataset,
            source=source,
            fingerprint=sample.fingerprint(config.dataset) if source == SAMPLE else _digest(objects),
            image_size=image_size,
            counts={split: len(items[split]) for split in SPLITS},
            expected_counts={"train": row.n_train, "valid": row.n_valid},
            split=row.split,
            ground_truth=facts.ground_truth,
            blur_sigma_px=row.blur_sigma_px if facts.ground_truth == "points" else 0.0,
            has_fixations=facts.has_fixations,
            original_sizes=dict(sorted(facts.original_sizes.items())),
            shards=facts.shards,
            objects=objects,
            code_version=code_version(),
        )
        manifest.save(partial)
    return manifest


def leave_out(output: str | os.PathLike[str]) -> None:
    """Make the folder `output` without a data set, for a run that needs none there; it says so."""
    folder = pathlib.Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "not-fetched.txt").write_text(
        "A model takes the place of base training, so its data is not needed.\n"
    )


def _resolved(dataset: str, row: datasets.Dataset, source: str) -> str:
    if source or row.source:
        return source or row.source
    raise UserError(
        f"{dataset} has no source of its own: give its folder or archive, a gs:// address, or `{SAMPLE}` as source"
    )


def _digest(objects: Iterable[SourceObject]) -> str:
    lines = sorted(f"{each.name}\t{each.size_bytes}\t{each.crc32c}\n" for each in objects)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@contextmanager
def _scratch(output: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder for downloads, removed afterwards: beside the output, where there is room for data."""
    # A mounted bucket would upload everything that is unpacked into it.
    on_bucket = output.absolute().is_relative_to(storage.MOUNT)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=None if on_bucket else output.parent) as folder:
        yield pathlib.Path(folder)
