"""Files of weights: which kind is at a path, what identifies their content, and how a worker reads them.

`tensorflow_files`, and `hdf5_files` and `compact` of `trainer.network`, read the kinds. Loads neither TensorFlow
nor Keras, because the pipeline uses this module too.
"""

import dataclasses
import enum
import hashlib
import pathlib
import re
from collections.abc import Collection, Mapping

from trainer.errors import UserError, printable
from trainer.io.files import checksum, local_path
from trainer.machine import untrusted
from trainer.machine.untrusted import Limits
from trainer.network import hdf5_files
from trainer.network.arrays import Array, Shape
from trainer.network.model_folder import COMPACT_WEIGHTS

KINDS = (
    "a frozen graph (.pb, or a SavedModel folder), a TensorFlow checkpoint (its name up to .ckpt, or .index), or "
    "an HDF5 file of Keras (.weights.h5, .h5)"
)
"""The files that are read, for messages."""
SAVED_MODEL = "saved_model.pb"
PART = re.compile(r"\.(index|data-\d{5}-of-\d{5})$")
"""Endings of the names of a checkpoint's files."""
INSIDE = re.compile(rf"{re.escape(SAVED_MODEL)}|variables/[^/]+|[^/]+{PART.pattern}")
"""The files of a folder that weights are read from."""
LIMITS = Limits(900, 6 * 10**9)
"""What a file of TensorFlow may take to be read. MSI-Net's takes 5 s and 2 GB."""


class Kind(enum.Enum):
    """Kinds of weights."""

    SAVED_MODEL = enum.auto()
    CHECKPOINT = enum.auto()
    GRAPH = enum.auto()
    HDF5 = enum.auto()
    COMPACT = enum.auto()


@dataclasses.dataclass(frozen=True)
class LocalWeights:
    """Weights as local files."""

    path: pathlib.Path
    """A file, a folder, or the common name of a checkpoint's files."""
    model: pathlib.Path | None
    """The folder of the model, if the weights belong to a model of this project."""
    fingerprint: str
    """A digest (hex) of the files' names and checksums, the same wherever they are."""

    def read(self, shapes: Collection[Shape], what: str) -> list[Array]:
        """Read the weights, of any kind, in the worker of `trainer.machine.untrusted`.

        Args:
            shapes: the arrays of these shapes are read. Of all others only names and shapes are.
            what: the weights, for messages.

        Raises:
            ContentError: they are damaged, or take more time or memory than LIMITS, or than the `LIMITS` of
                `trainer.network.hdf5_files`.
            UserError: as `kind_of_weights`.
        """
        kind, path = kind_of_weights(self.path)
        if kind is Kind.HDF5:
            return hdf5_files.read_in_worker(path, shapes, what)
        function = "trainer.network.tensorflow_files.read_fitting_tensorflow"
        try:
            arrays: list[Array] = untrusted.call(
                function, path, frozenset(shapes), file=what, remedy=hdf5_files.REMEDY, limits=LIMITS
            )
        finally:
            untrusted.end()  # the worker has TensorFlow in its memory
        return arrays


# === What is at a path ===


def kind_of_weights(path: pathlib.Path) -> tuple[Kind, pathlib.Path]:
    """Tell by its name which kind of weights is at a local path.

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
    if path.is_file() and path.suffix == ".pb":
        return Kind.GRAPH, path
    if path.is_file() and path.suffix in (".h5", ".hdf5"):
        return Kind.HDF5, path
    if path.is_file() and path.name == COMPACT_WEIGHTS:
        return Kind.COMPACT, path
    what = f"is a folder without {SAVED_MODEL}" if path.is_dir() else "cannot be read as weights"
    raise UserError(f"{path} {what}; give {KINDS}")


def _checkpoint_at(path: pathlib.Path) -> pathlib.Path | None:
    """The common name of a checkpoint's files. None if `path` is not a checkpoint."""
    prefix = path.parent / PART.sub("", path.name)  # `with_name` refuses the folders . and /
    if pathlib.Path(f"{prefix}.index").is_file():
        return prefix
    if prefix.name != path.name:
        raise UserError(f"{path} is a part of a checkpoint whose {prefix}.index is missing; copy all of its files")
    indexes = sorted(path.glob("*.index")) if path.is_dir() else []
    if len(indexes) > 1:
        raise UserError(f"{path} has several checkpoints; name one: {', '.join(file.stem for file in indexes)}")
    return indexes[0].with_suffix("") if indexes else None


def fingerprint_files(source: str) -> str:
    """Compute a digest (hex) of the names and checksums of the weight files at `source`, wherever that is."""
    path = whole(source)
    if not path.is_dir():
        files = {file.name: file for file in path.parent.glob("*") if belongs_to(file.name, path.name)}
    else:
        contents = [*path.glob("*"), *path.glob("variables/*")]
        files = {name: file for file in contents if INSIDE.fullmatch(name := file.relative_to(path).as_posix())}
    return digest({name: checksum(file) for name, file in files.items() if file.is_file()})


def digest(checksums: Mapping[str, str]) -> str:
    """A digest (hex) of files: name -> CRC32C, 8 hex digits."""
    lines = sorted(f"{name}\t{crc}\n" for name, crc in checksums.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def whole(source: str) -> pathlib.Path:
    """The path of a source. For a file of a checkpoint the common name of its files.

    Example: `model.ckpt.index` becomes `model.ckpt`.
    """
    path = local_path(source)
    return path.with_name(PART.sub("", path.name)) if PART.search(path.name) else path


def belongs_to(file: str, name: str) -> bool:
    """Whether `name` is the file's, or the name of the checkpoint to which the file belongs.

    Example: `model.ckpt.data-00000-of-00001` belongs to `model.ckpt`.
    """
    return file == name or (PART.sub("", file) == name and bool(PART.search(file)))
