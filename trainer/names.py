"""Names of files in folders, archives and buckets: their kinds, and which ones are refused. Standard library."""

import unicodedata

from trainer.errors import UserError
from trainer.text import printable

ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")


def is_archive(name: str) -> bool:
    """Whether `name` has the suffix of an archive that can be read."""
    return name.lower().endswith(ARCHIVES)


def is_junk(name: str) -> bool:
    """Whether an operating system made the file: a hidden file, `__MACOSX`, `Thumbs.db` or macOS's `Icon`."""
    parts = [part for part in name.split("/") if part != ".."]
    return any(part.startswith(".") or part in ("__MACOSX", "Thumbs.db", "Icon\r") for part in parts)


def check_name(name: str, place: str, remedy: str) -> None:
    """Raise `UserError`, with the `remedy`, for a name that cannot be written to a file or a terminal.

    Args:
        name: path of a file, with `/`, as Python decodes it.
        place: the folder, archive or bucket that has it, for messages.
        remedy: what to do, such as `rename it`.
    """
    if reason := _reason(name):
        begin = name if len(name) <= 80 else f"{name[:77]}..."
        raise UserError(f"{place} has a file {printable(begin)!s} whose name {reason}; {remedy}")


def _reason(name: str) -> str:
    if not name.strip("/"):
        return "is empty"
    categories = {unicodedata.category(character) for character in name} if not name.isprintable() else set()
    if "Cs" in categories:
        return "is not UTF-8"
    return "has control characters" if "Cc" in categories else ""
