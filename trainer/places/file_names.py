"""Names of files in sources: archives, the files of operating systems, and names that no folder can have."""

import dataclasses
import posixpath
import unicodedata
from collections.abc import Iterable

from trainer.errors import ContentError, UserError

ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")
"""Suffixes of the archives that can be read."""
NAME_BYTES, PATH_BYTES = 255, 3000
"""Longest name of a file, and longest path below a folder: systems allow 4,096 bytes with the folder."""


def archive_suffix(name: str) -> str:
    """The suffix of an archive that can be read, such as `.tar.gz` of `Set.TAR.GZ`. Empty for any other name."""
    return next((suffix for suffix in ARCHIVES if name.lower().endswith(suffix)), "")


def is_junk(name: str) -> bool:
    """Whether an operating system made the file: a hidden file, `__MACOSX`, `Thumbs.db` or macOS's `Icon`."""
    parts = [part for part in name.split("/") if part != ".."]
    return any(part.startswith(".") or part in ("__MACOSX", "Thumbs.db", "Icon\r") for part in parts)


def check_name(name: str, origin: str) -> None:
    """Raise `UserError` for the name of a file in `origin` that is not UTF-8 or has control characters."""
    if {unicodedata.category(character) for character in name} & {"Cc", "Cs"}:
        raise ContentError(f"{origin} has a file {name[:80]!r} whose name has no printable form. Rename it")


def check_path(name: str, origin: str) -> None:
    """Raise `UserError` for a name in `origin` by which no file below a folder can be written, such as `../a`."""
    check_name(name, origin)
    if posixpath.normpath(name) != name or name.startswith("/") or name.partition("/")[0] == "..":
        raise ContentError(f"{origin} has a file named {name[:80]!r}, which leads out of it. Rename it")
    n_bytes = max(len(part.encode()) for part in name.split("/"))
    if n_bytes > NAME_BYTES or len(name.encode()) > PATH_BYTES:
        raise ContentError(
            f"{origin} has a file named {name[:80]!r}..., which is longer than folders allow ({NAME_BYTES} bytes "
            f"for each part of a path, {PATH_BYTES:,} for all). Rename it"
        )


def both_kinds(name: str, origin: str) -> UserError:
    """The error for a source in which a file and a folder have the same name."""
    return ContentError(f"{origin} has a file {name[:80]!r}, and files below a folder of this name. Rename one")


def folders_of(names: Iterable[str]) -> set[str]:
    """The folders of files, and the folders above. Example: `a` and `a/b` for `a/b/c.png`."""
    folders: set[str] = set()
    for name in names:
        while (name := name.rpartition("/")[0]) and name not in folders:
            folders.add(name)
    return folders


@dataclasses.dataclass(frozen=True)
class SourceObject:
    """A file of a source: its name relative to the source, its size, and the CRC32C of its content (hex)."""

    name: str
    size_bytes: int
    crc32c: str
    sha256: str = ""
    """SHA-256 of the content of a downloaded file, 64 hex digits. Empty for others."""
