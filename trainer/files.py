"""Write files completely or not at all, and read JSON. Standard library only."""

import errno
import json
import os
import pathlib
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainer.errors import ContentError, PlaceError, UserError


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write JSON to `path`, completely or not at all."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(value, indent=2) + "\n")


def read_json(path: pathlib.Path, remedy: str) -> Any:
    """The JSON in `path`; raises `ContentError` that ends with `remedy` if the file is missing or not JSON."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ContentError(f"{path} does not exist: {remedy}") from None
    return parse_json(content, str(path), remedy)


def parse_json(content: bytes, place: str, remedy: str) -> Any:
    """The value of the JSON that was read from `place`; raises `ContentError` that ends with `remedy`."""
    try:
        return json.loads(content)
    except ValueError as error:
        raise ContentError(f"{place} is not JSON ({error}): {remedy}") from None


def is_taken(output: pathlib.Path) -> bool:
    """Whether `output` exists and is not an empty folder."""
    return output.exists() and not (output.is_dir() and not any(output.iterdir()))


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise `PlaceError` if nothing can be written to `path`; to be called before long work."""
    place = pathlib.Path(path).absolute()
    folder = place.parent
    try:
        place.exists()  # raises an error if the name is too long
        folder = next(parent for parent in place.parents if parent.exists())
        with tempfile.TemporaryFile(
            dir=folder
        ):  # permissions are not sufficient evidence, least of all on a mount
            pass
    except OSError as error:
        raise PlaceError(
            f"cannot write {path}: nothing can be written to {folder} ({error.strerror}); name another place"
        ) from None


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a path next to `path` for a file or a folder, which is renamed on success and removed on failure.

    The partial path has the suffix of `path`, which some writers look at. An existing file, or an empty folder, at
    `path` is replaced.

    Raises:
        PlaceError: nothing can be written there; raised before the caller has written anything.
        UserError: the disk is full, or may not be written.
    """
    path = pathlib.Path(path)
    # Random, because process ids repeat in containers: a task that was killed here, or that writes here from
    # another machine, may have the same one.
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
        path: the output, for the message.
        otherwise: class for errors other than a full disk or a missing permission; None lets them pass.
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
                remedy = "change its permissions (chmod, chown)"
                raise UserError(f"no permission for {error.filename} ({error.strerror}); {remedy}") from None
            raise UserError(
                f"no permission to write {path} ({error.strerror}); name a folder that you can write to"
            ) from None
        if otherwise is None:
            raise
        raise otherwise(f"cannot write {path} ({error.strerror}); name another place") from None


def _is_within(name: object, *places: pathlib.Path) -> bool:
    """Whether the file named by an `OSError` is one of `places`, or is below one."""
    return any(pathlib.Path(str(name)).absolute().is_relative_to(place.absolute()) for place in places)


def _rename(partial: pathlib.Path, path: pathlib.Path) -> None:
    try:
        partial.replace(path)
    except OSError:
        # A mounted Cloud Storage bucket cannot rename folders, so the folder is copied.
        if not partial.is_dir() or (path.is_dir() and any(path.iterdir())):
            raise
        shutil.copytree(partial, path, dirs_exist_ok=True)
