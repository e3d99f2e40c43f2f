"""With this folder on PYTHONPATH, every Python process has the narrow network of `tests.narrow`.

For tests whose networks are made in processes that others start, such as the tasks of a run. The constants of
`trainer.model` are replaced as soon as that is imported, so that nothing is imported for it. Graphs run as traced:
for a few steps optimizing them takes longer.
"""

import gc
import importlib.util
import sys

WIDTHS = {
    "VGG16_BLOCKS": ((16, 16), (32, 32), (64, 64, 64), (128, 128, 128), (128, 128, 128)),
    "ASPP_FILTERS": 64,
    "DECODER_FILTERS": (32, 16, 16),
}
"""By name of the constant in `trainer.model`: a quarter of each, at least `trainer.convolution.MIN_CHANNELS`."""


class Finder:
    """Finds `trainer.model`, as the finders after it do, and has its constants replaced once it is executed."""

    def find_spec(self, name, path=None, target=None):
        if name != "trainer.model":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            vars(module).update(WIDTHS)
            import tensorflow as tf  # Keras has loaded it

            tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if __name__ == "sitecustomize":
    gc.set_threshold(100_000)  # to load TensorFlow is most of what a task does, and modules are no garbage
    sys.meta_path.insert(0, Finder())
