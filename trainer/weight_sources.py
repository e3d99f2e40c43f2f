"""Where weights are: a file, a folder or a checkpoint, here or on Cloud Storage, or a model of a registry.

Nothing heavy is imported, so that the pipeline can ask it too.
"""

import dataclasses
import hashlib
import pathlib
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from trainer import storage
from trainer.artifacts import VERSION_EXTRA, WEIGHTS
from trainer.errors import UserError
from trainer.models import find_model

KINDS = (
    "a frozen graph (.pb, or a SavedModel folder), a TensorFlow checkpoint (its name up to .ckpt, or .index), or "
    "an HDF5 file of Keras (.weights.h5, .h5)"
)
"""What `trainer.weight_files` reads, for messages."""
Path = TypeVar("Path", bound=pathlib.PurePath)
PART = re.compile(r"\.(index|data-\d{5}-of-\d{5})$")
"""How the names of a checkpoint's files end."""


@dataclasses.dataclass(frozen=True)
class Found:
    """Weights as files of this machine."""

    path: pathlib.Path
    """A file, a folder, or the common name of a checkpoint's files."""
    model: pathlib.Path | None
    """The folder of a model of this project, where it is one."""

    def fingerprint(self) -> str:
        """A digest (hex) of the files' checksums and names, the same wherever they are."""
        if self.path.is_dir():
            files: Iterable[pathlib.Path] = [each for each in self.path.rglob("*") if each.is_file()]
            names = {each: str(each.relative_to(self.path)) for each in files}
        else:
            beside = self.path.parent.iterdir()
            files = [each for each in beside if each == self.path or PART.sub("", each.name) == self.path.name]
            names = {each: each.name for each in files}
        lines = sorted(f"{name}\t{storage.checksum(each)}\n" for each, name in names.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()


@contextmanager
def opened(source: str) -> Iterator[Found]:
    """The weights at `source`; what was downloaded is removed in the end.

    Args:
        source: a path or a gs:// address of what `trainer.weight_files` reads, or of what
            `trainer.models.find_model` finds.

    Raises:
        UserError: there is nothing, or it may not be read.
    """
    if not storage.is_remote(source):
        path = _whole(pathlib.Path(source).expanduser())
        yield Found(path, None) if _is_there(path) and not _is_model(path) else _model(source)
        return
    place, _, name = source.rstrip("/").rpartition("/")
    name = _whole(pathlib.PurePosixPath(name)).name
    parts = [each for each in storage.list_objects(place) if _belongs(each.name, name)]
    if "@" in name or any(each.name.endswith(f"/{WEIGHTS}") for each in parts):
        yield _model(source)
        return
    if not parts:
        raise UserError(f"there is nothing at {source}; `gcloud storage ls {place}` shows what there is")
    with tempfile.TemporaryDirectory(prefix="msinet-weights-") as folder:
        storage.download(place, parts, pathlib.Path(folder))
        yield Found(pathlib.Path(folder) / name, None)


def exists(source: str) -> bool:
    """Whether there may be weights at a path of this machine, or a registered model of this name."""
    path = _whole(pathlib.Path(source).expanduser())
    try:
        return _is_there(path) or find_model(source).is_dir()
    except UserError:
        return False


def _whole(path: Path) -> Path:
    """The name that a checkpoint's files have in common, for one of them; else the path itself."""
    return path.with_name(PART.sub("", path.name)) if PART.search(path.name) else path


def _is_there(path: pathlib.Path) -> bool:
    return path.exists() or pathlib.Path(f"{path}.index").is_file()


def _is_model(path: pathlib.Path) -> bool:
    """Whether a folder is a model's, a version's, or that of a registered name."""
    if any((path / inner / WEIGHTS).is_file() for inner in ("", VERSION_EXTRA)):
        return True
    return path.is_dir() and any((each / VERSION_EXTRA).is_dir() for each in path.iterdir())


def _belongs(name: str, wanted: str) -> bool:
    """Whether an object is the wanted one, in the wanted folder, or a file of the wanted checkpoint."""
    return name == wanted or name.startswith((f"{wanted}/", f"{wanted}.index", f"{wanted}.data-"))


def _model(source: str) -> Found:
    try:
        folder = find_model(source)
    except UserError as error:
        raise UserError(f"{error}; or {KINDS}") from None
    return Found(folder / WEIGHTS, folder)
