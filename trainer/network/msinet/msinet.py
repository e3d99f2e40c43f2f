"""MSI-Net as a row of `trainer.network.networks`. Loads the standard library alone until it is used."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer.errors import UnreachableError
from trainer.network.architecture import Architecture
from trainer.network.msinet import architecture
from trainer.network.msinet.architecture import ASPP, DECODER, ENCODER
from trainer.network.msinet.step_cost import STEP_COST
from trainer.texts import first_line

if TYPE_CHECKING:
    from trainer.network.arrays import Array, Shape, Weights
    from trainer.network.onnx_format import Graph, Tensor

KERAS_VGG16, SLIM_VGG16 = r"(?:^|[/_])block([1-5])_conv([1-3])$", r"(?:^|_)conv([1-5])_([1-3])$"
"""VGG16's layers in Keras, such as `block1_conv1`, and in TF-Slim, such as `conv1/conv1_1`."""


class MSINet(Architecture):
    """MSI-Net. Keras' VGG16 expects BGR, MSI-Net RGB."""

    name, title = "msinet", "MSI-Net"
    stride = architecture.STRIDE
    encoder, encoder_title = ENCODER, "VGG16"
    cost = STEP_COST

    def weight_shapes(self) -> "dict[tuple[str, str], Shape]":
        """As `architecture.weight_shapes`."""
        return architecture.weight_shapes()

    def maps(self, graph: "Graph", weights: "Weights", images: "Tensor") -> "Tensor":
        """As `trainer.network.msinet.onnx_graph.maps`."""
        from trainer.network.msinet import onnx_graph

        return onnx_graph.maps(graph, weights, images)

    def layer_called(self, scope: str) -> tuple[str, bool]:
        """Known are the reference's names, and the names of VGG16's layers in Keras and in TF-Slim."""
        layer, is_bgr = super().layer_called(scope)
        joined = scope.replace("/", "_")
        keras = re.search(KERAS_VGG16, joined)
        vgg16 = keras or re.search(SLIM_VGG16, joined)
        if not layer and vgg16:
            layer = architecture.encoder_layer(int(vgg16[1]), int(vgg16[2]))
            layer, is_bgr = (layer, bool(keras)) if layer in self.encoder else ("", False)
        return layer, is_bgr

    @property
    def attributes(self) -> Mapping[str, str]:
        """The attributes of the reference's TF2 port."""
        return {
            **{layer.partition("_")[2]: layer for layer in ENCODER},
            **{f"aspp_conv{index}": layer for index, layer in enumerate(ASPP, 1)},
            "aspp_conv_out": "aspp_conv2",
            **{layer: layer for layer in DECODER},
        }

    def imagenet(self) -> "list[Array]":
        """The weights of Keras' VGG16, which Keras downloads once."""
        import keras

        from trainer.network.arrays import Array

        try:
            network = keras.applications.VGG16(include_top=False, weights="imagenet")
        except Exception as error:  # Keras passes on any error of its download and of h5py, even plain Exception
            raise UnreachableError(
                f"Keras could not download the ImageNet weights of VGG16: {first_line(error)}. Without a network "
                "connection, set initial_weights to the path of "
                "vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5, or to none"
            ) from None
        return [
            Array.of(f"{layer.name}/{variable.name}", variable.numpy())
            for layer in network.layers
            for variable in layer.weights
        ]
