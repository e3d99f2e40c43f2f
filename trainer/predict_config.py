"""The settings of `predict`: their defaults, meaning and range. Standard library only."""

import dataclasses

from trainer.config import check, look_up, setting

FORMATS = {
    "png": ".png",
    "png16": "-16bit.png",
    "npy": ".npy",
    "overlay": "-overlay.png",
    "contour": "-contour.png",
}
"""What `predict` can write -> what the names of its files end with."""
MEGAPIXEL = 10**6


@dataclasses.dataclass(frozen=True)
class PredictConfig:
    """What `predict` makes of each image."""

    format: str = setting(
        "png",
        "What to write into the output folder, one or several with commas: png (grey, 8 bits), png16 (16 bits), "
        "npy (float32, 0..1), overlay (heat colours over the image), contour (lines around the attention).",
    )
    opacity: float = setting(0.88, "Opacity of the overlay's brightest colour, 0 to 1.")
    contour_levels: str = setting("25,50,75", "Percentages of the attention that the contours enclose.")
    batch_size: int = setting(8, "Images that the network takes at once.")
    most_megapixels: float = setting(
        100.0, "A larger image is refused; each megapixel takes 15 MB of memory, of a TIFF of floats 24 MB."
    )

    def __post_init__(self) -> None:
        for name in self.formats:
            look_up("format", name, FORMATS)
        check(0 <= self.opacity <= 1, f"opacity is {self.opacity:g}; give a number from 0 to 1")
        check(
            all(0 < level < 100 for level in self.levels),
            f"contour_levels is {self.contour_levels!r}; give percentages between 0 and 100",
        )
        check(self.batch_size >= 1, f"batch_size is {self.batch_size}; give 1 or more")
        check(self.most_megapixels > 0, f"most_megapixels is {self.most_megapixels:g}; give more than 0")

    @property
    def formats(self) -> tuple[str, ...]:
        """Of FORMATS, each once."""
        return tuple(dict.fromkeys(name.strip() for name in self.format.split(",")))

    @property
    def levels(self) -> tuple[float, ...]:
        """The contours' percentages, 0..100."""
        try:
            return tuple(float(level) for level in self.contour_levels.split(","))
        except ValueError:
            return (0.0,)  # refused above

    @property
    def most_pixels(self) -> int:
        """Pixels of the largest image that is read."""
        return int(self.most_megapixels * MEGAPIXEL)


DEFAULTS = PredictConfig()
