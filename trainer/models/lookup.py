"""Look up a model by name: a folder, a registered version, or the model of this package. Loads no TensorFlow."""

import pathlib
import posixpath
import re
from collections.abc import Iterable

from trainer.errors import ContentError, NotFoundError
from trainer.io import local_path
from trainer.models.model_names import DEFAULT, MODEL_NAME, PRETRAINED, REGISTRY
from trainer.models.registry_layout import (
    ALIASES,
    KEPT,
    PRETRAINED_VERSION,
    listed_numbers,
    model_in,
    number_of,
    read_aliases,
    version_numbers,
)
from trainer.network import ASSETS_EXTRA, MODEL_WEIGHTS, ModelFolder
from trainer.places import SourceObject, Stored, stored_at
from trainer.texts import nearest

NEITHER = f"is neither a model (it has no {MODEL_WEIGHTS}) nor a registered name"
HOW_TO_GET_ONE = "make one with `make run-pipeline`, which registers it, or name a model's folder"


def look_up_model(name: str = "", others: Iterable[str] = ()) -> pathlib.Path:
    """Find the folder of a model, which holds MODEL_CONFIG, and WEIGHTS or COMPACT_WEIGHTS.

    Args:
        name: as in `trainer.models.find.find_model`, but not `author:NAME`.
        others: names that an error may suggest, beside the ones that this function knows.

    Raises:
        UserError: there is no such model. The message lists the models that exist.
    """
    if name == PRETRAINED:
        if not has_pretrained():
            missing = (
                f"this installation has no model {PRETRAINED}, because {ModelFolder.pretrained().path} is missing"
            )
            raise NotFoundError(f"{missing}: {ModelFolder.pretrained().remedy}")
        return ModelFolder.pretrained().path
    place = stored_at(name)
    if not place.is_local:
        return _find_remote(place)
    whole = local_path(name)
    if name and (found := _model_of_folder(whole)):
        return found
    path, version = _split(name or f"{REGISTRY}/{MODEL_NAME}")
    folder = local_path(path)
    if not folder.exists() and len(folder.parts) == 1:
        folder = pathlib.Path(REGISTRY) / folder
    if whole.is_file():
        raise ContentError(f"{name} is a file, not a model. Name a model's folder")
    if not folder.is_dir():
        raise NotFoundError(f"there is no model at {folder}: {HOW_TO_GET_ONE}{nearest_model(name, others)}")
    numbers = version_numbers(folder)
    if not numbers:
        raise NotFoundError(f"{folder} {NEITHER}: {HOW_TO_GET_ONE}")
    number = number_of(str(folder), version, numbers, read_aliases(folder))
    if number == PRETRAINED_VERSION:
        return look_up_model(PRETRAINED)
    model = model_in(folder / str(number))
    if not (model / MODEL_WEIGHTS).is_file():
        known = ", ".join(map(str, [PRETRAINED_VERSION, *numbers]))
        raise NotFoundError(f"{model} has no {MODEL_WEIGHTS}. Name another version of {known}")
    return model


def has_pretrained() -> bool:
    """Whether this installation has the model of the package, whole or damaged."""
    return ModelFolder.pretrained().path.is_dir()


def _model_of_folder(folder: pathlib.Path) -> pathlib.Path | None:
    """The model in a model's or a version's folder. None in any other.

    The folder's own name may contain an @. Example: `runs/a@b` is a folder, not version `b` of `runs/a`.
    """
    try:
        if ModelFolder(folder).has_weights:
            return folder
    except OSError as error:  # such as no permission, or a name that is too long
        raise NotFoundError(f"cannot read {folder}: {error.strerror}") from None
    return model_in(folder) if (model_in(folder) / MODEL_WEIGHTS).is_file() else None


def nearest_model(name: str, others: Iterable[str] = ()) -> str:
    """Suggest the known model with the name closest to `name`, as `. Did you mean 'x'?`, or nothing.

    The known models are PRETRAINED, the models in the folder REGISTRY, and the `others`.
    """
    registry = pathlib.Path(REGISTRY)
    registered = [path.name for path in registry.iterdir() if path.is_dir()] if registry.is_dir() else []
    return nearest(name, [PRETRAINED, *others, *registered])


def _split(name: str) -> tuple[str, str]:
    """Split a name into a path or an address, and the version or alias after its `@`."""
    match = re.fullmatch(r"(.+)@([^@/]+)", name)
    return (match[1], match[2]) if match else (name, DEFAULT)


def _find_remote(named: Stored) -> pathlib.Path:
    address, version = _split(str(named).rstrip("/"))
    place = named.with_text(address)
    objects = {entry.name: entry for entry in place.objects()}
    for folder in ("", ASSETS_EXTRA):
        if posixpath.join(folder, MODEL_WEIGHTS) in objects:
            return _download(place, folder, objects)
    if compact := ModelFolder.among(objects):
        return place.local_for_now([objects[file] for file in compact])
    numbers = listed_numbers({path: entry.size_bytes for path, entry in objects.items()})
    if not numbers:
        raise NotFoundError(f"{address} {NEITHER}: {HOW_TO_GET_ONE}")
    aliases = {}
    if ALIASES in objects:
        aliases = read_aliases(place.local_for_now([objects[ALIASES]]))
    number = number_of(address, version, numbers, aliases)
    return _download(place, f"{number}/{ASSETS_EXTRA}", objects) if number else look_up_model(PRETRAINED)


def _download(place: Stored, folder: str, objects: dict[str, SourceObject]) -> pathlib.Path:
    """Download the model in `folder`, relative to `place`."""
    there = {
        posixpath.basename(path): entry for path, entry in objects.items() if posixpath.dirname(path) == folder
    }
    missing = [name for name in ModelFolder.NEEDED if name not in there]
    if missing:
        raise ContentError(f"{place}/{folder} has no {', '.join(missing)}. Give the folder of a whole model")
    wanted = [*ModelFolder.among(there), *(name for name in KEPT if name in there)]
    return place.local_for_now([there[name] for name in wanted]) / folder


def holds_model(folder: pathlib.Path) -> bool:
    """Whether a folder has a model: a model's own folder, a version's, or the folder of a name with a version.

    Example: all of `runs/mine/model`, `models/msinet/3` and `models/msinet` do.
    """
    candidates = (folder, model_in(folder), *map(model_in, folder.glob("*")))
    return any(ModelFolder(each).has_weights for each in candidates)
