"""Weights in files of this machine: of which kind they are, by their names, and their digest.

Imports neither TensorFlow nor Keras, because the pipeline uses it too.
"""

import dataclasses
import enum
import hashlib
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from trainer.errors import UserError, printable
from trainer.files import checksum, local_path

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


@dataclasses.dataclass(frozen=True)
class Imported:
    """Result of an import."""

    summary: dict[str, Any]
    """The content of MODEL_CONFIG."""
    fingerprint: str
    """Digest (hex) of the source's files."""
    report: str
    """For people: each array with its layer and shape, the ignored arrays, and how the maps compare; one line for
    a model of this project."""
    compared: str
    """How the maps compare."""


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
        raise UserError(f"{printable(str(path))} does not exist; give {KINDS}")
    if path.is_dir():
        contents = ", ".join(sorted(file.name for file in path.iterdir())[:10]) or "nothing"
        raise UserError(f"{path} is a folder without {SAVED_MODEL} (it has {contents}); give {KINDS}")
    if not path.is_file():
        raise UserError(f"{path} is neither a file nor a folder; give {KINDS}")
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
    prefix = path.parent / whole  # `with_name` refuses the folders . and /
    if pathlib.Path(f"{prefix}.index").is_file():
        return prefix
    if whole != path.name:
        raise UserError(f"{path} is a part of a checkpoint whose {prefix}.index is missing; copy all of its files")
    indexes = sorted(path.glob("*.index")) if path.is_dir() else []
    if len(indexes) > 1:
        raise UserError(f"{path} has several checkpoints; name one: {', '.join(file.stem for file in indexes)}")
    return indexes[0].with_suffix("") if indexes else None


def fingerprint_of_files(source: str) -> str:
    """`LocalWeights.fingerprint` of the weights at a local path, which are not a model's."""
    path = whole(source)
    if not path.is_dir():
        files = {file.name: file for file in path.parent.glob("*") if is_of(file.name, path.name)}
    else:
        contents = [*path.glob("*"), *path.glob("variables/*")]
        files = {name: file for file in contents if INSIDE.fullmatch(name := file.relative_to(path).as_posix())}
    return digest({name: checksum(file) for name, file in files.items() if file.is_file()})


def digest(checksums: Mapping[str, str]) -> str:
    """A digest (hex) of files: name -> CRC32C, 8 hex digits."""
    lines = sorted(f"{name}\t{crc}\n" for name, crc in checksums.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def whole(source: str) -> pathlib.Path:
    """A path; for a file of a checkpoint the common name of its files."""
    path = local_path(source)
    return path.with_name(PART.sub("", path.name)) if PART.search(path.name) else path


def is_of(file: str, name: str) -> bool:
    """Whether `name` is that of the file, or of the checkpoint that the file belongs to."""
    return file == name or (PART.sub("", file) == name and bool(PART.search(file)))
