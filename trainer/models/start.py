"""Start an import of weights: what can be checked is checked before TensorFlow is loaded for it."""

import os
import pathlib
from typing import Any

from trainer import datasets, storage
from trainer.artifacts import is_taken
from trainer.config import parse_image_size
from trainer.errors import UserError
from trainer.loading import load_tensorflow
from trainer.models import weight_sources


def import_checked(
    source: str, output: str | os.PathLike[str], dataset: str = "salicon", image_size: str = ""
) -> Any:
    """Arguments, result and errors are those of `trainer.models.importing.import_model`."""
    check_import(source, output, dataset, image_size)
    load_tensorflow()
    from trainer.models.importing import import_model

    return import_model(source, output, dataset, image_size)


def check_import(
    source: str, output: str | os.PathLike[str], dataset: str = "salicon", image_size: str = ""
) -> tuple[int, int]:
    """(H, W) to which images are fitted; the arguments are those of `import_checked`.

    Raises:
        UserError: for what can be known to be wrong before the weights are read.
    """
    size = parse_image_size(image_size) if image_size else datasets.get(dataset).image_size
    if is_taken(pathlib.Path(output)):
        raise UserError(f"{output} exists already; remove it, or name another folder")
    if not storage.is_remote(source):
        weight_sources.check_local(source)
    return size
