"""The model of the targets: the narrow network with seeded weights, written once in each child."""

import dataclasses
import functools
import pathlib
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from trainer import model
from trainer.artifacts import MODEL_CONFIG, WEIGHTS
from trainer.files import write_json
from trainer.prediction import predictor
from trainer.prediction.predictor import Predictor

SIZE = (32, 40)
"""(height, width) of its input, pixels."""
CONFIG = {
    "dataset": "salicon",
    "image_size": list(SIZE),
    "train": {"epochs": 2},
    "best_epoch": 1,
    "code_version": "1",
}
TOLERANCE = 1e-4
"""Difference of two maps, 0..1, of the same pixels in batches of other sizes."""


@dataclasses.dataclass(frozen=True)
class Model:
    folder: pathlib.Path
    network: Any
    predictor: Predictor

    def map(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The map (h, w) of an image (h, w, 3), by the network alone."""
        return self.predictor.predict(pixels)


@functools.cache
def written(folder: pathlib.Path) -> Model:
    """The model in a folder; from now on the commands of this process do not load it again."""
    keras.utils.set_random_seed(1)
    network = model.build_model((None, None), "float32")
    here = folder / "model"
    here.mkdir(exist_ok=True)
    network.save_weights(here / WEIGHTS)
    write_json(here / MODEL_CONFIG, CONFIG)
    loaded = Predictor(here)

    def kept(other: Any) -> Any:
        return loaded if pathlib.Path(other).resolve() == here.resolve() else Predictor(other)

    vars(predictor)["Predictor"] = kept
    return Model(here, network, loaded)
