"""Make a model's folder of local weights in a process of its own. Loads no TensorFlow here.

A graph or a file of unknown origin can end the process that reads it, or take all of its memory. And a training
that imports weights configures TensorFlow, which must not have started before.
"""

import pathlib

from trainer.artifacts import MODEL_CONFIG
from trainer.files import replacing
from trainer.models import apart
from trainer.models.apart import Limits
from trainer.models.local_weights import Imported, LocalWeights

LIMITS = Limits(seconds=900, memory_bytes=6 * 10**9, usual_bytes=2 * 10**9)
"""For small images. An import takes half a minute on two cores."""
PIXEL = Limits(seconds=1e-3, memory_bytes=10_000, usual_bytes=4_000)
"""More for each pixel. The network takes 4 kB, and some five maps are predicted."""
REMEDY = "it does not hold the weights of MSI-Net alone; get them from where they were published"


def import_local(
    local: LocalWeights, source: str, output: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    """What `trainer.models.conversion.convert` does, at `output`, where nothing is left after an error.

    Raises:
        ContentError: as `convert`; or the import takes more time or memory than MSI-Net's, or crashes.
        UserError: the output exists or cannot be written.
    """
    limits = LIMITS.plus(PIXEL, image_size[0] * image_size[1])
    with replacing(output, last=MODEL_CONFIG) as folder:
        return apart.call(
            _convert,
            *(local, source, folder, dataset, image_size),
            limits=limits,
            doing=f"the import of {source}",
            remedy=REMEDY,
        )


def _convert(
    local: LocalWeights, source: str, folder: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    from trainer.loading import load_tensorflow

    load_tensorflow()
    from trainer.models.conversion import convert

    return convert(local, source, folder, dataset, image_size)
