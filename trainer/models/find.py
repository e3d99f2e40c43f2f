"""Which folder a model's name means, weights of the author included. Loads no TensorFlow."""

import pathlib

from trainer.models import author
from trainer.models.lookup import look_up_model


def find_model(name: str = "") -> pathlib.Path:
    """Find the folder of a model, which holds MODEL_CONFIG, and WEIGHTS or COMPACT_WEIGHTS.

    Args:
        name: one of these, also as `gs://`:

            - `pretrained`, the model that comes with this package (write ./pretrained for a folder of that name)
            - a model's folder, also in compact form
            - a version's folder, such as `models/msinet/1`
            - a registered name, such as `msinet` or `path/to/models/msinet`, alone or with a version (`@3`)
              or an alias (`@challenger`). Alone it means its `default`, and this is PRETRAINED until a
              version is better.
            - `author:salicon`, as in `trainer.models.author`

            Empty means MODEL_NAME in the folder REGISTRY. A model on Cloud Storage is downloaded to a folder that
            is removed when the process ends.

    Raises:
        UserError: there is no such model, and the message lists those that exist.
    """
    if author.is_named(name):
        return author.find_author_model(name)
    return look_up_model(name, author.WEIGHTS)
