"""The trainer's command line where TensorFlow sees several processors, for a narrow and shallow network."""

import tensorflow as tf

from tests.narrow import SHALLOW, narrowed, unexported, unoptimized
from trainer.__main__ import main


def run(processors: int, arguments: list[str]) -> None:
    """Run a command in this process, which must not have used TensorFlow yet.

    Each device has a graph of its own, so the network has fewer layers too. A model of it cannot be read.
    """
    processor = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * processors
    tf.config.set_logical_device_configuration(processor, parts)
    with narrowed(SHALLOW), unexported(), unoptimized():
        main(arguments)
