"""The model that is served: found, loaded, and replaced when its registry has another default."""

import dataclasses
import json
import posixpath
import re
import threading
from collections.abc import Callable

import numpy as np

from trainer.errors import NotFoundError, UserError, check
from trainer.models import ALIASES, DEFAULT, PRETRAINED, Answering, choose_model, is_author_weights
from trainer.network import ASSETS_EXTRA, ModelFolder
from trainer.places import stored_at
from trainer.prediction import Predictor

LOOK_S = 10.0
"""Seconds between two looks at the default of a registry."""
IN_ARTIFACTS = re.compile(rf"(?:(\d+)(?:/|$))?(?:{re.escape(ASSETS_EXTRA)})?")
"""Folders below an address of artifacts that may have a model: itself, a version's, or a numbered one."""


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model that answers requests."""

    description: str
    predictor: Predictor


class ServedModel:
    """A model by name, or at an address of artifacts. Any thread may read `loaded`."""

    def __init__(self, name: str, parallel: int, artifacts: str = "") -> None:
        """Load nothing yet.

        Args:
            name: as `trainer.models.find_model` takes it. Empty for the default.
            parallel: images whose maps are computed at once.
            artifacts: folder or `gs://` address of the model if there is no `name`. See IN_ARTIFACTS.
        """
        self._artifacts = "" if name else artifacts
        self._name, self._parallel = name, parallel
        self.loaded: Loaded | None = None
        """The model that answers now. None until it is loaded."""

    def load(self) -> None:
        """Load what the name means now, and let it answer.

        Raises:
            UserError: there is no such model, or it is damaged.
        """
        name = find_artifacts(self._artifacts) if self._artifacts else self._name
        self.loaded = _load(choose_model(name), self._parallel)

    def follow(self, stop: threading.Event, say: Callable[[str], None]) -> None:
        """Load each model that the name means from now on, until `stop`. The one before answers meanwhile.

        `say` gets a line for each, and why another one cannot be loaded.
        """
        if self._artifacts or self._name == PRETRAINED or is_author_weights(self._name):
            return  # these never change
        before, complaint = _meaning(self._name), ""
        while not stop.wait(LOOK_S):
            try:
                now = _meaning(self._name)
                if now != before:
                    self.load()
                    assert self.loaded
                    say(f"the model is now {self.loaded.description}")
                before, complaint = now, ""
            except (UserError, OSError) as error:  # such as a bucket that does not answer
                if str(error) != complaint:
                    say(f"the earlier model still answers: {error}")
                complaint = str(error)


def _load(answering: Answering, parallel: int) -> Loaded:
    """Load the networks of all kinds of images, and compute maps with them: the first ones take longer."""
    predictor = Predictor(answering.folder, parallel=parallel)
    for kind, size in predictor.image_sizes.items():
        predictor.predict_prepared(np.zeros((parallel, *size, 3), np.float32), kind)
    return Loaded(str(answering), predictor)


def _meaning(name: str) -> str:
    """What a name means now: a folder of this machine, or the version in a bucket. Nothing is downloaded."""
    place = stored_at(name)
    if place.is_local:
        return str(choose_model(name).folder)
    address, _, version = name.rstrip("/").rpartition("@")
    content = place.with_text(address or version).content(ALIASES)
    return str(json.loads(content).get(version if address else DEFAULT, 0)) if content else ""


def find_artifacts(uri: str) -> str:
    """Find the model's folder below an address of artifacts, such as `gs://b/artifacts/1/assets.extra`.

    Raises:
        UserError: there is none.
    """
    place = stored_at(uri.rstrip("/"))
    files: dict[str, set[str]] = {}
    for entry in place.objects():
        folder, name = posixpath.split(entry.name)
        files.setdefault(folder, set()).add(name)
    found = {
        int(match[1] or 0): folder
        for folder, names in files.items()
        if (match := IN_ARTIFACTS.fullmatch(folder)) and ModelFolder.among(names)
    }
    check(bool(found), f"{uri} has no model: upload a version's folder, or a model's", NotFoundError)
    newest = found[max(found)]
    return place.path(newest) if newest else str(place)
