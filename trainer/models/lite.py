"""Write the network as a TFLite file, for mobile devices (LiteRT): from a prepared image to its map.

The file uses built-in operations of LiteRT only. docs/benchmarks.md has accuracy and speed of each quantization.
"""

import pathlib
import warnings
from collections.abc import Callable

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from trainer.config import QUANTIZATIONS
from trainer.errors import UserError
from trainer.files import replacing
from trainer.loading import quiet_libraries
from trainer.models.trained import Trained

TOLERANCE = 1e-3
"""Maximum difference allowed between the network and its conversion to float32."""
Maps = npt.NDArray[np.float32]


def write_lite(model: Trained, image_size: tuple[int, int], path: pathlib.Path, quantization: str) -> float:
    """Convert a network, compare the conversion with it on an image of noise, and write it.

    Args:
        model: as `load_model` returns it.
        image_size: (H, W) of the file's only input, pixels, divisible by 8.
        path: file to write. Its input `input` is (1, H, W, 3) float32 RGB in 0..255, its output `output`
            (1, H, W, 1) float32 in [0, 1].
        quantization: one of QUANTIZATIONS.

    Returns:
        Maximum difference from the network on that image.

    Raises:
        UserError: the conversion differs too much from the network.
    """
    image = np.random.default_rng(0).integers(0, 256, (1, *image_size, 3)).astype(np.float32)
    with quiet_libraries():  # of the converter and the interpreter, a dozen lines
        content = convert(model, image_size, quantization)
        difference = float(np.abs(interpreter(content)(image) - model(image).numpy()).max())
    # Quantized networks differ more on noise; docs/benchmarks.md has their scores on real images.
    if not difference <= (TOLERANCE if quantization == QUANTIZATIONS[0] else 1):
        raise UserError(
            f"the conversion differs from the network by {difference:.2g} on 0..1; {path} is not written"
        )
    with replacing(path) as partial:
        partial.write_bytes(content)
    return difference


def convert(model: Trained, image_size: tuple[int, int], quantization: str) -> bytes:
    """The content of a TFLite file; arguments are those of `write_lite`."""
    specification = tf.TensorSpec((1, *image_size, 3), tf.float32, "input")
    network = tf.function(model.predict_with(_plain_form(model.network)), input_signature=[specification])
    constant = convert_variables_to_constants_v2(network.get_concrete_function())

    @tf.function(input_signature=[specification])  # type: ignore[untyped-decorator]
    def named(image: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"output": constant(image)[0]}

    converter = tf.lite.TFLiteConverter.from_concrete_functions([named.get_concrete_function()], tf.Module())
    if quantization != QUANTIZATIONS[0]:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantization == "float16":
        converter.target_spec.supported_types = [tf.float16]
    content: bytes = converter.convert()
    return content


def interpreter(content: bytes, threads: int | None = None) -> Callable[[Maps], Maps]:
    """A function from prepared images (1, H, W, 3) to maps (1, H, W, 1) that runs a TFLite file's `content`."""
    with warnings.catch_warnings():
        # TensorFlow 2.20 still has it; its successor is a separate package.
        warnings.filterwarnings("ignore", "(?s).*tf.lite.Interpreter is deprecated", UserWarning)
        runner = tf.lite.Interpreter(model_content=content, num_threads=threads)
    run = runner.get_signature_runner()
    return lambda image: run(input=image)["output"]


def _plain_form(model: keras.Model) -> Callable[[tf.Tensor], tf.Tensor]:
    """`model` with its decoder in the reference's form: maps doubled, then convolved.

    `layers.convolve_doubled` is the same function with kernels four times as large. They are computed from the
    weights by operations that LiteRT does not have, but LiteRT has the doubling.
    """
    encoder = keras.Model(model.input, model.get_layer("aspp_conv2").output)

    def convolution(x: tf.Tensor, name: str) -> tf.Tensor:
        layer = model.get_layer(name)
        return tf.nn.conv2d(x, layer.kernel, strides=1, padding="SAME") + layer.bias

    def network(image: tf.Tensor) -> tf.Tensor:
        x = encoder(image)
        for index in (1, 2, 3):
            x = tf.raw_ops.ResizeBilinear(images=x, size=[2 * x.shape[1], 2 * x.shape[2]])  # TensorFlow 1's rule
            x = tf.nn.relu(convolution(x, f"decoder_conv{index}"))
        return model.get_layer("output")(convolution(x, "decoder_conv4"))

    return network
