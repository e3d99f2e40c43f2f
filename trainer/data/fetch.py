"""Fetch a dataset: find the files of each image at the source, check them, and write a prepared dataset.

TensorFlow is loaded once all files are found and paired, so that fingerprints and most errors take no time.
"""

import os
import pathlib
import sys
import tempfile
from typing import TYPE_CHECKING

from trainer.data.decide import decide_images
from trainer.data.plan import part_folder
from trainer.data.prepared_data import MANIFEST, Manifest
from trainer.data.prepared_source import PreparedSource
from trainer.data.settings import CUSTOM, SAMPLE, FetchConfig
from trainer.data.sources import source_of
from trainer.datasets import Dataset
from trainer.errors import PlaceError, SettingError
from trainer.io import is_taken, replacing, temporary_folder_beside
from trainer.places import source_places
from trainer.texts import visible

if TYPE_CHECKING:
    from trainer.data.recordings.proposal import Proposal


def fingerprint_data(dataset: str, source: str, private_sources: bool = False) -> str:
    """`Source.fingerprint` of a source, or of what a prepared dataset was made of. Nothing is fetched.

    Args:
        dataset: a name in `trainer.datasets.table.DATASETS`.
        source: as `FetchConfig.source`.
        private_sources: as `FetchConfig.private_sources`.

    Raises:
        UserError: the dataset is unknown, or the source may not be read.
    """
    places = source_places(source, (SAMPLE,))
    if prepared := PreparedSource.at(places):
        prepared.check_dataset(dataset)
        return prepared.manifest.fingerprint
    return source_of(dataset, places, private_sources).fingerprint()


def fetch_dataset(
    config: FetchConfig, output: str | os.PathLike[str], cache_dir: str | None = None, test_of: str = ""
) -> Manifest:
    """Write the prepared dataset `output`, a folder that must be empty or not exist.

    A source that is itself a prepared dataset is checked, and copied as it is.

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
    Dataset.named(config.dataset)
    output = pathlib.Path(output)
    if is_taken(output):
        raise PlaceError(f"{output} exists already. Remove it, or name another folder")
    if prepared := PreparedSource.at(config.places):
        prepared.check(config, test_of)
        return prepared.copy_to(output)
    at = source_of(config.dataset, config.places, config.private_sources)
    with replacing(output, last=MANIFEST) as partial, temporary_folder_beside(output) as folder:
        partial.mkdir()
        with at.open(folder, cache_dir) as source:
            plan, items = decide_images(config, source, test_of, most_bytes=sys.maxsize, most_files=sys.maxsize)
            from trainer.data.prepare import prepare_part  # loads TensorFlow

            (part := part_folder(partial, 0)).mkdir(parents=True)
            prepare_part(plan, 0, [item for each in items.values() for item in each], part)
        from trainer.data.merge import merge_parts

        manifest = merge_parts(plan, source.objects, partial)
    if plan.is_own:  # `find_recordings` prints its notes itself, and these came later
        print("".join(f"note: {visible(note)}\n" for note in manifest.notes[len(plan.notes) :]), end="")
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
