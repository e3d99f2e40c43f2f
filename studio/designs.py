"""Reads the designs that `check` judges, pictures or web pages, with their regions. Needs no TensorFlow.

A page is opened in a browser, and its elements become regions.
"""

import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from studio.browser_settings import PageConfig
from studio.difference import Pixels, check_aspect_ratios
from studio.web_pages import is_page, label_of, open_page
from trainer.api import MismatchError, Region, SettingError, read_picture
from trainer.tools import Input, PredictConfig, check, printable, shown as one_line

if TYPE_CHECKING:
    from studio.browser import Found, Shown

LEAST_PX, LEAST_LONG_PX = 16, 32
"""Sides of the smallest element that is offered as a region."""
LONGEST_NAME = 40


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
    same aspect ratio. Elements are found on each page, and so are regions with a selector,
    which a picture has at their places.

    Args:
        names: one or two: pictures, addresses or HTML files.
        regions: regions of both, in pixels of the first.
        elements: elements of both, which are pages then.
        config: how pages are shown.
        max_pixels: a larger picture is refused.

    Raises:
        UserError: one cannot be read or shown, a region is not inside it, or the aspect ratios differ.
    """
    for name in names:
        check(
            is_page(name) or not elements,
            f"--selector finds nothing in {printable(name)}, which is a picture: use --region",
            MismatchError,
        )
    if not any(map(is_page, names)):
        regions = [dataclasses.replace(each, selector="") for each in regions]
    rectangles = [each for each in regions if not each.selector]
    elements = [*(Element(each.name, each.selector) for each in regions if each.selector), *elements]
    designs = []
    for name in names:
        if is_page(name):
            shot = take_design(name, elements, config, max_pixels)
            designs.append(dataclasses.replace(shot, regions=(*rectangles, *shot.regions)))
            continue
        image = Input.find(name)
        pixels = image.open(max_pixels).decode()
        designs.append(Design(image.label, pixels, pixels.shape[:2], tuple(regions), input=image))
    if rectangles and len(designs) > 1:
        check_aspect_ratios([each.label for each in designs], [each.pixels.shape for each in designs])
        if not elements:
            designs[1] = dataclasses.replace(designs[1], size=designs[0].size)
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
    png, found, _ = open_page(name, [each.selector for each in elements], config, max_pixels)
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
    left, top, right, bottom = _clipped(sides, size)
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


def _clipped(box: Sequence[float], size: tuple[int, int]) -> list[int]:
    """Return the sides of a box (left, top, right, bottom) in a picture of a `size` (h, w), in whole pixels."""
    limits = size[::-1] * 2
    return [min(max(round(side), 0), most) for side, most in zip(box, limits, strict=True)]


def offered(shown: "Shown") -> list[tuple[str, Region]]:
    """Return the kind and the region of each own element of a page that can be measured in its picture.

    Small ones are left out, and those at the place of another one. Each name is on one short line, and no two are
    the same.
    """
    size = read_picture(shown.content, "the page").shape[:2]
    regions: dict[tuple[int, ...], tuple[str, Region]] = {}
    names: Counter[str] = Counter()
    for kind, text, selector, found in shown.offers:
        if len(found.boxes) != 1:
            continue
        left, top, right, bottom = place = tuple(_clipped(found.boxes[0], size))
        width, height = right - left, bottom - top
        if place in regions or min(width, height) < LEAST_PX or max(width, height) < LEAST_LONG_PX:
            continue
        line = one_line(text) or kind
        name = line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 3].rstrip()}..."
        names[name] += 1
        numbered = f"{name} {names[name]}" if names[name] > 1 else name
        regions[place] = kind, Region(numbered, left, top, width, height, selector=selector)
    return list(regions.values())
