"""Reads the designs that `check` judges, pictures or web pages, with their regions. Needs no TensorFlow.

A page is opened in a browser (`trainer.attention.browser`), and its elements become regions.
"""

import dataclasses
import importlib.util
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import numpy as np
from PIL import Image

from trainer.config import PageConfig
from trainer.downloads.servers import check_characters
from trainer.errors import UserError, check, printable, some
from trainer.files import local_path
from trainer.picture import MAX_PIXELS, Pixels, read_picture
from trainer.prediction.designs import check_aspect_ratios
from trainer.prediction.inputs import Input, find_inputs
from trainer.prediction.predict import open_input
from trainer.prediction.regions import Region

if TYPE_CHECKING:
    from trainer.attention.browser import Found

SCHEMES = ("http://", "https://")
SUFFIXES = (".html", ".htm", ".xhtml")
EXAMPLE = "https://example.com"


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


@dataclasses.dataclass(frozen=True)
class Shot:
    """The picture of a page with the regions of its elements."""

    png: bytes
    pixels: Pixels
    """(h, w, 3) RGB; a pixel of CSS is one pixel of the picture."""
    regions: tuple[Region, ...]
    """The part of each element that is in the picture, in whole pixels, in the order of the elements."""


def is_page(name: str) -> bool:
    """Return whether a design is a page: an address, or a file of HTML with or without a #fragment."""
    lower = name.lower()
    return lower.startswith(SCHEMES) or lower.endswith(SUFFIXES) or lower.partition("#")[0].endswith(SUFFIXES)


def parse_element(text: str) -> Element:
    """Parse `NAME=SELECTOR` or `SELECTOR`; `#buy` is named `buy`, any other selector by itself.

    Raises:
        UserError: there is no selector.
    """
    match = re.fullmatch(r"([\w .-]*\w) *=(.*)", text, re.DOTALL)
    name, selector = (match[1], match[2].strip()) if match else ("", text.strip())
    check(
        bool(selector), f"selector {text!r} is empty; give one of CSS, such as '#buy', or with a name: buy='#buy'"
    )
    own = selector[1:] if re.fullmatch(r"#[\w-]+", selector) else selector
    return Element(name.strip() or own, selector)


def take(name: str, elements: Sequence[Element], config: PageConfig, max_pixels: int = MAX_PIXELS) -> Shot:
    """Open a page in a browser that has never seen another one, and take its picture when it has come to rest.

    Args:
        name: address or HTML file.
        elements: what to find on it.
        config: size of the window, and limits.
        max_pixels: a larger picture is refused.

    Raises:
        UserError: there is no browser, the page does not load in time, or an element is not to be seen.
    """
    address, label = _address(name), page_label(name)
    check(
        importlib.util.find_spec("playwright") is not None,
        "pages are shown by playwright, which is not installed: run `make install`, or "
        f"`pip install 'msinet-pipelines[check]'`; or give a picture of {label}",
    )
    from trainer.attention.browser import photograph

    refused: list[str] = []
    try:
        taken = photograph(address, [each.selector for each in elements], label, config, max_pixels, refused)
    except TimeoutError:
        raise UserError(
            f"{label} was not there after {config.timeout_s:g} s; check that it loads, or raise --timeout-s"
        ) from None
    finally:
        _note_refused(label, refused)
    regions = tuple(_region(*each, label, taken.size) for each in zip(elements, taken.found, strict=True))
    return Shot(taken.png, read_picture(taken.png, label, max_pixels), regions)


def page_label(name: str) -> str:
    """Return a page's name for people, without a password."""
    scheme, separator, rest = name.partition("://")
    host, slash, path = rest.partition("/")
    return printable(f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}")


def _address(name: str) -> str:
    """Return the address that the browser opens for a name; raises `UserError` if there is none."""
    if name.lower().startswith(SCHEMES):
        check_characters(name, page_label(name))
        try:
            host = urlsplit(name).hostname
        except ValueError as error:
            raise UserError(f"{page_label(name)} is no address ({error}); give one such as {EXAMPLE}") from None
        check(bool(host), f"{page_label(name)} names no host; give an address such as {EXAMPLE}")
        return name
    file, fragment = (name, "") if name.lower().endswith(SUFFIXES) else name.split("#", 1)
    path = local_path(file).absolute()
    try:
        check(path.is_file(), f"{printable(file)} is no file; give an HTML file, an address or a picture")
        with path.open("rb"):
            return path.as_uri() + (f"#{quote(fragment)}" if fragment else "")
    except OSError as error:
        raise UserError(f"cannot read {printable(name)}: {error.strerror}") from None


def _note_refused(label: str, addresses: Sequence[str]) -> None:
    """Say which addresses a page did not get, which may change where attention falls."""
    if addresses:
        print(
            f"note: {label} did not get {some(list(dict.fromkeys(addresses)))}: a page may load what is below its "
            "own folder or on its own host, and public addresses",
            file=sys.stderr,
            flush=True,
        )


def _region(element: Element, found: "Found", label: str, size: tuple[int, int]) -> Region:
    """Return the region of an element: the only visible one that its selector matches."""
    what, boxes, count = f"selector {element.selector!r}", found.boxes, found.count
    check(count > 0, f"{what} matches nothing on {label}; check it in the browser's developer tools")
    several = "it is hidden" if count == 1 else f"all {count} elements that it matches are hidden"
    check(
        bool(boxes), f"{what} has no size on {label}: {several}, or 0 pixels wide or high; name what can be seen"
    )
    check(len(boxes) == 1, f"{what} matches {len(boxes)} elements on {label}; write it so that it matches one")
    sides = [round(side) for side in boxes[0]]
    height, width = size
    left, top, right, bottom = (
        min(max(side, 0), most) for side, most in zip(sides, (width, height, width, height), strict=True)
    )
    check(
        left < right and top < bottom,
        f"{what} is outside of the picture of {label}, which is {width} pixels wide and {height} high: it begins "
        f"{sides[0]} from the left and {sides[1]} from the top; use --full-page or a larger --viewport-height",
    )
    if [left, top, right, bottom] != sides:
        part = (right - left) * (bottom - top) / ((sides[2] - sides[0]) * (sides[3] - sides[1]))
        print(
            f"note: {part:.0%} of {element.selector!r} is in the picture of {label}", file=sys.stderr, flush=True
        )
    return Region(element.name, left, top, right - left, bottom - top)
