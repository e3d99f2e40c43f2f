"""The known images of a model: held-out images with their recordings, on which it was compared when it was made.

A later candidate must not be significantly worse on them. They are a prepared test set in one file, `KNOWN`, in
the folder of a version, so that they outlive the data that they came from. Only their originals matter: the file
of each picture, its density and its fixations. Removing the file is how an owner deletes them.
"""

import pathlib
import zipfile
from collections.abc import Collection, Iterator

from trainer.data import HeldOutImage, Manifest, PreparedData, hash_position
from trainer.errors import ContentError, UserError
from trainer.evaluation import recorded
from trainer.evaluation.evaluation import KNOWN
from trainer.io import StrPath, folder_for_now, temporary_folder

MOST, MOST_BYTES = 200, 2**26
"""So many images are kept, chosen by a hash of their pixels, while their files have no more bytes than this."""


def write_known(path: pathlib.Path, folder: StrPath, names: Collection[str], before: StrPath | None) -> int:
    """Write the known images of a model that is compared now.

    An image that was known before stays as it was, so that recordings which change a little each week cannot carry
    the known images along.

    Args:
        path: The file to write.
        folder: Prepared data with the held-out images that decide.
        names: The images among them that were scored.
        before: Prepared data with the known images of the current default. None without them, and if the models
            contradict them.

    Returns:
        Number of the images. 0 if there is none, and no file is written.
    """
    split = Manifest.load(folder).held_out
    old = recorded.read_lines(before) if before is not None else []
    new = [line for line in recorded.read_lines(folder) if line.split == split and line.image in names]
    lines = [*old, *recorded.compare(new, old).added]
    ordered = sorted({line.digest for line in lines}, key=hash_position)[:MOST]
    kept: dict[str, HeldOutImage] = {}
    for source, listed in ((before, old), (folder, new)):
        wanted = {line.image for line in listed if line.digest in ordered}
        for image in _held_out(source, wanted) if source is not None else ():
            kept.setdefault(image.line["digest"], image)
    chosen, n_bytes = [], 0
    for digest in ordered:
        n_bytes += len(kept[digest].original.file)
        if n_bytes <= MOST_BYTES:
            chosen.append(kept[digest])
    if not chosen:
        return 0
    with temporary_folder() as scratch:
        prepared = scratch / "known"
        prepared.mkdir()
        PreparedData(prepared).write_test_set("known", chosen)
        with zipfile.ZipFile(path, "w") as archive:  # not compressed, as pictures are already
            for file in sorted(prepared.iterdir()):
                archive.write(file, file.name)
    return len(chosen)


def open_known(model: StrPath) -> pathlib.Path | None:
    """Unpack the known images of the model in a folder.

    Returns:
        Prepared data that is there until the process ends. None if the model has none.

    Raises:
        UserError: the file is damaged.
    """
    path = pathlib.Path(model, KNOWN)
    if not path.is_file():
        return None
    folder = folder_for_now() / "known"
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        Manifest.load(folder)
    except (OSError, zipfile.BadZipFile, UserError) as error:
        raise ContentError(
            f"{path} cannot be read ({error}): restore it, or remove it and set known_images=forget once"
        ) from None
    return folder


def _held_out(folder: StrPath, names: Collection[str] | None = None) -> Iterator[HeldOutImage]:
    """The held-out images of prepared data with these names. All of them if None."""
    data = PreparedData(folder)
    manifest = data.manifest
    lines = {line.image: line.cells for line in recorded.read_lines(folder) if line.split == manifest.held_out}
    for example, original in data.held_out():
        if names is None or example.name in names:
            yield HeldOutImage(example, original, lines[example.name], manifest.as_seen, manifest.has_fixations)
