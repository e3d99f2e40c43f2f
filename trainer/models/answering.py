"""A model that answers, what it says about itself, and its exports. Loads no TensorFlow.

What is slow to import is imported in the method that needs it: only a SavedModel needs TensorFlow.
"""

import dataclasses
import pathlib
import sys
from typing import Self

from trainer.machine import load_tensorflow
from trainer.models import provenance
from trainer.models.model_names import PRETRAINED
from trainer.models.provenance import Provenance
from trainer.network import PICTURE, ModelFolder
from trainer.texts import printable

EVIDENCE = (
    "On people that it was not trained on, its maps tell more than a fixed centre map on web pages (by 0.61 bits "
    "a fixation), posters (0.46) and most photographs (0.3 to 0.6), and less on charts."
)
"""What PRETRAINED must say about its maps. docs/model-card.md has the figures."""


IMAGES = 3
"""Random images whose maps are compared."""
PATCH_PX = 8
"""Sides of the uniform patches that the random images consist of."""


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
        """How far its maps can be trusted, a sentence. Empty if nothing is known."""
        return EVIDENCE if self.name == PRETRAINED else ""

    def tell(self) -> str:
        """What it must say about itself, also printed on stderr. Empty if nothing."""
        said = self.notice or self.hint
        if said:
            print(f"note: {said}", file=sys.stderr, flush=True)
        return said

    def export_saved_model(
        self,
        path: pathlib.Path,
        size: tuple[int, int],
        signature: str,
        flip_prediction: bool | None,
        kind: str,
    ) -> None:
        """Write the model as a SavedModel for servers. Loads TensorFlow.

        Args:
            path: of the folder to write.
            size: (H, W) to which it fits encoded images, pixels.
            signature: of SIGNATURES, for requests that name none.
            flip_prediction: as in `export_onnx`.
            kind: as in `export_onnx`.

        Raises:
            UserError: the model is damaged, nothing can be written, or the export gives other maps than the
                network.
        """
        from trainer.network import Export

        load_tensorflow()
        Export(self.folder, kind, flip_prediction).saved_model(path, size, signature, self.notice)

    def export_onnx(
        self,
        path: pathlib.Path,
        int8: bool = True,
        flip_prediction: bool | None = None,
        kind: str = PICTURE,
    ) -> None:
        """Write the network as an ONNX file, with what its users must know as metadata.

        Args:
            path: of the file. Nothing half-written is left there.
            int8: whether its kernels have 8 bits, which the runtime expands.
            flip_prediction: whether it averages with the map of the mirrored image. None for the model's own
                setting.
            kind: of images, PICTURE or PAGE, for which the model has a size.

        Raises:
            UserError: the model's weights or its configuration are damaged.
        """
        from trainer.network import Export

        metadata = {
            "description": printable(self.description),
            "notice": self.notice or self.hint,
        }
        Export(self.folder, kind, flip_prediction).onnx(path, int8, metadata)

    def export_compact(self, path: pathlib.Path, flip_prediction: bool | None) -> str:
        """Write the compact form of the model into the folder `path`.

        Returns:
            A sentence about what the 8 bits change in the maps of random images.

        Raises:
            UserError: the model's weights or its configuration are damaged.
        """
        import numpy as np

        from trainer.network import Export, Inference

        folder = self.folder
        size = ModelFolder(folder).image_size
        height, width = (side // PATCH_PX for side in size)
        patches = np.random.default_rng(0).integers(0, 256, (IMAGES, height, width, 3))
        images = patches.repeat(PATCH_PX, axis=1).repeat(PATCH_PX, axis=2)
        before = Inference(folder, size, "float32")(images)
        Export(folder, flip_prediction=flip_prediction).compact(path)
        differences = np.abs(before - Inference(path, size, "float32")(images))
        return (
            f"the maps of {IMAGES} random images differ from those in float32 by at most {differences.max():.2g}, "
            f"and by {differences.mean():.2g} on average, on 0..1"
        )


def _described_origin(folder: pathlib.Path) -> str:
    """The network of a model and what it was trained on.

    Example: `MSI-Net, trained on salicon, then on osie`.
    """
    origin = Provenance.of_folder(folder)
    title = ModelFolder(folder).architecture.title
    if origin.is_sample:
        return f"{title}, {provenance.MARK}"
    return ", ".join(filter(None, [title, str(origin)]))
