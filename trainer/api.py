"""The Python API: load a model, predict the saliency map of an image, measure its regions, draw it.

    from trainer.api import load, measure

    model = load()
    saliency = model.predict("examples/landing-a.png")
    for found in measure(saliency, "button:64,412,262,57", "photo:656,113,560,373"):
        print(f"{found.region.name}: {found.share:.1%} of the attention on {found.area:.1%} of the area")

A tool around the model takes from here too how pictures are read and long pages cut, what errors people see, and
the flags and settings of a command line: `studio` imports nothing else of this project. docs/python.md has a table
of all names.

Predictions need no TensorFlow.
"""

import os
import pathlib
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trainer.commands.shared_flags import add_model, add_region
from trainer.commands.shared_maps import add_map_flags, text_table, write_maps
from trainer.errors import (
    UsageError,
    UserError,
    check,
    look_up,
    printable,
    reported,
    shown,
    some,
    terminable,
)
from trainer.evaluation.score_map import score
from trainer.io.files import local_path, replacing
from trainer.io.pictures import BROWSER_NAMES, MAX_PIXELS, NAMES, SUFFIXES, Pixels, read_picture
from trainer.io.runtime import announce
from trainer.models.answering import Answering
from trainer.models.export import write_onnx
from trainer.models.find import choose_model, find_answering
from trainer.network.model_folder import KINDS, PAGE, PICTURE, image_size_of
from trainer.prediction import regions
from trainer.prediction.heat import (
    CHANGE,
    CHANGE_LIMIT,
    DIMMED,
    HEAT,
    OPACITY,
    Map,
    blend,
    blend_change,
    colored,
    draw_grey,
    tint,
)
from trainer.prediction.inputs import Input, Listing, find_image
from trainer.prediction.predict import open_input, protect
from trainer.prediction.regions import Measure, Region, check_names, parse_regions, read_regions
from trainer.prediction.screens import ONE_SCREEN, SCREENS, TALL, count_screens, screens_of
from trainer.prediction.settings import PREDICT_DEFAULTS, PredictConfig
from trainer.settings.fields import check_ranges, setting
from trainer.settings.flags import (
    STDOUT,
    Parser,
    add_command,
    add_settings,
    output_file,
    program,
    results_dir,
    settings,
    summarize,
)

if TYPE_CHECKING:
    from trainer.prediction.predictor import Predictor

__all__ = [
    "BROWSER_NAMES",
    "CHANGE",
    "CHANGE_LIMIT",
    "COLORS_CSS",
    "DIMMED",
    "HEAT",
    "KINDS",
    "MAX_PIXELS",
    "NAMES",
    "ONE_SCREEN",
    "OPACITY",
    "PAGE",
    "PICTURE",
    "SCREENS",
    "STDOUT",
    "SUFFIXES",
    "TALL",
    "Input",
    "Listing",
    "Map",
    "Measure",
    "Model",
    "Parser",
    "Pixels",
    "PredictConfig",
    "Region",
    "UsageError",
    "UserError",
    "add_command",
    "add_map_flags",
    "add_model",
    "add_region",
    "add_settings",
    "announce",
    "blend",
    "blend_change",
    "check",
    "check_names",
    "check_ranges",
    "colored",
    "count_screens",
    "draw_grey",
    "find",
    "find_answering",
    "find_image",
    "load",
    "local_path",
    "look_up",
    "measure",
    "open_input",
    "output_file",
    "parse_regions",
    "printable",
    "program",
    "protect",
    "read_picture",
    "read_regions",
    "replacing",
    "reported",
    "results_dir",
    "score",
    "screens_of",
    "setting",
    "settings",
    "shown",
    "some",
    "summarize",
    "terminable",
    "text_table",
    "tint",
    "write_maps",
]

COLORS_CSS = pathlib.Path(__file__).parent / "evaluation" / "reports" / "templates" / "colors.css"
"""Style sheet with the colours of all pages, light and dark, as variables of CSS."""
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
            unknown name is found before anything is loaded.
    """
    model = find(name)
    if model.notice:
        warnings.warn(model.notice, stacklevel=2)
    return model.load()


def find(name: str = "") -> "Model":
    """Find a model as `load` does, without a warning, and leave its weights to `Model.load`."""
    return Model(choose_model(name))


class Model:
    """A model. Any thread may call its methods. `str` says its name, its data, and why it was chosen."""

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
        """What a model that was last trained on generated shapes must say about itself; empty for others."""
        return self._answering.notice

    @property
    def hint(self) -> str:
        """How far its maps can be trusted, a sentence; empty if nothing is known."""
        return self._answering.hint

    @property
    def image_size(self) -> tuple[int, int]:
        """(H, W) of the network's input for pictures, pixels. Images of any size are fitted into it."""
        return image_size_of(self.folder)

    def tell(self) -> str:
        """Say on stderr which model this is, and its notice or else its hint, which is returned too."""
        print(f"model: {self}", file=sys.stderr, flush=True)
        return self._answering.tell()

    def load(self) -> "Model":
        """Load the weights, once; `predict` does it where nobody has done it before.

        Raises:
            UserError: the weights are damaged.
        """
        with self._loading:
            if self._predictor is None:
                from trainer.prediction.predictor import Predictor

                self._predictor = Predictor(self.folder)
        return self

    def kind_of(self, image: Pixels, asked: str = "", is_page: bool = False) -> str:
        """Return the kind, of KINDS, as which the model predicts an image.

        Args:
            image: (h, w, 3) RGB.
            asked: of KINDS; empty to decide by the image: with a desktop screen's shape it is a page if it is
                drawn, with flat places that end at edges.
            is_page: whether it is the picture of a page that a browser took. Then a desktop's width is enough.

        Returns:
            A kind; PICTURE for each image if the model does not predict pages at a size of their own.

        Raises:
            UserError: it does not, and PAGE is asked for.
        """
        return self._loaded.kind_of(image, asked, is_page)

    def seen_as(self, kind: str) -> str:
        """Say as which kind an image is predicted, and at which size; empty if all are predicted alike."""
        return self._loaded.seen_as(kind)

    def predict(
        self, image: Image, n_screens: int = 0, size: Sequence[int] | None = None, kind: str = ""
    ) -> npt.NDArray[np.float32]:
        """Predict where people look in an image.

        Args:
            image: a file (JPEG, PNG, WebP, GIF, TIFF, BMP), a `gs://` address, or pixels (h, w, 3), RGB, 0..255.
            n_screens: screens into which it is cut, from the top and equally high, as it is if it is a long page;
                1 for the map of the whole image; 0 to decide by its size, as `count_screens` does.
            size: (h, w) of the map, pixels; None for that of the image.
            kind: of KINDS; empty to decide by the image, as `kind_of` does.

        Returns:
            The saliency map, (h, w) in 0..1; higher where people look more. Of several screens, each is predicted
            alone: its largest value is 1, and values of two screens cannot be compared.

        Raises:
            UserError: the file cannot be read or is not an image, the pixels have another shape or type, or the
                model has nothing of its own for the `kind`.
        """
        pixels = _pixels(image)
        if kind:
            look_up("kind", kind, dict.fromkeys(KINDS))
        return self._loaded.predict(pixels, n_screens, size, kind)

    @property
    def _loaded(self) -> "Predictor":
        self.load()
        assert self._predictor is not None
        return self._predictor

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the network as an ONNX file with kernels of 8 bits, as `python -m trainer export` does.

        Raises:
            UserError: the weights are damaged, or nothing can be written to `path`.
        """
        write_onnx(self._answering, pathlib.Path(path))


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
    return regions.measure_regions(saliency, parsed)


def _pixels(image: Image) -> npt.NDArray[np.uint8]:
    """The pixels of an image, (h, w, 3), RGB."""
    if not isinstance(image, np.ndarray):
        return open_input(find_image(os.fspath(image)), PREDICT_DEFAULTS.most_pixels).decode()
    check(
        image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size > 0,
        f"an image's pixels must be (h, w, 3) uint8, RGB from 0 to 255, but are {image.shape} {image.dtype}; "
        "convert them, such as with PIL.Image.fromarray(...).convert('RGB')",
    )
    return image
