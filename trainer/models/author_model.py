"""Models of the weights of `trainer.models.author`, imported once and kept in the cache of downloads."""

import contextlib
import multiprocessing
import pathlib
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from trainer import datasets
from trainer.artifacts import MODEL_CONFIG, SCHEMA
from trainer.downloads import cache
from trainer.errors import UserError
from trainer.loading import load_tensorflow
from trainer.models import author, author_files
from trainer.models.local_weights import LocalWeights

MODEL = "model"


def find_author_model(source: str) -> pathlib.Path:
    """The folder of the model of `author:NAME`.

    The first use downloads the weights and imports them; later ones find the model in the cache, and need no
    network. Without a cache the folder is removed when this process ends.

    Raises:
        UserError: the name is unknown, or the weights cannot be downloaded or imported.
    """
    row, archive, root = author.get(source), author_files.fetched(source), author_files.root()
    # Another archive or another layout of models has another folder.
    place = root / f"author-{row.dataset}-{archive.sha256[:16]}-schema-{SCHEMA}"
    model = place / MODEL
    if (model / MODEL_CONFIG).is_file():
        return model
    with cache.usable(root), cache.locked(place, f"another process imports {source}"):
        if not (model / MODEL_CONFIG).is_file():
            print(f"import {source} to {model}", flush=True)
            with author_files.opened(source) as local:
                compared = _imported_apart(local, source, model, row.dataset)
            print(f"{source}: {compared}", flush=True)
    return model


def _imported_apart(local: LocalWeights, source: str, model: pathlib.Path, dataset: str) -> str:
    """Import in a process of its own: a training configures TensorFlow, which must not have started before."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_leave_interrupts) as process:
        try:
            return process.submit(_import, local, source, model, dataset).result()
        except BrokenProcessPool:
            raise UserError(
                f"the import of {source} was ended from outside, perhaps because it needs 2 GB of memory; free "
                "some, and try again"
            ) from None


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the process that waits for this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _import(local: LocalWeights, source: str, model: pathlib.Path, dataset: str) -> str:
    """Write the folder of the model; returns how its maps compare with those of the graph."""
    with contextlib.redirect_stdout(sys.stderr):
        load_tensorflow()
        from trainer.models.conversion import convert

        return convert(local, source, model, dataset, datasets.get(dataset).image_size).compared
