"""Lists the images that a command line names: files, folders, globs, and the same on Cloud Storage."""

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
from trainer.config import BESIDE_FORMATS
from trainer.errors import UserError, first_line, nearest, printable
from trainer.files import local_path
from trainer.picture import SUFFIXES
from trainer.storage import is_junk

RESULT_ENDS = tuple(end for end in BESIDE_FORMATS.values() if end.lower().endswith(SUFFIXES))
"""Suffixes of the pictures that `predict` writes next to their images."""


@dataclasses.dataclass(frozen=True)
class Input:
    """An image to predict, not yet read."""

    name: str
    """Path or `gs://` address of the image."""
    key: str
    """Path below the folder on the command line, or the file name, with `/`; results are named after it.

    It never leads out of a folder. It is empty if the input is known not to be an image.
    """
    read: Callable[[int], bytes]
    """Reads the image from any thread; raises `UserError`, also if it has more bytes than the argument allows."""

    @property
    def label(self) -> str:
        """The name as one printable line."""
        return printable(self.name)


@dataclasses.dataclass(frozen=True)
class Listing:
    """The result of `find_inputs`."""

    inputs: list[Input]
    skipped: list[str]
    """Files in the folders that are not inputs: without an image's suffix, or results of `predict`."""


def find_inputs(names: Sequence[str], output_dir: str | os.PathLike[str] = "") -> Listing:
    """List the images that a command line names: in its order, those of a folder sorted, each once.

    Args:
        names: files; folders, which are searched with their subfolders; globs that the shell did not expand;
            `gs://` objects, prefixes and globs. In a glob, `**` stands for any number of folders. In a folder or
            below a prefix, hidden files and files without an image's suffix are skipped; in a folder also what
            `predict` wrote next to its images. A file that is named itself, or matches a glob, is always taken.
        output_dir: the folder of the results; if it lies in a searched folder, its files are skipped.

    Returns:
        The images. A name that leads to no image, a folder that cannot be listed, and an object whose name leads
        out of the folder of the results are among them, as inputs that raise the reason when they are read.

    Raises:
        UserError: none of the names leads to an image, or a folder is also the folder of the results.
    """
    inputs: dict[str, Input] = {}
    skipped: list[str] = []
    reasons: list[str] = []
    results = os.path.realpath(output_dir) if output_dir else ""
    for name in names:
        if name and not storage.is_remote(name) and os.path.realpath(local_path(name)) == results:
            raise UserError(
                f"--output-dir {printable(name)} is also the folder of the images, so the next run would take its "
                "maps as images; name another folder, for example one inside it"
            )
    connect = functools.cache(storage.client)  # finding the credentials takes time
    for name in names:
        images, reason = _list(name, skipped, results, connect)
        if not images:
            reasons.append(reason)
            inputs.setdefault(name, _unreadable(name, reasons[-1]))
        for image in map(_check_key, images):
            inputs.setdefault(_identity(image.name), image)
    if len(reasons) == len(names):
        raise UserError("; ".join(dict.fromkeys(reasons)))
    return Listing(list(inputs.values()), [name for name in skipped if _identity(name) not in inputs])


def _identity(name: str) -> str:
    """Return the absolute path or the address of a file, by which it is listed once."""
    return name if storage.is_remote(name) else str(pathlib.Path(name).absolute())


def _list(name: str, skipped: list[str], output_dir: str, connect: Callable[[], Any]) -> tuple[list[Input], str]:
    """Return the images that a name leads to, and the reason if there are none."""
    try:
        if not name:
            return [], "the name of an image is empty; give a file or a folder, such as . for this folder"
        is_remote = storage.is_remote(name)
        images = _list_remote(name, skipped, connect) if is_remote else _list_local(name, skipped, output_dir)
        if glob.has_magic(name):
            no_images = f"no file matches {printable(name)}; check the pattern"
        else:
            no_images = f"{printable(name)} has no images; in a folder, they must end in {', '.join(SUFFIXES)}"
        return list(images), no_images
    except UserError as error:
        return [], str(error)
    except (OSError, RuntimeError, ValueError) as error:  # from invalid paths and patterns
        text = getattr(error, "strerror", None) or first_line(error)
        return [], f"cannot search {printable(name)}: {text}"


def _unreadable(name: str, reason: str) -> Input:
    """Return an input whose `read` raises `UserError(reason)`."""

    def read(max_bytes: int) -> bytes:
        raise UserError(reason)

    return Input(name, "", read)


def _check_key(image: Input) -> Input:
    """Make an image unreadable if its results would lie outside their folder: an object may have any name."""
    path = pathlib.PurePosixPath(image.key)
    if image.key and (path.is_absolute() or ".." in path.parts or not path.name or "\0" in image.key):
        return _unreadable(image.name, f"the name {image.label} lies outside the output folder; rename it")
    return image


def _list_local(name: str, skipped: list[str], output_dir: str) -> Iterator[Input]:
    path = local_path(name)
    if glob.has_magic(name) and not _safely(path.exists):
        root_text, pattern = _split_glob(str(path))
        root = pathlib.Path(root_text)
        for match in sorted(root.glob("/".join(pattern))):
            key = match.relative_to(root).as_posix()
            if match != root and is_junk(key):
                continue
            if _safely(match.is_dir):
                yield from _walk(match, root, skipped, output_dir)
            elif pattern[-1] != "**":  # a last ** matches folders only before Python 3.13
                yield _file(match, key)
    elif _safely(path.is_dir):
        yield from _walk(path, path, skipped, output_dir)
    else:
        yield _file(path, path.name)


def _safely(predicate: Callable[[], bool]) -> bool:
    """Call a predicate of a path; False without permission, about which reading the path raises later."""
    try:
        return predicate()
    except OSError:
        return False


def _split_glob(pattern: str) -> tuple[str, list[str]]:
    """Split a glob into the folder before the first wildcard, and the parts after it."""
    parts = pattern.rstrip("/").split("/")
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    if any("**" in part and part != "**" for part in parts):  # versions of Python differ here
        raise ValueError("** stands for any folders and must be alone between slashes, as in **/*.jpg")
    return "/".join(parts[:first]) + "/" if first else "", parts[first:]


def _walk(folder: pathlib.Path, root: pathlib.Path, skipped: list[str], output_dir: str) -> Iterator[Input]:
    """List the images in a folder and its subfolders, with their paths below `root` as keys."""
    visited: set[tuple[int, int]] = set()
    unreadable: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=unreadable.append, followlinks=True):
        # A link can form a cycle.
        status = pathlib.Path(parent).stat()
        if (status.st_dev, status.st_ino) in visited or os.path.realpath(parent) == output_dir:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not is_junk(name))
        images = {name for name in names if name.lower().endswith(SUFFIXES)}
        stems = images | {pathlib.PurePath(name).stem for name in images}
        for name in sorted(names):
            path = pathlib.Path(parent, name)
            if is_junk(name):
                continue
            is_result = any(name.endswith(end) and name.removesuffix(end) in stems for end in RESULT_ENDS)
            if name in images and not is_result:
                yield _file(path, path.relative_to(root).as_posix())
            else:
                skipped.append(str(path))
    for error in unreadable:
        yield _unreadable(error.filename, f"cannot read {printable(error.filename)}: {error.strerror}")


def _file(path: pathlib.Path, key: str) -> Input:
    return Input(str(path), key, functools.partial(_read_file, path))


def _read_file(path: pathlib.Path, max_bytes: int) -> bytes:
    name = printable(str(path))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{name} is a folder, a pipe or a device; give a file")
        _check_size(name, status.st_size, max_bytes)
        return path.read_bytes()
    except OSError as error:
        meant = _nearest_file(path) if isinstance(error, FileNotFoundError) else ""
        raise UserError(f"cannot read {name}: {error.strerror}{meant}") from None


def _nearest_file(path: pathlib.Path) -> str:
    """`; did you mean 'coffee.jpg'?` with the nearest name in the folder of a missing file; empty if none is."""
    try:
        return nearest(path.name, [each.name for each in path.parent.iterdir()])
    except OSError:
        return ""


def _check_size(name: str, size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise UserError(
            f"{name} has {size_bytes:,} bytes; the largest allowed image needs at most {max_bytes:,}. Save it as "
            "PNG or JPEG, or raise --most-megapixels"
        )


def _list_remote(name: str, skipped: list[str], connect: Callable[[], Any]) -> Iterator[Input]:
    is_glob = glob.has_magic(name)
    root, pattern = _split_glob(name) if is_glob else (name.rstrip("/") + "/", [])
    if root == storage.REMOTE:
        raise UserError(f"{printable(name)} names no bucket; name one: gs://BUCKET/PATTERN")
    for address, size_bytes in storage.find_objects(root.rstrip("/")):
        key = address.removeprefix(root)
        image = Input(address, key, functools.partial(_read_object, connect, address, size_bytes))
        if address == name:
            yield dataclasses.replace(image, key=name.rpartition("/")[2])
            continue
        parts = key.split("/")
        matched = is_glob and pattern[-1] != "**" and _matches(parts, pattern)
        below = any(_matches(parts[:depth], pattern) for depth in range(len(parts)))
        if is_junk(key) or not (matched or below):
            continue
        if matched or key.lower().endswith(SUFFIXES):
            yield image
        else:
            skipped.append(address)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a path matches a glob as in `Path.glob`: `**` stands for any number of folders."""
    if not pattern or not parts:
        return not parts and all(part == "**" for part in pattern)
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _read_object(connect: Callable[[], Any], address: str, size_bytes: int, max_bytes: int) -> bytes:
    _check_size(printable(address), size_bytes, max_bytes)
    return storage.read_object(address, connect())
