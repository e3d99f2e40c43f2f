"""A source that is a prepared dataset already: it is checked, and copied as it is. Nothing is prepared again.

Example: `base_source=gs://bucket/prepared`, where `python -m pipeline prepare` has written it. It is copied file
by file, so that a task needs no disk for it, and its run keeps its data whatever becomes of the source.
"""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Sequence
from typing import Self

from trainer.data.decide import asked_image_size, prepared_name
from trainer.data.prepared_data import CENTER_BIAS, IMAGES, MANIFEST, OBJECTS, Manifest
from trainer.data.settings import FetchConfig, parse_image_size
from trainer.data.sources import source_of
from trainer.errors import ConflictError, ContentError, MismatchError, PlaceError, SettingError, check
from trainer.io import UNFINISHED, StrPath, local_path, remove_path, replacing
from trainer.machine import Tracker, map_ahead, open_pool
from trainer.places import ARCHIVES, Place, Stored

WORKERS = 8
"""Files that are copied at a time. Those of a bucket are in memory, of 100 MB each."""
OTHERS = (IMAGES, OBJECTS, CENTER_BIAS)
"""Files beside the records and the manifest. Earlier versions did not write all of them."""


@dataclasses.dataclass(frozen=True)
class PreparedSource:
    """A prepared dataset in a folder, here or on Cloud Storage."""

    place: Stored
    manifest: Manifest

    @classmethod
    def at(cls, places: Sequence[Place]) -> Self | None:
        """The prepared dataset at the places of a source. None if it is anything else.

        Raises:
            ContentError: its manifest is damaged, or of another schema.
            UserError: the place may not be read.
        """
        match places:
            case [Stored(is_download=False) as place] if not place.text.lower().endswith(ARCHIVES):
                pass
            case _:
                return None
        if place.is_local:
            place = place.with_text(str(local_path(place.text)))
        try:
            fields = json.loads(place.content(MANIFEST) or b"")
        except (PlaceError, ValueError, RecursionError):  # a file, or a folder of images with a file of this name
            return None
        if not isinstance(fields, dict) or not {"schema", "shards"} <= fields.keys():
            return None
        return cls(place, Manifest.of(fields, place.path(MANIFEST)))

    def check_dataset(self, dataset: str) -> None:
        """Raise `MismatchError` unless it is this dataset."""
        found = self.manifest.dataset
        check(
            found == prepared_name(dataset, self.manifest.source),
            f"{self.place} has the dataset {found}, already prepared, but {dataset} is asked for. Name {found}",
            MismatchError,
        )

    def check(self, config: FetchConfig, test_of: str) -> None:
        """Check that it is what a fetch with these settings asks for.

        Settings that are not given are as it was prepared, such as its image size.

        Raises:
            MismatchError: it is another dataset, or a test set where data to train on are needed, or these where
                a test set is.
            SettingError: it was prepared with other settings. Example: image_size is 120x160, and it has 240x320.
        """
        self.check_dataset(config.dataset)
        manifest = self.manifest
        check(
            manifest.is_test_set == bool(test_of),
            f"{self.place} has {', '.join(manifest.counts)} images, already prepared, but "
            f"{'a test set' if test_of else 'data to train on'} was asked for. Name another source",
            MismatchError,
        )
        size = "x".join(map(str, manifest.image_size))
        most = max(manifest.counts.values())
        given = {
            field.name for field in dataclasses.fields(config) if getattr(config, field.name) != field.default
        }
        wrong = {
            "image_size": bool(config.image_size) and parse_image_size(config.image_size) != manifest.image_size,
            "test_share": config.test_share != manifest.test_share,
            "max_examples": 0 < config.max_examples < most,
            **{name: manifest.is_own and name in given for name in config.OF_RECORDINGS},
        }
        for name in (name for name, is_wrong in wrong.items() if is_wrong):
            raise SettingError(
                f"{name} is {getattr(config, name)}, but {self.place} is already prepared, with images of {size}, "
                f"test_share {manifest.test_share:g} and at most {most:,} images of a split. Leave it as it was, "
                "or name the source that it was prepared from"
            )

    @property
    def names(self) -> list[str]:
        """The names of its files, those that it must have first.

        Raises:
            ContentError: one leads out of its folder.
        """
        shards = [name for names in self.manifest.shards.values() for name in names]
        names = [*shards, *self.manifest.originals, *OTHERS]
        wrong = [name for name in names if name in ("", ".", "..") or "/" in name]
        check(
            not wrong,
            f"{self.place} names {wrong[:1]}, which is no file of its folder. Prepare it again",
            ContentError,
        )
        return names

    def copy_to(self, output: pathlib.Path) -> Manifest:
        """Copy it to `output`, the manifest last. An interrupted copy may be there.

        Raises:
            ContentError: it lacks a file.
            UserError: a file cannot be read or written. Nothing is left at `output`.
        """
        names = self.names
        print(f"{self.place} is already prepared, and copied as it is", flush=True)
        for leftover in output.iterdir() if output.exists() else ():
            if leftover.name != UNFINISHED:
                remove_path(leftover)
        with replacing(output / UNFINISHED) as marker:
            marker.touch()
        try:
            with Tracker(f"copy {self.place}", len(names), "files") as tracker, open_pool(WORKERS) as pool:
                for _ in map_ahead(pool, lambda name: self._copy(name, output), names, WORKERS):
                    tracker.advance()
            self.manifest.save(output)
            (output / UNFINISHED).unlink()
        except BaseException:
            remove_path(output)
            raise
        return self.manifest

    def _copy(self, name: str, output: pathlib.Path) -> None:
        try:
            with self.place.open(name) as source, replacing(output / name) as partial, partial.open("wb") as file:
                shutil.copyfileobj(source, file)
        except FileNotFoundError:
            check(
                name in OTHERS,
                f"{self.place} lacks {name}, which its manifest names. Prepare it again",
                ContentError,
            )


def check_same(folder: StrPath, manifest: Manifest, config: FetchConfig, test_of: str) -> None:
    """Check that a prepared dataset is what these settings give, as far as its manifest tells.

    Raises:
        ConflictError: it is another one, or the source has changed.
        UserError: the source may not be read.
    """
    asked = {
        "dataset": prepared_name(config.dataset, config.source),
        "image_size": asked_image_size(config, test_of),
        "test_share": config.test_share,
        "is_test_set": bool(test_of),
        "fingerprint": source_of(config.dataset, config.places, config.private_sources).fingerprint(),
    }
    for name, value in asked.items():
        found = getattr(manifest, name)
        check(
            found == value,
            f"{folder} has a prepared dataset whose {name} is {found}, not {value}. Name another folder",
            ConflictError,
        )
