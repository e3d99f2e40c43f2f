"""A registry on disk or in a bucket, in the layout of TensorFlow Serving.

<root>/<name>/aliases.json               alias -> version, such as {"default": 3, "challenger": 4}
<root>/<name>/<version>/                 a SavedModel, so that TensorFlow Serving can read <root>/<name>
<root>/<name>/<version>/assets.extra/    the model as the trainer reads it: `ModelFolder.NEEDED`, KEPT if evaluated
"""

import pathlib
import re
from collections.abc import Mapping

from trainer.errors import NotFoundError
from trainer.io import read_json
from trainer.models.model_names import DEFAULT
from trainer.network import ASSETS_EXTRA, EVALUATION, LEFT_OUT, MODEL_WEIGHTS, PER_IMAGE
from trainer.texts import shown

VERSION = "version.json"
"""Record of a version: metrics and lineage."""
KEPT = (EVALUATION, PER_IMAGE, LEFT_OUT)
"""Files that a version has too if its model was evaluated before it was registered."""
PRETRAINED_VERSION = 0
"""PRETRAINED as a version of any registered model: its default until a version is better. Others count from 1."""

PATH_OF_WEIGHTS = re.compile(rf"(?:(?:(\d+)/)?{re.escape(ASSETS_EXTRA)}/)?{re.escape(MODEL_WEIGHTS)}")
"""Path of WEIGHTS below the folder of a model, of a version, or of a name. Group 1 is the version below a name.

Example: `3/assets.extra/model.weights.h5` has 3, and `model.weights.h5` has none.
"""
ALIASES = "aliases.json"
"""File next to the versions of a registered name: alias -> version."""
Aliases = dict[str, int]
"""Content of ALIASES: alias -> version."""


def model_in(version: pathlib.Path) -> pathlib.Path:
    """The folder in a version's folder that the trainer reads, such as `models/msinet/3/assets.extra`."""
    return version / ASSETS_EXTRA


def version_numbers(folder: pathlib.Path) -> list[int]:
    """The versions in the folder of a name, in ascending order. Empty if there is no such folder."""
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(name) for name in names if name.isdecimal())


def listed_numbers(sizes: Mapping[str, int]) -> list[int]:
    """The versions in a folder, in ascending order, by the path and size of all files below it.

    Versions without weights are left out, and versions that are being written: their VERSION is empty.
    """
    matches = map(PATH_OF_WEIGHTS.fullmatch, sizes)
    numbers = (match[1] for match in matches if match and match[1])
    return sorted(int(number) for number in numbers if sizes.get(f"{number}/{ASSETS_EXTRA}/{VERSION}") != 0)


def read_aliases(folder: pathlib.Path) -> dict[str, int]:
    """Alias -> version in the folder of a name, such as `default` -> 3. Raises `UserError` for a damaged file."""
    path = folder / ALIASES
    return read_json(path, "register a model again", Aliases) if path.is_file() else {}


def number_of(model: str, version: str, numbers: list[int], aliases: Mapping[str, int]) -> int:
    """The version that a number or an alias names: one of `numbers`, or PRETRAINED_VERSION.

    Raises `UserError` if it names none of them.
    """
    aliases = {DEFAULT: PRETRAINED_VERSION, **aliases}
    known = {PRETRAINED_VERSION, *numbers}
    number = {**aliases, **{str(each): each for each in known}}.get(version)
    if number in known:
        return number
    targets = ", ".join(f"{alias} is {target}" for alias, target in sorted(aliases.items()))
    raise NotFoundError(
        f"{model} has no version {shown(version)}. It has {', '.join(map(str, sorted(known)))} ({targets}): name "
        "one of these"
    )
