"""Write files completely or not at all, read JSON, TOML, YAML and arrays, and make temporary folders."""

import atexit
import dataclasses
import errno
import functools
import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil
import stat
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from trainer.errors import ContentError, PlaceError, UserError
from trainer.machine import ProcessId
from trainer.texts import first_line

if TYPE_CHECKING:
    import numpy.typing as npt

StrPath = str | os.PathLike[str]
"""The path of a file or folder, as the standard library takes it."""
MOUNT = pathlib.Path("/gcs")
"""Vertex AI mounts Cloud Storage here, by gcsfuse: /gcs/BUCKET/..."""
UNFINISHED = ".unfinished"
"""File in a folder to which files are being copied, or to which an interrupted copy has begun."""
SHOWN = 60
"""Characters of a value that are shown in a message."""
PARTIAL, BESIDE = ".partial-", ".fetch-"
"""Beginnings of the names of folders that are next to an output."""
HIDDEN = (PARTIAL, BESIDE)
LOCAL = "msinet-"
"""Beginning of the names of folders in the system's folder for temporary files."""
OWNED = re.compile(
    rf"(?:{'|'.join(map(re.escape, (*HIDDEN, LOCAL)))})(?P<machine>[0-9a-f]{{8}})-(?P<process>\d{{1,9}})-"
    r"(?P<start>\w+)-\w+"
)
"""Temporary names with their owner, see `_owner`."""
MOST_MEGAPIXELS = 100.0
"""Largest image that is read, unless a user sets another limit."""
LEFT_BYTES = 100 * 10**6
"""Free space that unpacked archives, downloads and checkpoints leave on the disk."""


def room_bytes(folder: pathlib.Path) -> int:
    """How much can be written to the disk of an existing folder, without `LEFT_BYTES`."""
    return max(shutil.disk_usage(folder).free - LEFT_BYTES, 0)


def local_path(path: str) -> pathlib.Path:
    """The path that a user wrote, with `~` expanded. `~user` of an unknown user is a plain name, as in shells.

    Example: `data` in the home folder for `~/data`.

    Raises:
        ContentError: it is below MOUNT, and its bucket is not mounted.
    """
    found = pathlib.Path(path)
    with suppress(RuntimeError):
        found = found.expanduser()
    check_mounted(found)
    return found


def check_mounted(path: pathlib.Path) -> None:
    """Raise `ContentError` for a path below MOUNT if its bucket is not mounted, as on most machines."""
    if is_mounted(path) and path.absolute() != MOUNT:
        below = path.absolute().relative_to(MOUNT)
        if not (MOUNT / below.parts[0]).exists():
            raise ContentError(
                f"{path} is on Cloud Storage, which is not mounted at {MOUNT} here. Use gs://{below.as_posix()}, "
                "or a copy on this machine where a command takes local folders alone"
            )


def checksum(path: pathlib.Path) -> str:
    """CRC32C of the file, 8 hex digits, as Cloud Storage computes it. Example: `e3069283` of `123456789`."""
    import google_crc32c

    crc: Any = google_crc32c.Checksum()  # type: ignore[no-untyped-call]
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            crc.update(chunk)
    return str(crc.digest().hex())


def is_mounted(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is on the mounted Cloud Storage: no folder can be renamed, and each written byte is sent."""
    return pathlib.Path(path).absolute().is_relative_to(MOUNT)


def is_taken(output: pathlib.Path) -> bool:
    """Whether `output` exists, and is neither an empty folder nor an interrupted copy.

    Example: a folder with a model is taken.
    """
    return output.exists() and not (
        output.is_dir() and (not any(output.iterdir()) or (output / UNFINISHED).exists())
    )


def check_output_path(path: str | os.PathLike[str], into: bool = False) -> None:
    """Raise `PlaceError` if nothing can be written to `path`. Call it before long work.

    Args:
        path: a file or a folder.
        into: whether an existing folder at `path` gets files, so that its parent need not be writable. Otherwise
            it is replaced as `replacing` does it.
    """
    output = pathlib.Path(path).absolute()
    with _explained(pathlib.Path(path), PlaceError):
        exists = output.exists()  # raises an error if the name is too long
        is_kept = exists and into and output.is_dir()
        _try(output if is_kept else next(parent for parent in output.parents if parent.exists()))


@contextmanager
def replacing(path: str | os.PathLike[str], last: str = "", flushed: bool = True) -> Iterator[pathlib.Path]:
    """Yields a path to write a file or a folder to, which is moved to `path` on success and removed on failure.

    The yielded path is next to `path`, or on the local disk if `path` is on a mounted bucket, so that each byte is
    sent once. It has the name of `path`, since some writers look at its suffix. Example: `.partial-1f/map.png`
    becomes `map.png`. An existing file, an empty folder or an interrupted
    copy at `path` is replaced.

    Args:
        path: the output.
        last: the file, relative to a folder, by which readers know that the folder is whole. Where a folder cannot
            be renamed, its files are copied and this one comes last.
        flushed: whether the content is on the disk before it is at `path`, so that a machine that stops leaves no
            empty files. False for one of many files that the same command makes again.

    Raises:
        PlaceError: nothing can be written there. Raised before the caller has written anything.
        ContentError: it is below MOUNT, and its bucket is not mounted.
        UserError: the disk is full.
    """
    path = pathlib.Path(path)
    check_mounted(path)
    mounted = is_mounted(path)
    with ExitStack() as stack:
        with _explained(path, PlaceError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.exists()  # raises an error if the name is too long
            if mounted:
                _try(path.parent)
            beside = stack.enter_context(temporary_folder() if mounted else temporary_folder(PARTIAL, path.parent))
        partial = beside / path.name
        with _explained(path):
            yield partial
            if flushed and not mounted:  # a mount sends a file when it is closed
                _flush(partial)
        with _explained(path, PlaceError):
            _move(partial, path, last)


def _try(folder: pathlib.Path) -> None:
    """Raise `OSError` if nothing can be written to a folder."""
    # Permissions are not sufficient evidence, least of all on a mount.
    with tempfile.TemporaryFile(dir=folder):
        pass


def _flush(path: pathlib.Path) -> None:
    """Have the system write a file, or all files below a folder, to the disk."""
    for below in path.rglob("*") if path.is_dir() else (path,):
        if below.is_file():
            with below.open("rb") as file:
                os.fsync(file.fileno())


def remove_path(path: pathlib.Path, at_once: bool = False) -> None:
    """Remove a file or a folder, if it exists.

    Args:
        path: of the file or folder.
        at_once: whether it is renamed first, so that no other process finds half of a folder.
    """
    if at_once:
        with suppress(OSError):  # a mounted bucket renames no folder
            path = path.rename(path.with_name(f"{PARTIAL}{path.name}"))
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _explained(path: pathlib.Path, kind: type[UserError] | None = None) -> Iterator[None]:
    """Turn an `OSError` about the output `path` into a `UserError` of this kind. None for a full disk alone."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            remedy = "free some, or use another disk (TMPDIR names that of temporary files)"
            raise UserError(f"no space left to write {path} ({error.strerror}): {remedy}") from None
        if kind is None:
            raise
        raise kind(f"cannot write {path} ({error.strerror or error}). Name another place") from None


def _move(partial: pathlib.Path, path: pathlib.Path, last: str) -> None:
    """Rename `partial` to `path`. Copy it where that is impossible, as from another disk, or to a bucket."""
    try:
        partial.replace(path)
    except OSError as error:
        if partial.is_dir():
            if is_taken(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            _copy_folder(partial, path, last)
        elif error.errno == errno.EXDEV:
            _copy_file(partial, path)
        else:
            raise


def _copy_file(source: pathlib.Path, target: pathlib.Path) -> None:
    beside = target.with_name(f"{PARTIAL}{_owner()}{secrets.token_hex(4)}")
    try:
        shutil.copyfile(source, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _copy_folder(source: pathlib.Path, target: pathlib.Path, last: str) -> None:
    """Copy the files alone: their modes and times can be set only by the user who owns the mount."""
    from trainer.machine import Tracker

    target.mkdir(exist_ok=True)
    (target / UNFINISHED).touch()
    for leftover in target.iterdir():
        if leftover.name != UNFINISHED:
            remove_path(leftover)
    files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    files.sort(key=lambda file: file == pathlib.Path(last))
    try:
        with Tracker(f"copy to {target}", len(files), "files") as tracker:
            for file in files:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / file, target / file)
                tracker.advance()
        (target / UNFINISHED).unlink()
    except BaseException:
        remove_path(target)
        raise


# === JSON, TOML and YAML ===

MOST_BYTES = {"JSON": 2**20, "TOML": 2**16, "YAML": 2**21}
"""Largest file that is read. The compiled pipeline has 120 kB."""
MOST_LEVELS = 100
"""How deep the values of a file may be nested."""


def read_limited(path: pathlib.Path, remedy: str, most_bytes: int = 0) -> bytes:
    """The content of a file that others may have written. A pipe or a device is never opened.

    Args:
        path: the file.
        remedy: end of the error message.
        most_bytes: size of the largest file that is read, 0 for the size of JSON in MOST_BYTES.

    Raises:
        ContentError: it does not exist, cannot be read, or is larger.
    """
    most_bytes = most_bytes or MOST_BYTES["JSON"]
    check_mounted(path)
    try:
        # Without O_NONBLOCK, a pipe is opened only when somebody writes to it.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ContentError(f"{path} is a pipe or a device: {remedy}")
            content = file.read(most_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ContentError(f"{path} does not exist: {remedy}") from None
    except OSError as error:
        raise ContentError(f"{path} cannot be read ({error.strerror}): {remedy}") from None
    except ValueError as error:  # a NUL in the path
        raise ContentError(f"{path} cannot be read ({error}): {remedy}") from None
    if len(content) > most_bytes:
        raise ContentError(f"{path} has more than {most_bytes:,} bytes: {remedy}")
    return content


def read_toml(path: pathlib.Path, remedy: str) -> dict[str, Any]:
    """The content of a TOML file. Raises `ContentError` with a message that ends with `remedy`."""
    import tomllib

    try:
        content = tomllib.loads(read_limited(path, remedy, MOST_BYTES["TOML"]).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ContentError(f"{path} cannot be read as TOML in UTF-8 ({first_line(error)}): {remedy}") from None
    _check_depth(content, str(path), remedy)
    return content


def read_yaml(path: pathlib.Path, remedy: str) -> Any:
    """The content of a YAML file without aliases. Raises `ContentError` with a message that ends with `remedy`."""
    import yaml

    # The parser in C, if there is one: the other takes most of a second.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text, depth = read_limited(path, remedy, MOST_BYTES["YAML"]).decode(), 0
        for event in yaml.parse(text, Loader=loader):  # what makes values of them calls itself for each level
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_LEVELS or isinstance(event, yaml.AliasEvent):
                raise ValueError(f"it has aliases, or is nested deeper than {MOST_LEVELS} levels")
        return yaml.load(text, Loader=loader)  # noqa: S506
    except (ValueError, yaml.YAMLError) as error:
        raise ContentError(f"{path} cannot be read as YAML in UTF-8 ({first_line(error)}): {remedy}") from None


def _check_depth(value: Any, origin: str, remedy: str) -> None:
    """Raise `ContentError` for values that are nested deeper than MOST_LEVELS."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_LEVELS):
        boxes = [each.values() if isinstance(each, dict) else each for each in level]
        level = [inner for box in boxes for inner in box if isinstance(inner, dict | list)]
        if not level:
            return
    raise ContentError(f"{origin} is nested deeper than {MOST_LEVELS} levels: {remedy}")


def write_json(path: pathlib.Path, value: Any, private: bool = False) -> None:
    """Write JSON to `path`, completely or not at all, and if it is `private`, for this user alone to read."""
    with replacing(path) as partial:
        if private:
            partial.touch(0o600)
        partial.write_text(json.dumps(value, indent=2) + "\n")


def read_json(path: pathlib.Path, remedy: str, kind: Any, most_bytes: int = 0) -> Any:
    """The JSON in `path`.

    Args:
        path: the file.
        remedy: end of the error message.
        most_bytes: size of the largest file that is read, as in `read_limited`.
        kind: type of what the file holds, for pydantic. A dataclass is made from it. Anything else is returned as
            it is in the file, with the keys that `kind` does not name. Example: `dict[str, list[int]]`.

    Raises:
        ContentError: the file cannot be read, is not JSON, or holds something else.
    """
    return parse_json(read_limited(path, remedy, most_bytes), str(path), remedy, kind)


def parse_json(content: bytes, origin: str, remedy: str, kind: Any) -> Any:
    """Parse JSON that was read from `origin`, and check its type.

    Args:
        content: the JSON.
        origin: name of the file in error messages.
        remedy: end of the error message.
        kind: type of the value, as in `read_json`.

    Raises:
        ContentError: the content is not JSON, or not of this type.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ContentError(f"{origin} is not JSON ({first_line(error)}): {remedy}") from None
    _check_depth(value, origin, remedy)
    return checked_json(value, origin, remedy, kind)


def checked_json(value: Any, origin: str, remedy: str, kind: Any) -> Any:
    """Return a parsed JSON value as `kind`, as in `read_json`. Raises `ContentError` for another type."""
    from pydantic import ValidationError  # 0.1 s, which `--help` does not need

    is_made = dataclasses.is_dataclass(kind)
    try:
        # Strict, such as no "1" for 1, since the value itself is returned. Only dataclasses need conversions.
        made = _validator(kind).validate_python(value, strict=not is_made)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the whole"
        raise ContentError(
            f"{origin} is damaged ({key}: {first['msg']}, not {ascii(first['input'])[:SHOWN]}): {remedy}"
        ) from None
    return made if is_made else value


@functools.cache
def _validator(kind: Any) -> Any:
    """The validator of a type by pydantic, which takes a millisecond to make.

    Of the items of a list or a mapping, it stops at the first that is wrong. Pydantic's own collects an error of a
    kilobyte for each, and a file may have millions.
    """
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    return SchemaValidator(_failing_fast(TypeAdapter(kind).core_schema))


def _failing_fast(schema: Any) -> Any:
    """A schema of pydantic's core, or a part of one, in which lists and mappings end at their first wrong item."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_failing_fast, schema))
    if not isinstance(schema, dict):
        return schema
    changed = {key: _failing_fast(value) for key, value in schema.items()}
    if schema.get("type") == "list":
        return changed | {"fail_fast": True}
    if schema.get("type") == "dict":
        from pydantic_core import core_schema

        return core_schema.no_info_wrap_validator_function(_item_by_item, changed)
    return changed


def _item_by_item(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Validate a mapping, which pydantic has no option for. `validate` takes anything else."""
    if not isinstance(value, dict):
        return validate(value)
    return {key: made for name, item in value.items() for key, made in validate({name: item}).items()}


# === Arrays ===


def write_array(path: pathlib.Path, array: "npt.NDArray[Any]") -> None:
    """Write what `np.save` writes. On a full disk the `OSError` has the system's number, which NumPy's lacks."""
    import numpy as np  # here, so that settings can be read without any package

    with path.open("wb") as file:
        # NumPy does not take this for a file, and has Python write it, 16 MB at a time.
        stream: Any = types.SimpleNamespace(write=file.write)
        np.lib.format.write_array(stream, array, allow_pickle=False)


# === Processes and temporary folders ===


@contextmanager
def temporary_folder(kind: str = LOCAL, parent: str | os.PathLike[str] | None = None) -> Iterator[pathlib.Path]:
    """A new folder in `parent`, removed at the end. If this process is killed, the next that makes one removes it.

    Args:
        kind: one of HIDDEN, or LOCAL.
        parent: an existing folder. None for the system's folder for temporary files, with LOCAL alone.

    Raises:
        OSError: nothing can be written there.
    """
    parent = pathlib.Path(parent or tempfile.gettempdir()).absolute()
    _remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=kind + _owner(), dir=parent, ignore_cleanup_errors=True) as path:
        yield pathlib.Path(path)


def temporary_folder_beside(output: StrPath) -> AbstractContextManager[pathlib.Path]:
    """As `temporary_folder`, on the disk of an output, because that disk has room for data.

    For an output on a mounted bucket it is on the local disk, since each file of the mount is uploaded.
    """
    parents = pathlib.Path(output).absolute().parents
    return (
        temporary_folder()
        if is_mounted(output)
        else temporary_folder(BESIDE, next(each for each in parents if each.exists()))
    )


def _owner() -> str:
    """The owner in a temporary name: the machine, and the id and the start of this process.

    Example: `0a1b2c3d-4711-48213-`.
    """
    own = ProcessId.own()
    return f"{_short(own.machine)}-{own.process}-{own.started}-"


@functools.cache
def _short(machine: str) -> str:
    return hashlib.sha256(machine.encode()).hexdigest()[:8]


@functools.cache
def _remove_abandoned(parent: pathlib.Path) -> None:
    """Remove, once in each process, what killed processes of this user and this machine have left in a folder.

    On a disk that several machines share, an id names another process on each of them.
    """
    machine = ProcessId.own().machine
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if (found := OWNED.fullmatch(entry.name)) and found["machine"] == _short(machine):
                is_own = entry.stat(follow_symlinks=False).st_uid == os.getuid()
                if is_own and not ProcessId(machine, int(found["process"]), found["start"]).is_running:
                    remove_path(pathlib.Path(entry.path))


def folder_for_now() -> pathlib.Path:
    """A new temporary folder that is removed when this process ends."""
    made = temporary_folder()
    atexit.register(made.__exit__, None, None, None)
    return made.__enter__()


def remove_leftovers(parent: pathlib.Path) -> None:
    """Remove what killed processes have left in `parent`, such as `.partial-1f`.

    No other process may be writing there.
    """
    for kind in HIDDEN:
        for path in parent.glob(f"{kind}*"):
            remove_path(path)
