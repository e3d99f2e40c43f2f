"""Which model a name means, weights of the author included, and which one answers where a command names none.

Loads no TensorFlow.
"""

import contextlib
import pathlib

from trainer.errors import UserError
from trainer.models import author, provenance
from trainer.models.answering import Answering
from trainer.models.lookup import has_pretrained, look_up_model
from trainer.models.model_names import DEFAULT, MODEL_NAME, PRETRAINED, REGISTRY
from trainer.models.provenance import Provenance
from trainer.models.registry_layout import PRETRAINED_VERSION, read_aliases, version_numbers
from trainer.places import stored_at

REGISTERED = pathlib.Path(REGISTRY, MODEL_NAME)


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
    if author.is_author_weights(name):
        return author.find_author_model(name)
    return look_up_model(name, author.AUTHOR_WEIGHTS)


def choose_model(name: str) -> Answering:
    """The model of this name, or for an empty one the default.

    The registry in the working directory has the default: PRETRAINED until a version is better. It is
    PRETRAINED too if there is no registry, or if its default was last trained on the sample set.

    Raises:
        UserError: as `find_model`.
    """
    return Answering(name, find_model(name)) if name else _default()


def find_opponent(name: str) -> Answering | None:
    """Another model to compare with the model `name`. None if there is none.

    It is the default. Where the default itself was named, it is PRETRAINED.
    """
    own = None
    if stored_at(name).is_local:
        with contextlib.suppress(UserError):  # such as a run, which `compare` finds
            own = find_model(name)
    others = [choose_model(PRETRAINED)] if has_pretrained() else []
    if others or version_numbers(REGISTERED):
        others.insert(0, _default())
    return next((other for other in others if own is None or not other.folder.samefile(own)), None)


def _default() -> Answering:
    reason = ""
    if not version_numbers(REGISTERED):
        reason = f"there is no model in {REGISTERED}"
    elif read_aliases(REGISTERED).get(DEFAULT, PRETRAINED_VERSION) == PRETRAINED_VERSION:
        reason = f"the default of {REGISTERED} is version {PRETRAINED_VERSION}"
    if reason and has_pretrained():
        return Answering(PRETRAINED, find_model(PRETRAINED), reason=reason)
    folder = find_model("")
    if Provenance.of_folder(folder).is_sample and has_pretrained():
        reason = f"the default of {REGISTERED} was {provenance.MARK}"
        return Answering(PRETRAINED, find_model(PRETRAINED), reason=reason)
    return Answering(MODEL_NAME, folder, f"version {folder.parent.name}, the default of {REGISTERED}")
