"""Write the network of a model's folder in other forms: for servers, as an ONNX file, or as a smaller model."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from trainer.io import replacing
from trainer.network import compact
from trainer.network.calibration import Calibration
from trainer.network.model_folder import PICTURE, ModelFolder, flips, for_kind
from trainer.network.networks import network_of
from trainer.network.onnx_graph import encode_onnx
from trainer.network.weights import read_stored, read_weights


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
