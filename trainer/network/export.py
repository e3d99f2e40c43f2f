"""Write the network of a model's folder in other forms: for servers, as an ONNX file, or as a smaller model."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from trainer.io import replacing
from trainer.network import compact
from trainer.network.calibration import Calibration
from trainer.network.model_folder import PICTURE, ModelFolder, flips, for_kind
from trainer.network.networks import network_of
from trainer.network.onnx_graph import encode_finish, encode_onnx
from trainer.network.weights import read_stored, read_weights

NETWORK_ONNX = "model.onnx"
"""File of the network alone, beside those of its kinds of images."""


class OnnxPart(NamedTuple):
    """What follows the network for one kind of images."""

    file: str
    """Name of its ONNX file."""
    flips: bool
    """Whether it also takes the map of the mirrored image."""


@dataclasses.dataclass(frozen=True)
class Export:
    """A model as it is written in another form.

    Example: `Export(folder, "page").onnx(path)` writes the network that predicts pages.
    """

    folder: pathlib.Path
    """The folder of the model."""
    kind: str = PICTURE
    """Of images, PICTURE or PAGE. The export has its size, averaging and calibration."""
    flip_prediction: bool | None = None
    """Whether it averages with the map of the mirrored image. None for the model's own setting."""

    def saved_model(self, path: pathlib.Path, notice: str = "") -> None:
        """Write a SavedModel, as `trainer.network.saved_model.write_saved_model` does. TensorFlow must be loaded.

        Args:
            path: folder to write.
            notice: what users of the export must know. Empty for nothing.

        Raises:
            UserError: the model is damaged, or the export cannot be written or gives other maps.
        """
        from trainer.network.load import load_model, trained_network
        from trainer.network.saved_model import write_saved_model

        model = trained_network(load_model(self.folder).network, for_kind(self._config(), self.kind))
        write_saved_model(model, ModelFolder(self.folder).image_sizes[self.kind], path, notice)

    def onnx(self, path: pathlib.Path, int8: bool = False, metadata: Mapping[str, str] | None = None) -> None:
        """Write an ONNX file.

        Args:
            path: of the file. Nothing half-written is left there.
            int8: whether kernels are kept as integers, which the runtime expands.
            metadata: key -> value, kept in the file beside the `image_size` of the kind, such as `240x320`.

        Raises:
            UserError: the model is damaged.
        """
        config = for_kind(self._config(), self.kind)
        height, width = ModelFolder(self.folder).image_sizes[self.kind]
        form = compact.quantized if int8 else compact.expanded
        content = encode_onnx(
            network_of(config),
            form(read_stored(self.folder)),
            flips(config),
            Calibration.of_config(config),
            {"image_size": f"{height}x{width}", **(metadata or {})},
        )
        with replacing(path) as partial:
            partial.write_bytes(content)

    def onnx_parts(self, folder: pathlib.Path, metadata: Mapping[str, str] | None = None) -> dict[str, OnnxPart]:
        """Write the network alone as NETWORK_ONNX, and for each kind of images what follows it.

        The kernels are kept as integers, which the runtime expands.

        Args:
            folder: of the files, which is there.
            metadata: key -> value, kept in NETWORK_ONNX.

        Returns:
            Kind of images -> its part (`trainer.network.onnx_graph.encode_finish`).

        Raises:
            UserError: the model is damaged.
        """
        config, parts = self._config(), {}
        network = encode_onnx(network_of(config), compact.quantized(read_stored(self.folder)), metadata=metadata)
        files = {NETWORK_ONNX: network}
        for kind in ModelFolder(self.folder).image_sizes:
            of_kind = for_kind(config, kind)
            parts[kind] = OnnxPart(f"{kind}.onnx", flips(of_kind))
            files[parts[kind].file] = encode_finish(parts[kind].flips, Calibration.of_config(of_kind))
        for name, content in files.items():
            with replacing(folder / name) as partial:
                partial.write_bytes(content)
        return parts

    def compact(self, path: pathlib.Path) -> None:
        """Write the model in compact form (`trainer.network.compact`) at `path`, for all kinds of images.

        Raises:
            UserError: the model is damaged, or the export cannot be written.
        """
        seen = ModelFolder(self.folder).training_images()
        compact.write_compact(read_weights(self.folder), path, self._config(), seen)

    def _config(self) -> dict[str, Any]:
        """MODEL_CONFIG of the export."""
        config: dict[str, Any] = dict(ModelFolder(self.folder).config("give the folder of a whole model"))
        for each in (config, *config.get("kinds", {}).values()):
            if self.flip_prediction is not None and self.flip_prediction != flips(each):
                each["settings"] = {**each.get("settings", {}), "flip_prediction": self.flip_prediction}
        return config
