"""Lists the images that a command line names: files, folders, globs, and the same on Cloud Storage."""

import dataclasses
import fnmatch
import functools
import glob
import os
import pathlib
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence

from trainer.errors import (
    AmbiguousError,
    ContentError,
    MistakesError,
    NotFoundError,
    PlaceError,
    SettingError,
    UnreachableError,
    UserError,
    check,
)
from trainer.io import local_path
from trainer.pictures import SUFFIXES, Picture
from trainer.places import BucketPlace, Connection, Stored, in_short, is_junk, stored_at, without_query
from trainer.texts import first_line, printable

BYTES_PER_PIXEL = 4
"""Largest size of a file for each pixel that is allowed. Uncompressed RGBA needs no more."""
TIMEOUT_S = (15.0, 60.0)
"""Longest wait for a connection to a web server, and for its next bytes."""


@dataclasses.dataclass(frozen=True)
class Input:
    """An image to predict, not yet read."""

    name: str
    """Path or address of the image."""
    key: str
    """Path below the folder on the command line, or the file name, with `/`. Results are named after it.

    For example, it is `more/3.png` for `photos/more/3.png` if the command line names `photos`. It never leads out
    of a folder. It is empty if the input is known not to be an image.
    """
    read: Callable[[int], bytes]
    """Reads the image, from any thread. Raises `UserError`, also if it has more bytes than the argument."""
    beside: str = ""
    """Path after which results are named where no folder is given for them. Empty for `name`."""

    @property
    def place(self) -> Stored:
        """Where it is; the address of a web page, too, is like a path here."""
        return stored_at(self.name)

    @property
    def label(self) -> str:
        """The name as one printable line."""
        return printable(self.name)

    @classmethod
    def find(cls, name: str) -> "Input":
        """Find the only image that a name leads to, such as `photo.jpg`, or `photos/` with one image in it.

        Raises:
            UserError: it leads to none or to several.
        """
        inputs, _ = find_inputs([name])
        check(
            len(inputs) == 1,
            f"{printable(name)} has {len(inputs)} images, but one is needed: name one of them",
            AmbiguousError,
        )
        return inputs[0]

    @classmethod
    def at(cls, address: str, key: str, connection: Connection) -> "Input":
        """Return the image at an address: a path, an object of `gs://`, or a file of `https://` or `http://`.

        Args:
            address: where it is. Nothing is read yet.
            key: as in the class.
            connection: to Cloud Storage.
        """
        place = stored_at(address)
        read = functools.partial(_read_file, pathlib.Path(address))
        if isinstance(place, BucketPlace):
            read = functools.partial(_read_object, place.connected(connection), 0)
        elif address.startswith(("https://", "http://")):
            read = functools.partial(_read_web, address)
        return _check_key(cls(address, key, read))

    def open(self, max_pixels: int) -> Picture:
        """Read the image and parse its header.

        Raises:
            UserError: it cannot be read, is not an image, or has more pixels than `max_pixels`.
        """
        return Picture(self.read(max_pixels * BYTES_PER_PIXEL), self.label, max_pixels)

    def protect(self, outputs: Iterable[str | os.PathLike[str]]) -> None:
        """Raise `UserError` if an output would overwrite this image."""
        protect([self], outputs)


def protect(inputs: Sequence[Input], outputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raise `UserError` if an output would overwrite an image."""
    images = {os.path.realpath(image.name) for image in inputs}
    for path in outputs:
        check(
            os.path.realpath(path) not in images,
            f"{printable(str(path))} is an image and would be overwritten: name another place for the results",
            PlaceError,
        )


def find_inputs(names: Sequence[str], output_dir: str | os.PathLike[str] = "") -> tuple[list[Input], list[str]]:
    """List the images that a command line names, each once, in its order. Images of a folder are sorted.

    Example:
        >>> images, skipped = find_inputs(["photo.jpg", "photos", "gs://bucket/more/**/*.png"])

    Args:
        names: each one of these. A file that is named itself, or matches a glob, is always taken.

            - a file, or a `gs://` object
            - a folder with its subfolders, or a `gs://` prefix. Hidden files in it, and files without an image's
              suffix, are skipped.
            - a glob that the shell did not expand, also of `gs://`. `**` stands for any number of folders.
        output_dir: the folder of the results. It is not searched where it lies in another folder.

    Returns:
        The images, and the files that were skipped since their names do not end like an image's. The images
        include names that lead to no image, and objects with names that lead out of the folder of the results.
        They raise the reason when they are read.

    Raises:
        UserError: none of the names leads to an image.
    """
    inputs: dict[str, Input] = {}
    skipped: list[str] = []
    errors: list[UserError] = []
    results = os.path.realpath(output_dir) if output_dir else ""
    connection = Connection()
    for name in names:
        try:
            images = _list(name, skipped, results, connection)
        except UserError as error:
            errors.append(error)
            images = [_unreadable(name, error)]
        for image in images:
            inputs.setdefault(image.place.identity, image)
    if len(errors) == len(names):
        lines = list(dict.fromkeys(map(str, errors)))
        raise errors[0] if len(lines) == 1 else MistakesError(lines)
    return list(inputs.values()), [name for name in skipped if stored_at(name).identity not in inputs]


def _list(name: str, skipped: list[str], output_dir: str, connection: Connection) -> list[Input]:
    """Return the images that a name leads to. Raises `UserError` if there are none."""
    try:
        place = stored_at(name)
        if isinstance(place, BucketPlace):
            found = _list_remote(place.connected(connection), skipped)
        else:
            found = _list_local(name, skipped, output_dir)
        images = list(map(_check_key, found))
    except (OSError, RuntimeError, ValueError) as error:  # from invalid paths and patterns
        reason = getattr(error, "strerror", None) or first_line(error)
        raise NotFoundError(f"cannot read {printable(name)}: {reason}") from None
    endings = ", ".join(SUFFIXES)
    check(
        bool(images),
        f"{printable(name)} leads to no images. In a folder, their names must end in {endings}",
        NotFoundError,
    )
    return images


def _unreadable(name: str, error: UserError) -> Input:
    """Return an input that cannot be read: `read` raises the error."""

    def read(max_bytes: int) -> bytes:
        raise error

    return Input(name, "", read)


def _check_key(image: Input) -> Input:
    """Make an image unreadable if its results would lie outside their folder: an object may have any name."""
    path = pathlib.PurePosixPath(image.key)
    if path.is_absolute() or ".." in path.parts or not path.name or "\0" in image.key:
        error = PlaceError(f"the name {image.label} lies outside the output folder: rename it")
        return _unreadable(image.name, error)
    return image


def _split_glob(pattern: str) -> tuple[str, list[str]]:
    """Split a glob into the folder before the first wildcard and the parts after it.

    Example:
        >>> _split_glob("photos/*/a.png")
        ('photos/', ['*', 'a.png'])
    """
    parts = pattern.rstrip("/").split("/")
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    if any("**" in part and part != "**" for part in parts):  # versions of Python differ here
        raise ValueError("** stands for any folders and must be alone between slashes, as in **/*.jpg")
    return "/".join(parts[:first]) + "/" if first else "", parts[first:]


def _check_size(name: str, size_bytes: int, max_bytes: int) -> None:
    check(
        size_bytes <= max_bytes,
        f"{name} has {size_bytes:,} bytes. The largest allowed image needs at most {max_bytes:,}. Save it as PNG "
        "or JPEG, or raise --most-megapixels",
        ContentError,
    )


# === Files ===


def _list_local(name: str, skipped: list[str], output_dir: str) -> Iterator[Input]:
    path = local_path(name)
    check(
        bool(name),
        "the name of an image is empty: give a file or a folder, such as . for this folder",
        SettingError,
    )
    if path.is_dir():
        yield from _walk(path, path, skipped, output_dir)
    elif not glob.has_magic(name) or path.exists():
        path.stat()  # a missing file is said before the network is loaded
        yield _file(path, path.name)
    else:
        folder, pattern = _split_glob(str(path))
        root = pathlib.Path(folder)
        for match in sorted(root.glob("/".join(pattern))):
            key = match.relative_to(root).as_posix()
            if match != root and is_junk(key):
                continue
            if match.is_dir():
                yield from _walk(match, root, skipped, output_dir)
            elif pattern[-1] != "**":  # a last ** matches folders only before Python 3.13
                yield _file(match, key)


def _walk(folder: pathlib.Path, root: pathlib.Path, skipped: list[str], output_dir: str) -> Iterator[Input]:
    """List the images in a folder and its subfolders, with their paths below `root` as keys."""
    visited = {output_dir} - {os.path.realpath(folder)}
    for parent, folders, names in os.walk(folder, onerror=_raise, followlinks=True):
        place = os.path.realpath(parent)
        if place in visited:  # a link can form a cycle
            folders.clear()
            continue
        visited.add(place)
        folders[:] = sorted(name for name in folders if not is_junk(name))
        for name in sorted(name for name in names if not is_junk(name)):
            path = pathlib.Path(parent, name)
            if name.lower().endswith(SUFFIXES):
                yield _file(path, path.relative_to(root).as_posix())
            else:
                skipped.append(str(path))


def _raise(error: OSError) -> None:
    raise error


def _file(path: pathlib.Path, key: str) -> Input:
    return Input(str(path), key, functools.partial(_read_file, path))


def _read_file(path: pathlib.Path, max_bytes: int) -> bytes:
    name = printable(str(path))
    try:
        status = path.stat()
        is_file = stat.S_ISREG(status.st_mode)
        check(is_file, f"{name} is a folder, a pipe or a device: give a file", ContentError)
        _check_size(name, status.st_size, max_bytes)
        return path.read_bytes()
    except OSError as error:
        raise NotFoundError(f"cannot read {name}: {error.strerror}") from None


# === Cloud Storage ===


def _list_remote(place: BucketPlace, skipped: list[str]) -> Iterator[Input]:
    name = str(place)
    is_glob = glob.has_magic(name)
    root, pattern = _split_glob(name) if is_glob else (name.rstrip("/") + "/", [])
    check(
        place.with_text(root).has_bucket,
        f"{printable(name)} names no bucket. Name one: gs://BUCKET/PATTERN",
        SettingError,
    )
    for found, size_bytes in place.with_text(root.rstrip("/")).find_objects():
        key = str(found).removeprefix(root)
        image = Input(str(found), key, functools.partial(_read_object, found, size_bytes))
        if str(found) == name:
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
            skipped.append(str(found))


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a path matches a glob as in `Path.glob`: `**` stands for any number of folders."""
    if not pattern or not parts:
        return not parts and all(part == "**" for part in pattern)
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _read_object(place: BucketPlace, size_bytes: int, max_bytes: int) -> bytes:
    _check_size(printable(str(place)), size_bytes, max_bytes)
    return place.read_object()


# === The web ===


def _read_web(address: str, max_bytes: int) -> bytes:
    import requests  # type: ignore[import-untyped]

    name = printable(without_query(address))
    try:
        with requests.get(address, timeout=TIMEOUT_S, stream=True) as answer:
            check(answer.ok, f"{name} is answered with status {answer.status_code}", NotFoundError)
            content = bytearray()
            for chunk in answer.iter_content(2**16):
                content += chunk
                _check_size(name, len(content), max_bytes)
            return bytes(content)
    except requests.RequestException as error:
        raise UnreachableError(f"cannot read {name} ({in_short(error)}). Check the address") from None
