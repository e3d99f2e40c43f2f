"""Where a model is: a folder, a version of the registry in a folder, or either of them on Cloud Storage."""

import pathlib
import re
from collections.abc import Mapping

from trainer import storage
from trainer.artifacts import (
    ALIASES,
    DEFAULT,
    EVALUATION,
    MODEL_CONFIG,
    MODEL_NAME,
    PER_IMAGE,
    REGISTRY,
    VERSION_EXTRA,
    WEIGHTS,
    SourceObject,
)
from trainer.errors import UserError
from trainer.files import read_json

NEEDED = (WEIGHTS, MODEL_CONFIG)
"""What every model has."""
KEPT = (EVALUATION, PER_IMAGE)
"""What a version has as well where its model was evaluated before it was registered."""
NEITHER = f"is neither a model, it has no {WEIGHTS}, nor a registered name"
HOW_TO_GET_ONE = "make one with `make run-pipeline`, which registers it, or name the folder of a model"


def find_model(name: str = "") -> pathlib.Path:
    """The folder with WEIGHTS and MODEL_CONFIG of a model.

    Args:
        name: a model folder; a version's folder (`models/msinet/1`); a registered name with or without a version
            or an alias, `@3` or `@challenger` (`msinet`, `path/to/models/msinet@default`); each also as `gs://`,
            which is downloaded to a folder that lasts as long as the process. Empty for the default of
            MODEL_NAME in the folder REGISTRY. Without a version or alias a name means its `default`.

    Raises:
        UserError: there is no such model; the message says what there is instead.
    """
    if storage.is_remote(name):
        return _find_remote(name)
    place, version = _split(name or f"{REGISTRY}/{MODEL_NAME}")
    whole, folder = pathlib.Path(name).expanduser(), pathlib.Path(place).expanduser()
    for each in (whole, whole / VERSION_EXTRA):  # a folder's own name may have an @ in it
        if name and (each / WEIGHTS).is_file():
            return each
    if not folder.exists() and len(folder.parts) == 1:
        folder = pathlib.Path(REGISTRY) / folder
    if whole.is_file():
        raise UserError(f"{name} is a file, not a model; name the folder of one")
    if not folder.is_dir():
        raise UserError(f"there is no model at {folder}; {HOW_TO_GET_ONE}")
    numbers = sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal())
    if not numbers:
        raise UserError(f"{folder} {NEITHER}; {HOW_TO_GET_ONE}")
    path = folder / ALIASES
    aliases = read_json(path, "register a model again") if path.is_file() else {}
    chosen = folder / str(number_of(str(folder), version, numbers, aliases)) / VERSION_EXTRA
    if not (chosen / WEIGHTS).is_file():
        raise UserError(f"{chosen} has no {WEIGHTS}; name another version of {_listed(numbers)}")
    return chosen


def _split(name: str) -> tuple[str, str]:
    """A place, and the version or alias behind its `@`."""
    found = re.fullmatch(r"(.+)@([^@/]+)", name)
    return (found[1], found[2]) if found else (name, DEFAULT)


def number_of(model: str, version: str, numbers: list[int], aliases: Mapping[str, int]) -> int:
    """Which of a model's versions, of `numbers`, a number or an alias names; `UserError` where none is it."""
    number = int(version) if version.isdecimal() else aliases.get(version)
    if number in numbers:
        return number
    known = ", ".join(f"{alias} is {target}" for alias, target in sorted(aliases.items())) or "no aliases"
    raise UserError(f"{model} has no version {version}; it has {_listed(numbers)} ({known}): name one of these")


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


# === Cloud Storage ===


def _find_remote(name: str) -> pathlib.Path:
    place, version = _split(name.rstrip("/"))
    objects = {each.name: each for each in storage.list_objects(place)}
    for prefix in ("", f"{VERSION_EXTRA}/"):
        if prefix + WEIGHTS in objects:
            return _download(place, prefix, objects)
    found = (re.fullmatch(rf"(\d+)/{VERSION_EXTRA}/{WEIGHTS}", each) for each in objects)
    numbers = sorted(int(each[1]) for each in found if each)
    if not numbers:
        raise UserError(f"{place} {NEITHER}; {HOW_TO_GET_ONE}")
    aliases = {}
    if ALIASES in objects:
        aliases = read_json(
            storage.download_for_now(place, [objects[ALIASES]]) / ALIASES, "register a model again"
        )
    return _download(place, f"{number_of(place, version, numbers, aliases)}/{VERSION_EXTRA}/", objects)


def _download(place: str, prefix: str, objects: dict[str, SourceObject]) -> pathlib.Path:
    missing = [name for name in NEEDED if prefix + name not in objects]
    if missing:
        raise UserError(f"{place}/{prefix} has no {', '.join(missing)}; give the folder of a whole model")
    wanted = [prefix + name for name in (*NEEDED, *KEPT) if prefix + name in objects]
    return storage.download_for_now(place, [objects[name] for name in wanted]) / prefix


def image_size_of(folder: pathlib.Path) -> tuple[int, int]:
    """(H, W) of the input that the network in a model's folder was trained at, pixels."""
    remedy = "give the folder of a model that `train` wrote"
    height, width = read_json(folder / MODEL_CONFIG, remedy)["image_size"]
    return height, width
