"""The weights that MSI-Net's author publishes, by one word: `author:` and their dataset.

Example: `author:salicon` are the weights that he trained on SALICON.

Their archives are kept in the download cache and reused without contacting the server. So are the models made
of them. The addresses are those of his code (alexanderkroner/saliency, download.py, the models for CPUs).
Whether they are still valid is unknown: the published files themselves have not been tested with this
project. Loads no TensorFlow, and before an archive is needed nothing that downloads.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainer.data import Manifest
from trainer.datasets import Archive, Dataset
from trainer.errors import ContentError, PlaceError, UserError, check, look_up
from trainer.io import folder_for_now, temporary_folder
from trainer.network import ModelFolder
from trainer.places import DrivePlace, Member, opened_files
from trainer.texts import some

if TYPE_CHECKING:
    from trainer.datasets import Download
    from trainer.network import LocalWeights

PREFIX = "author:"
MODEL = "model"


@dataclasses.dataclass(frozen=True)
class AuthorWeights:
    """Weights of the author. Images are fitted to the size of their dataset in `trainer.datasets.table`."""

    dataset: str
    drive_id: str

    licence = "MIT License."
    citation = (
        "Alexander Kroner, Mario Senden, Kurt Driessens, Rainer Goebel: Contextual encoder-decoder network for "
        "visual saliency prediction. Neural Networks 129, 2020, doi 10.1016/j.neunet.2020.05.004."
    )
    homepage = "https://github.com/alexanderkroner/saliency"

    @property
    def stem(self) -> str:
        """Name of the files, without their suffixes, such as `model_osie_cpu`."""
        return f"model_{self.dataset}_cpu"

    @property
    def place(self) -> DrivePlace:
        """Where the archive is published."""
        return DrivePlace(f"drive:{self.drive_id}")

    @property
    def archives(self) -> tuple[Archive, ...]:
        """The archive."""
        return (Archive(self.place.text, f"{self.stem}.zip"),)


ROWS = (
    AuthorWeights("salicon", "1Xy9C72pcA8DO4CY0rc6B7wsuE9L9DDZY"),
    AuthorWeights("mit1003", "1jsESjYtsTvkMqKftA4rdstfB7mSYw5Ec"),
    AuthorWeights("cat2000", "1XxaEx7xxD6rHasQTa-VY7T7eVpGhMxuV"),
    AuthorWeights("dutomron", "14tuRZpKi8LMDKRHNVUylu6RuAaXLjHTa"),
    AuthorWeights("pascals", "1af9IvBqFamKWx64Ror6ALivuKNioOVIf"),
    AuthorWeights("osie", "1JD1tvAqZGxj_gEGmIfoxb9dTe5HOaHj1"),
    AuthorWeights("fiwi", "19qj9nAjd5gVHLB71oRn_YfYDw5n4Uf2X"),
)
AUTHOR_WEIGHTS = {f"{PREFIX}{row.dataset}": row for row in ROWS}


def is_author_weights(source: str) -> bool:
    """Whether a source of weights, or the name of a model, stands for weights of the author, such as
    `author:osie`.
    """
    return source.startswith(PREFIX)


def get_author_weights(source: str) -> AuthorWeights:
    """The row of `author:NAME`. Raises `UserError` for an unknown name.

    Example: `author:salicn` is refused with "did you mean 'author:salicon'?".
    """
    return look_up("weights", source, AUTHOR_WEIGHTS)


def fetched(source: str) -> "Download":
    """The archive of `author:NAME`, downloaded unless it is in the cache.

    Raises:
        UserError: the name is unknown, or the archive cannot be downloaded.
    """
    from trainer.datasets import Origin

    row, folder = get_author_weights(source), archives_folder()
    (published,) = row.archives
    by_hand = (
        f"Or unpack {published.name} by hand ({row.place.page}), and give the path of its graph "
        f"instead of {source}"
    )
    return Origin.kept(published, folder) or Origin.published(row, by_hand=by_hand).fetch(folder)[0]


def archives_folder() -> pathlib.Path:
    """Return the folder of the cache of downloads. If there is none, one that this process removes at its end."""
    from trainer.datasets import cache_folder

    return cache_folder() or _for_now()


@functools.cache
def _for_now() -> pathlib.Path:
    return folder_for_now()


def find_author_model(source: str) -> pathlib.Path:
    """The folder of the model of `author:NAME`.

    The first use downloads the weights and imports them. Later ones find the model in the cache, and need no
    network. Without a cache the folder is removed when this process ends.

    Raises:
        UserError: the name is unknown, or the weights cannot be downloaded or imported.
    """
    from trainer.datasets import used_folder
    from trainer.network import Imported

    row, archive, root = get_author_weights(source), fetched(source), archives_folder()
    # Another archive or another layout of models has another folder.
    place = root / f"author-{row.dataset}-{archive.sha256[:16]}-schema-{Manifest.schema}"
    model = place / MODEL
    if ModelFolder(model).config_file.is_file():
        return model
    with used_folder(root, place, f"another process imports {source}"):
        if not ModelFolder(model).config_file.is_file():
            print(f"import {source} to {model}", flush=True)
            with unpacked_weights(source) as local:
                Imported.of(local, source, model, row.dataset, Dataset.named(row.dataset).image_size)
    return model


@contextmanager
def unpacked_weights(source: str) -> Iterator["LocalWeights"]:
    """The unpacked weights of `author:NAME`, which are removed at the end.

    An archive is removed from the cache, so that the next use downloads it again, in three cases:

    - it is damaged
    - it has other files
    - the block finds (`ContentError`) that its weights are damaged or of another network

    Raises:
        UserError: as `fetched`, or the archive is damaged or has other files.
    """
    from trainer.network import LocalWeights

    archive, row = fetched(source), get_author_weights(source)
    with temporary_folder() as folder:
        try:
            yield LocalWeights(_unpacked(archive, row, folder))
        except ContentError as error:
            archive.forget()
            raise ContentError(
                f"{str(error).replace(f'{folder}/', '')}. {archive.offer.name} was removed from the cache, so the "
                f"same command downloads it again. If it is as before, ask its author ({row.homepage})"
            ) from None


def _unpacked(archive: "Download", row: AuthorWeights, folder: pathlib.Path) -> pathlib.Path:
    """Unpack the weights, and nothing else, into `folder`. Returns their path, as `LocalWeights.path`."""
    name = archive.offer.name
    try:
        with opened_files({name: archive.path}, folder) as members:
            path, chosen = _chosen(members, row, name)
            for member in chosen:
                (folder / member.path).parent.mkdir(parents=True, exist_ok=True)
                (folder / member.path).write_bytes(member.read())
    except OSError as error:
        raise PlaceError(
            f"cannot unpack {name} to {folder} ({error.strerror or error}). Free some space, or set TMPDIR to a "
            "folder on another disk"
        ) from None
    except UserError as error:  # a damaged archive, or one with unsafe members
        raise ContentError(str(error)) from None
    return folder / path


def _chosen(members: Sequence[Member], row: AuthorWeights, archive: str) -> tuple[str, list[Member]]:
    """The path of the weights in an archive, and their files. A graph comes before other forms.

    Of several weights only the ones with the author's name count, such as `model_salicon_cpu`.
    """
    from trainer.network import NamedWeights

    paths = {member.path: member for member in members}
    for found in NamedWeights.forms_among(paths):
        named = [each for each in found if row.stem in each.name.rpartition("/")[2]]
        chosen = found if len(found) == 1 else named
        if len(chosen) == 1:
            return chosen[0].name, [paths[path] for path in chosen[0].among(paths)]
        names = [each.name for each in found]
        check(
            not found,
            f"{archive} has several weights ({some(names)}), and none is {row.stem} alone",
            ContentError,
        )
    held = some([path.partition("/")[2] for path in paths]) or "no files"
    raise ContentError(f"{archive} has neither a frozen graph, nor a SavedModel, nor a checkpoint: it has {held}")
