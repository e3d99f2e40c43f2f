"""Small recordings for tests: images of noise in any folder, and a table beside them."""

import contextlib
import io

from tests.small_sources import save, stimulus
from trainer.data.bad_images import BadImages
from trainer.data.recordings.custom import find_recordings
from trainer.data.settings import FetchConfig
from trainer.datasets.table import Dataset
from trainer.places import archive_files
from trainer.places.places import stored_at

SIZE = (48, 64)
"""(height, width) of the images, pixels."""


def write_images(folder, names=("a.png", "b.png", "c.png", "d.png", "e.png"), size=SIZE, first=0):
    """Images with different contents; `first` makes those of two calls differ."""
    for index, name in enumerate(names):
        save(folder / name, stimulus(first + index, size))


def write_table(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))


def rows(header, *lines):
    return "\n".join([header, *lines]) + "\n"


def plain_rows(names="abcde", suffix=".png"):
    """A table of three fixations of each image: of the first at x 10, 20 and 30, y 5, 6 and 7.

    Fixations of each further image are a pixel lower, so that no position is frequent.
    """
    lines = [f"{name}{suffix},{10 * n},{4 + n + image}" for image, name in enumerate(names) for n in (1, 2, 3)]
    return rows("image,x,y", *lines)


def understand(folder, **settings):
    """What `find_recordings` finds in a folder: items of each split, the row in use, notes, what it prints."""
    config = FetchConfig("custom", str(folder), **settings)
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        archive_files.open_source(stored_at(folder), stored_at(folder).objects(), folder.parent) as members,
    ):
        found = find_recordings(members, Dataset.named("custom"), str(folder), config, BadImages())
    return found.split, found.row, found.notes, printed.getvalue()


def gaze_of(folder, size=SIZE, **settings):
    """Name of an image -> its fixations, `(points, observers)` as lists."""
    items = understand(folder, **settings)[0]
    gazes = {item.name: item.fixations.read(size) for each in items.values() for item in each}
    return {
        name: (gaze.points.tolist(), None if gaze.observers is None else gaze.observers.tolist())
        for name, gaze in gazes.items()
    }
