"""The trained model that comes with this package, and other models in compact form, by their names."""

import pathlib

from trainer import storage
from trainer.artifacts import COMPACT_WEIGHTS, WEIGHTS
from trainer.config import PRETRAINED
from trainer.errors import UserError
from trainer.files import local_path
from trainer.models import compact

FOLDER = pathlib.Path(__file__).parents[1] / PRETRAINED
"""In compact form."""
REMEDY = f"get it again with `git checkout -- trainer/{PRETRAINED}`, or install msinet-pipelines again"


def is_there() -> bool:
    """Whether this installation has the model, whole or damaged."""
    return FOLDER.is_dir()


def find(name: str) -> pathlib.Path | None:
    """The folder, with float32 WEIGHTS, of PRETRAINED or of a model in compact form; None for any other name.

    PRETRAINED always means the model of this package: a folder of that name is ./pretrained, a registered model
    models/pretrained.

    Raises:
        UserError: this installation has no such model, the folder may not be entered, or its model in compact form
            cannot be expanded.
    """
    if name == PRETRAINED:
        if not is_there():
            raise UserError(f"this installation has no model {PRETRAINED}, because {FOLDER} is missing; {REMEDY}")
        return compact.expanded(FOLDER, REMEDY, name=PRETRAINED)
    folder = local_path(name)
    try:
        if not name or storage.is_remote(name) or (folder / WEIGHTS).is_file():
            return None
    except PermissionError as error:
        raise UserError(f"cannot read {name} ({error.strerror}); give yourself the right to enter it") from None
    return compact.expanded(folder) if (folder / COMPACT_WEIGHTS).is_file() else None
