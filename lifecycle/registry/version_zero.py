"""`pretrained` as version 0 of every registry: its SavedModel. It is made where it has to answer.

No registry holds version 0, since the package has it: but not as a SavedModel, which servers need.
"""

import functools

from trainer.io import folder_for_now
from trainer.models import PRETRAINED, find_model
from trainer.network import ModelFolder


@functools.cache
def exported_pretrained() -> ModelFolder:
    """A folder with the `saved_model` of `pretrained`, and nothing else. It is removed when this process ends.

    It takes half a minute, once for each process. Raises `UserError` if it cannot be made, such as without
    TensorFlow.
    """
    from trainer.machine import announce, load_tensorflow

    announce(f"exporting {PRETRAINED}, which takes half a minute")
    load_tensorflow()
    from trainer.network import Export

    folder = ModelFolder(folder_for_now())
    Export(find_model(PRETRAINED)).saved_model(folder.saved_model)
    return folder
