"""A trained network that predicts the saliency map of any image, and of a long page screen by screen."""

import functools
import os
import pathlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer.errors import SettingError, check
from trainer.network import PAGE, PICTURE, Frame, Inference, ModelFolder
from trainer.prediction.kinds import page_weight, screen_of
from trainer.prediction.saliency_map import Map, SaliencyMap, Screen
from trainer.prediction.screens import rows_of_screens


class Prepared(NamedTuple):
    """An image in the form of the network's inputs. Its own pixels are no longer needed."""

    size: tuple[int, int]
    """(h, w) of its map, pixels."""
    page: float
    """How much it is seen as a page, 0..1."""
    screens: list[slice]
    """Rows of the map that each screen has."""
    inputs: dict[str, Map]
    """Kind of images, PICTURE or PAGE or both -> the n screens, fitted into its size, (n, H, W, 3), 0..255."""


class Predictor:
    """The network of a model folder, compiled once for each kind of images. Any thread may call its methods.

    Example:
        >>> Predictor("models/msinet/1/assets.extra").predict(pixels).shape == pixels.shape[:2]
        True
    """

    def __init__(self, model_folder: str | os.PathLike[str], precision: str = "", parallel: int = 1) -> None:
        """Load the network. The other arguments and errors are as for `trainer.network.inference.Inference`."""
        self._folder = pathlib.Path(model_folder)
        self._precision = precision
        self.parallel = parallel
        """Images that are computed at once."""
        self.image_sizes = ModelFolder(self._folder).image_sizes
        """Kind of images -> (H, W) of the network's input, pixels. PAGE only if its size is another one."""
        self._networks: dict[str, Inference] = {}
        self._compiling = threading.Lock()
        self.runtime = self._network(PICTURE).runtime
        """What computes the maps, and in which precision."""

    def page_weight(self, image: npt.NDArray[np.uint8], kind: str | float = "") -> float:
        """Return how much an image (h, w, 3) RGB is seen as a page, as `kinds.page_weight` does.

        Args:
            image: (h, w, 3) RGB.
            kind: PICTURE or PAGE, if somebody asks for it, or the weight of another image. Empty to decide by the
                image.

        Raises:
            UserError: the model has nothing of its own for the kind that somebody asks for.
        """
        if isinstance(kind, float):
            return kind
        self.check_kind(kind)
        return float(kind == PAGE) if kind else page_weight(image)

    def check_kind(self, kind: str) -> None:
        """Raise `UserError` unless the model can predict an image as the kind that is asked for. Empty is any."""
        check(
            kind in ("", *self.image_sizes),
            f"the model predicts all images alike, and has no size of its own for a {kind}: leave the kind out",
            SettingError,
        )

    def weights(self, page: float) -> dict[str, float]:
        """Return kind -> its share of the map of an image with this `page_weight`, without shares of 0.

        It is all PICTURE if the model has nothing of its own for pages.
        """
        weights = {PICTURE: 1 - page, PAGE: page} if PAGE in self.image_sizes else {PICTURE: 1.0}
        return {kind: weight for kind, weight in weights.items() if weight}

    def seen_as(self, page: float) -> str:
        """Say as what an image with this `page_weight` is predicted. Empty if the model predicts all alike.

        Such as `seen as a page, at 288 x 512 pixels`, or `seen as 40% page, 60% picture`.
        """
        weights = self.weights(page)
        if PAGE not in self.image_sizes:
            return ""
        if len(weights) > 1:
            return "seen as " + ", ".join(f"{weights[kind]:.0%} {kind}" for kind in (PAGE, PICTURE))
        (kind,) = weights
        height, width = self.image_sizes[kind]
        return f"seen as a {kind}, at {height} x {width} pixels"

    def prepare(
        self,
        image: npt.NDArray[np.uint8],
        screen: str = "",
        kind: str | float = "",
        like: SaliencyMap | None = None,
    ) -> Prepared:
        """Bring an image into the form of the network's inputs: its kind, its screens, each resized and padded.

        The arguments and errors are those of `predict`.
        """
        if like is None:
            height, width = image.shape[:2]
            page = self.page_weight(image, kind)
            rows = rows_of_screens((height, width), screen or screen_of(image, page))
        else:
            (height, width), page = like.shape, like.page
            rows = [each.rows for each in like.screens]
        scale = image.shape[0] / height
        parts = [image[round(each.start * scale) : round(each.stop * scale)] for each in rows]
        inputs = {
            name: np.stack([Frame(self.image_sizes[name]).image(part) for part in parts])
            for name in self.weights(page)
        }
        return Prepared((height, width), page, rows, inputs)

    def forward(self, prepared: Prepared, begin: Callable[[int, int], None] | None = None) -> dict[str, Map]:
        """Run the network. Returns kind -> the maps (n, H, W) in [0, 1] of the n screens, still padded.

        Args:
            prepared: the image.
            begin: as for `predict`.

        Raises:
            UserError: a prediction is not finite.
        """
        if begin is None:
            return {kind: self.predict_prepared(batch, kind) for kind, batch in prepared.inputs.items()}
        maps: dict[str, list[Map]] = {kind: [] for kind in prepared.inputs}
        for index in range(len(prepared.screens)):
            begin(index + 1, len(prepared.screens))
            for kind, batch in prepared.inputs.items():
                maps[kind].append(self.predict_prepared(batch[index : index + 1], kind))
        return {kind: np.concatenate(each) for kind, each in maps.items()}

    def restore(
        self, prepared: Prepared, maps: Mapping[str, Map], size: Sequence[int] | None = None
    ) -> SaliencyMap:
        """Assemble what `forward` returned for an image to its map.

        Args:
            prepared: the image.
            maps: kind -> (n, H, W), 0..1, of the n padded screens.
            size: (h, w) of the map, pixels. None for the image's own.

        Returns:
            (h, w) float32, not rounded, clipped to 0..1 because bicubic interpolation overshoots. Of several
            screens, each has the largest value 1. A single one keeps its values.
        """
        height, width = prepared.size if size is None else size
        scale = height / prepared.size[0]
        weights, screens = self.weights(prepared.page), []
        for index, rows in enumerate(prepared.screens):
            top, bottom = round(rows.start * scale), round(rows.stop * scale)
            seen = {kind: _restored(each[index], (bottom - top, width)) for kind, each in maps.items()}
            for kind, each in seen.items():
                if weights[kind] != 1:
                    each *= np.float32(weights[kind])
            mixed: Map = functools.reduce(np.add, seen.values())
            if len(prepared.screens) > 1:
                mixed /= max(float(mixed.max()), 1e-12)
            screens.append(Screen(slice(top, bottom), mixed))
        return SaliencyMap(screens, prepared.page)

    def predict(
        self,
        image: npt.NDArray[np.uint8],
        screen: str = "",
        kind: str | float = "",
        size: Sequence[int] | None = None,
        like: SaliencyMap | None = None,
        begin: Callable[[int, int], None] | None = None,
    ) -> SaliencyMap:
        """Predict the saliency map of an image, and of a long page the map of each screen alone.

        Args:
            image: (h, w, 3) RGB.
            screen: what a person sees at a time, of `screens.SCREENS`, or `screens.WHOLE`. Empty to decide by the
                image, as `kinds.screen_of` does.
            kind: PICTURE or PAGE, or the weight of another image. Empty to decide, as `page_weight` does.
            size: (h, w) of the map, pixels. None for the image's own.
            like: the map of another image of the same proportions. The image is seen as that one was, with its
                screens, and its map has that one's size. `screen` and `kind` say nothing then.
            begin: called with the number of a screen, 1 for the top, and of all, before each is predicted. What it
                raises ends the prediction.

        Returns:
            (h, w) in [0, 1]. On a long page, the largest value of each screen is 1.

        Raises:
            UserError: the prediction is not finite, or the model has nothing of its own for the `kind`.
        """
        prepared = self.prepare(image, screen, kind, like)
        return self.restore(prepared, self.forward(prepared, begin), size)

    def predict_prepared(self, batch: Any, kind: str = PICTURE) -> Map:
        """Predict the maps, (n, H, W) in [0, 1], of images (n, H, W, 3), 0..255, prepared as `kind`.

        Raises:
            UserError: a prediction is not finite.
        """
        return self._network(kind)(batch)

    def _network(self, kind: str) -> Inference:
        with self._compiling:
            if kind not in self._networks:
                self._networks[kind] = Inference(
                    self._folder, self.image_sizes[kind], self._precision, kind, self.parallel
                )
            return self._networks[kind]


def _restored(prediction: Map, size: Sequence[int]) -> Map:
    height, width = size
    restored = Frame.back(prediction, (height, width))
    return np.clip(restored, 0, 1, out=restored)
