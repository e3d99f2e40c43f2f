"""Find weights: a file, a folder, a checkpoint or a model, local or on Cloud Storage.

Imports neither TensorFlow nor Keras, because the pipeline uses it too.
"""

import dataclasses
import enum
import functools
import hashlib
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from trainer import datasets, storage
from trainer.artifacts import COMPACT_WEIGHTS, WEIGHTS, SourceObject
from trainer.config import NO_FILE, PRETRAINED, parse_image_size
from trainer.errors import UserError
from trainer.files import is_taken
from trainer.models.find import find_model
from trainer.models.registry_layout import PLACE_OF_WEIGHTS, holds_model

KINDS = (
    "a frozen graph (.pb, or a SavedModel folder), a TensorFlow checkpoint (its name up to .ckpt, or .index), or "
    "an HDF5 file of Keras (.weights.h5, .h5)"
)
"""The files that `trainer.models.weight_files` reads, for messages."""
HDF5 = (".h5", ".hdf5")
PACKED = (".zip", ".tar", ".gz", ".tgz")
SAVED_MODEL = "saved_model.pb"
PART = re.compile(r"\.(index|data-\d{5}-of-\d{5})$")
"""Endings of the names of a checkpoint's files."""
INSIDE = re.compile(rf"{re.escape(SAVED_MODEL)}|variables/[^/]+|[^/]+{PART.pattern}")
"""The files of a folder that weights are read from."""


class Kind(enum.Enum):
    """Forms of weights."""

    SAVED_MODEL = enum.auto()
    CHECKPOINT = enum.auto()
    GRAPH = enum.auto()
    HDF5 = enum.auto()


@dataclasses.dataclass(frozen=True)
class LocalWeights:
    """Weights as local files."""

    path: pathlib.Path
    """A file, a folder, or the common name of a checkpoint's files."""
    model: pathlib.Path | None
    """The folder of the model, if the weights are those of a model of this project."""
    fingerprint: str
    """A digest (hex) of the files' names and checksums, the same wherever they are."""


@contextmanager
def opened(source: str) -> Iterator[LocalWeights]:
    """The weights at `source`; downloaded files are removed at the end.

    Args:
        source: a path or a gs:// address of files that `trainer.models.weight_files` reads, or a name that
            `trainer.models.find.find_model` finds.

    Raises:
        UserError: there are no weights, or they may not be read.
    """
    remote = _Remote.at(source)
    if (model := _model(source, remote)) is not None:
        yield LocalWeights(model / WEIGHTS, model, _fingerprint_of_model(model))
    elif remote:
        with tempfile.TemporaryDirectory(prefix="msinet-weights-") as folder:
            storage.download(remote.place, remote.weights, pathlib.Path(folder))
            yield LocalWeights(pathlib.Path(folder) / remote.name, None, remote.fingerprint)
    else:
        yield LocalWeights(_whole(source), None, _fingerprint_of_files(source))


def fingerprint(source: str) -> str:
    """`LocalWeights.fingerprint` of the weights at `source`; arguments and errors are those of `opened`.

    On Cloud Storage it is computed from the listing alone, unless the source is a model.
    """
    remote = _Remote.at(source)
    if (model := _model(source, remote)) is not None:
        return _fingerprint_of_model(model)
    return remote.fingerprint if remote else _fingerprint_of_files(source)


def fingerprint_of_initial(source: str) -> str:
    """`fingerprint` of a training's initial weights; empty if they are not a file. Raises as `opened`."""
    return "" if source in NO_FILE else fingerprint(source)


def _fingerprint_of_model(model: pathlib.Path) -> str:
    return _digest({WEIGHTS: storage.checksum(model / WEIGHTS)})


def _fingerprint_of_files(source: str) -> str:
    path = _whole(source)
    if not path.is_dir():
        files = {file.name: file for file in path.parent.glob("*") if _is_of(file.name, path.name)}
    else:
        contents = [*path.glob("*"), *path.glob("variables/*")]
        files = {name: file for file in contents if INSIDE.fullmatch(name := file.relative_to(path).as_posix())}
    return _digest({name: storage.checksum(file) for name, file in files.items() if file.is_file()})


def check_local(source: str) -> None:
    """Raise `UserError` unless a local path has a known form of weights, or `source` names a model."""
    if _model(source, None) is None:
        kind_of(_whole(source))


def kind_of(path: pathlib.Path) -> tuple[Kind, pathlib.Path]:
    """Tell by its name which kind of weights is at a local path, and where exactly.

    Returns:
        The kind, and its file, its folder, or the common name of a checkpoint's files.

    Raises:
        UserError: nothing is there, or it is of an unknown kind.
    """
    if path.name == SAVED_MODEL:
        path = path.parent
    if (path / SAVED_MODEL).is_file():
        return Kind.SAVED_MODEL, path
    if prefix := _checkpoint_at(path):
        return Kind.CHECKPOINT, prefix
    if not path.exists():
        raise UserError(f"{path} does not exist; give {KINDS}")
    if path.is_dir():
        contents = ", ".join(sorted(file.name for file in path.iterdir())[:10]) or "nothing"
        raise UserError(f"{path} is a folder without {SAVED_MODEL} (it has {contents}); give {KINDS}")
    if path.suffix == ".pb":
        return Kind.GRAPH, path
    if path.suffix in HDF5:
        return Kind.HDF5, path
    if path.suffix in PACKED:
        raise UserError(f"{path} is an archive; unpack it and give its contents: {KINDS}")
    raise UserError(f"{path} cannot be read as weights; give {KINDS}")


def _checkpoint_at(path: pathlib.Path) -> pathlib.Path | None:
    """The common name of a checkpoint's files; None if `path` is not a checkpoint."""
    whole = PART.sub("", path.name)
    prefix = path.with_name(whole)
    if pathlib.Path(f"{prefix}.index").is_file():
        return prefix
    if whole != path.name:
        raise UserError(f"{path} is a part of a checkpoint whose {prefix}.index is missing; copy all of its files")
    indexes = sorted(path.glob("*.index")) if path.is_dir() else []
    if len(indexes) > 1:
        raise UserError(f"{path} has several checkpoints; name one: {', '.join(file.stem for file in indexes)}")
    return indexes[0].with_suffix("") if indexes else None


def _digest(checksums: Mapping[str, str]) -> str:
    lines = sorted(f"{name}\t{crc}\n" for name, crc in checksums.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _whole(source: str) -> pathlib.Path:
    """A path; for a file of a checkpoint the common name of its files."""
    path = pathlib.Path(source).expanduser()
    return path.with_name(PART.sub("", path.name)) if PART.search(path.name) else path


def _exists(path: pathlib.Path) -> bool:
    return path.exists() or pathlib.Path(f"{path}.index").is_file()


def _is_of(file: str, name: str) -> bool:
    """Whether `name` is that of the file, or of the checkpoint that the file belongs to."""
    return file == name or (PART.sub("", file) == name and bool(PART.search(file)))


@dataclasses.dataclass(frozen=True)
class _Remote:
    """Weights on Cloud Storage."""

    place: str
    """The folder or bucket that holds them."""
    name: str
    """Their name there; for a file of a checkpoint the common name of its files."""

    @classmethod
    def at(cls, source: str) -> Self | None:
        """The weights at a gs:// address; None for a local path."""
        if not storage.is_remote(source):
            return None
        if not storage.split(source)[1]:
            raise UserError(f"{source} is a whole bucket; name the weights in it, as gs://BUCKET/PATH")
        place, _, name = source.rstrip("/").rpartition("/")
        return cls(place, PART.sub("", name))

    @functools.cached_property
    def siblings(self) -> list[SourceObject]:
        """All files in `place`, which is listed once."""
        return storage.list_objects(self.place)

    @property
    def is_model(self) -> bool:
        within = f"{self.name}/"
        paths = [file.name.removeprefix(within) for file in self.siblings if file.name.startswith(within)]
        return "@" in self.name or COMPACT_WEIGHTS in paths or any(map(PLACE_OF_WEIGHTS.fullmatch, paths))

    @property
    def weights(self) -> list[SourceObject]:
        """The files, with their names relative to `place`."""
        within = f"{self.name}/"
        files = [
            file
            for file in self.siblings
            if _is_of(file.name, self.name)
            or (file.name.startswith(within) and INSIDE.fullmatch(file.name.removeprefix(within)))
        ]
        if not files:
            address = f"{self.place}/{self.name}"
            raise UserError(f"there are no weights at {address}; `gcloud storage ls {self.place}` lists all")
        return files

    @property
    def fingerprint(self) -> str:
        return _digest({file.name.removeprefix(f"{self.name}/"): file.crc32c for file in self.weights})


def _model(source: str, remote: _Remote | None) -> pathlib.Path | None:
    """The folder of a model of this project; None if the source is weights in another form."""
    if source == PRETRAINED:
        return find_model(source)
    path = _whole(source)
    is_model = remote.is_model if remote else not _exists(path) or holds_model(path)
    if not is_model:
        return None
    try:
        return find_model(source)
    except UserError:
        if remote or _exists(path) or "@" in source:
            raise
        raise UserError(f"{source} does not exist; give {KINDS}, or a model's folder or name") from None


def check_import(
    source: str, output: str | os.PathLike[str], dataset: str = "salicon", image_size: str = ""
) -> tuple[int, int]:
    """Check an import before the weights are read; the arguments are those of `import_checked`.

    Returns:
        (H, W) to which images are fitted.

    Raises:
        UserError: an argument is wrong, the output exists, or a local source does not.
    """
    size = parse_image_size(image_size) if image_size else datasets.get(dataset).image_size
    if is_taken(pathlib.Path(output)):
        raise UserError(f"{output} exists already; remove it, or name another folder")
    if not storage.is_remote(source):
        check_local(source)
    return size
