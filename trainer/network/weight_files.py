"""Files of weights: which kind is at a path, what identifies their content, and how a worker reads them.

`tensorflow_files`, `hdf5_files` and `compact` read the kinds. Loads neither TensorFlow nor Keras, because the
pipeline uses this module too.
"""

import dataclasses
import enum
import functools
import hashlib
import pathlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Self

from trainer.errors import AmbiguousError, ContentError, NotFoundError
from trainer.io import StrPath, checksum
from trainer.machine import Limits, call_untrusted, end_untrusted
from trainer.network import hdf5_files
from trainer.network.arrays import Array, Shape
from trainer.network.model_folder import COMPACT_WEIGHTS, ModelFolder
from trainer.texts import printable

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
class NamedWeights:
    """Weights by their name in a listing, such as the objects of a bucket or the members of an archive.

    Example: `a/model.ckpt.index` and `a/model.ckpt.data-00000-of-00001` are `NamedWeights("a/model.ckpt")`.
    """

    name: str
    """Path of a file or a folder, or the common name of a checkpoint's files."""

    @classmethod
    def of_path(cls, path: str) -> Self:
        """The weights at a path. A file of a checkpoint stands for all of them.

        Example: `model.ckpt.index` is a file of `model.ckpt`.
        """
        return cls(PART.sub("", path))

    @classmethod
    def forms_among(cls, paths: Collection[str]) -> "list[list[NamedWeights]]":
        """All frozen graphs, all SavedModels, and all checkpoints in a listing."""
        saved = [path.removesuffix(f"/{SAVED_MODEL}") for path in paths if path.endswith(f"/{SAVED_MODEL}")]
        graphs = [path for path in paths if path.endswith(".pb") and path.rpartition("/")[0] not in saved]
        checkpoints = [path.removesuffix(".index") for path in paths if path.endswith(".index")]
        return [[cls(name) for name in names] for names in (graphs, saved, checkpoints)]

    def among(self, paths: Iterable[str]) -> list[str]:
        """The files in a listing that these weights consist of."""
        within = f"{self.name}/"
        return [
            path
            for path in paths
            if path == self.name
            or (PART.search(path) and PART.sub("", path) == self.name)
            or (path.startswith(within) and INSIDE.fullmatch(path.removeprefix(within)))
        ]

    def fingerprint(self, checksums: Mapping[str, str]) -> str:
        """A digest (hex) of the names and checksums of the files, the same wherever they are.

        Args:
            checksums: path of each file in the listing -> CRC32C, 8 hex digits.
        """
        lines = sorted(f"{path.removeprefix(f'{self.name}/')}\t{crc}\n" for path, crc in checksums.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class LocalWeights:
    """Weights as local files."""

    path: pathlib.Path
    """A file, a folder, or the common name of a checkpoint's files."""
    model: pathlib.Path | None = None
    """The folder of the model, if the weights belong to a model of this project."""
    listed: str = ""
    """Their fingerprint, if a listing tells it. Empty to compute it from the files."""

    FORMS: ClassVar[str] = (
        "a frozen graph (.pb, or a SavedModel folder), a TensorFlow checkpoint (its name up to .ckpt, or .index), "
        "or an HDF5 file of Keras (.weights.h5, .h5)"
    )
    """The files that are read, for messages."""

    @functools.cached_property
    def fingerprint(self) -> str:
        """`NamedWeights.fingerprint` of the files."""
        if self.listed:
            return self.listed
        name = self.path.name
        inside = [*self.path.glob("*"), *self.path.glob("variables/*")] if self.path.is_dir() else []
        files = {f"{name}/{file.relative_to(self.path).as_posix()}": file for file in inside}
        if not self.path.is_dir():
            files = {file.name: file for file in self.path.parent.glob("*")}
        chosen = [each for each in NamedWeights(name).among(files) if files[each].is_file()]
        return NamedWeights(name).fingerprint({each: checksum(files[each]) for each in chosen})

    def check(self) -> None:
        """Raise `UserError` unless they are there, in a form that is read."""
        kind_of_weights(self.path)

    @classmethod
    def of_model(cls, folder: StrPath) -> Self:
        """The weights of a model of this project, by its folder."""
        return cls(ModelFolder(folder).weights, pathlib.Path(folder))

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
            arrays: list[Array] = call_untrusted(
                function, path, frozenset(shapes), file=what, remedy=hdf5_files.REMEDY, limits=LIMITS
            )
        finally:
            end_untrusted()  # the worker has TensorFlow in its memory
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
        raise NotFoundError(f"{printable(str(path))} does not exist: give {LocalWeights.FORMS}")
    if path.is_file() and path.suffix == ".pb":
        return Kind.GRAPH, path
    if path.is_file() and path.suffix in (".h5", ".hdf5"):
        return Kind.HDF5, path
    if path.is_file() and path.name == COMPACT_WEIGHTS:
        return Kind.COMPACT, path
    what = f"is a folder without {SAVED_MODEL}" if path.is_dir() else "cannot be read as weights"
    raise ContentError(f"{path} {what}: give {LocalWeights.FORMS}")


def _checkpoint_at(path: pathlib.Path) -> pathlib.Path | None:
    """The common name of a checkpoint's files. None if `path` is not a checkpoint."""
    prefix = path.parent / PART.sub("", path.name)  # `with_name` refuses the folders . and /
    if pathlib.Path(f"{prefix}.index").is_file():
        return prefix
    if prefix.name != path.name:
        raise ContentError(
            f"{path} is a part of a checkpoint whose {prefix}.index is missing. Copy all of its files"
        )
    indexes = sorted(path.glob("*.index")) if path.is_dir() else []
    if len(indexes) > 1:
        raise AmbiguousError(
            f"{path} has several checkpoints: name one of {', '.join(file.stem for file in indexes)}"
        )
    return indexes[0].with_suffix("") if indexes else None
