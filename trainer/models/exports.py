"""A model that answers in the form of other programs: a SavedModel, an ONNX file, or the compact form.

What is slow to import is imported in the method that needs it: only a SavedModel needs TensorFlow.
"""

import dataclasses
import pathlib
from typing import Any

from trainer.machine import load_tensorflow
from trainer.models.answering import Answering
from trainer.network import PICTURE, ModelFolder
from trainer.texts import printable

IMAGES = 3
"""Random images whose maps are compared."""
PATCH_PX = 8
"""Sides of the uniform patches that the random images consist of."""


@dataclasses.dataclass(frozen=True)
class ModelExport:
    """A model, and what its exports have in common.

    Example: `ModelExport(answering, kind="page").onnx(path)` writes the network that predicts pages.
    """

    model: Answering
    kind: str = PICTURE
    """Of images, PICTURE or PAGE, for which the model has a size."""
    flip_prediction: bool | None = None
    """Whether it averages with the map of the mirrored image. None for the model's own setting."""

    def saved_model(self, path: pathlib.Path) -> None:
        """Write the model as a SavedModel for TensorFlow's servers, in the folder `path`. Loads TensorFlow.

        Raises:
            UserError: the model is damaged, nothing can be written, or the export gives other maps than the
                network.
        """
        from trainer.network import Export

        load_tensorflow()
        Export(self.model.folder, self.kind, self.flip_prediction).saved_model(path, self.model.notice)

    def onnx(self, path: pathlib.Path, int8: bool = True) -> None:
        """Write the network as an ONNX file, with what its users must know as metadata.

        Args:
            path: of the file. Nothing half-written is left there.
            int8: whether its kernels have 8 bits, which the runtime expands.

        Raises:
            UserError: the model's weights or its configuration are damaged.
        """
        from trainer.network import Export

        Export(self.model.folder, self.kind, self.flip_prediction).onnx(path, int8, self._metadata)

    def onnx_parts(self, folder: pathlib.Path) -> dict[str, dict[str, Any]]:
        """Write the network and what follows it for each kind of images, for a program that predicts all kinds.

        Args:
            folder: of the files, which is there.

        Returns:
            Kind of images -> the `file` of what follows, and whether it `flips`: whether it also takes the map of
            the mirrored image.

        Raises:
            UserError: the model's weights or its configuration are damaged.
        """
        from trainer.network import Export

        parts = Export(self.model.folder).onnx_parts(folder, self._metadata)
        return {kind: part._asdict() for kind, part in parts.items()}

    @property
    def _metadata(self) -> dict[str, str]:
        """What users of an ONNX file must know."""
        return {
            "description": printable(self.model.description),
            "notice": self.model.notice or self.model.hint,
        }

    def compact(self, path: pathlib.Path) -> str:
        """Write the compact form of the model into the folder `path`.

        Returns:
            A sentence about what the 8 bits change in the maps of random images.

        Raises:
            UserError: the model's weights or its configuration are damaged.
        """
        import numpy as np

        from trainer.network import Export, Inference

        folder = self.model.folder
        size = ModelFolder(folder).image_size
        height, width = (side // PATCH_PX for side in size)
        patches = np.random.default_rng(0).integers(0, 256, (IMAGES, height, width, 3))
        images = patches.repeat(PATCH_PX, axis=1).repeat(PATCH_PX, axis=2)
        before = Inference(folder, size, "float32")(images)
        Export(folder, flip_prediction=self.flip_prediction).compact(path)
        differences = np.abs(before - Inference(path, size, "float32")(images))
        return (
            f"the maps of {IMAGES} random images differ from those in float32 by at most {differences.max():.2g}, "
            f"and by {differences.mean():.2g} on average, on 0..1"
        )
