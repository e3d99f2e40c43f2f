"""The trainer's command line where TensorFlow sees several processors, for a narrow and shallow network."""

from unittest import mock

import tensorflow as tf

from tests.narrow import SHALLOW, narrowed, unoptimized
from trainer.__main__ import main
from trainer.network.model_folder import MODEL_WEIGHTS
from trainer.training import train


def run(processors: int, arguments: list[str]) -> None:
    """Run a command in this process, which must not have used TensorFlow yet.

    Each device has a graph of its own, so the network has fewer layers too. Nobody knows how to read its weights,
    so they are written and nothing else is made of them.
    """
    processor = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * processors
    tf.config.set_logical_device_configuration(processor, parts)
    weights_alone = mock.patch.object(
        train, "write_model", lambda model, folder, *_: model.save_weights(folder / MODEL_WEIGHTS)
    )
    with narrowed(SHALLOW), unoptimized(), weights_alone:
        main(arguments)
