"""A report on one image or two: maps, regions, legend and figures on one page, as PNG or PDF."""

import io
import json
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from PIL import Image

from trainer import schema
from trainer.demo import screens
from trainer.demo.meanings import CAUTION, COLORS, MEANINGS
from trainer.errors import UserError, check
from trainer.evaluation.wording import MINUS, TIMES
from trainer.heat import CHANGE, HEAT, blend_change, color_scale, colored, tint
from trainer.picture import Pixels, read_picture
from trainer.prediction.predictor import Predictor
from trainer.prediction.regions import Measure, Region, measure
from trainer.prediction.render import FONT
from trainer.text import shown

TYPES = {"png": "image/png", "pdf": "application/pdf"}
MAX_REGIONS = 100
MAX_SIDE_PX = 1100
"""Longer side of an image in the report; that of a tall one may have more."""
DPI = 150
WIDTH, MARGIN, GAP = 8.27, 0.55, 0.22
"""Inches: a page of A4, or a longer one, which printers fit to the paper."""
MIN_HEIGHT = 11.69
CONTENT = WIDTH - 2 * MARGIN
COLUMN = (CONTENT - GAP) / 2
NARROWEST, HIGHEST = 2.2, 24.0
"""Inches: a tall picture is at least so wide, unless it becomes higher than this."""
LABEL_SIZE, LETTER = 6.5, 0.56
"""Points of a region's label, and the part of them that a letter is wide."""
LINE, ROW = 0.19, 0.25
INK, SOFT, RULE, AMBER = "#1b1f24", "#59636e", "#dfe3e8", "#fcebe0"


@dataclass(frozen=True)
class Box:
    """A region as the page sends it, in pixels of its image."""

    name: str
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Head:
    """One image as the page announces it."""

    name: str
    bytes: int
    """Length of its file."""
    regions: list[Box]


@dataclass(frozen=True)
class Contents:
    """What the page announces: the first line of what it sends, as JSON."""

    screen: str
    """Of `screens.SCREENS`; empty for whole images."""
    pictures: list[Head]
    """A, or A and B with the same regions."""


@dataclass(frozen=True)
class Posted:
    """What the page sends: the contents, and the files in their order."""

    contents: Contents
    files: list[bytes]


@dataclass(frozen=True)
class Part:
    """An image of the report."""

    name: str
    size: tuple[int, int]
    """(h, w) of the image."""
    n_screens: int
    image: Pixels
    """Reduced, as is its map."""
    map: NDArray[np.float32]
    boxes: list[Box]
    measures: list[Measure]


def parse(data: bytes) -> Posted:
    """Parse what the page sends for a report: a line of JSON, and then the bytes of one image or two.

    Raises:
        UserError: it has another form.
    """
    line, _, rest = data.partition(b"\n")
    try:
        contents: Contents = schema.read(json.loads(line), Contents)
    except (ValueError, RecursionError, schema.MismatchError) as error:
        raise UserError(
            f"the first line of a report's request is not its contents ({shown(str(error))})"
        ) from None
    lengths = [picture.bytes for picture in contents.pictures]
    counts = {len(picture.regions) for picture in contents.pictures}
    check(len(lengths) in (1, 2), f"a report is on one image or two, not on {len(lengths)}")
    check(
        min(lengths) >= 0 and sum(lengths) == len(rest),
        f"images of {lengths} bytes are announced, not {len(rest)}",
    )
    check(len(counts) == 1, "both images of a report have the same regions")
    check(max(counts) <= MAX_REGIONS, f"a report has at most {MAX_REGIONS} regions; remove some")
    check(contents.screen in ("", *screens.SCREENS), f"screens are {' or '.join(screens.SCREENS)}")
    return Posted(contents, [rest[: lengths[0]], *([rest[lengths[0] :]] if len(lengths) == 2 else [])])


def write(predictor: Predictor, posted: Posted, format: str, model: str, notice: str, hint: str = "") -> bytes:
    """Write a report.

    Args:
        predictor: predicts the maps.
        posted: the images and their regions.
        format: of TYPES.
        model: what the report calls the model.
        notice: what the model must say about itself; empty if nothing.
        hint: how far its maps can be trusted; empty if nothing is known.

    Raises:
        UserError: an image cannot be read, or a region is not inside it.
    """
    heads = posted.contents.pictures
    parts = [
        _part(predictor, head, data, posted.contents.screen)
        for head, data in zip(heads, posted.files, strict=True)
    ]
    page = _Page()
    _write_head(page, model, notice, hint)
    for slot, part in zip("AB", parts, strict=False):
        _write_part(page, part, slot if len(parts) > 1 else "")
    if len(parts) == 2:
        _write_difference(page, parts)
    else:
        page.colorbar(HEAT, "low", "high attention", MARGIN)
        page.down(0.42)
    _write_table(page, parts)
    _write_meanings(page, len(parts) == 2)
    return page.saved(format)


def _part(predictor: Predictor, head: Head, data: bytes, screen: str) -> Part:
    name = shown(head.name)
    image = read_picture(data, name, screens.MAX_PIXELS)
    whole, n_screens = screens.predict(predictor, image, screen)
    regions = [Region(shown(box.name), box.x, box.y, box.width, box.height) for box in head.regions]
    for region in regions:
        check(region.width > 0 and region.height > 0, f"region {region} is empty")
    height, width = image.shape[:2]
    scale = min(1.0, max(MAX_SIDE_PX / max(height, width), DPI * min(NARROWEST / width, HIGHEST / height)))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = np.asarray(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS))
    small_map = np.asarray(Image.fromarray(whole).resize(size, Image.Resampling.BOX))
    return Part(name, (height, width), n_screens, small, small_map, head.regions, measure(whole, regions))


# === What stands on the page ===


def _write_head(page: "_Page", model: str, notice: str, hint: str) -> None:
    page.text("Where people look", 19, INK, weight="bold")
    page.down(0.36)
    page.paragraph(f"Predicted by {model} on {time.strftime('%Y-%m-%d')}. {hint}")
    if notice:
        lines = page.wrapped(notice, 9, CONTENT - 0.3)
        page.rectangle(MARGIN, CONTENT, len(lines) * LINE + 0.16, AMBER)
        page.down(0.08)
        page.lines(lines, 9, INK, MARGIN + 0.15)
        page.down(0.08)
    page.down(0.16)


def _write_part(page: "_Page", part: Part, slot: str) -> None:
    height, width = part.size
    page.text(page.shortened(f"{slot}   {part.name}".strip(), 11, CONTENT - 2.6), 11, INK, weight="bold")
    seen = f", seen as {part.n_screens} screens" if part.n_screens > 1 else ""
    page.text(f"{width} {TIMES} {height} pixels{seen}", 9, SOFT, WIDTH - MARGIN, align="right")
    page.down(0.27)
    across = _across(part.size, 2.9 if slot else 7.2)
    for left, pixels in ((MARGIN, tint(part.image, part.map)), (MARGIN + across + GAP, colored(part.map))):
        _draw_boxes(page.picture(pixels, left, across), part, across)
    page.down(across * height / width + 0.16)


def _across(size: tuple[int, int], highest: float) -> float:
    """Inches: how wide a picture of a size (h, w) is drawn, which is higher than `highest` only if it is tall."""
    ratio = size[1] / size[0]
    return min(COLUMN, max(highest * ratio, min(NARROWEST, HIGHEST * ratio)))


def _draw_boxes(axes: Axes, part: Part, across: float) -> None:
    """Draw the regions of a picture that is `across` inches wide; their labels stay inside it."""
    letter = LETTER * LABEL_SIZE / 72
    most = int(across / letter) - 1
    scale = len(part.image) / part.size[0]
    for index, (box, measured) in enumerate(zip(part.boxes, part.measures, strict=True)):
        color = COLORS[index % len(COLORS)]
        corner = (box.x * scale - 0.5, box.y * scale - 0.5)
        for line, ink in ((2.6, "#000000b0"), (1.2, color)):
            shape = Rectangle(
                corner, box.width * scale, box.height * scale, fill=False, edgecolor=ink, linewidth=line
            )
            axes.add_patch(shape)
        share = f" · {measured.share:.1%}"
        label = _short(measured.region.name, min(28, max(1, most - len(share)))) + share
        right = 1 - (len(label) + 1) * letter / across
        left = max(0.0, min(box.x / part.size[1], right)) * part.image.shape[1]
        is_top = box.y < 0.06 * part.size[0]
        axes.annotate(
            _drawable(label),
            (left - 0.5, corner[1]),
            (0, -2 if is_top else 2),
            textcoords="offset points",
            ha="left",
            va="top" if is_top else "bottom",
            size=LABEL_SIZE,
            color="white",
            bbox={"facecolor": "#0d0f12d8", "edgecolor": "none", "boxstyle": "round,pad=0.25"},
            annotation_clip=False,
            parse_math=False,
        )


def _write_difference(page: "_Page", parts: Sequence[Part]) -> None:
    a, b = parts
    other = np.asarray(Image.fromarray(a.map).resize(b.map.shape[::-1], Image.Resampling.BILINEAR))
    change = b.map / max(b.map.mean(), 1e-12) - other / max(other.mean(), 1e-12)
    drawn = blend_change(b.image, change)
    height, width = b.size
    page.text("What changes from A to B", 11, INK, weight="bold")
    page.down(0.27)
    across = _across(b.size, 2.9)
    page.picture(drawn, MARGIN, across)
    left = MARGIN + across + GAP
    page.text("The maps above", 9, SOFT, left)
    page.down(0.2)
    page.colorbar(HEAT, "low", "high attention", left)
    page.down(0.4)
    page.text("The difference", 9, SOFT, left)
    page.down(0.2)
    page.colorbar(CHANGE, "more on A", "more on B", left)
    page.down(max(across * height / width - 0.8, 0.3) + 0.16)


def _write_table(page: "_Page", parts: Sequence[Part]) -> None:
    if not parts[0].measures:
        return
    rows = list(zip(*(part.measures for part in parts), strict=True))
    columns: dict[str, Callable[..., str]] = {
        "Share": lambda a: f"{a.share:.1%}",
        "Area": lambda a: f"{a.area:.1%}",
        "Ratio": lambda a: f"{a.ratio:.1f}{TIMES}",
        "Peak": lambda a: f"{a.peak:.0%}",
        "Rank": lambda a: str(a.rank),
    }
    if len(parts) == 2:
        columns = {
            "Share A": lambda a, b: f"{a.share:.1%}",
            "Share B": lambda a, b: f"{b.share:.1%}",
            f"B {MINUS} A": lambda a, b: f"{100 * (b.share - a.share):+.1f} pp".replace("-", MINUS),
            "Ratio A": lambda a, b: f"{a.ratio:.1f}{TIMES}",
            "Ratio B": lambda a, b: f"{b.ratio:.1f}{TIMES}",
        }
    ends = [WIDTH - MARGIN - 0.85 * index for index in reversed(range(len(columns)))]
    page.text("Region", 9, SOFT, MARGIN + 0.2)
    for right, heading in zip(ends, columns, strict=True):
        page.text(heading, 9, SOFT, right, align="right")
    page.down(ROW)
    for index, measures in enumerate(rows):
        page.rectangle(MARGIN, CONTENT, 0.008, RULE, above=0.05)
        page.rectangle(MARGIN, 0.12, 0.12, COLORS[index % len(COLORS)], edge=SOFT)
        name = page.shortened(measures[0].region.name, 9.5, ends[0] - 0.6 - MARGIN - 0.2)
        page.text(name, 9.5, INK, MARGIN + 0.2, weight="bold")
        for right, written in zip(ends, columns.values(), strict=True):
            page.text(written(*measures), 9.5, INK, right, align="right")
        page.down(ROW)
    page.down(0.08)


def _write_meanings(page: "_Page", comparing: bool) -> None:
    names = ("Share", "Ratio", "pp") if comparing else ("Share", "Area", "Ratio", "Peak", "Rank")
    for name in names:
        page.paragraph(f"{name}: {MEANINGS[name]}")
    page.paragraph(CAUTION)


def _short(name: str, most: int) -> str:
    return textwrap.shorten(name, most, placeholder="…") if " " in name[:most] else name[:most]


def _drawable(text: str) -> str:
    """The text without letters that the font lacks, which would be warnings on the terminal."""
    font = get_font(str(FONT))
    return "".join(letter if font.get_char_index(ord(letter)) else "\N{REPLACEMENT CHARACTER}" for letter in text)


# === The page itself ===


class _Page:
    """A page that is written from top to bottom. Lengths are inches from the left and from the top."""

    def __init__(self) -> None:
        self._y = MARGIN
        self._figure = Figure(figsize=(WIDTH, MIN_HEIGHT), dpi=DPI, facecolor="white")
        self._canvas = FigureCanvasAgg(self._figure)
        self._placed: list[tuple[Callable[[float], None], float]] = []
        """What is drawn at the end, when the page's height is known, and where its top is."""

    def down(self, inches: float) -> None:
        """Go on further down."""
        self._y += inches

    def text(
        self, text: str, size: float, color: str, x: float = MARGIN, align: str = "left", weight: str = "normal"
    ) -> None:
        """Write a line, `size` in points."""

        def place(y: float) -> None:
            self._figure.text(
                x / WIDTH, y, _drawable(text), size=size, color=color, ha=align, va="top", weight=weight,
                parse_math=False,
            )  # fmt: skip

        self._placed.append((place, self._y))

    def lines(self, lines: Sequence[str], size: float, color: str, x: float) -> None:
        """Write lines, one below the other, and go on below them."""
        for line in lines:
            self.text(line, size, color, x)
            self.down(LINE)

    def paragraph(self, text: str) -> None:
        """Write a small text over the whole width, and go on below it."""
        self.lines(self.wrapped(text, 9, CONTENT), 9, SOFT, MARGIN)

    def wrapped(self, text: str, size: float, width: float) -> list[str]:
        """The lines of a text; the mean letter is 0.53 of the size wide."""
        return textwrap.wrap(text, int(width * 72 / (0.53 * size)))

    def shortened(self, text: str, size: float, width: float) -> str:
        """The text, with an ellipsis for its middle if it may be too wide for bold letters."""
        most = int(width * 72 / (0.68 * size))
        return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2) :]}"

    def rectangle(
        self, x: float, width: float, height: float, color: str, above: float = 0, edge: str = "none"
    ) -> None:
        """Fill a rectangle whose top is `above` the present place."""

        def place(y: float) -> None:
            total = self._figure.get_figheight()
            shape = Rectangle(
                (x / WIDTH, y - height / total), width / WIDTH, height / total,
                facecolor=color, edgecolor=edge, linewidth=0.5, transform=self._figure.transFigure,
            )  # fmt: skip
            self._figure.add_artist(shape)

        self._placed.append((place, self._y - above))

    def picture(self, pixels: Pixels, x: float, width: float) -> Axes:
        """Draw (h, w, 3) at the present place; returns the axes in the picture's pixels."""
        height = width * pixels.shape[0] / pixels.shape[1]
        axes = self._figure.add_axes((0, 0, 1, 1))
        axes.imshow(pixels, aspect="auto")
        axes.set_axis_off()

        def place(y: float) -> None:
            total = self._figure.get_figheight()
            axes.set_position((x / WIDTH, y - height / total, width / WIDTH, height / total))

        self._placed.append((place, self._y))
        return axes

    def colorbar(self, colors: Colormap, low: str, high: str, x: float) -> None:
        """Draw a legend: a row of colours with words below its ends."""
        self.picture(color_scale(height=12, colors=colors), x, 2.6)
        self._y += 0.15
        self.text(low, 8, SOFT, x)
        self.text(high, 8, SOFT, x + 2.6, align="right")
        self._y -= 0.15

    def saved(self, format: str) -> bytes:
        """The page as a file."""
        height = max(MIN_HEIGHT, self._y + MARGIN)
        self._figure.set_size_inches(WIDTH, height)
        for place, top in self._placed:
            place(1 - top / height)
        buffer = io.BytesIO()
        options: dict[str, Any] = {"pil_kwargs": {"compress_level": 1}} if format == "png" else {}
        self._figure.savefig(buffer, format=format, metadata={"Title": "Where people look"}, **options)
        return buffer.getvalue()
