"""Models of the weights of `trainer.models.author`, imported once and kept in the cache of downloads."""

import pathlib

from trainer import datasets
from trainer.artifacts import MODEL_CONFIG, SCHEMA
from trainer.downloads import cache
from trainer.models import author, author_files
from trainer.models.local_import import import_local

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
                imported = import_local(local, source, model, row.dataset, datasets.get(row.dataset).image_size)
            print(f"{source}: {imported.compared}", flush=True)
    return model
