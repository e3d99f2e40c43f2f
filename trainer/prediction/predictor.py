"""A trained network that predicts the saliency map of any image, and of a long page screen by screen."""

import os
import pathlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.errors import SettingError, check
from trainer.network import PAGE, PICTURE, Frame, Inference, ModelFolder
from trainer.prediction.heat import Map
from trainer.prediction.kinds import kind_of
from trainer.prediction.screens import count_screens, rows_of_screens


class Predictor:
    """The network of a model folder, compiled once for each kind of images. Any thread may call its methods.

    Example:
        >>> Predictor("models/msinet/1/assets.extra").predict(pixels).shape == pixels.shape[:2]
        True
    """

    def __init__(self, model_folder: str | os.PathLike[str], precision: str = "", parallel: int = 1) -> None:
        """Load the network. The other arguments and errors are as for `trainer.network.inference.Inference`."""
        self._folder = pathlib.Path(model_folder)
        self._precision, self._parallel = precision, parallel
        self.image_sizes = ModelFolder(self._folder).image_sizes
        """Kind of images -> (H, W) of the network's input, pixels. PAGE only if its size is another one."""
        self._networks: dict[str, Inference] = {}
        self._compiling = threading.Lock()
        self.runtime = self._network(PICTURE).runtime
        """What computes the maps, and in which precision."""

    def kind_of(
        self, image: npt.NDArray[np.uint8], asked: str = "", is_page: bool = False, n_screens: int = 0
    ) -> str:
        """Return the kind as which the model predicts an image: PICTURE if it does not tell kinds apart.

        Args:
            image: (h, w, 3) RGB.
            asked: PICTURE or PAGE, if somebody asks for it. Empty to decide by the image, as `kinds.kind_of` does.
            is_page: an argument of `kinds.kind_of`.
            n_screens: likewise.

        Raises:
            UserError: the model has nothing of its own for the kind that somebody asks for.
        """
        self.check_kind(asked)
        return asked or (kind_of(image, is_page, n_screens) if PAGE in self.image_sizes else PICTURE)

    def check_kind(self, asked: str) -> None:
        """Raise `UserError` unless the model can predict an image as the kind that is asked for. Empty is any."""
        check(
            asked in ("", *self.image_sizes),
            f"the model predicts all images alike, and has no size of its own for a {asked}: leave the kind out",
            SettingError,
        )

    def seen_as(self, kind: str) -> str:
        """Say as which kind an image is predicted, and at which size. Empty if all are predicted alike.

        Such as `seen as a page, at 288 x 512 pixels`.
        """
        height, width = self.image_sizes[kind]
        return f"seen as a {kind}, at {height} x {width} pixels" if PAGE in self.image_sizes else ""

    def prepare(
        self, image: npt.NDArray[np.uint8], n_screens: int = 0, kind: str = PICTURE
    ) -> npt.NDArray[np.float32]:
        """Resize and pad each screen of an image (h, w, 3) RGB to the network's input.

        Args:
            image: (h, w, 3) RGB.
            n_screens: into how many screens it is cut. 0 to decide by its size, as `count_screens` does.
            kind: of `image_sizes`.

        Returns:
            (n, H, W, 3) in 0..255, with n = 1 for an image that is not cut.
        """
        size = self.image_sizes[kind]
        return np.stack([Frame(size).image(part) for part in self._cut(image, n_screens)])

    def predict(
        self,
        image: npt.NDArray[np.uint8],
        n_screens: int = 0,
        size: Sequence[int] | None = None,
        kind: str = "",
    ) -> Map:
        """Predict the saliency map of an image, and of a long page the map of each screen alone.

        Args:
            image: (h, w, 3) RGB.
            n_screens: into how many screens it is cut. 0 to decide by its size, as `count_screens` does.
            size: (h, w) of the map, pixels. None for the image's own.
            kind: PICTURE or PAGE. Empty to decide by the image, as `kind_of` does.

        Returns:
            (h, w) in [0, 1]. On a long page, the largest value of each screen is 1.

        Raises:
            UserError: the prediction is not finite, or the model has nothing of its own for the `kind`.
        """
        kind = self.kind_of(image, kind, n_screens=n_screens)
        maps = self.predict_prepared(self.prepare(image, n_screens, kind), kind)
        return self.restore(maps, image.shape[:2] if size is None else size)

    def predict_prepared(self, batch: Any, kind: str = PICTURE) -> Map:
        """Predict the maps, (n, H, W) in [0, 1], of images (n, H, W, 3), 0..255, prepared as `kind`.

        The maps are still padded. `restore` brings the maps of an image to its size.

        Raises:
            UserError: a prediction is not finite.
        """
        return self._network(kind)(batch)

    def _network(self, kind: str) -> Inference:
        with self._compiling:
            if kind not in self._networks:
                self._networks[kind] = Inference(
                    self._folder, self.image_sizes[kind], self._precision, kind, self._parallel
                )
            return self._networks[kind]

    @staticmethod
    def restore(predictions: Map, size: Sequence[int]) -> Map:
        """Assemble the predictions of an image's screens, and resize them to its size.

        Args:
            predictions: (n, H, W), 0..1, of the n padded screens of an image from the top.
            size: (h, w) of the image, pixels.

        Returns:
            (h, w) float32, not rounded, clipped to 0..1 because bicubic interpolation overshoots. Of several
            screens, each has the largest value 1, and no rows are blended. A single one keeps its values.
        """
        if len(predictions) == 1:
            return _restored(predictions[0], size)
        height, width = size
        joined = np.empty((height, width), np.float32)
        for rows, prediction in zip(rows_of_screens(height, len(predictions)), predictions, strict=True):
            part = _restored(prediction, (rows.stop - rows.start, width))
            np.divide(part, max(float(part.max()), 1e-12), out=joined[rows])
        return joined

    @staticmethod
    def _cut(image: npt.NDArray[np.uint8], n_screens: int) -> list[npt.NDArray[np.uint8]]:
        rows = rows_of_screens(image.shape[0], n_screens or count_screens(image.shape))
        return [image[each] for each in rows]


def _restored(prediction: Map, size: Sequence[int]) -> Map:
    height, width = size
    restored = Frame.back(prediction, (height, width))
    return np.clip(restored, 0, 1, out=restored)
