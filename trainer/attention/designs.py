"""Reads the designs that `check` judges: pictures or pages, with their regions. Needs no TensorFlow."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from PIL import Image

from trainer.attention.page import Element, is_page, page_label, take
from trainer.config import PageConfig
from trainer.errors import UserError, check
from trainer.picture import Pixels
from trainer.prediction.designs import check_aspect_ratios
from trainer.prediction.inputs import Input, find_inputs
from trainer.prediction.predict import open_input
from trainer.prediction.regions import Region
from trainer.text import printable


@dataclasses.dataclass(frozen=True)
class Design:
    """A picture with the regions to measure in it."""

    label: str
    """Name of the design for people."""
    pixels: Pixels
    """(h, w, 3) RGB."""
    size: tuple[int, int]
    """(height, width) in pixels to which the regions refer; the map is resized to it."""
    regions: tuple[Region, ...]
    png: bytes | None = None
    """Content of the PNG that the browser wrote of a page; None for a picture."""
    input: Input | None = None
    """The file of a picture; None for a page."""

    @property
    def resized(self) -> Pixels:
        """The picture's pixels, resized to `size`."""
        if self.pixels.shape[:2] == self.size:
            return self.pixels
        return np.asarray(Image.fromarray(self.pixels).resize(self.size[::-1], Image.Resampling.LANCZOS))


def read_all(
    names: Sequence[str],
    regions: Sequence[Region],
    elements: Sequence[Element],
    config: PageConfig,
    max_pixels: int,
) -> list[Design]:
    """Read the design and, if there is one, its baseline.

    Rectangles are at the same place in both, in pixels of the first, as in `predict --compare`; so they need the
    same aspect ratio. Elements are found on each page.

    Args:
        names: one or two: pictures, addresses or HTML files.
        regions: rectangles of both.
        elements: elements of both, which are pages then.
        config: how pages are shown.
        max_pixels: a larger picture is refused.

    Raises:
        UserError: one cannot be read or shown, a region is not inside it, or the aspect ratios differ.
    """
    for name in names:
        if elements and not is_page(name):
            raise UserError(
                f"--selector {elements[0].selector!r} finds nothing in {printable(name)}, which is a picture; "
                "give a page (https://... or .html), or the place with --region"
            )
    # Pictures are read first: they take no time.
    by_name = {name: _read(name, elements, config, max_pixels) for name in sorted(set(names), key=is_page)}
    designs = [by_name[name] for name in names]
    if regions and len(designs) > 1:
        check_aspect_ratios([each.label for each in designs], [each.pixels.shape for each in designs])
        designs[1:] = [dataclasses.replace(each, size=designs[0].size) for each in designs[1:] if not elements]
    designs = [dataclasses.replace(each, regions=(*regions, *each.regions)) for each in designs]
    for design in designs:
        for region in design.regions:
            region.box(design.size, design.label)
    return designs


def _read(name: str, elements: Sequence[Element], config: PageConfig, max_pixels: int) -> Design:
    if is_page(name):
        shot = take(name, elements, config, max_pixels)
        return Design(page_label(name), shot.pixels, shot.pixels.shape[:2], shot.regions, png=shot.png)
    inputs = find_inputs([name]).inputs
    count = len(inputs)
    check(count == 1, f"check takes one picture, but {printable(name)} has {count}; name one of them")
    pixels = open_input(inputs[0], max_pixels).decode()
    return Design(inputs[0].label, pixels, pixels.shape[:2], (), input=inputs[0])
