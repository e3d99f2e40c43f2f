"""Check an import of weights, and download them if they are the author's, before TensorFlow is loaded."""

import os
from typing import Any

from trainer.loading import load_tensorflow
from trainer.models.weight_sources import check_import, fetch_archive


def import_checked(
    source: str, output: str | os.PathLike[str], dataset: str = "salicon", image_size: str = ""
) -> Any:
    """Arguments, result and errors are those of `trainer.models.importing.import_model`."""
    check_import(source, output, dataset, image_size)
    fetch_archive(source)
    load_tensorflow()
    from trainer.models.importing import import_model

    return import_model(source, output, dataset, image_size)
