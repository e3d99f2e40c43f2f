"""The architecture of MSI-Net: its layers, their sizes, and the shapes of its weights. Needs no TensorFlow.

`trainer.network.msinet.keras_model` builds the network with Keras, for training.
`trainer.network.msinet.onnx_graph` writes it as an ONNX graph, for predictions. Layers have the
reference's names with `_` for `/`.
"""

IMAGE_MEAN = (103.939, 116.779, 123.68)
"""Subtracted from R, G, B in this order. They are ImageNet's means of B, G, R: the reference confuses them, and
its published weights expect that, so do not correct it."""
STRIDE = 8
"""Height and width of the input must be divisible by this."""

VGG16_BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Filters of the encoder's 3x3 convolutions. Convolution j of block i is layer `conv{i}_conv{i}_{j}`."""
POOL_STRIDES = (2, 2, 2, 1, 1)
"""Stride of the 2x2 max-pooling after each block."""
VGG16_DILATIONS = (1, 1, 1, 1, 2)
"""Dilation of the convolutions of each block."""
JOINED_BLOCKS = 3
"""How many of the last blocks are joined as the encoder's output."""
ASPP_FILTERS = 256
"""Filters of each branch, and of the layer that joins the branches."""
ASPP_DILATIONS = (4, 8, 12)
"""Dilations of the 3x3 branches `aspp_conv1_2` to `aspp_conv1_4`."""
DECODER_FILTERS = (128, 64, 32)
"""Filters of the layers before the last one, which has one filter."""


def encoder_layer(block: int, index: int) -> str:
    """Name of the encoder's convolution `index` in `block`, both counted from 1, such as `conv5_conv5_3`."""
    return f"conv{block}_conv{block}_{index}"


ENCODER = tuple(
    encoder_layer(block, index)
    for block, widths in enumerate(VGG16_BLOCKS, 1)
    for index in range(1, len(widths) + 1)
)
ASPP = tuple(f"aspp_conv1_{index}" for index in range(1, 6))
DECODER = tuple(f"decoder_conv{index}" for index in range(1, 5))
LAYERS = (*ENCODER, *ASPP, "aspp_conv2", *DECODER)
"""The layers with weights, in the order in which the reference and its TF2 port create them."""


def weight_shapes() -> dict[tuple[str, str], tuple[int, ...]]:
    """(layer, `kernel` or `bias`) of each weight -> its shape: (k, k, in, out) or (out)."""
    encoder = sum(widths[-1] for widths in VGG16_BLOCKS[-JOINED_BLOCKS:])
    kernels: dict[str, tuple[int, ...]] = {}
    channels = 3
    for block, widths in enumerate(VGG16_BLOCKS, 1):
        for index, filters in enumerate(widths, 1):
            kernels[encoder_layer(block, index)] = (3, 3, channels, filters)
            channels = filters
    for layer in ASPP:
        side = 1 if layer in (ASPP[0], ASPP[-1]) else 3
        kernels[layer] = (side, side, encoder, ASPP_FILTERS)
    kernels["aspp_conv2"] = (1, 1, len(ASPP) * ASPP_FILTERS, ASPP_FILTERS)
    channels = ASPP_FILTERS
    for layer, filters in zip(DECODER, (*DECODER_FILTERS, 1), strict=True):
        kernels[layer] = (3, 3, channels, filters)
        channels = filters
    return {
        key: shape
        for layer, kernel in kernels.items()
        for key, shape in (((layer, "kernel"), kernel), ((layer, "bias"), kernel[-1:]))
    }
