"""Which model answers where a command names none, and the line that says so."""

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from trainer import generated, storage
from trainer.artifacts import MODEL_CONFIG, MODEL_NAME, REGISTRY, ModelConfig
from trainer.config import PRETRAINED
from trainer.errors import UserError
from trainer.files import read_json
from trainer.models import pretrained, registry_layout
from trainer.models.find import find_model

REGISTERED = pathlib.Path(REGISTRY, MODEL_NAME)
PHOTOGRAPHS = "Trained on photographs; take its maps of pages with text as a hint."
"""What PRETRAINED must say about its maps."""


@dataclasses.dataclass(frozen=True)
class Answering:
    """A model that answers."""

    name: str
    """What a user may write for the model, such as `msinet@2`."""
    folder: pathlib.Path
    """The folder with WEIGHTS and MODEL_CONFIG."""
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
        return generated.of_folder(self.folder)

    @property
    def hint(self) -> str:
        """How far its maps can be trusted, a sentence; empty if nothing is known."""
        return PHOTOGRAPHS if self.name == PRETRAINED else ""

    def tell(self) -> str:
        """What it must say about itself, also printed on stderr; empty if nothing."""
        said = self.notice or self.hint
        if said:
            print(f"note: {said}", file=sys.stderr, flush=True)
        return said

    def _described(self, *more: str) -> str:
        return f"{self.name} ({'; '.join(filter(None, [_origin(_config(self.folder)), *more]))})"


def find_answering(name: str) -> Answering:
    """`choose` a model, and say on stderr which one answers."""
    found = choose(name)
    print(f"model: {found}", file=sys.stderr, flush=True)
    return found


def choose(name: str) -> Answering:
    """The model of this name, or for an empty one the default.

    The default is that of the registry in the working directory. If there is none, or if it was last trained on
    the sample set, it is PRETRAINED, where this installation has it.

    Raises:
        UserError: as `find_model`.
    """
    return Answering(name, find_model(name)) if name else _default()


def find_opponent(name: str) -> str:
    """The name of the model to compare a model with that was named alone; empty if there is no other model.

    It is the default or, if that one was named, PRETRAINED. Says on stderr which one it is.
    """
    own = None
    if not storage.is_remote(name):
        with contextlib.suppress(UserError):  # such as a run, which `compare` finds
            own = find_model(name)
    others = [Answering(PRETRAINED, find_model(PRETRAINED))] if pretrained.is_there() else []
    if others or registry_layout.version_numbers(REGISTERED):
        others.insert(0, _default())
    for other in others:
        if own is None or not other.folder.samefile(own):
            print(f"model: {name} is compared with {other}", file=sys.stderr, flush=True)
            return other.name
    return ""


def _default() -> Answering:
    missing = not registry_layout.version_numbers(REGISTERED)
    if missing and pretrained.is_there():
        return Answering(PRETRAINED, find_model(PRETRAINED), reason=f"there is no model in {REGISTERED}")
    folder = find_model("")
    config = _config(folder)
    if generated.is_sample(config) and pretrained.is_there():
        reason = f"the default of {REGISTERED} was {generated.MARK}"
        return Answering(PRETRAINED, find_model(PRETRAINED), reason=reason)
    return Answering(MODEL_NAME, folder, f"version {folder.parent.name}, the default of {REGISTERED}")


def _origin(config: Mapping[str, Any] | None) -> str:
    """What a model was trained on, by the content of its MODEL_CONFIG."""
    if generated.is_sample(config):
        return f"MSI-Net, {generated.MARK}"
    return ", ".join(filter(None, ["MSI-Net", generated.origin(config)]))


def _config(folder: pathlib.Path) -> Mapping[str, Any] | None:
    """The content of MODEL_CONFIG; None without one."""
    path = folder / MODEL_CONFIG
    return read_json(path, "name the folder of a whole model", ModelConfig) if path.exists() else None
