"""Make a model's folder of local weights in the worker of `trainer.isolated`. Loads no TensorFlow here.

A graph or a file of unknown origin can end the process that reads it, or take all of its memory. And a training
that imports weights configures TensorFlow, which must not have started before.
"""

import pathlib

from trainer import isolated
from trainer.artifacts import MODEL_CONFIG
from trainer.files import replacing
from trainer.isolated import Limits
from trainer.models.local_weights import Imported, LocalWeights

IMPORT_BYTES, PIXEL_BYTES = 6 * 10**9, 10_000
"""Memory for an import with small images, and more for each pixel. An import takes 2 GB, and 4 kB for a pixel."""
SECONDS, PIXEL_SECONDS = 900, 1e-3
"""Processor time, likewise. An import takes one minute; some five maps are predicted."""
NOT_MSI_NET = "it does not hold the weights of MSI-Net alone; get them from where they were published"


def import_local(
    local: LocalWeights, source: str, output: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    """Import weights as `trainer.models.conversion.convert` does; nothing is left at `output` after an error.

    Raises:
        ContentError: as `convert`; or the import takes more time or memory than MSI-Net's, or crashes.
        UserError: the output exists or cannot be written.
    """
    n_pixels = image_size[0] * image_size[1]
    limits = Limits(SECONDS + PIXEL_SECONDS * n_pixels, IMPORT_BYTES + PIXEL_BYTES * n_pixels)
    try:
        with replacing(output, last=MODEL_CONFIG) as folder:
            imported: Imported = isolated.call(
                f"{__name__}.convert_here",
                *(local, source, folder, dataset, image_size),
                file=source,
                remedy=NOT_MSI_NET,
                limits=limits,
            )
    finally:
        isolated.end()  # the worker has TensorFlow in its memory
    return imported


def convert_here(
    local: LocalWeights, source: str, folder: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    """Load TensorFlow in this process, without GPUs, and import weights with it."""
    from trainer.loading import load_tensorflow

    load_tensorflow()
    import tensorflow as tf

    from trainer.models.conversion import convert

    tf.config.set_visible_devices([], "GPU")  # a training would find its memory taken
    return convert(local, source, folder, dataset, image_size)
