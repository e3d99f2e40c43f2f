"""`python -m tests.trainer.virtual N ...`: the trainer's command line where TensorFlow sees N processors."""

import sys

import tensorflow as tf

from trainer.__main__ import main

if __name__ == "__main__":
    processor = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * int(sys.argv[1])
    tf.config.set_logical_device_configuration(processor, parts)
    main(sys.argv[2:])
