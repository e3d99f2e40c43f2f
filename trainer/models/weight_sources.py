"""Find weights, local or on Cloud Storage, and make a model of them.

They are a file, a folder, a checkpoint, or a model.

Loads neither TensorFlow nor Keras, because the pipeline uses it too.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from trainer.data import parse_image_size
from trainer.datasets import Dataset
from trainer.errors import NotFoundError, PlaceError, SettingError, UserError
from trainer.io import StrPath, is_taken, local_path, temporary_folder
from trainer.models import author
from trainer.models.find import find_model
from trainer.models.lookup import holds_model, nearest_model
from trainer.models.model_names import NO_FILE, PRETRAINED
from trainer.models.registry_layout import PATH_OF_WEIGHTS
from trainer.network import Imported, LocalWeights, ModelFolder, NamedWeights
from trainer.places import BucketPlace, SourceObject, Stored, stored_at
from trainer.texts import printable


@dataclasses.dataclass(frozen=True)
class WeightSource:
    """Where weights are, as a person gives it: files, a model, or weights of the author. Loads no TensorFlow.

    Example: `vgg16.h5`, `gs://bucket/model.ckpt`, `msinet@3`, `pretrained` and `author:salicon` are sources.
    """

    source: str
    """A path or a gs:// address of files that `trainer.network.tensorflow_files` reads, or a name that
    `trainer.models.find.find_model` finds."""

    @contextmanager
    def opened(self) -> Iterator[LocalWeights]:
        """The weights as local files. Downloaded files are removed at the end.

        Weights of `author:NAME` are read from their author's archive.

        Raises:
            UserError: there are no weights, or they may not be read.
        """
        if author.is_author_weights(self.source):
            with author.unpacked_weights(self.source) as local:
                yield local
        elif model := self._model:
            yield LocalWeights.of_model(model)
        elif remote := self._remote:
            with temporary_folder() as folder:
                remote.folder.local(remote.weights, folder)
                yield LocalWeights(folder / remote.named.name, None, remote.fingerprint)
        else:
            yield LocalWeights(_path(self.source))

    def fingerprint(self) -> str:
        """`LocalWeights.fingerprint` of the weights. Empty if the source names no files, such as `imagenet`.

        On Cloud Storage it is computed from the listing alone, unless the source is a model. The archive of
        `author:NAME` is downloaded: what its server says of it may differ from machine to machine. Raises as
        `opened`.
        """
        if self.source in NO_FILE:
            return ""
        if author.is_author_weights(self.source):
            with author.unpacked_weights(self.source) as local:
                return local.fingerprint
        if model := self._model:
            return LocalWeights.of_model(model).fingerprint
        return self._remote.fingerprint if self._remote else LocalWeights(_path(self.source)).fingerprint

    def fetch_archive(self) -> None:
        """Download the archive of `author:NAME` unless it is in the cache, for errors before TensorFlow is loaded.

        Does nothing for other sources. Raises as `opened`.
        """
        if author.is_author_weights(self.source):
            author.fetched(self.source)

    def check_local(self) -> None:
        """Raise `UserError` unless a local path has a known form of weights, or the source is a name.

        Example: `imagenet`, `msinet@3` and `author:osie` are names.

        Asks no server: `author:NAME` is known or not, and of an address nothing is said.
        """
        if self.source in NO_FILE or not stored_at(self.source).is_local:
            return
        if author.is_author_weights(self.source):
            author.get_author_weights(self.source)
        elif _model(self.source, None) is None:
            LocalWeights(_path(self.source)).check()

    def import_to(self, output: StrPath, dataset: str = "salicon", image_size: str = "") -> Imported:
        """Make a model's folder of the weights, as `trainer.network.importing.convert_weights` does.

        Args:
            output: folder to write. It must be empty or not exist.
            dataset: name of the dataset that the weights were trained on, unless the source tells it.
            image_size: height x width to which images are fitted, such as 240x320. Empty for the dataset's.

        Raises:
            UserError: the source does not exist, is damaged or belongs to another network, or the output cannot be
                written. Nothing is left at `output`.
        """
        if is_taken(pathlib.Path(output)):
            raise PlaceError(f"{output} exists already. Remove it, or name another folder")
        dataset = (
            author.get_author_weights(self.source).dataset if author.is_author_weights(self.source) else dataset
        )
        size = parse_image_size(image_size) if image_size else Dataset.named(dataset).image_size
        self.check_local()
        with self.opened() as local:
            return Imported.of(local, self.source, pathlib.Path(output), dataset, size)

    @functools.cached_property
    def _remote(self) -> "_Remote | None":
        return _Remote.at(self.source)

    @functools.cached_property
    def _model(self) -> pathlib.Path | None:
        return _model(self.source, self._remote)


@dataclasses.dataclass(frozen=True)
class _Remote:
    """Weights on Cloud Storage."""

    folder: Stored
    """The folder or bucket that holds them."""
    named: NamedWeights
    """Their name there."""

    @classmethod
    def at(cls, source: str) -> Self | None:
        """The weights at a gs:// address. None for a local path."""
        place = stored_at(source)
        if not isinstance(place, BucketPlace):
            return None
        if not place.object_path:
            raise SettingError(f"{source} is a whole bucket. Name the weights in it, as gs://BUCKET/PATH")
        return cls(place.parent, NamedWeights.of_path(place.name))

    @functools.cached_property
    def siblings(self) -> list[SourceObject]:
        """All files in `folder`, which is listed once."""
        return self.folder.objects()

    @property
    def is_model(self) -> bool:
        name = self.named.name
        within = f"{name}/"
        paths = [file.name.removeprefix(within) for file in self.siblings if file.name.startswith(within)]
        return "@" in name or bool(ModelFolder.among(paths)) or any(map(PATH_OF_WEIGHTS.fullmatch, paths))

    @property
    def weights(self) -> list[SourceObject]:
        """The files, with their names relative to `folder`."""
        paths = set(self.named.among(file.name for file in self.siblings))
        files = [file for file in self.siblings if file.name in paths]
        if not files:
            address = f"{self.folder}/{self.named.name}"
            raise NotFoundError(f"there are no weights at {address}. `gcloud storage ls {self.folder}` lists all")
        return files

    @property
    def fingerprint(self) -> str:
        return self.named.fingerprint({file.name: file.crc32c for file in self.weights})


def _path(source: str) -> pathlib.Path:
    """The path of a local source. For a file of a checkpoint the common name of its files."""
    return local_path(NamedWeights.of_path(source).name)


def _exists(path: pathlib.Path) -> bool:
    try:
        return path.exists() or pathlib.Path(f"{path}.index").is_file()
    except OSError as error:  # such as a name that is too long
        raise NotFoundError(f"cannot read {printable(str(path))}: {error.strerror}") from None


def _model(source: str, remote: _Remote | None) -> pathlib.Path | None:
    """The folder of a model of this project. None if the source is weights in another form."""
    if source == PRETRAINED:
        return find_model(source)
    path = _path(source)
    is_model = remote.is_model if remote else not _exists(path) or holds_model(path)
    if not is_model:
        return None
    try:
        return find_model(source)
    except UserError:
        if remote or _exists(path) or "@" in source:
            raise
        meant = nearest_model(source)
        raise NotFoundError(
            f"{printable(source)} does not exist: give {LocalWeights.FORMS}, or a model's folder or name{meant}"
        ) from None
