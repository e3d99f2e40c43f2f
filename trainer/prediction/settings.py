"""The settings of `predict`, and the formats that it writes."""

import dataclasses
from typing import ClassVar, NamedTuple

from trainer.errors import look_up
from trainer.io import MOST_MEGAPIXELS
from trainer.network import PAGE, PICTURE
from trainer.settings import check_ranges, setting


class ResultFormat(NamedTuple):
    """A format in which `predict` writes a map."""

    ending: str
    """End of the file names in a folder for the results."""
    beside: str
    """End of the file names beside the images, unlike any image's."""
    help: str


PREDICT_FORMATS = {
    "png": ResultFormat(".png", "-attention-map.png", "grey, 8 bits"),
    "png16": ResultFormat("-16bit.png", "-attention-16bit.png", "grey, 16 bits"),
    "npy": ResultFormat(".npy", "-attention.npy", "float32, 0..1"),
    "overlay": ResultFormat("-overlay.png", "-attention.png", "heat colours over the image"),
}
"""Name of each output format of `predict` -> its files."""


@dataclasses.dataclass(frozen=True)
class PredictConfig:
    """Settings of the results that `predict` writes for each image."""

    TITLE: ClassVar[str] = "images and results"
    format: str = setting(
        "",
        "Formats to write, separated by commas: "
        f"{', '.join(f'{name} ({each.help})' for name, each in PREDICT_FORMATS.items())}. To score maps, write "
        "npy or png16. Empty for png in a folder for the results, and overlay next to an image.",
    )
    kind: str = setting(
        "",
        f"What the images are: {PICTURE} or {PAGE}, if the model predicts pages at a size of their own. Empty to "
        "decide for each: pages have a desktop screen's shape, and flat places that end at edges.",
    )
    opacity: float = setting(0.75, "Opacity of the overlay's brightest colour, 0 to 1.", ge=0, le=1)
    most_megapixels: float = setting(
        MOST_MEGAPIXELS, "Largest image. Each megapixel takes 15 MB of memory, of a TIFF with floats 24 MB.", gt=0
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.kind:
            look_up("kind", self.kind, dict.fromkeys((PICTURE, PAGE)))
        for name in self.formats:
            look_up("format", name, PREDICT_FORMATS)

    @property
    def formats(self) -> tuple[str, ...]:
        """The chosen keys of PREDICT_FORMATS, each once."""
        return tuple(dict.fromkeys(name.strip() for name in self.format.split(","))) if self.format else ()

    @property
    def endings(self) -> dict[str, str]:
        """Chosen format -> end of the names of its files in a folder."""
        return {name: PREDICT_FORMATS[name].ending for name in self.formats}

    @property
    def most_pixels(self) -> int:
        """Number of pixels of the largest image."""
        return int(self.most_megapixels * 10**6)


PREDICT_DEFAULTS = PredictConfig()
