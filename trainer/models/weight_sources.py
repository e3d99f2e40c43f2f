"""Where weights are: a file, a folder or a checkpoint, here or on Cloud Storage, or a model of a registry.

Nothing heavy is imported, so that the pipeline can ask it too.
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
from trainer.artifacts import VERSION_EXTRA, WEIGHTS, SourceObject
from trainer.config import NO_FILE, parse_image_size
from trainer.errors import UserError
from trainer.files import is_taken
from trainer.models.find import find_model

KINDS = (
    "a frozen graph (.pb, or a SavedModel folder), a TensorFlow checkpoint (its name up to .ckpt, or .index), or "
    "an HDF5 file of Keras (.weights.h5, .h5)"
)
"""What `trainer.models.weight_files` reads, for messages."""
HDF5 = (".h5", ".hdf5")
PACKED = (".zip", ".tar", ".gz", ".tgz")
SAVED_MODEL = "saved_model.pb"
PART = re.compile(r"\.(index|data-\d{5}-of-\d{5})$")
"""How the names of a checkpoint's files end."""
INSIDE = re.compile(rf"{re.escape(SAVED_MODEL)}|variables/[^/]+|[^/]+{PART.pattern}")
"""The files of a folder that weights are read from."""


class Kind(enum.Enum):
    """What a file or folder of weights can be."""

    SAVED_MODEL = enum.auto()
    CHECKPOINT = enum.auto()
    GRAPH = enum.auto()
    HDF5 = enum.auto()


@dataclasses.dataclass(frozen=True)
class Found:
    """Weights as files of this machine."""

    path: pathlib.Path
    """A file, a folder, or the common name of a checkpoint's files."""
    model: pathlib.Path | None
    """The folder of a model of this project, where it is one."""
    fingerprint: str
    """A digest (hex) of the files' names and checksums, the same wherever they are."""


@contextmanager
def opened(source: str) -> Iterator[Found]:
    """The weights at `source`; what was downloaded is removed in the end.

    Args:
        source: a path or a gs:// address of what `trainer.models.weight_files` reads, or of what
            `trainer.models.find.find_model` finds.

    Raises:
        UserError: there is nothing, or it may not be read.
    """
    remote = _Remote.at(source)
    if (model := _model(source, remote)) is not None:
        yield Found(model / WEIGHTS, model, _fingerprint_of_model(model))
    elif remote:
        with tempfile.TemporaryDirectory(prefix="msinet-weights-") as folder:
            storage.download(remote.place, remote.weights, pathlib.Path(folder))
            yield Found(pathlib.Path(folder) / remote.name, None, remote.fingerprint)
    else:
        yield Found(_whole(source), None, _fingerprint_of_files(source))


def fingerprint(source: str) -> str:
    """`Found.fingerprint`; on Cloud Storage from the listing alone, unless it is a model. Raises as `opened`."""
    remote = _Remote.at(source)
    if (model := _model(source, remote)) is not None:
        return _fingerprint_of_model(model)
    return remote.fingerprint if remote else _fingerprint_of_files(source)


def fingerprint_of_initial(source: str) -> str:
    """`fingerprint` of the initial weights of a training; empty where they are no file. Raises as `opened`."""
    return "" if source in NO_FILE else fingerprint(source)


def _fingerprint_of_model(model: pathlib.Path) -> str:
    return _digest({WEIGHTS: storage.checksum(model / WEIGHTS)})


def _fingerprint_of_files(source: str) -> str:
    path = _whole(source)
    if not path.is_dir():
        files = {each.name: each for each in path.parent.glob("*") if _is_of(each.name, path.name)}
    else:
        found = [*path.glob("*"), *path.glob("variables/*")]
        files = {name: each for each in found if INSIDE.fullmatch(name := each.relative_to(path).as_posix())}
    return _digest({name: storage.checksum(each) for name, each in files.items() if each.is_file()})


def check_local(source: str) -> None:
    """Raise `UserError` unless a path of this machine is named as weights are, or a model of this name exists."""
    if _model(source, None) is None:
        kind_of(_whole(source))


def kind_of(path: pathlib.Path) -> tuple[Kind, pathlib.Path]:
    """What kind of weights is at a path of this machine by its name, and where exactly.

    Returns:
        The kind, and its file, its folder, or the name that the files of a checkpoint have in common.

    Raises:
        UserError: there is none, or it is of no kind that is known.
    """
    if path.name == SAVED_MODEL:
        path = path.parent
    if (path / SAVED_MODEL).is_file():
        return Kind.SAVED_MODEL, path
    if prefix := _checkpoint_at(path):
        return Kind.CHECKPOINT, prefix
    if not path.exists():
        raise UserError(f"there is no {path}; give {KINDS}")
    if path.is_dir():
        held = ", ".join(sorted(each.name for each in path.iterdir())[:10]) or "nothing"
        raise UserError(f"{path} is a folder without {SAVED_MODEL} (it has {held}); give {KINDS}")
    if path.suffix == ".pb":
        return Kind.GRAPH, path
    if path.suffix in HDF5:
        return Kind.HDF5, path
    if path.suffix in PACKED:
        raise UserError(f"{path} is an archive; unpack it and give what is in it: {KINDS}")
    raise UserError(f"{path} is of no kind that can be read; give {KINDS}")


def _checkpoint_at(path: pathlib.Path) -> pathlib.Path | None:
    """The name that the files of a checkpoint have in common; None where `path` is none."""
    whole = PART.sub("", path.name)
    prefix = path.with_name(whole)
    if pathlib.Path(f"{prefix}.index").is_file():
        return prefix
    if whole != path.name:
        raise UserError(f"{path} is a part of a checkpoint; {prefix}.index, which belongs to it, is not there")
    found = sorted(path.glob("*.index")) if path.is_dir() else []
    if len(found) > 1:
        raise UserError(f"{path} has several checkpoints; name one: {', '.join(each.stem for each in found)}")
    return found[0].with_suffix("") if found else None


def _digest(checksums: Mapping[str, str]) -> str:
    return hashlib.sha256(
        "".join(sorted(f"{name}\t{crc}\n" for name, crc in checksums.items())).encode()
    ).hexdigest()


def _whole(source: str) -> pathlib.Path:
    """A path; for a file of a checkpoint the name that its files have in common."""
    path = pathlib.Path(source).expanduser()
    return path.with_name(PART.sub("", path.name)) if PART.search(path.name) else path


def _is_there(path: pathlib.Path) -> bool:
    return path.exists() or pathlib.Path(f"{path}.index").is_file()


def _is_of(name: str, wanted: str) -> bool:
    """Whether a file is the wanted one, or one of the wanted checkpoint's."""
    return name == wanted or (PART.sub("", name) == wanted and bool(PART.search(name)))


@dataclasses.dataclass(frozen=True)
class _Remote:
    """Something on Cloud Storage."""

    place: str
    """The folder, or the bucket, that it is in."""
    name: str
    """What it is called there, for a file of a checkpoint what its files have in common."""

    @classmethod
    def at(cls, source: str) -> Self | None:
        """What a gs:// address names; None for a path of this machine."""
        if not storage.is_remote(source):
            return None
        if not storage.split(source)[1]:
            raise UserError(f"{source} is a whole bucket; name what is in it, as gs://BUCKET/PATH")
        place, _, name = source.rstrip("/").rpartition("/")
        return cls(place, PART.sub("", name))

    @functools.cached_property
    def beside(self) -> list[SourceObject]:
        """All files of its folder, which is listed once."""
        return storage.list_objects(self.place)

    @property
    def is_model(self) -> bool:
        inside = rf"{re.escape(self.name)}/((\d+/)?{VERSION_EXTRA}/)?{WEIGHTS}"
        return "@" in self.name or any(re.fullmatch(inside, each.name) for each in self.beside)

    @property
    def weights(self) -> list[SourceObject]:
        """Its files, named from its folder."""
        within = f"{self.name}/"
        found = [
            each
            for each in self.beside
            if _is_of(each.name, self.name)
            or (each.name.startswith(within) and INSIDE.fullmatch(each.name.removeprefix(within)))
        ]
        if not found:
            place = f"{self.place}/{self.name}"
            raise UserError(
                f"there are no weights at {place}; `gcloud storage ls {self.place}` shows what there is"
            )
        return found

    @property
    def fingerprint(self) -> str:
        return _digest({each.name.removeprefix(f"{self.name}/"): each.crc32c for each in self.weights})


def _model(source: str, remote: _Remote | None) -> pathlib.Path | None:
    """The folder of a model of this project; None where the source is weights in another form."""
    path = _whole(source)
    if remote:
        is_model = remote.is_model
    else:
        holders = [path, path / VERSION_EXTRA, *(each / VERSION_EXTRA for each in path.glob("*"))]
        is_model = not _is_there(path) or any((each / WEIGHTS).is_file() for each in holders)
    if not is_model:
        return None
    try:
        return find_model(source)
    except UserError:
        if remote or _is_there(path) or "@" in source:
            raise
        raise UserError(f"there is no {source}; give {KINDS}, or a model's folder or name") from None


def check_import(
    source: str, output: str | os.PathLike[str], dataset: str = "salicon", image_size: str = ""
) -> tuple[int, int]:
    """(H, W) to which images are fitted; the arguments are those of `import_checked`.

    Raises:
        UserError: for what can be known to be wrong before the weights are read.
    """
    size = parse_image_size(image_size) if image_size else datasets.get(dataset).image_size
    if is_taken(pathlib.Path(output)):
        raise UserError(f"{output} exists already; remove it, or name another folder")
    if not storage.is_remote(source):
        check_local(source)
    return size
