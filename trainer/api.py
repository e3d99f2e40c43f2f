"""The Python API: load a model, predict where people look, measure regions, draw maps, score maps.

    from trainer.api import load, measure

    model = load()
    saliency = model.predict("examples/landing-a.png")
    for found in measure(saliency, "button:64,412,262,57", "photo:656,113,560,373"):
        print(f"{found.region.name}: {found.share:.1%} of the attention on {found.area:.1%} of the area")

`trainer.tools` has what a program around the model needs besides. Predictions need no TensorFlow.
"""

import dataclasses
import os
import pathlib
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from trainer.errors import (
    ContentError,
    MismatchError,
    NotFoundError,
    SettingError,
    UnreachableError,
    UserError,
    check,
    look_up,
)
from trainer.metrics import score
from trainer.models import Answering, choose_model
from trainer.network import PAGE, PICTURE, ModelFolder
from trainer.pictures import read_picture
from trainer.prediction import (
    CHANGE,
    HEAT,
    SCREENS,
    WHOLE,
    Input,
    Measure,
    PredictConfig,
    Region,
    SaliencyMap,
    blend,
    blend_change,
    draw_grey,
    floor_of,
    measure_regions,
    parse_regions,
    read_regions,
    screens_of,
)

if TYPE_CHECKING:
    from trainer.prediction import Predictor

__all__ = [
    "CHANGE",
    "HEAT",
    "Change",
    "Measure",
    "MismatchError",
    "Model",
    "NotFoundError",
    "Region",
    "SaliencyMap",
    "SettingError",
    "UnreachableError",
    "UserError",
    "blend",
    "blend_change",
    "compare",
    "draw_grey",
    "find",
    "load",
    "measure",
    "parse_regions",
    "read_picture",
    "read_regions",
    "score",
    "screens_of",
]

Image = str | os.PathLike[str] | npt.NDArray[np.uint8]
"""A file, a `gs://` address, or pixels: (h, w, 3), RGB, 0..255."""


def load(name: str = "") -> "Model":
    """Load a model.

    Example:
        >>> load("pretrained").predict("photo.jpg").shape
        (768, 1024)

    Args:
        name: one of these. Empty means the default.

            - a model's folder, here or on `gs://`
            - a registered model, such as `msinet@3` or `msinet@challenger`
            - `pretrained`, the model that comes with this package
            - `author:salicon`, the weights of MSI-Net's author, downloaded once

            The default is the registry's in the working directory if it was trained on real data, else
            `pretrained`.

    Returns:
        The model, ready to predict. A warning says so if it was last trained on generated shapes.

    Raises:
        UserError: there is no such model, and the message lists the existing ones. Nothing has been loaded then.
            Or its weights are damaged.
    """
    model = find(name)
    if model.notice:
        warnings.warn(model.notice, stacklevel=2)
    return model.load()


def find(name: str = "") -> "Model":
    """Find a model as `load` does, without a warning. Its weights are loaded by `Model.load` or `Model.predict`.

    Example:
        >>> find("pretrained").image_size
        (320, 320)
    """
    return Model(choose_model(name))


class Model:
    """A model. Any thread may call its methods. `str` says its name, its data, and why it was chosen.

    Example:
        >>> model = load("msinet@3")
        >>> saliency = model.predict("page.png", kind="page")
    """

    KINDS: ClassVar[tuple[str, str]] = (PICTURE, PAGE)
    """What an image may be predicted as: a `picture`, or a `page`, which is drawn."""
    SCREENS: ClassVar[tuple[str, ...]] = (WHOLE, *SCREENS)
    """What a person may see of an image at a time."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._predictor: Predictor | None = None
        self._loading = threading.Lock()

    def __str__(self) -> str:
        return str(self._answering)

    def __repr__(self) -> str:
        return f"<Model {self}>"

    @property
    def name(self) -> str:
        """What a user may write for the model, such as `msinet@2`."""
        return self._answering.name

    @property
    def folder(self) -> pathlib.Path:
        """The folder of its weights and its config.json."""
        return self._answering.folder

    @property
    def description(self) -> str:
        """Its name and its training data, for readers who do not know this working directory."""
        return self._answering.description

    @property
    def notice(self) -> str:
        """What a model that was last trained on generated shapes must say about itself. Empty for others."""
        return self._answering.notice

    @property
    def hint(self) -> str:
        """How far its maps can be trusted, a sentence for each kind of image. Empty if nothing is known."""
        return self._answering.hint

    def hint_of(self, kind: str) -> str:
        """How far its maps of a kind, of KINDS, can be trusted, in sentences. Empty if nothing is known."""
        return self._answering.hint_of(kind)

    @property
    def image_size(self) -> tuple[int, int]:
        """(H, W) of the network's input for pictures, pixels. Images of any size are fitted into it."""
        return ModelFolder(self.folder).image_size

    @property
    def image_sizes(self) -> dict[str, tuple[int, int]]:
        """Kind, of KINDS -> (H, W) of the network's input, pixels. `page` only if it has a size of its own."""
        return ModelFolder(self.folder).image_sizes

    def tell(self) -> str:
        """Say on stderr which model this is, and its notice or else its hint, which is returned too."""
        print(f"model: {self}", file=sys.stderr, flush=True)
        return self._answering.tell()

    def load(self) -> "Model":
        """Load the weights, once. `predict` does it if nobody has done it before.

        Raises:
            UserError: the weights are damaged.
        """
        with self._loading:
            if self._predictor is None:
                from trainer.prediction import Predictor

                self._predictor = Predictor(self.folder)
        return self

    def seen_as(self, page: float) -> str:
        """Say as what an image is predicted whose map has this `page`. Empty if all are predicted alike.

        Example:
            >>> model.seen_as(saliency.page)
            'seen as a page, at 288 x 512 pixels'
        """
        return self._loaded.seen_as(page)

    def predict(
        self,
        image: Image,
        screen: str = "",
        kind: str | float = "",
        size: Sequence[int] | None = None,
        like: SaliencyMap | None = None,
        begin: Callable[[int, int], None] | None = None,
    ) -> SaliencyMap:
        """Predict where people look in an image.

        Example:
            >>> model.predict("long-page.png", screen="whole")  # the map of the whole page, seen at once

        Args:
            image: a file (JPEG, PNG, WebP, GIF, TIFF, BMP), a `gs://` address, or pixels (h, w, 3), RGB, 0..255.
            screen: what a person sees at a time: `desktop`, `phone` or `whole`. Empty to decide by the image: a
                page that is higher than a screen is seen screen by screen, and all else as a whole.
            kind: of KINDS, or the `page` of another map. Empty to decide by the image: it is a page as far as it
                is drawn, with flat places that end at edges.
            size: (h, w) of the map, pixels. None for the image's own.
            like: the map of another image of the same proportions, such as an earlier design. The image is seen as
                that one was, and its map has that one's size. `screen` and `kind` say nothing then.
            begin: called with the number of a screen, 1 for the top, and of all, before each is predicted. What it
                raises ends the prediction.

        Returns:
            The saliency map, (h, w) in 0..1, higher where people look more. Each of its `screens`, if there are
            several, is predicted alone: its largest value is 1, and values of two screens cannot be compared.

        Raises:
            UserError: the file cannot be read or is not an image. The pixels have another shape or type. The model
                has nothing of its own for the `kind`.
        """
        pixels = _pixels(image)
        if isinstance(kind, str) and kind:
            look_up("kind", kind, dict.fromkeys(self.KINDS))
        if screen:
            look_up("screen", screen, dict.fromkeys(self.SCREENS))
        return self._loaded.predict(pixels, screen, kind, size, like, begin)

    def floor(self, image: Image, saliency: SaliencyMap, measured: Measure) -> float:
        """Predict the share that a region keeps with its content painted over with the colour around it.

        What a region has above its floor, its content gets. A content whose share is not clearly above its floor
        (`Change.is_clear`) is hardly seen by the model.

        Example:
            >>> (button,) = measure(saliency, "button:64,412,262,57")
            >>> button.share, model.floor("examples/landing-a.png", saliency, button)
            (0.038, 0.007)

        Args:
            image: as for `predict`, of the size of the map.
            saliency: what `predict` returned for the image.
            measured: what `measure` returned for that map.

        Returns:
            A share, 0..1, of the same screen as the measured one.

        Raises:
            UserError: as for `predict`. Or the region is not inside the image.
        """
        return floor_of(self._loaded, _pixels(image), saliency, measured)

    @property
    def _loaded(self) -> "Predictor":
        self.load()
        assert self._predictor is not None
        return self._predictor

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the network as an ONNX file with kernels of 8 bits, as `python -m trainer export` does.

        Example:
            >>> load().export("msinet.onnx")

        Raises:
            UserError: the weights are damaged, or nothing can be written to `path`.
        """
        from trainer.models import ModelExport

        ModelExport(self._answering).onnx(pathlib.Path(path))

    def export_parts(self, folder: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
        """Write the network alone as `model.onnx`, and a small ONNX file for each kind of images.

        A program that predicts all kinds loads the weights once. The network maps prepared images, the `input`.
        Each small file averages and calibrates: its inputs are the same `input` and the network's `maps`.

        Returns:
            Kind, of KINDS -> its `file`, and whether it `flips`: whether the map of the mirrored image follows in
            `maps`.

        Raises:
            UserError: the weights are damaged, or nothing can be written to the folder.
        """
        from trainer.models import ModelExport

        return ModelExport(self._answering).onnx_parts(pathlib.Path(folder))


def measure(saliency: npt.NDArray[np.floating], *wanted: Region | str) -> list[Measure]:
    """Measure how much attention regions of an image get.

    Example:
        >>> button, logo = measure(saliency, "button:64,412,262,57", "logo:5%,2%,20%,8%")
        >>> f"{button.share:.1%}, rank {button.rank}"
        '4.2%, rank 1'

    Args:
        saliency: a map from `Model.predict`, (h, w), 0 or above.
        wanted: each a `Region`, or a text `NAME:X,Y,WIDTH,HEIGHT` in pixels from the top left, or all four in
            percent.

    Returns:
        A measure for each region, in their order. On the map of a long page, it is of the screen that has most of
        the region.

    Raises:
        UserError: a region has another form, is empty, or is not inside the image.
    """
    return measure_regions(saliency, [Region.parse(each) if isinstance(each, str) else each for each in wanted])


@dataclasses.dataclass(frozen=True)
class Change:
    """The attention that one region gets in two images.

    Example:
        >>> Change(before, after).share  # such as from 10% to 15%
        0.05
    """

    first: Measure
    second: Measure

    CLEAR_PART: ClassVar[float] = 0.25
    CLEAR_SHARE: ClassVar[float] = 0.04
    """Smallest clear changes: as a part of the larger share, or as a share.

    95% of changes are smaller when the same picture is saved as JPEG, scaled or moved by 4 pixels.
    research/log.md, 2026-11-25 "The same design again", has the measurement.
    """

    @property
    def share(self) -> float:
        """Difference of the shares, second minus first, -1..1."""
        return self.second.share - self.first.share

    @property
    def clear(self) -> bool:
        """Whether the shares differ by more than the same picture's do when it is saved again."""
        return self.is_clear(self.first.share, self.second.share)

    @classmethod
    def is_clear(cls, before: float, after: float) -> bool:
        """Return whether a change from one share to another, 0..1 each, is clear."""
        return abs(after - before) > min(cls.CLEAR_PART * max(before, after), cls.CLEAR_SHARE)

    def as_json(self) -> dict[str, Any]:
        """Convert the change to values for JSON."""
        measures = {"first": self.first.as_json(), "second": self.second.as_json()}
        return {"name": self.first.region.name, "share_change": self.share, "clear": self.clear, **measures}


def compare(
    first: npt.NDArray[np.floating],
    second: npt.NDArray[np.floating],
    *wanted: Region | str,
    elsewhere: Mapping[str, Region] | None = None,
) -> list[Change]:
    """Compare how much attention regions get in two maps, such as of a design before and after a change.

    Example:
        >>> (button,) = compare(before, after, "button:64,412,262,57")
        >>> f"{button.share:+.1%}" if button.clear else "no clear change"
        '+5.3%'

    Args:
        first: a map from `Model.predict`, (h, w), 0 or above.
        second: another one. For an image of another size, predict it with `size=first.shape`.
        wanted: the regions, as `measure` takes them, in pixels of the first map.
        elsewhere: name of a region -> where it is in the second map, if it has moved.

    Returns:
        The change of each region, in their order.

    Raises:
        UserError: as `measure`. Or the maps have different sizes.
    """
    check(
        first.shape == second.shape,
        f"the maps have different sizes, {first.shape} and {second.shape}",
        MismatchError,
    )
    before = measure(first, *wanted)
    moved = elsewhere or {}
    after = measure(second, *(moved.get(each.region.name, each.region) for each in before))
    return [Change(*pair) for pair in zip(before, after, strict=True)]


def _pixels(image: Image) -> npt.NDArray[np.uint8]:
    """The pixels of an image, (h, w, 3), RGB."""
    if not isinstance(image, np.ndarray):
        return Input.find(os.fspath(image)).open(PredictConfig().most_pixels).decode()
    check(
        image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size > 0,
        f"an image's pixels must be (h, w, 3) uint8, RGB from 0 to 255, but are {image.shape} {image.dtype}: "
        "convert them, such as with PIL.Image.fromarray(...).convert('RGB')",
        ContentError,
    )
    return image
