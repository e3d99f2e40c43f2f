"""A model that answers, and what it says about itself. Loads no TensorFlow."""

import dataclasses
import pathlib
import sys
from typing import Self

from trainer.models import provenance
from trainer.models.model_names import PRETRAINED
from trainer.models.provenance import Provenance
from trainer.network import PAGE, PICTURE, ModelFolder

PAGES = "Web pages and posters: a good first guess, but it hardly reacts to colour alone."
PHOTOGRAPHS = "Photographs: a good first guess, unless they show neither people nor things."
CHARTS = "Charts: not reliable."
HINTS = {PAGE: f"{PAGES} {CHARTS}", PICTURE: f"{PHOTOGRAPHS} {CHARTS}"}
"""Kind of images -> what PRETRAINED must say about its maps of them. docs/model-card.md has the figures."""
HINT = " ".join((PAGES, PHOTOGRAPHS, CHARTS))
"""The sentences of all kinds, each once."""


@dataclasses.dataclass(frozen=True)
class Answering:
    """A model that answers, and why it was chosen."""

    name: str
    """What a user may write for the model, such as `msinet@2`."""
    folder: pathlib.Path
    """The folder with the weights and MODEL_CONFIG."""
    version: str = ""
    """The version of the registry. Empty for a model that was asked for."""
    reason: str = ""
    """Why the model answers in place of a registered one, for the terminal. Empty if it does not."""

    def announced(self) -> Self:
        """The model itself, after stderr says which one answers."""
        print(f"model: {self}", file=sys.stderr, flush=True)
        return self

    def __str__(self) -> str:
        """The model's name, what it was trained on, and why it answers.

        For example, `msinet@2 (MSI-Net, trained on osie)`.
        """
        return f"{self.description}, because {self.reason}" if self.reason else self.description

    @property
    def description(self) -> str:
        """The model's name and training data, for readers who do not know this working directory."""
        known = [_described_origin(self.folder), self.version]
        return f"{self.name} ({', '.join(filter(None, known))})"

    @property
    def notice(self) -> str:
        """What a model of the sample set must say about itself. Empty for others."""
        return Provenance.of_folder(self.folder).notice()

    @property
    def hint(self) -> str:
        """How far its maps can be trusted, a sentence for each kind of image. Empty if nothing is known."""
        return HINT if self.name == PRETRAINED else ""

    def hint_of(self, kind: str) -> str:
        """How far its maps of a kind, PICTURE or PAGE, can be trusted, in sentences. Empty if nothing is known."""
        return HINTS[kind] if self.name == PRETRAINED else ""

    def tell(self) -> str:
        """What it must say about itself, also printed on stderr. Empty if nothing."""
        said = self.notice or self.hint
        if said:
            print(f"note: {said}", file=sys.stderr, flush=True)
        return said


def _described_origin(folder: pathlib.Path) -> str:
    """The network of a model and what it was trained on.

    Example: `MSI-Net, trained on salicon, then on osie`.
    """
    origin = Provenance.of_folder(folder)
    title = ModelFolder(folder).architecture.title
    if origin.is_sample:
        return f"{title}, {provenance.MARK}"
    return ", ".join(filter(None, [title, str(origin)]))
