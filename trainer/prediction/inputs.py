"""Which images a command line asks for: files, folders, globs, and the same on Cloud Storage."""

import contextlib
import dataclasses
import fnmatch
import functools
import glob
import os
import pathlib
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trainer import storage
from trainer.errors import UserError, first_line
from trainer.picture import SUFFIXES


@dataclasses.dataclass(frozen=True)
class Input:
    """An image that is asked for; nothing of it has been read."""

    name: str
    """Its path or `gs://` address."""
    key: str
    """Its path below the folder that was given, or its file name, with `/`: what its results are named by.

    It never leads out of a folder; empty for what is known to be no image.
    """
    read: Callable[[int], bytes]
    """Its content, if it has at most so many bytes; may be called from any thread. Raises `UserError`."""

    @property
    def shown(self) -> str:
        """Its name on one line, whatever characters it has."""
        return shown(self.name)


@dataclasses.dataclass(frozen=True)
class Found:
    """What was found."""

    inputs: list[Input]
    skipped: list[str]
    """Files below the given folders that are not named as pictures."""


def shown(name: str) -> str:
    """A file's name as text of one line; file systems allow any bytes."""
    return name if name.isprintable() else ascii(name)


def find_inputs(given: Sequence[str], output_dir: str | os.PathLike[str] = "") -> Found:
    """The images that a command line names, in its order, those of a folder sorted, each once.

    Args:
        given: files; folders, with all folders in them; globs that the shell has left; `gs://` objects, prefixes
            and globs, where `**` is any folders, also none. Of a folder or prefix those files are taken that are
            named as pictures and not hidden; a file that is given itself, or by a glob, is taken whatever it is
            called.
        output_dir: the folder of the results, whose files are no images to predict where it lies in a given one.

    Returns:
        Among the images are a folder, glob or prefix without any, what may not be listed, and an object whose name
        leads out of the folder of the results, as images that cannot be read.

    Raises:
        UserError: nothing that is given leads to an image, or a folder is that of the results.
    """
    inputs: dict[str, Input] = {}
    skipped: list[str] = []
    reasons: list[str] = []
    results = pathlib.Path(output_dir).resolve() if output_dir else None
    connect = functools.cache(storage.client)  # finding the credentials takes time
    for each in given:
        found, reason = _listed(each, skipped, results, connect)
        if not found:
            reasons.append(reason or _why_none(each))
            inputs.setdefault(each, _unreadable(each, reasons[-1]))
        remote = storage.is_remote(each)
        for image in map(_inside, found):
            inputs.setdefault(image.name if remote else str(pathlib.Path(image.name).absolute()), image)
    if len(reasons) == len(given):
        raise UserError("; ".join(dict.fromkeys(reasons)))
    return Found(list(inputs.values()), skipped)


def _listed(
    given: str, skipped: list[str], output_dir: pathlib.Path | None, connect: Callable[[], Any]
) -> tuple[list[Input], str]:
    """The images, or why they cannot be listed."""
    remote = storage.is_remote(given)
    try:
        if not given:
            return [], "the name of an image is empty; name a file or a folder, such as . for this one"
        return list(_remote(given, skipped, connect) if remote else _local(given, skipped, output_dir)), ""
    except UserError as error:
        if not remote:  # a folder that is that of the results
            raise
        return [], str(error)
    except (OSError, RuntimeError, ValueError) as error:  # of paths and patterns that cannot be
        text = getattr(error, "strerror", None) or first_line(error)
        return [], f"cannot look for {shown(given)}: {text}"


def _why_none(given: str) -> str:
    if glob.has_magic(given):
        return f"there is no file like {shown(given)}; mend the pattern"
    return f"{shown(given)} has no images; those of a folder end with {', '.join(SUFFIXES)}"


def _unreadable(name: str, reason: str) -> Input:
    """An image that is none."""

    def read(most_bytes: int) -> bytes:
        raise UserError(reason)

    return Input(name, "", read)


def _inside(image: Input) -> Input:
    """The image, if its results lie below the folder of the results; others may name the objects of a bucket."""
    path = pathlib.PurePosixPath(image.key)
    if image.key and (path.is_absolute() or ".." in path.parts or not path.name or "\0" in image.key):
        return _unreadable(image.name, f"the name {image.shown} leads out of the folder of the results; rename it")
    return image


# === Local ===


def _local(given: str, skipped: list[str], output_dir: pathlib.Path | None) -> Iterator[Input]:
    path = pathlib.Path(given)
    with contextlib.suppress(RuntimeError):  # nobody's home is a name as any other, as shells take it
        path = path.expanduser()
    if glob.has_magic(given) and not _answers(path.exists):
        fixed = _fixed(str(path))
        root = pathlib.Path(fixed)
        pattern = _pattern(str(path), fixed)
        for match in sorted(root.glob("/".join(pattern))):
            key = match.relative_to(root).as_posix()
            if match != root and storage.is_junk(key):
                continue
            if _answers(match.is_dir):
                yield from _below(match, root, skipped, output_dir)
            elif pattern[-1] != "**":  # which is for folders alone before Python 3.13
                yield _file(match, key)
    elif _answers(path.is_dir):
        yield from _below(path, path, skipped, output_dir)
    else:
        yield _file(path, path.name)


def _answers(question: Callable[[], bool]) -> bool:
    """Whether it is so; a path that may not be asked says why when it is read."""
    try:
        return question()
    except OSError:
        return False


def _fixed(pattern: str) -> str:
    """The folder in front of a glob's first wildcard."""
    parts = pattern.split("/")
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) + "/" if first else ""


def _pattern(given: str, fixed: str) -> list[str]:
    """The parts of a glob behind what is `_fixed`."""
    parts = given.removeprefix(fixed).rstrip("/").split("/")
    if any("**" in part and part != "**" for part in parts):  # which Python's versions take in different ways
        raise ValueError("** is for any folders, and stands alone between slashes, such as in **/*.jpg")
    return parts


def _below(
    folder: pathlib.Path, root: pathlib.Path, skipped: list[str], output_dir: pathlib.Path | None
) -> Iterator[Input]:
    """The pictures in a folder and those in it, named by their paths below `root`."""
    if folder.resolve() == output_dir:
        raise UserError(
            f"--output-dir {shown(str(folder))} is the folder of the images; its maps would be images the next "
            "time, name another (one in it will do)"
        )
    visited: set[tuple[int, int]] = set()
    unreadable: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=unreadable.append, followlinks=True):
        # A link may lead back to where it came from.
        status = pathlib.Path(parent).stat()
        if (status.st_dev, status.st_ino) in visited or pathlib.Path(parent).resolve() == output_dir:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        folders[:] = sorted(each for each in folders if not storage.is_junk(each))
        for name in sorted(names):
            path = pathlib.Path(parent, name)
            if storage.is_junk(name):
                continue
            if name.lower().endswith(SUFFIXES):
                yield _file(path, path.relative_to(root).as_posix())
            else:
                skipped.append(str(path))
    for error in unreadable:
        yield _unreadable(error.filename, f"cannot read {shown(error.filename)}: {error.strerror}")


def _file(path: pathlib.Path, key: str) -> Input:
    return Input(str(path), key, functools.partial(_read_file, path))


def _read_file(path: pathlib.Path, most_bytes: int) -> bytes:
    name = shown(str(path))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{name} is not a file but a folder, a pipe or a device; name a file")
        _check_size(name, status.st_size, most_bytes)
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}") from None


def _check_size(name: str, size_bytes: int, most_bytes: int) -> None:
    if size_bytes > most_bytes:
        raise UserError(
            f"{name} has {size_bytes:,} bytes, more than the {most_bytes:,} that the largest image allowed can "
            "take; save it as PNG or JPEG, or allow more with --most-megapixels"
        )


# === Cloud Storage ===


def _remote(given: str, skipped: list[str], connect: Callable[[], Any]) -> Iterator[Input]:
    is_glob = glob.has_magic(given)
    root = _fixed(given) if is_glob else given.rstrip("/") + "/"
    if root == storage.REMOTE:
        raise UserError(f"{shown(given)} has a pattern, or nothing, for a bucket; name one: gs://BUCKET/PATTERN")
    pattern = _pattern(given, root) if is_glob else []
    for address, size_bytes in storage.find_objects(root.rstrip("/")):
        key = address.removeprefix(root)
        image = Input(address, key, functools.partial(_read_object, connect, address, size_bytes))
        if address == given:
            yield dataclasses.replace(image, key=given.rpartition("/")[2])
            continue
        parts = key.split("/")
        matched = is_glob and pattern[-1] != "**" and _matches(parts, pattern)
        below = any(_matches(parts[:depth], pattern) for depth in range(len(parts)))
        if storage.is_junk(key) or not (matched or below):
            continue
        if matched or key.lower().endswith(SUFFIXES):
            yield image
        else:
            skipped.append(address)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path is like a glob, as `Path.glob` has it: `**` is any folders, also none."""
    if not pattern or not parts:
        return not parts and all(part == "**" for part in pattern)
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _read_object(connect: Callable[[], Any], address: str, size_bytes: int, most_bytes: int) -> bytes:
    _check_size(shown(address), size_bytes, most_bytes)
    return storage.read_object(address, connect())
