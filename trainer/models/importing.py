"""Import weights that were trained elsewhere: find them, and make a model's folder of them.

Loads no TensorFlow.
"""

import os
import pathlib

from trainer.models import weight_sources
from trainer.models.local_import import import_local
from trainer.models.local_weights import Imported


def import_model(
    source: str, output: str | os.PathLike[str], dataset: str = "salicon", image_size: str = ""
) -> Imported:
    """Make a model's folder of the weights at `source`, as `trainer.models.conversion.convert` does.

    Args:
        source: as in `trainer.models.weight_sources.opened`.
        output: folder to write; it must be empty or not exist.
        dataset: name of the dataset that the weights were trained on, unless the source tells it.
        image_size: height x width to which images are fitted, such as 240x320; empty for the dataset's.

    Raises:
        UserError: the source does not exist, is damaged, belongs to another network or gives other maps than the
            imported network, or the output cannot be written. Nothing is left at `output`.
    """
    dataset, size = weight_sources.check_import(source, output, dataset, image_size)
    with weight_sources.opened(source) as local:
        return import_local(local, source, pathlib.Path(output), dataset, size)
