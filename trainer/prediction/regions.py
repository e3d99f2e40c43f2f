"""Measures how much attention rectangles of an image, or of a screen of a long page, get. Needs no TensorFlow."""

import dataclasses
import itertools
import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NotRequired

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from trainer.errors import AmbiguousError, ContentError, MismatchError, SettingError, check
from trainer.io import read_json
from trainer.prediction.saliency_map import screens_of
from trainer.texts import printable

SYNTAX = (
    "NAME:X,Y,WIDTH,HEIGHT, either in pixels from the top left (logo:20,10,200,80) or all four in percent "
    "(logo:5%,2%,20%,8%)"
)
PEAK_LEVEL, PEAK_RADIUS = 0.9, 0.05
"""What belongs to a peak: values above this part of the largest, within this part of the map's longer side."""
FOCUS_AREA = 0.1
"""Share of the image's pixels in which `focus` counts the attention."""
FOCUS_PIXELS = 10**6
HEAT_CELLS = 8
"""Cells of `heat_of` in a row, and in a column."""
MOST_BYTES = 2**23
"""Largest file of regions that is read: `predict` writes some 600 bytes for an image."""
REMEDY = "give the JSON file of regions that the demo's page saves, or that `predict --region ... --json` writes"


class MarkedRegion(TypedDict):
    """An entry of the list that the demo's page saves, in pixels of its picture, from the top left."""

    picture: str
    """The picture that it was marked on: A or B."""
    region: str
    """The region's name."""
    x: float
    y: float
    width: float
    height: float
    selector: NotRequired[str]
    """A selector of CSS that finds the element of a page that it is. Empty for a rectangle alone."""


class WrittenRegion(TypedDict):
    """A region in what `predict --json` writes."""

    region: str
    """The region as `--region` takes it."""


class PredictedImage(TypedDict, total=False):
    """An image in what `predict --json` writes. One that could not be read has no regions."""

    regions: list[WrittenRegion]


class Predicted(TypedDict):
    """The file that `predict --json` writes."""

    images: list[PredictedImage]


@dataclasses.dataclass(frozen=True)
class Region:
    """A named rectangle, in pixels of the image from its top left.

    Example:
        >>> str(Region("logo", 20, 10, 200, 80))
        'logo:20,10,200,80'
    """

    name: str
    x: float
    y: float
    width: float
    height: float
    percent: bool = False
    """True if the numbers are percentages of the image's width and height, False if they are pixels."""
    selector: str = ""
    """A selector of CSS that finds it on a page, where it may have moved. Empty for a rectangle alone."""

    @classmethod
    def parse(cls, text: str) -> "Region":
        """Parse a region of the form `name:x,y,width,height`, in pixels or all four in percent.

        Example:
            >>> Region.parse("logo:5%,2%,20%,8%")
            Region(name='logo', x=5.0, y=2.0, width=20.0, height=8.0, percent=True)

        Raises:
            UserError: it has another syntax, or is empty.
        """
        name, _, numbers = text.rpartition(":")
        parts = [part.strip() for part in numbers.split(",")]
        percent = all(part.endswith("%") for part in parts)
        try:
            x, y, width, height = (float(part.removesuffix("%") if percent else part) for part in parts)
        except ValueError:
            x = y = width = height = math.nan
        is_rectangle = all(map(math.isfinite, (x, y))) and 0 < width < math.inf and 0 < height < math.inf
        check(
            bool(name.strip()) and is_rectangle,
            f"region {text!r} is not of the form {SYNTAX}, with sides above 0",
            SettingError,
        )
        return cls(name.strip(), x, y, width, height, percent)

    def box(self, size: tuple[int, int], image: str = "the image") -> tuple[slice, slice]:
        """Return the region's rows and columns in an image of `size` (h, w), at least one pixel each.

        Raises:
            UserError: it is not inside the image, which the message calls `image`.
        """
        height, width = size
        x, y, across, down = self.x, self.y, self.width, self.height
        if self.percent:
            x, across, y, down = x * width / 100, across * width / 100, y * height / 100, down * height / 100
        slices = []
        for start, length, whole in ((y, down, height), (x, across, width)):
            # Percentages may be off by a hundredth of a pixel.
            if start < 0 or start + length > whole + 0.01:
                raise MismatchError(
                    f"region {self} is not inside {image}, which is {width} pixels wide and {height} high: move it"
                )
            first = min(round(start), whole - 1)
            slices.append(slice(first, min(whole, max(first + 1, round(start + length)))))
        return slices[0], slices[1]

    def scaled(self, across: float, down: float) -> "Region":
        """Return the same part of an image that is `across` times as wide and `down` times as high."""
        if self.percent:
            return self
        x, width, y, height = self.x * across, self.width * across, self.y * down, self.height * down
        return dataclasses.replace(self, x=x, y=y, width=width, height=height)

    def __str__(self) -> str:
        sign = "%" if self.percent else ""
        numbers = (self.x, self.y, self.width, self.height)
        return f"{self.name}:" + ",".join(f"{number:g}{sign}" for number in numbers)


@dataclasses.dataclass(frozen=True)
class Measure:
    """The attention that a region gets.

    Example:
        >>> (button,) = measure(saliency, "button:64,412,262,57")
        >>> button.share, button.ratio  # such as 4.2% of the attention on 1.7% of the area
        (0.042, 2.45)
    """

    region: Region
    share: float
    """Part of the map's sum that falls into the region, 0..1. On a long page, it is a part of the screen's sum."""
    area: float
    """Part of the pixels of the image or screen that the region covers, 0..1."""
    ratio: float
    """Share divided by area. It is 1 if attention were spread evenly."""
    peak: float
    """Largest value in the region divided by the largest of the map or screen, 0..1."""
    peak_at: tuple[int, int]
    """(y, x) of the peak (`peak_of`) in the region, pixels of the image."""
    rank: int
    """Place by share among the regions of the image or screen, 1 for the largest. Equal ones have equal ranks."""
    screen: int | None = None
    """Screen of a long page, 1 for the top, on which all this is measured. None if the image is not cut."""

    @property
    def of_screen(self) -> str:
        """What the share is a part of, such as ` of screen 2`. Empty if it is the image."""
        return f" of screen {self.screen}" if self.screen else ""

    def as_json(self) -> dict[str, Any]:
        """Convert the measures to values for JSON."""
        numbers = dataclasses.asdict(self)
        return {"name": self.region.name, **numbers, "region": str(self.region)}


def parse_regions(texts: Sequence[str], others: Sequence[str] = ()) -> list[Region]:
    """Parse regions, each as `Region.parse` does, in their order.

    Example:
        >>> [region.name for region in parse_regions(["logo:0,0,10,10", "button:20,300,160,48"])]
        ['logo', 'button']

    Args:
        texts: such as `logo:5%,2%,20%,8%`.
        others: the names of further regions, which need other names too.

    Raises:
        UserError: one has another form, or several regions have the same name.
    """
    parsed = [Region.parse(text) for text in texts]
    names = [*(region.name for region in parsed), *others]
    repeated = sorted({name for name in names if names.count(name) > 1})
    check(not repeated, f"several regions are named {', '.join(repeated)}: give each its own name", AmbiguousError)
    return parsed


def focus(map: npt.NDArray[np.floating]) -> float:
    """Return the share of a map's sum on its most salient tenth of pixels: 0.1 if all are equal, at most 1.

    Of a long page, it is the mean over its screens. Of a large map or screen, a grid of about a million of its
    pixels is taken.
    """
    return float(np.mean([_focus(screen.map) for screen in screens_of(map)]))


def _focus(map: npt.NDArray[np.floating]) -> float:
    step = math.ceil(math.sqrt(map.size / FOCUS_PIXELS))
    values = np.asarray(map)[::step, ::step].ravel()
    total = float(values.sum(dtype=np.float64))
    rest = values.size - max(1, round(FOCUS_AREA * values.size))
    return float(np.partition(values, rest)[rest:].sum(dtype=np.float64)) / total if total else FOCUS_AREA


def heat_of(map: npt.NDArray[np.floating]) -> list[float]:
    """Return the share of a map's sum in each cell of a grid of HEAT_CELLS x HEAT_CELLS, row by row from the top.

    The shares sum to 1. Of an image with fewer pixels than cells in a row or a column, some cells are 0. All are
    0 if the map is.
    """
    grid = np.asarray(map)
    for axis in (0, 1):
        edges = np.linspace(0, grid.shape[axis], HEAT_CELLS + 1).astype(int)
        parts = (np.moveaxis(grid, axis, 0)[slice(*pair)] for pair in itertools.pairwise(edges))
        grid = np.stack([part.sum(axis=0, dtype=np.float64) for part in parts], axis)
    total = float(grid.sum())
    return [float(share) for share in (grid / total if total else grid).ravel()]


def peak_of(map: npt.NDArray[np.floating]) -> tuple[int, int]:
    """Return (y, x) of the peak of a map (h, w), in pixels. Of equal peaks, it is the first from the top.

    It is the mean place of the values above PEAK_LEVEL of the largest one, weighted by how much they are above it,
    within PEAK_RADIUS of it. The largest pixel alone would move by several when a map's last digits change. It is
    taken where the mean place is lower than PEAK_LEVEL.
    """
    y, x = (int(index) for index in np.unravel_index(map.argmax(), map.shape))
    radius = max(1, round(PEAK_RADIUS * max(map.shape)))
    top, left = max(0, y - radius), max(0, x - radius)
    near = map[top : y + radius + 1, left : x + radius + 1].astype(np.float64)
    weights = np.maximum(near - PEAK_LEVEL * near.max(), 0)
    if not weights.any():
        return y, x
    rows, columns = weights.sum(axis=1), weights.sum(axis=0)
    centre = (np.average(np.arange(len(each)), weights=each) for each in (rows, columns))
    row, column = (int(first + place + 0.5) for first, place in zip((top, left), centre, strict=True))
    # Between two peaks, or within a ring, the mean place is on neither.
    return (row, column) if map[row, column] >= PEAK_LEVEL * map[y, x] else (y, x)


def measure_regions(map: npt.NDArray[np.floating], regions: Sequence[Region]) -> list[Measure]:
    """Measure a saliency map (h, w), 0 or above, in each region, in their order.

    On the map of a long page, a region is measured on the one screen that has most of its rows, or on the first of
    several that have equally many.

    Raises:
        UserError: a region is not inside the image.
    """
    screens = screens_of(map)
    totals = [float(screen.map.sum(dtype=np.float64)) for screen in screens]
    places, shares = [], []
    for region in regions:
        rows, columns = region.box((map.shape[0], map.shape[1]))
        parts = [
            slice(max(rows.start, seen.start) - seen.start, min(rows.stop, seen.stop) - seen.start)
            for seen, _ in screens
        ]
        index = max(range(len(screens)), key=lambda each: parts[each].stop - parts[each].start)
        box, total = screens[index].map[parts[index], columns], totals[index]
        area = box.size / screens[index].map.size
        # A map that is 0 everywhere counts as evenly spread.
        shares.append(float(box.sum(dtype=np.float64)) / total if total else area)
        places.append((index, parts[index], columns, area))
    measures = []
    for region, (index, part, columns, area), share in zip(regions, places, shares, strict=True):
        screen = screens[index]
        inside, largest = screen.map[part, columns], float(screen.map.max())
        y, x = peak_of(inside)
        peak = float(inside.max()) / largest if largest else 0.0
        at = (screen.rows.start + part.start + y, columns.start + x)
        rank = 1 + sum(other[0] == index and more > share for other, more in zip(places, shares, strict=True))
        number = index + 1 if len(screens) > 1 else None
        measures.append(Measure(region, share, area, share / area, peak, at, rank, number))
    return measures


def read_regions(path: str | os.PathLike[str]) -> list[Region]:
    """Read the regions of the first picture in a file that has some, in the order of the file, with selectors.

    Example:
        >>> measure(saliency, *read_regions("regions.json"))

    Raises:
        UserError: it cannot be read, is another file, or has no regions.
    """
    content = read_json(pathlib.Path(path), REMEDY, list[MarkedRegion] | Predicted, MOST_BYTES)
    if isinstance(content, list):
        marked = [entry for entry in content if entry["picture"] == content[0]["picture"]]
        texts = ["{region}:{x!r},{y!r},{width!r},{height!r}".format_map(entry) for entry in marked]
        selectors = [entry.get("selector", "") for entry in marked]
    else:
        measured = [image["regions"] for image in content["images"] if image.get("regions")]
        texts = [entry["region"] for entry in measured[0]] if measured else []
        selectors = [""] * len(texts)
    check(bool(texts), f"{printable(str(path))} has no regions: {REMEDY}", ContentError)
    parsed = zip(map(Region.parse, texts), selectors, strict=True)
    return [dataclasses.replace(region, selector=selector) for region, selector in parsed]
