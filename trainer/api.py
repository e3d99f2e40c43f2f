"""The Python API: load a model, predict the saliency map of an image, measure its regions.

    from trainer.api import load, measure

    model = load()
    saliency = model.predict("examples/landing-a.png")
    for found in measure(saliency, "button:64,412,262,57", "photo:656,113,560,373"):
        print(f"{found.region.name}: {found.share:.1%} of the attention on {found.area:.1%} of the area")

Importing this module imports no TensorFlow; `load` does.
"""

import os
import warnings
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trainer.config import PREDICT_DEFAULTS
from trainer.errors import UserError, check
from trainer.models.find import Answering, choose
from trainer.prediction import regions
from trainer.prediction.inputs import find_one
from trainer.prediction.predict import open_input
from trainer.prediction.regions import Measure, Region
from trainer.runtime import load_tensorflow

if TYPE_CHECKING:
    from trainer.prediction.predictor import Predictor

__all__ = ["Measure", "Model", "Region", "UserError", "load", "measure"]

Image = str | os.PathLike[str] | npt.NDArray[np.uint8]
"""A file, a `gs://` address, or pixels: (h, w, 3), RGB, 0..255."""


def load(name: str = "") -> "Model":
    """Load a model.

    Args:
        name: a model's folder, here or on `gs://`; a registered one such as `msinet@3` or `msinet@challenger`;
            `pretrained`; or `author:salicon`. Empty means the default: that of the registry in the working
            directory if it was trained on real data, else `pretrained`.

    Returns:
        The model, ready to predict. For one that was last trained on generated shapes, a warning says so.

    Raises:
        UserError: there is no such model, and the message lists those that exist; or its weights are damaged. An
            unknown name is found before TensorFlow is imported.
    """
    answering = choose(name)
    if notice := answering.notice:
        warnings.warn(notice, stacklevel=2)
    load_tensorflow()
    from trainer.prediction.predictor import Predictor

    return Model(answering, Predictor(answering.folder))


class Model:
    """A loaded model. Any thread may call its methods."""

    def __init__(self, answering: Answering, predictor: "Predictor") -> None:
        self._answering, self._predictor = answering, predictor

    def __repr__(self) -> str:
        return f"<Model {self._answering}>"

    @property
    def image_size(self) -> tuple[int, int]:
        """(H, W) of the network's input, pixels. Images of any size are fitted into it."""
        return self._predictor.image_size

    def predict(self, image: Image) -> npt.NDArray[np.float32]:
        """Predict where people look in an image.

        Args:
            image: a file (JPEG, PNG, WebP, GIF, TIFF, BMP), a `gs://` address, or pixels (h, w, 3), RGB, 0..255.

        Returns:
            The saliency map, (h, w) in 0..1, of the image's own size; higher where people look more. A long page
            is predicted screen by screen: the largest value of each screen is 1, and values of two screens cannot
            be compared.

        Raises:
            UserError: the file cannot be read or is not an image, or the pixels have another shape or type.
        """
        return self._predictor.predict(_pixels(image))


def measure(saliency: npt.NDArray[np.floating], *wanted: Region | str) -> list[Measure]:
    """Measure how much attention regions of an image get.

    Args:
        saliency: a map from `Model.predict`, (h, w), 0 or above.
        wanted: each a `Region`, or a text `NAME:X,Y,WIDTH,HEIGHT` in pixels from the top left, or all four in
            percent: `logo:5%,2%,20%,8%`.

    Returns:
        A measure for each region, in their order; on the map of a long page, of the screen that has most of it.

    Raises:
        UserError: a region has another form, is empty, or is not inside the image.
    """
    parsed = [regions.parse_region(each) if isinstance(each, str) else each for each in wanted]
    return regions.measure(saliency, parsed)


def _pixels(image: Image) -> npt.NDArray[np.uint8]:
    """The pixels of an image, (h, w, 3), RGB."""
    if not isinstance(image, np.ndarray):
        return open_input(find_one(os.fspath(image)), PREDICT_DEFAULTS.most_pixels).decode()
    check(
        image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size > 0,
        f"an image's pixels must be (h, w, 3) uint8, RGB from 0 to 255, but are {image.shape} {image.dtype}; "
        "convert them, such as with PIL.Image.fromarray(...).convert('RGB')",
    )
    return image
