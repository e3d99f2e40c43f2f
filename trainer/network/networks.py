"""The networks by name.

A second one is a package like `trainer.network.msinet`, a row here, and a row in `trainer.network.keras_networks`.
"""

from collections.abc import Mapping
from typing import Any

from trainer.errors import look_up
from trainer.network.architecture import Architecture
from trainer.network.msinet.msinet import MSINet

NETWORKS: dict[str, Architecture] = {row.name: row for row in (MSINet(),)}
DEFAULT_NETWORK = NETWORKS["msinet"]
"""The network of a model whose MODEL_CONFIG names none, as in all earlier versions, and of a new training."""


def network_of(config: Mapping[str, Any]) -> Architecture:
    """The network of a model, by the content of its MODEL_CONFIG.

    Example: `{}` and `{"network": "msinet"}` both have MSI-Net.

    Raises:
        UserError: this version does not know the network. It says which networks it knows.
    """
    return look_up("network", str(config.get("network", DEFAULT_NETWORK.name)), NETWORKS)
