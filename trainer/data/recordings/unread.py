"""Recordings in files that are not read: what they are, and what to export instead.

The suffixes are facts about eye trackers and their programs: SR Research's manual of EyeLink 1000 Plus (4.7, 4.8),
SMI's guide of RED250mobile (15.8), Leiden University's wiki about E-Prime's extensions for Tobii, Pupil Labs'
examples of reading recordings (.pldata), and pupil-lib (.xdf).
"""

import dataclasses
from collections.abc import Iterable

from trainer.texts import some


@dataclasses.dataclass(frozen=True)
class Unread:
    """A kind of files that are not read."""

    what: str
    """What it is, without a full stop."""
    remedy: str
    """What to give instead, without a full stop."""


FIXATION_REPORT = "export a fixation report with Data Viewer"
DETECTED = "detect fixations in them, and write these into a table"
UNREAD = {
    ".edf": Unread("EyeLink's recording", FIXATION_REPORT),
    ".asc": Unread("EyeLink's recording as text", FIXATION_REPORT),
    ".idf": Unread("SMI's recording", "export its events as text with BeGaze"),
    ".gazedata": Unread("samples of E-Prime's extensions for Tobii", DETECTED),
    ".xdf": Unread("samples of Lab Streaming Layer", DETECTED),
    ".pldata": Unread("Pupil's recording", "export the fixations on a surface with Pupil Player"),
    ".tsv.gz": Unread("samples of BIDS, if it has no line with the names of columns", DETECTED),
    ".mat": Unread(
        "MATLAB's variables",
        "write one table of all fixations, or one .mat for each image, with its name, into a folder named "
        "fixations",
    ),
    ".json": Unread("no table", "if it holds fixations, write them into a table (.csv, .tsv, .txt or .parquet)"),
}
"""Suffix in lower case -> what a file with it is."""


def about_unread(paths: Iterable[str]) -> str:
    """What the files are that are not read, and what to give instead, without a full stop. Empty if none is known.

    Example: `Not read: s1.edf and s2.edf (EyeLink's recording: export a fixation report with Data Viewer)`.

    Args:
        paths: the files that nothing has read. Those with other suffixes than the ones of `UNREAD` are skipped.
    """
    by_suffix: dict[str, list[str]] = {}
    for path in sorted(paths):
        suffix = next((suffix for suffix in UNREAD if path.lower().endswith(suffix)), "")
        if suffix:
            by_suffix.setdefault(suffix, []).append(path)
    kinds = [
        f"{some(by_suffix[suffix])} ({kind.what}: {kind.remedy})"
        for suffix, kind in UNREAD.items()
        if suffix in by_suffix
    ]
    return f"Not read: {', '.join(kinds)}" if kinds else ""
