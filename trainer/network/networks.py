"""The networks by name, and the network of a model.

A second one is a package like `trainer.network.msinet`, a row here, and a row in `trainer.network.keras_networks`.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

from trainer.errors import check, look_up
from trainer.io.files import read_json
from trainer.network.architecture import Architecture
from trainer.network.model_folder import MODEL_CONFIG, MODEL_REMEDY, PICTURE, ModelConfig, SizedConfig, for_kind
from trainer.network.msinet.msinet import MSINet

NETWORKS: dict[str, Architecture] = {row.name: row for row in (MSINet(),)}
DEFAULT = NETWORKS["msinet"]
"""The network of a model whose MODEL_CONFIG names none, as in all earlier versions, and of a new training."""


def network_of(config: Mapping[str, Any]) -> Architecture:
    """The network of a model, by the content of its MODEL_CONFIG.

    Example: `{}` and `{"network": "msinet"}` both have MSI-Net.

    Raises:
        UserError: this version does not know the network. It says which networks it knows.
    """
    return look_up("network", str(config.get("network", DEFAULT.name)), NETWORKS)


def architecture_of(folder: pathlib.Path) -> Architecture:
    """The network of a model's folder. One without MODEL_CONFIG has the default.

    Raises:
        UserError: MODEL_CONFIG is damaged, or this version does not know the network.
    """
    path = folder / MODEL_CONFIG
    return network_of(read_json(path, MODEL_REMEDY, ModelConfig) if path.is_file() else {})


def image_sizes_of(folder: pathlib.Path) -> dict[str, tuple[int, int]]:
    """Kind of images -> (H, W) of a model's input, pixels: of PICTURE, and of kinds with a size of their own.

    Example: `{"picture": (240, 320), "page": (480, 640)}`.
    """
    path = folder / MODEL_CONFIG
    config = read_json(path, MODEL_REMEDY, SizedConfig)
    architecture, sizes = network_of(config), {}
    for kind in (PICTURE, *config.get("kinds", {})):
        size = for_kind(config, kind)["image_size"]
        wanted = f"two multiples of {architecture.stride} above 0"
        check(
            architecture.fits(size),
            f"{path} has the image_size {size}, but it must be {wanted}: {MODEL_REMEDY}",
        )
        sizes[kind] = size[0], size[1]
    return sizes


def image_size_of(folder: pathlib.Path) -> tuple[int, int]:
    """(H, W) of the input that the network in a model's folder was trained at, pixels."""
    return image_sizes_of(folder)[PICTURE]
