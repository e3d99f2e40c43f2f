"""Reads the designs that `check` judges, pictures or web pages, with their regions. Needs no TensorFlow.

A page is opened in a browser, and its elements become regions.
"""

import dataclasses
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from studio.browser_settings import PageConfig
from studio.difference import Pixels, check_aspect_ratios
from studio.web_pages import is_page, label_of, open_page
from trainer.api import MismatchError, Region, SettingError, read_picture
from trainer.tools import Input, PredictConfig, check, printable

if TYPE_CHECKING:
    from studio.browser import Found


@dataclasses.dataclass(frozen=True)
class Element:
    """An element of a page, found by a CSS selector, as a region."""

    name: str
    selector: str


@dataclasses.dataclass(frozen=True)
class Design:
    """A picture with the regions to measure in it."""

    label: str
    """Name of the design for people."""
    pixels: Pixels
    """(h, w, 3) RGB. On a page, a pixel of CSS is one pixel."""
    size: tuple[int, int]
    """(height, width) in pixels to which the regions refer. The map is resized to it."""
    regions: tuple[Region, ...] = ()
    """The part of each element of a page that is in its picture, in whole pixels."""
    png: bytes | None = None
    """Content of the PNG that the browser wrote of a page. None for a picture."""
    input: Input | None = None
    """The file of a picture. None for a page."""

    @property
    def resized(self) -> Pixels:
        """The picture's pixels, resized to `size`."""
        if self.pixels.shape[:2] == self.size:
            return self.pixels
        return np.asarray(Image.fromarray(self.pixels).resize(self.size[::-1], Image.Resampling.LANCZOS))


def parse_element(text: str) -> Element:
    """Parse `NAME=SELECTOR` or `SELECTOR`. `#buy` is named `buy`, any other selector by itself.

    Example:
        >>> parse_element("buy=form .submit")
        Element(name='buy', selector='form .submit')

    Raises:
        UserError: there is no selector.
    """
    match = re.fullmatch(r"([\w .-]*\w) *=(.*)", text, re.DOTALL)
    name, selector = (match[1].strip(), match[2].strip()) if match else ("", text.strip())
    check(
        bool(selector), f"selector {text!r} is empty: give one of CSS, such as '#buy' or buy='#buy'", SettingError
    )
    return Element(name or (selector[1:] if re.fullmatch(r"#[\w-]+", selector) else selector), selector)


def read_all(
    names: Sequence[str],
    regions: Sequence[Region],
    elements: Sequence[Element],
    config: PageConfig,
    max_pixels: int,
) -> list[Design]:
    """Read the design and, if there is one, its baseline.

    Rectangles are at the same place in both, in pixels of the first, as in `compare`. So they need the
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
    designs = []
    for name in names:
        if is_page(name):
            designs.append(take_design(name, elements, config, max_pixels))
            continue
        check(
            not elements,
            f"--selector finds nothing in {printable(name)}, which is a picture: use --region",
            MismatchError,
        )
        image = Input.find(name)
        pixels = image.open(max_pixels).decode()
        designs.append(Design(image.label, pixels, pixels.shape[:2], input=image))
    if regions and len(designs) > 1:
        check_aspect_ratios([each.label for each in designs], [each.pixels.shape for each in designs])
        if not elements:
            designs[1] = dataclasses.replace(designs[1], size=designs[0].size)
    designs = [dataclasses.replace(each, regions=(*regions, *each.regions)) for each in designs]
    for design in designs:
        for region in design.regions:
            region.box(design.size, design.label)
    return designs


def take_design(
    name: str, elements: Sequence[Element], config: PageConfig, max_pixels: int = PredictConfig().most_pixels
) -> Design:
    """Open a page in a browser that has never seen another one, and take its picture when it has come to rest.

    Args:
        name: address or HTML file.
        elements: what to find on it.
        config: size of the window, and limits.
        max_pixels: a larger picture is refused.

    Raises:
        UserError: there is no browser, the page does not load in time, or an element is not to be seen.
    """
    label = label_of(name)
    png, found = open_page(name, [each.selector for each in elements], config, max_pixels)
    pixels = read_picture(png, label, max_pixels)
    size = pixels.shape[:2]
    regions = tuple(_region(*each, label, size) for each in zip(elements, found, strict=True))
    return Design(label, pixels, size, regions, png=png)


def _region(element: Element, found: "Found", label: str, size: tuple[int, int]) -> Region:
    """Return the region of an element: the only visible one that its selector matches."""
    what = f"selector {element.selector!r}"
    check(
        len(found.boxes) == 1,
        f"{what} matches {found.count} elements on {label}, of which {len(found.boxes)} can be seen: write it so "
        "that it matches one that can be seen",
        MismatchError,
    )
    sides = [round(side) for side in found.boxes[0]]
    height, width = size
    limits = (width, height, width, height)
    left, top, right, bottom = (min(max(side, 0), most) for side, most in zip(sides, limits, strict=True))
    check(
        left < right and top < bottom,
        f"{what} is outside of the picture of {label}: it begins {sides[0]} pixels from the left and {sides[1]} "
        "from the top: use --full-page or a larger --viewport-height",
        MismatchError,
    )
    if [left, top, right, bottom] != sides:
        part = (right - left) * (bottom - top) / ((sides[2] - sides[0]) * (sides[3] - sides[1]))
        print(
            f"note: {part:.0%} of {element.selector!r} is in the picture of {label}", file=sys.stderr, flush=True
        )
    return Region(element.name, left, top, right - left, bottom - top)
