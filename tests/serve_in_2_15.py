"""The SavedModel in TensorFlow 2.15, which Google's `tf2` containers have; `make test-serving`.

It is loaded as TensorFlow Serving loads it: as a graph in a session.
"""

import pathlib
import subprocess

import numpy as np

from tests.trainer import predictable
from trainer.network import saved_model
from trainer.network.load import Trained

PYTHON = pathlib.Path(__file__).parent.parent / ".venv-serving" / "bin" / "python"
SERVES = """
import sys
import numpy as np
import tensorflow as tf

assert tf.__version__.startswith("2.15."), tf.__version__
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    loaded = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[1])
    definition = loaded.signature_def["serving_default"]
    feed = {definition.inputs["input"].name: np.load(sys.argv[2])}
    np.save(sys.argv[3], session.run(definition.outputs["output"].name, feed))
"""


def test_prepared_images_have_the_networks_maps(tmp_path):
    assert PYTHON.exists(), f"there is no {PYTHON}; `make test-serving` sets it up"
    network = Trained(predictable.network(1), flips=True)
    saved_model.write_saved_model(network, (64, 80), tmp_path / "export")
    images = np.random.default_rng(0).uniform(0, 255, (2, 48, 64, 3)).astype(np.float32)
    np.save(tmp_path / "in.npy", images)
    paths = [tmp_path / name for name in ("export", "in.npy", "out.npy")]
    subprocess.run([PYTHON, "-P", "-c", SERVES, *paths], check=True, timeout=300)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), network(images).numpy(), atol=1e-5, rtol=0)
