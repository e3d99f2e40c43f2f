"""What a network is to the rest of the trainer: its weights, its forms, and what a step costs.

`trainer.network.networks` has the table of networks. Loads the standard library alone.
"""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.network.arrays import Array, Shape, Weights
    from trainer.network.onnx_format import Graph, Tensor

EPSILON = 1e-7
"""Keeps the quotient finite that scales a network's map to 0..1. It is the reference's value."""


PIXELS = 240 * 320
"""Pixels of the images of a `StepCost`."""


@dataclasses.dataclass(frozen=True)
class StepCost:
    """What a training step takes, counted by XLA for images of PIXELS pixels.

    All counts but those for the weights grow with the number of pixels, because a network is convolutional.
    """

    flop: float
    """FLOP for one image."""
    state_bytes: float
    """Weights, their gradients and Adam's two moments, float32."""
    state_traffic_bytes: Mapping[str, float]
    """Container image (cpu, gpu or tpu) -> memory traffic of the weights and of their update, in a step of any
    number of images."""
    traffic_bytes: Mapping[str, Mapping[str, float]]
    """Container image and precision -> memory traffic for one image, without the weights."""
    memory_bytes: Mapping[str, Mapping[str, float]]
    """Container image and precision -> memory for one image, without the weights."""

    def images(self, count: int, image_size: tuple[int, int]) -> float:
        """How many images of PIXELS pixels are as much as `count` images of (H, W) pixels.

        Example: 2 images of 480 x 640 are 8.
        """
        return count * image_size[0] * image_size[1] / PIXELS


class Architecture(abc.ABC):
    """A network: its layers, and what the trainer asks about it.

    `trainer.network.keras_networks` builds it in Keras.

    Layers with weights are convolutions. Images are (N, H, W, 3) RGB in 0..255, as
    `trainer.network.preprocess.Frame.image` makes them. Maps are (N, H, W, 1).
    """

    name: str
    """What the key `network` of a MODEL_CONFIG says, such as `msinet`."""
    title: str
    """The name for people, such as `MSI-Net`."""
    stride: int
    """Height and width of the input must be divisible by this."""
    encoder: tuple[str, ...] = ()
    """Layers that ImageNet's weights are for, in order. Empty if there are none."""
    encoder_title: str = ""
    """The encoder's name for people, such as `VGG16`."""
    cost: StepCost

    @abc.abstractmethod
    def weight_shapes(self) -> "dict[tuple[str, str], Shape]":
        """(layer, `kernel` or `bias`) of each weight, in order -> its shape: (k, k, in, out) or (out)."""

    @abc.abstractmethod
    def maps(self, graph: "Graph", weights: "Weights", images: "Tensor") -> "Tensor":
        """Add the layers to an ONNX graph: images to maps of any range, which are scaled to [0, 1] afterwards.

        Args:
            graph: gets the nodes.
            weights: float32 or in compact form (`trainer.network.compact`).
            images: of the graph.
        """

    def layer_called(self, scope: str) -> tuple[str, bool]:
        """The layer that a scope of a file names, empty if none, and whether its network expects BGR.

        Example: MSI-Net's layer `conv1_conv1_1` is also called `conv1/conv1_1`, and `block1_conv1` by Keras.
        """
        joined = scope.replace("/", "_")
        return next((layer for layer in self.layers if joined == layer or joined.endswith(f"_{layer}")), ""), False

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attribute of the network's object in a file of Keras 3 -> layer, where it differs from the layer."""
        return {}

    def imagenet(self) -> "list[Array]":
        """ImageNet's weights of the `encoder`, downloaded if need be. Loads TensorFlow.

        Raises:
            UserError: they cannot be downloaded, or the network has no encoder.
        """
        from trainer.errors import SettingError

        raise SettingError(f"{self.title} has no encoder for ImageNet's weights. Set initial_weights to none")

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers with weights, in order."""
        return tuple(dict.fromkeys(layer for layer, _ in self.weight_shapes()))

    @property
    def n_weights(self) -> int:
        """Number of parameters."""
        return sum(map(math.prod, self.weight_shapes().values()))

    def fits(self, size: "tuple[Any, ...] | list[Any]") -> bool:
        """Whether this is the (H, W) of an input, pixels.

        Example: [240, 320] fits a stride of 8, [240, 322] does not.
        """
        return len(size) == 2 and all(side > 0 and side % self.stride == 0 for side in size)
