"""Fetch the archives of `trainer.models.author`, and unpack their weights.

They are kept in the cache of downloads, and used from there without a question to their server.
"""

import functools
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trainer import files, sources
from trainer.downloads import archives, cache
from trainer.downloads.servers import drive_link
from trainer.errors import ContentError, UserError, check, some
from trainer.models import author
from trainer.models.author import AuthorWeights
from trainer.models.local_weights import INSIDE, PART, SAVED_MODEL, LocalWeights, fingerprint_of_files
from trainer.sources import Member

MOST_BYTES = 10**9
"""Largest weights that are unpacked. A frozen graph has 100 MB, a checkpoint with Adam's state 300."""


def fetched(source: str) -> cache.Download:
    """The archive of `author:NAME`; downloaded unless it is in the cache.

    Raises:
        UserError: the name is unknown, or the archive cannot be downloaded.
    """
    row = author.get(source)
    (published,) = row.archives
    kept = archives.kept(published, root())
    by_hand = (
        f"or unpack {published.name} by hand ({drive_link(published.address)}), and give the path of its graph "
        f"instead of {source}"
    )
    return kept or archives.fetch(archives.public(row, by_hand=by_hand), root())[0]


def root() -> pathlib.Path:
    """The folder of the cache; without one a folder that is removed when this process ends."""
    return cache.cache_folder() or _for_now()


@functools.cache
def _for_now() -> pathlib.Path:
    return files.folder_for_now()


@contextmanager
def opened(source: str) -> Iterator[LocalWeights]:
    """The unpacked weights of `author:NAME`, which are removed at the end.

    An archive that is damaged or has other files is removed from the cache, and so is one whose weights the block
    finds (`ContentError`) to be damaged or of another network: the next use downloads it again.

    Raises:
        UserError: as `fetched`; or the archive is such a one.
    """
    archive, row = fetched(source), author.get(source)
    with files.folder(files.LOCAL) as folder:
        try:
            path = _unpacked(archive, row, folder)
            yield LocalWeights(path, None, fingerprint_of_files(str(path)))
        except ContentError as error:
            cache.forget([archive])
            raise ContentError(
                f"{str(error).replace(f'{folder}/', '')}; {archive.offer.name} was removed from the cache, so the "
                f"same command downloads it again; if it is as before, ask its author ({row.homepage})"
            ) from None


def _unpacked(archive: cache.Download, row: AuthorWeights, folder: pathlib.Path) -> pathlib.Path:
    """Unpack the weights, and nothing else, into `folder`; returns their path, as `LocalWeights.path`."""
    name = archive.offer.name
    try:
        with sources.opened_files({name: archive.path}, folder) as members:
            path, files = _chosen(members, row, name)
            size = sum(member.size_bytes or 0 for member in files)
            check(
                size <= MOST_BYTES,
                f"the weights in {name} have {size / 1e9:.3g} GB, and {MOST_BYTES / 1e9:g} GB is the most that is "
                "unpacked",
            )
            for member in files:
                (folder / member.path).parent.mkdir(parents=True, exist_ok=True)
                (folder / member.path).write_bytes(member.read())
    except OSError as error:
        raise UserError(
            f"cannot unpack {name} to {folder} ({error.strerror or error}); free some space, or set TMPDIR to a "
            "folder on another disk"
        ) from None
    except UserError as error:  # a damaged archive, or one with unsafe members
        raise ContentError(str(error)) from None
    return folder / path


def _chosen(members: Sequence[Member], row: AuthorWeights, archive: str) -> tuple[str, list[Member]]:
    """The path of the weights in an archive, and their files: those of a graph if there is one.

    Of several only those of the author's name count.
    """
    for found in (_graphs(members), _saved_models(members), _checkpoints(members)):
        named = {path: files for path, files in found.items() if row.stem in path.rpartition("/")[2]}
        chosen = found if len(found) == 1 else named
        if len(chosen) == 1:
            return next(iter(chosen.items()))
        check(not found, f"{archive} has several weights ({some(list(found))}), and none is {row.stem} alone")
    held = some([member.path.partition("/")[2] for member in members]) or "no files"
    raise UserError(f"{archive} has neither a frozen graph, nor a SavedModel, nor a checkpoint: it has {held}")


def _graphs(members: Sequence[Member]) -> dict[str, list[Member]]:
    saved = _saved_models(members)  # which have other files that end with .pb
    return {
        member.path: [member]
        for member in members
        if member.path.endswith(".pb") and member.path.rpartition("/")[0] not in saved
    }


def _saved_models(members: Sequence[Member]) -> dict[str, list[Member]]:
    ends = [member.path for member in members if member.path.endswith(f"/{SAVED_MODEL}")]
    folders = [path.removesuffix(f"/{SAVED_MODEL}") for path in ends]
    return {
        folder: [
            member
            for member in members
            if member.path.startswith(f"{folder}/") and INSIDE.fullmatch(member.path.removeprefix(f"{folder}/"))
        ]
        for folder in folders
    }


def _checkpoints(members: Sequence[Member]) -> dict[str, list[Member]]:
    prefixes = [member.path.removesuffix(".index") for member in members if member.path.endswith(".index")]
    return {
        prefix: [member for member in members if PART.search(member.path) and PART.sub("", member.path) == prefix]
        for prefix in prefixes
    }
