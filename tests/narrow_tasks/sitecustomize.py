"""With this folder on PYTHONPATH, every Python process has the narrow network of `tests.narrow`.

For tests whose networks are made in processes that others start, such as the tasks of a run. The constants of
`trainer.network.msinet.architecture` are replaced as soon as that is imported, so that nothing is imported for it.
Graphs run as traced: for a few steps optimizing them takes longer. If SHIPPED is set, the model in that folder is
`pretrained`.
"""

import gc
import importlib.util
import os
import pathlib
import sys

SHIPPED = "NARROW_PRETRAINED"
"""Environment variable: the folder of a narrow model in compact form."""

WIDTHS = {
    "VGG16_BLOCKS": ((16, 16), (32, 32), (64, 64, 64), (128, 128, 128), (128, 128, 128)),
    "ASPP_FILTERS": 64,
    "DECODER_FILTERS": (32, 16, 16),
}
"""Constant of `trainer.network.msinet.architecture` -> a quarter of it, at least `convolution.MIN_CHANNELS`."""


NETWORK = "trainer.network.msinet.keras_model"


class Finder:
    """Finds a module, as the finders after it do, and has its constants replaced once it is executed."""

    def __init__(self, name, constants):
        self._name, self._constants = name, constants

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            vars(module).update(self._constants)
            if self._name == NETWORK:
                import tensorflow as tf  # Keras has loaded it

                tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if __name__ == "sitecustomize":
    gc.set_threshold(100_000)  # to load TensorFlow is most of what a task does, and modules are no garbage
    sys.meta_path.insert(0, Finder("trainer.network.msinet.architecture", WIDTHS))
    sys.meta_path.insert(0, Finder(NETWORK, {}))
    if SHIPPED in os.environ:
        shipped = {"PRETRAINED_FOLDER": pathlib.Path(os.environ[SHIPPED])}
        sys.meta_path.insert(0, Finder("trainer.network.model_folder", shipped))
