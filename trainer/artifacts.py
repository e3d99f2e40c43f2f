"""Names and schemas of the files inside artifacts. Standard library only.

A *prepared data set* is a folder with `MANIFEST`, `CENTER_BIAS` and the shards of each split.
A *model* is a folder with `SAVED_MODEL`, `WEIGHTS`, `MODEL_CONFIG` and `HISTORY`.
An *evaluation* is a folder with `EVALUATION`, `PER_IMAGE` and `PREDICTIONS`.
"""

import dataclasses
import errno
import functools
import importlib.metadata
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trainer.errors import PlaceError, UserError

MANIFEST = "manifest.json"
CENTER_BIAS = "center_bias.npy"
"""Mean of the training set's maps in relative image coordinates: (120, 160) float32 that sums to 1."""
SPLITS = ("train", "valid")

SAVED_MODEL = "saved_model"
WEIGHTS = "model.weights.h5"
MODEL_CONFIG = "config.json"
HISTORY = "history.jsonl"
VERSION_EXTRA = "assets.extra"
"""Folder inside a SavedModel that serving leaves alone: a registered version keeps its model there."""
REGISTRY, MODEL_NAME = "models", "msinet"
"""The local registry's folder, in the working directory, and the name under which the pipeline registers."""
ALIASES = "aliases.json"
"""In the folder of a registered name, beside its versions: alias -> version."""
DEFAULT, CHALLENGER = "default", "challenger"
"""The aliases that the pipeline sets."""

EVALUATION = "evaluation.json"
PER_IMAGE = "per_image.csv"
PREDICTIONS = "predictions"
"""Folder of the pictures that the report shows."""

RUN_FILE = "run.json"
"""In the folder of a run of the pipeline on this machine."""
RUN_ATTEMPTS = "msinet-*"
"""Its attempts' folders; kfp names them by their time."""

SCHEMA = 1


def shard_name(split: str, index: int, count: int) -> str:
    """File name of shard `index` of `count`."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


@dataclasses.dataclass(frozen=True)
class SourceObject:
    """One file at a source: its name relative to the source, its size, and the CRC32C of its bytes (hex)."""

    name: str
    size_bytes: int
    crc32c: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a prepared data set holds and where it came from."""

    dataset: str
    source: str
    fingerprint: str
    image_size: tuple[int, int]
    """(height, width) of the shards' images, pixels."""
    counts: dict[str, int]
    """Images in each split."""
    expected_counts: dict[str, int]
    """Images in each split of the complete data set, from its row."""
    split: str
    """`given`, or how the split was made."""
    ground_truth: str
    """What the files of maps were: `density` or `points`."""
    blur_sigma_px: float
    """Standard deviation, in original pixels, of the Gaussian that made points a density; 0 where none did."""
    has_fixations: bool
    """Whether fixated pixels are known, so that the point metrics can be computed."""
    original_sizes: dict[str, int]
    """How many images have each original size, `height x width`."""
    shards: dict[str, list[str]]
    objects: list[SourceObject]
    code_version: str
    schema: int = SCHEMA

    def save(self, folder: pathlib.Path) -> None:
        write_json(folder / MANIFEST, dataclasses.asdict(self))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Manifest":
        path = pathlib.Path(folder) / MANIFEST
        fields = read_json(path, f"{folder} is not a prepared data set; make one with `python -m trainer fetch`")
        if fields.get("schema") != SCHEMA:
            raise UserError(
                f"{path} has schema {fields.get('schema')}, this version reads {SCHEMA}: prepare the data again"
            )
        fields["image_size"] = tuple(fields["image_size"])
        fields["objects"] = [SourceObject(**each) for each in fields["objects"]]
        return cls(**fields)


def prepared_by_name(folders: Iterable[str | os.PathLike[str]]) -> dict[str, pathlib.Path]:
    """Prepared data sets by the name of what they hold; the second of one name is `NAME-2`."""
    found: dict[str, pathlib.Path] = {}
    for folder in folders:
        name = Manifest.load(folder).dataset
        found[name if name not in found else f"{name}-{len(found) + 1}"] = pathlib.Path(folder)
    return found


def load_manifests(folders: Mapping[str, str | os.PathLike[str]]) -> dict[str, Manifest]:
    """Those of prepared data sets, by their names; `UserError` where one has no images to evaluate on."""
    manifests = {name: Manifest.load(folder) for name, folder in folders.items()}
    for name, manifest in manifests.items():
        if not manifest.counts.get("valid"):
            raise UserError(f"data set {name} has no validation images ({manifest.counts}); prepare it with some")
    return manifests


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write JSON beside `path`, then rename."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(value, indent=2) + "\n")


def read_json(path: pathlib.Path, remedy: str) -> Any:
    """The JSON in `path`; a `UserError` that ends with `remedy` where there is none."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} does not exist: {remedy}") from None
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}): {remedy}") from None


def is_taken(output: pathlib.Path) -> bool:
    """Whether something is at `output` already, an empty folder excepted."""
    return output.exists() and not (output.is_dir() and not any(output.iterdir()))


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise `PlaceError` where nothing can be written to `path`, before there is anything to write."""
    place = pathlib.Path(path).absolute()
    there = place.parent
    try:
        place.exists()  # which a name that is too long does not even answer
        there = next(each for each in place.parents if each.exists())
        with tempfile.TemporaryFile(dir=there):  # permissions alone do not say it, least of all on a mount
            pass
    except OSError as error:
        raise PlaceError(
            f"cannot write {path}: nothing can be written to {there} ({error.strerror}); name another place"
        ) from None


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """A path beside `path` to write a file or a folder to; renamed on success, removed on failure.

    The partial path ends as `path` does, for writers that look at the suffix. An existing file, or an empty
    folder, at `path` is replaced.

    Raises:
        PlaceError: nothing can be written there, which is known before the caller has written anything.
        UserError: the disk is full, or may not be written.
    """
    path = pathlib.Path(path)
    # Random, because process ids repeat in containers: an earlier task that was killed while it wrote here had the
    # same one, and so may a task on another machine that writes here now.
    partial = path.with_name(f".partial-{secrets.token_hex(4)}-{path.name}")
    with _explained(path, PlaceError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
        partial.unlink()
    try:
        with _explained(path, partial=partial):
            yield partial
        with _explained(path, PlaceError):
            _rename(partial, path)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


@contextmanager
def _explained(
    path: pathlib.Path, otherwise: type[UserError] | None = None, partial: pathlib.Path | None = None
) -> Iterator[None]:
    """Translate `OSError` to `UserError`.

    Args:
        path: what the message calls the output.
        otherwise: what errors become that are neither a full disk nor a missing permission; they pass if None.
        partial: where the block writes the output; a missing permission elsewhere is reported for that file.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UserError(
                f"no space left to write {path} ({error.strerror}); free some, or name a folder on another disk"
            ) from None
        if isinstance(error, PermissionError):
            if partial and error.filename and not _is_within(error.filename, partial, path):
                remedy = "give yourself the right to (chmod, chown)"
                raise UserError(f"may not access {error.filename} ({error.strerror}); {remedy}") from None
            raise UserError(f"may not write {path} ({error.strerror}); name a folder you can write") from None
        if otherwise is None:
            raise
        raise otherwise(f"cannot write {path} ({error.strerror}); name another place") from None


def _is_within(name: object, *places: pathlib.Path) -> bool:
    """Whether the file that an `OSError` names is one of `places`, or lies below one."""
    return any(pathlib.Path(str(name)).absolute().is_relative_to(each.absolute()) for each in places)


def _rename(partial: pathlib.Path, path: pathlib.Path) -> None:
    try:
        partial.replace(path)
    except OSError:
        # Cloud Storage mounted as a file system cannot rename folders; the copy is then as good as it gets.
        if not partial.is_dir() or (path.is_dir() and any(path.iterdir())):
            raise
        shutil.copytree(partial, path, dirs_exist_ok=True)


def latest_attempt(run: pathlib.Path) -> pathlib.Path | None:
    """What the last start of the run in a folder wrote, all of it new; None where it has not come to a task.

    RUN_FILE names the attempts that were there before as `earlier`; a run of an earlier version has none.
    """
    earlier = read_json(run / RUN_FILE, f"{run} is not a run").get("earlier", ())
    return max((each for each in run.glob(RUN_ATTEMPTS) if each.name not in earlier), default=None)


@functools.cache
def code_version() -> str:
    """Version of this package, with the commit where it is known (`MSINET_COMMIT` or a git checkout)."""
    version = importlib.metadata.version("msinet-pipelines")
    commit = os.environ.get("MSINET_COMMIT", "")
    if not commit:
        git = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
        try:
            commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            commit = ""
    return f"{version}+{commit}" if commit else version
