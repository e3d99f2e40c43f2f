"""Which model a name means: a folder, a registered version, the model of this package, or weights of the author.

`find_model` finds the folder of a model. `find_answering` also chooses one where a command names none, and says
which one it is; `find_opponent` chooses what a model is compared with. Loads no TensorFlow.

A registry is a folder:

<root>/<name>/aliases.json               alias -> version, such as {"default": 3, "challenger": 4}
<root>/<name>/<version>/                 a SavedModel; TensorFlow Serving can be pointed at <root>/<name>
<root>/<name>/<version>/assets.extra/    the same model as the trainer reads it: NEEDED, and KEPT if evaluated
"""

import contextlib
import dataclasses
import pathlib
import posixpath
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from trainer.errors import UserError, check, nearest, shown
from trainer.io import buckets, source_files
from trainer.io.file_names import SourceObject
from trainer.io.files import local_path, read_json
from trainer.models import author, model_names, provenance
from trainer.models.architecture import STRIDE
from trainer.models.model_folder import (
    COMPACT_WEIGHTS,
    EVALUATION,
    LEFT_OUT,
    MODEL_CONFIG,
    MODEL_REMEDY,
    PER_IMAGE,
    PICTURE,
    TRAINING_IMAGES,
    WEIGHTS,
    ModelConfig,
    SizedConfig,
    for_kind,
)
from trainer.models.model_names import DEFAULT, MODEL_NAME, PRETRAINED, REGISTRY
from trainer.models.registry_layout import ALIASES, VERSION_EXTRA, Aliases

VERSION = "version.json"
"""Record of a version: metrics and lineage."""
NEEDED = (WEIGHTS, MODEL_CONFIG)
"""Files of every model."""
KEPT = (EVALUATION, PER_IMAGE, LEFT_OUT)
"""Files that a version has too if its model was evaluated before it was registered."""
PATH_OF_WEIGHTS = re.compile(rf"(?:(?:(\d+)/)?{re.escape(VERSION_EXTRA)}/)?{re.escape(WEIGHTS)}")
"""Path of WEIGHTS below the folder of a model, of a version, or of a name; then group 1 is the version."""
PRETRAINED_VERSION = 0
"""PRETRAINED as a version of any registered model: its default until a version is better. Others count from 1."""
NEITHER = f"is neither a model (it has no {WEIGHTS}) nor a registered name"
HOW_TO_GET_ONE = "make one with `make run-pipeline`, which registers it, or name a model's folder"
REGISTERED = pathlib.Path(REGISTRY, MODEL_NAME)
EVIDENCE = (
    "On people that it was not trained on, its maps tell more than a fixed centre map on web pages (by 0.61 bits "
    "a fixation), posters (0.46) and most photographs (0.3 to 0.6), and less on charts."
)
"""What PRETRAINED must say about its maps; docs/model-card.md has the figures."""


def find_model(name: str = "") -> pathlib.Path:
    """Find the folder of a model, which holds MODEL_CONFIG, and WEIGHTS or COMPACT_WEIGHTS.

    Args:
        name: one of these, also as `gs://`:
            `pretrained`, the model that comes with this package (write ./pretrained for a folder of that name);
            a model's folder, also in compact form;
            a version's folder, such as `models/msinet/1`;
            a registered name, such as `msinet` or `path/to/models/msinet`, alone or with a version (`@3`) or an
            alias (`@challenger`); alone it means its `default`, which is PRETRAINED until a version is better.
            `author:salicon`, as in `trainer.models.author`.
            Empty means MODEL_NAME in the folder REGISTRY. A model on Cloud Storage is downloaded to a folder that
            is removed when the process ends.

    Raises:
        UserError: there is no such model, and the message lists those that exist.
    """
    if name == PRETRAINED:
        if not _has_pretrained():
            missing = (
                f"this installation has no model {PRETRAINED}, because {model_names.PRETRAINED_FOLDER} is missing"
            )
            raise UserError(f"{missing}; {model_names.GET_PRETRAINED}")
        return model_names.PRETRAINED_FOLDER
    if author.is_named(name):
        return author.find_author_model(name)
    if buckets.is_remote(name):
        return _find_remote(name)
    whole = local_path(name)
    if name and (found := _model_of_folder(whole)):
        return found
    path, version = _split(name or f"{REGISTRY}/{MODEL_NAME}")
    folder = local_path(path)
    if not folder.exists() and len(folder.parts) == 1:
        folder = pathlib.Path(REGISTRY) / folder
    if whole.is_file():
        raise UserError(f"{name} is a file, not a model; name a model's folder")
    if not folder.is_dir():
        raise UserError(f"there is no model at {folder}{nearest_model(name)}; {HOW_TO_GET_ONE}")
    numbers = version_numbers(folder)
    if not numbers:
        raise UserError(f"{folder} {NEITHER}; {HOW_TO_GET_ONE}")
    number = number_of(str(folder), version, numbers, read_aliases(folder))
    if number == PRETRAINED_VERSION:
        return find_model(PRETRAINED)
    model = model_in(folder / str(number))
    if not (model / WEIGHTS).is_file():
        others = versions_text([PRETRAINED_VERSION, *numbers])
        raise UserError(f"{model} has no {WEIGHTS}; name another version of {others}")
    return model


def _has_pretrained() -> bool:
    """Whether this installation has the model of the package, whole or damaged."""
    return model_names.PRETRAINED_FOLDER.is_dir()


def _model_of_folder(folder: pathlib.Path) -> pathlib.Path | None:
    """The model in a model's or a version's folder, whose own name may contain an @; None in any other."""
    try:
        if holds_weights(folder):
            return folder
    except OSError as error:  # such as no permission, or a name that is too long
        raise UserError(f"cannot read {folder}: {error.strerror}") from None
    return model_in(folder) if (model_in(folder) / WEIGHTS).is_file() else None


def nearest_model(name: str) -> str:
    """Suggest the known model with the name closest to `name`, as `; did you mean 'x'?`; empty if none is close.

    The known models are PRETRAINED, each `author:NAME`, and those in the folder REGISTRY.
    """
    registry = pathlib.Path(REGISTRY)
    registered = [path.name for path in registry.iterdir() if path.is_dir()] if registry.is_dir() else []
    return nearest(name, [PRETRAINED, *author.WEIGHTS, *registered])


def image_sizes_of(folder: pathlib.Path) -> dict[str, tuple[int, int]]:
    """Kind of images -> (H, W) of a model's input, pixels: of PICTURE, and of kinds with a size of their own."""
    path = folder / MODEL_CONFIG
    config = read_json(path, MODEL_REMEDY, SizedConfig)
    sizes = {}
    for kind in (PICTURE, *config.get("kinds", {})):
        size = for_kind(config, kind)["image_size"]
        fits = len(size) == 2 and all(side > 0 and side % STRIDE == 0 for side in size)
        check(
            fits,
            f"{path} has the image_size {size}, but it must be two multiples of {STRIDE} above 0: {MODEL_REMEDY}",
        )
        sizes[kind] = size[0], size[1]
    return sizes


def image_size_of(folder: pathlib.Path) -> tuple[int, int]:
    """(H, W) of the input that the network in a model's folder was trained at, pixels."""
    return image_sizes_of(folder)[PICTURE]


def _split(name: str) -> tuple[str, str]:
    """Split a name into a path or an address, and the version or alias after its `@`."""
    match = re.fullmatch(r"(.+)@([^@/]+)", name)
    return (match[1], match[2]) if match else (name, DEFAULT)


def _find_remote(name: str) -> pathlib.Path:
    address, version = _split(name.rstrip("/"))
    objects = {entry.name: entry for entry in source_files.list_objects(address)}
    for folder in ("", VERSION_EXTRA):
        if posixpath.join(folder, WEIGHTS) in objects:
            return _download(address, folder, objects)
    if COMPACT_WEIGHTS in objects:
        files = [objects[file] for file in (COMPACT_WEIGHTS, MODEL_CONFIG, TRAINING_IMAGES) if file in objects]
        return source_files.download_for_now(address, files)
    numbers = _listed_numbers({path: entry.size_bytes for path, entry in objects.items()})
    if not numbers:
        raise UserError(f"{address} {NEITHER}; {HOW_TO_GET_ONE}")
    aliases = {}
    if ALIASES in objects:
        aliases = read_aliases(source_files.download_for_now(address, [objects[ALIASES]]))
    number = number_of(address, version, numbers, aliases)
    return _download(address, model_at(str(number)), objects) if number else find_model(PRETRAINED)


def _download(address: str, folder: str, objects: dict[str, SourceObject]) -> pathlib.Path:
    """Download the model in `folder`, relative to `address`."""
    paths = {name: posixpath.join(folder, name) for name in (*NEEDED, *KEPT, TRAINING_IMAGES)}
    missing = [name for name in NEEDED if paths[name] not in objects]
    if missing:
        raise UserError(f"{address}/{folder} has no {', '.join(missing)}; give the folder of a whole model")
    present = [objects[path] for path in paths.values() if path in objects]
    return source_files.download_for_now(address, present) / folder


# === The layout of a registry ===


def model_in(version: pathlib.Path) -> pathlib.Path:
    """The folder in a version's folder that the trainer reads."""
    return version / VERSION_EXTRA


def model_at(version: str) -> str:
    """The address that the trainer reads of a version at an address."""
    return f"{version.rstrip('/')}/{VERSION_EXTRA}"


def holds_model(folder: pathlib.Path) -> bool:
    """Whether a folder is that of a model, in compact form too, of a version, or of a name that has a version."""
    candidates = (folder, model_in(folder), *map(model_in, folder.glob("*")))
    return any(map(holds_weights, candidates))


def holds_weights(folder: pathlib.Path) -> bool:
    """Whether a folder is that of a model, in compact form too."""
    return (folder / WEIGHTS).is_file() or (folder / COMPACT_WEIGHTS).is_file()


def version_numbers(folder: pathlib.Path) -> list[int]:
    """The versions in the folder of a name, in ascending order; none if there is no such folder."""
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(name) for name in names if name.isdecimal())


def _listed_numbers(sizes: Mapping[str, int]) -> list[int]:
    """The versions in a folder, in ascending order, by the path and size of all files below it.

    Versions without weights, and those that are being written, are left out.
    """
    matches = map(PATH_OF_WEIGHTS.fullmatch, sizes)
    numbers = (match[1] for match in matches if match and match[1])
    return sorted(int(number) for number in numbers if not is_claim(sizes, f"{number}/"))


def is_claim(sizes: Mapping[str, int], version: str = "") -> bool:
    """Whether a version in a bucket is still being written: then its VERSION is empty.

    Args:
        sizes: path -> size of its files.
        version: folder of the version in the paths.
    """
    return sizes.get(f"{version}{VERSION_EXTRA}/{VERSION}") == 0


def read_aliases(folder: pathlib.Path) -> dict[str, int]:
    """Alias -> version in the folder of a name; raises `UserError` if the file is damaged."""
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
    raise UserError(
        f"{model} has no version {shown(version)}; it has {versions_text(sorted(known))} ({targets}): name one of "
        "these"
    )


def versions_text(numbers: Iterable[int]) -> str:
    """Versions for messages: `1, 2, 10`."""
    return ", ".join(map(str, numbers))


# === The model that answers ===


@dataclasses.dataclass(frozen=True)
class Answering:
    """A model that answers, and why it was chosen."""

    name: str
    """What a user may write for the model, such as `msinet@2`."""
    folder: pathlib.Path
    """The folder with the weights and MODEL_CONFIG."""
    version: str = ""
    """The version of the registry; empty for a model that was asked for."""
    reason: str = ""
    """Why the model answers in place of a registered one, for the terminal; empty if it does not."""

    def __str__(self) -> str:
        """The model's name, what it was trained on, and why it answers."""
        return self._described(self.version, self.reason)

    @property
    def description(self) -> str:
        """The model's name and training data, for readers who do not know this working directory."""
        return self._described(self.version)

    @property
    def notice(self) -> str:
        """What a model of the sample set must say about itself; empty for others."""
        return provenance.of_folder(self.folder)

    @property
    def hint(self) -> str:
        """How far its maps can be trusted, a sentence; empty if nothing is known."""
        return EVIDENCE if self.name == PRETRAINED else ""

    def tell(self) -> str:
        """What it must say about itself, also printed on stderr; empty if nothing."""
        said = self.notice or self.hint
        if said:
            print(f"note: {said}", file=sys.stderr, flush=True)
        return said

    def _described(self, *more: str) -> str:
        return f"{self.name} ({'; '.join(filter(None, [_origin(_config(self.folder)), *more]))})"


def find_answering(name: str) -> Answering:
    """Choose a model (`choose_model`), and say on stderr which one answers."""
    chosen = choose_model(name)
    print(f"model: {chosen}", file=sys.stderr, flush=True)
    return chosen


def choose_model(name: str) -> Answering:
    """The model of this name, or for an empty one the default.

    The default is that of the registry in the working directory: PRETRAINED until a version is better. It is
    PRETRAINED too if there is no registry, or if its default was last trained on the sample set.

    Raises:
        UserError: as `find_model`.
    """
    return Answering(name, find_model(name)) if name else _default()


def find_opponent(name: str) -> str:
    """The name of the model to compare a model with that was named alone; empty if there is no other model.

    It is the default or, if that one was named, PRETRAINED. Says on stderr which one it is.
    """
    own = None
    if not buckets.is_remote(name):
        with contextlib.suppress(UserError):  # such as a run, which `compare` finds
            own = find_model(name)
    others = [Answering(PRETRAINED, find_model(PRETRAINED))] if _has_pretrained() else []
    if others or version_numbers(REGISTERED):
        others.insert(0, _default())
    for other in others:
        if own is None or not other.folder.samefile(own):
            print(f"model: {name} is compared with {other}", file=sys.stderr, flush=True)
            return other.name
    return ""


def _default() -> Answering:
    reason = ""
    if not version_numbers(REGISTERED):
        reason = f"there is no model in {REGISTERED}"
    elif read_aliases(REGISTERED).get(DEFAULT, PRETRAINED_VERSION) == PRETRAINED_VERSION:
        reason = f"the default of {REGISTERED} is version {PRETRAINED_VERSION}"
    if reason and _has_pretrained():
        return Answering(PRETRAINED, find_model(PRETRAINED), reason=reason)
    folder = find_model("")
    config = _config(folder)
    if provenance.is_sample(config) and _has_pretrained():
        reason = f"the default of {REGISTERED} was {provenance.MARK}"
        return Answering(PRETRAINED, find_model(PRETRAINED), reason=reason)
    return Answering(MODEL_NAME, folder, f"version {folder.parent.name}, the default of {REGISTERED}")


def _origin(config: Mapping[str, Any] | None) -> str:
    """What a model was trained on, by the content of its MODEL_CONFIG."""
    if provenance.is_sample(config):
        return f"MSI-Net, {provenance.MARK}"
    return ", ".join(filter(None, ["MSI-Net", provenance.origin(config)]))


def _config(folder: pathlib.Path) -> Mapping[str, Any] | None:
    """The content of MODEL_CONFIG; None without one."""
    path = folder / MODEL_CONFIG
    return read_json(path, "name the folder of a whole model", ModelConfig) if path.exists() else None
