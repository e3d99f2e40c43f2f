"""Find a model by its name: in a folder or a registry, local or on Cloud Storage."""

import pathlib
import posixpath
import re

from trainer import storage
from trainer.artifacts import (
    ALIASES,
    COMPACT_WEIGHTS,
    DEFAULT,
    MODEL_CONFIG,
    MODEL_NAME,
    MODEL_REMEDY,
    REGISTRY,
    VERSION_EXTRA,
    WEIGHTS,
    SizedConfig,
    SourceObject,
)
from trainer.config import PRETRAINED
from trainer.errors import UserError, nearest
from trainer.files import local_path, read_json
from trainer.models import author, compact, pretrained, registry_layout
from trainer.models.author_model import find_author_model
from trainer.models.registry_layout import KEPT, NEEDED, listed, model_at, model_in, number_of

NEITHER = f"is neither a model (it has no {WEIGHTS}) nor a registered name"
HOW_TO_GET_ONE = "make one with `make run-pipeline`, which registers it, or name a model's folder"


def find_model(name: str = "") -> pathlib.Path:
    """Find the folder of a model, which holds WEIGHTS and MODEL_CONFIG.

    Args:
        name: one of these, also as `gs://`:
            `pretrained`, the model that comes with this package (write ./pretrained for a folder of that name);
            a model's folder, also in compact form;
            a version's folder, such as `models/msinet/1`;
            a registered name, such as `msinet` or `path/to/models/msinet`, alone or with a version (`@3`) or an
            alias (`@challenger`); alone it means its `default`.
            `author:salicon`, as in `trainer.models.author`.
            Empty means MODEL_NAME in the folder REGISTRY. A model on Cloud Storage is downloaded to a folder that
            is removed when the process ends.

    Raises:
        UserError: there is no such model, and the message lists those that exist; or its weights are damaged.
    """
    if (folder := pretrained.find(name)) is not None:
        return folder
    if author.is_named(name):
        return find_author_model(name)
    if storage.is_remote(name):
        return _find_remote(name)
    place, version = _split(name or f"{REGISTRY}/{MODEL_NAME}")
    whole, folder = local_path(name), local_path(place)
    for candidate in (whole, model_in(whole)):  # a folder's own name may contain an @
        if name and (candidate / WEIGHTS).is_file():
            return candidate
    if not folder.exists() and len(folder.parts) == 1:
        folder = pathlib.Path(REGISTRY) / folder
    if whole.is_file():
        raise UserError(f"{name} is a file, not a model; name a model's folder")
    if not folder.is_dir():
        raise UserError(f"there is no model at {folder}{nearest_model(name)}; {HOW_TO_GET_ONE}")
    numbers = registry_layout.version_numbers(folder)
    if not numbers:
        raise UserError(f"{folder} {NEITHER}; {HOW_TO_GET_ONE}")
    number = number_of(str(folder), version, numbers, registry_layout.read_aliases(folder))
    model = model_in(folder / str(number))
    if not (model / WEIGHTS).is_file():
        raise UserError(f"{model} has no {WEIGHTS}; name another version of {listed(numbers)}")
    return model


def nearest_model(name: str) -> str:
    """`; did you mean 'x'?` with the name of a known model that is close to `name`; empty if none is.

    Known are PRETRAINED, `author:NAME` and the names in REGISTRY.
    """
    registry = pathlib.Path(REGISTRY)
    registered = [path.name for path in registry.iterdir() if path.is_dir()] if registry.is_dir() else []
    return nearest(name, [PRETRAINED, *author.WEIGHTS, *registered])


def image_size_of(folder: pathlib.Path) -> tuple[int, int]:
    """(H, W) of the input that the network in a model's folder was trained at, pixels."""
    height, width = read_json(folder / MODEL_CONFIG, MODEL_REMEDY, SizedConfig)["image_size"]
    return height, width


def _split(name: str) -> tuple[str, str]:
    """A place, and the version or alias after its `@`."""
    match = re.fullmatch(r"(.+)@([^@/]+)", name)
    return (match[1], match[2]) if match else (name, DEFAULT)


# === Cloud Storage ===


def _find_remote(name: str) -> pathlib.Path:
    place, version = _split(name.rstrip("/"))
    objects = {entry.name: entry for entry in storage.list_objects(place)}
    for folder in ("", VERSION_EXTRA):
        if posixpath.join(folder, WEIGHTS) in objects:
            return _download(place, folder, objects)
    if COMPACT_WEIGHTS in objects:
        files = [objects[file] for file in (COMPACT_WEIGHTS, MODEL_CONFIG) if file in objects]
        return compact.expanded(storage.download_for_now(place, files))
    numbers = registry_layout.listed_numbers({path: entry.size_bytes for path, entry in objects.items()})
    if not numbers:
        raise UserError(f"{place} {NEITHER}; {HOW_TO_GET_ONE}")
    aliases = {}
    if ALIASES in objects:
        aliases = registry_layout.read_aliases(storage.download_for_now(place, [objects[ALIASES]]))
    return _download(place, model_at(str(number_of(place, version, numbers, aliases))), objects)


def _download(place: str, folder: str, objects: dict[str, SourceObject]) -> pathlib.Path:
    """Download the model in `folder`, relative to `place`."""
    paths = {name: posixpath.join(folder, name) for name in (*NEEDED, *KEPT)}
    missing = [name for name in NEEDED if paths[name] not in objects]
    if missing:
        raise UserError(f"{place}/{folder} has no {', '.join(missing)}; give the folder of a whole model")
    present = [objects[path] for path in paths.values() if path in objects]
    return storage.download_for_now(place, present) / folder
