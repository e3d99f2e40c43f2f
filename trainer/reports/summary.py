"""One page to share, as a PNG and as a PDF: the verdict, the scores and three examples."""

import dataclasses
import os
import pathlib
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from trainer import files
from trainer.evaluation import wording
from trainer.heat import color_scale
from trainer.picture import Pixels
from trainer.reports.pages import Facts

N_EXAMPLES = 3
MAX_VERDICTS = 2
MAX_MODELS = 3
"""Columns of scores that the page has room for."""
SUFFIXES = (".png", ".pdf")
GENERATED = "Generated shapes"
"""Headline of the notices."""
PAGE = (11.69, 8.27)
"""Width and height in inches: A4."""
MARGIN, GAP, EXAMPLES_WIDTH, TABLE_LEFT = 0.5, 0.1, 6.65, 7.45
"""Inches."""
COLUMNS = 102
"""Characters in a line of a verdict."""
DPI = 150
INK, SOFT, LINE, CARD = "#1b1f24", "#59636e", "#dfe3e8", "#ffffff"
TONES = {"good": ("#0f6b52", "#e2f3ed"), "bad": ("#a03c00", "#fcebe0"), "plain": ("#0067a6", "#e6f1f8")}
"""Tone of a verdict -> colours of its headline and its background, as in `colors.css`."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """The content of the page."""

    kicker: str
    title: str
    head: Facts
    notices: Sequence[str]
    """What a reader must know first, such as that the images are generated shapes."""
    verdicts: Sequence[tuple[str, str, str]]
    """One of TONES, a headline and a sentence each."""
    caption: str
    """Of the scores."""
    models: Sequence[Mapping[str, str]]
    rows: Sequence[Mapping[str, Any]]
    """As `score_rows.describe_scores` returns both."""
    examples: Sequence[tuple[str, Mapping[str, Pixels]]]
    """Caption, and label -> picture (h, w, 3), of up to N_EXAMPLES images."""


def write(stem: str | os.PathLike[str], summary: Summary) -> list[pathlib.Path]:
    """Write the page to the files `stem` with each of SUFFIXES, and return them; they replace older ones."""
    figure = _Page(summary).figure
    paths = [pathlib.Path(f"{os.fspath(stem)}{suffix}") for suffix in SUFFIXES]
    with warnings.catch_warnings(), matplotlib.rc_context({"pdf.fonttype": 42}):
        # A name may have letters that the font lacks: they are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for path in paths:
            with files.replacing(path) as partial:
                figure.savefig(partial, dpi=DPI, metadata={"Title": f"{summary.kicker}: {summary.title}"})
    return paths


def caption(n_images: str, dataset: str, level: float) -> str:
    """What the scores of a page are: `n_images` as text, and the level of the intervals."""
    return (
        f"Mean over {n_images} {wording.images_of(dataset)}, with its {wording.percent(level)} confidence "
        "interval. \N{UPWARDS ARROW} higher is better, \N{DOWNWARDS ARROW} lower is better."
    )


class _Page:
    """Draws a summary; places are inches from the upper left corner."""

    def __init__(self, summary: Summary) -> None:
        self.figure = Figure(figsize=PAGE, facecolor=CARD)
        self._text(MARGIN, 0.5, summary.kicker.upper(), 8, "#0067a6", "bold")
        self._text(MARGIN, 0.85, textwrap.shorten(summary.title, 70), 19, INK, "bold")
        head = "  \N{MIDDLE DOT}  ".join(f"{name} {value}" for name, value in summary.head)
        top = self._wrapped(MARGIN, 1.12, head, 8, SOFT, 165) + 0.12
        notices = [("bad", GENERATED, " ".join(summary.notices))] if summary.notices else []
        for verdict in [*notices, *summary.verdicts[:MAX_VERDICTS]]:
            top = self._box(top, *verdict) + 0.1
        top += 0.2
        self._examples(top, summary.examples)
        self._scores(top, summary)

    def _text(
        self, x: float, y: float, text: str, size: float, color: str, weight: str = "normal", **more: Any
    ) -> None:
        """Text whose baseline starts at a place. Dollars in it are no formulas."""
        style: dict[str, Any] = {"fontsize": size, "color": color, "weight": weight, "parse_math": False}
        self.figure.text(x / PAGE[0], 1 - y / PAGE[1], text, **style, **more)

    def _wrapped(self, x: float, y: float, text: str, size: float, color: str, columns: int) -> float:
        """Text in lines of at most `columns` characters; returns the place below them."""
        step = size * 1.5 / 72
        lines = textwrap.wrap(text, columns)
        for index, line in enumerate(lines):
            self._text(x, y + (index + 0.75) * step, line, size, color)
        return y + len(lines) * step

    def _box(self, top: float, tone: str, headline: str, text: str) -> float:
        """A coloured box over the whole width; returns its lower end."""
        ink, wash = TONES[tone]
        lines = len(textwrap.wrap(text, COLUMNS))
        height = 0.25 + max(1, lines) * 0.21
        place = (MARGIN / PAGE[0], 1 - (top + height) / PAGE[1])
        size = ((PAGE[0] - 2 * MARGIN) / PAGE[0], height / PAGE[1])
        shape = "round,pad=0,rounding_size=0.008"
        self.figure.add_artist(
            FancyBboxPatch(
                place, *size, boxstyle=shape, facecolor=wash, edgecolor="none", mutation_aspect=PAGE[0] / PAGE[1]
            )
        )
        self._text(MARGIN + 0.15, top + 0.28, headline, 10, ink, "bold")
        self._wrapped(MARGIN + 2.45, top + 0.125, text, 10, INK, COLUMNS)
        return top + height

    def _examples(self, top: float, examples: Sequence[tuple[str, Mapping[str, Pixels]]]) -> None:
        """Rows of pictures with a legend of the heat colours below."""
        if not examples:
            return
        room = (PAGE[1] - MARGIN - 0.3 - top) / N_EXAMPLES
        for row, (caption, panels) in enumerate(examples[:N_EXAMPLES]):
            y = top + row * room
            self._text(MARGIN, y, caption, 8.5, INK, "bold")
            x, width, height = MARGIN, EXAMPLES_WIDTH / max(3, len(panels)) - GAP, room - 0.5
            for label, pixels in panels.items():
                ratio = pixels.shape[1] / pixels.shape[0]
                shown = min(width, height * ratio), min(height, width / ratio)
                self._picture(x, y + 0.08, shown, pixels)
                self._text(x, y + 0.08 + shown[1] + 0.13, textwrap.shorten(label, 30), 7, SOFT)
                x += shown[0] + GAP
        y = PAGE[1] - MARGIN
        self._text(MARGIN, y, "low", 7, SOFT)
        self._picture(MARGIN + 0.25, y - 0.09, (1.4, 0.09), color_scale())
        self._text(MARGIN + 1.72, y, "high attention. Heat maps over the darkened image.", 7, SOFT)

    def _picture(self, x: float, y: float, size: tuple[float, float], pixels: Pixels) -> None:
        place = (x / PAGE[0], 1 - (y + size[1]) / PAGE[1], size[0] / PAGE[0], size[1] / PAGE[1])
        axes = self.figure.add_axes(place)
        axes.set_axis_off()
        axes.imshow(pixels, aspect="auto", interpolation="antialiased")

    def _scores(self, top: float, summary: Summary) -> None:
        """The table of scores, with intervals below the means."""
        columns = summary.models[:MAX_MODELS]
        right = PAGE[0] - MARGIN
        step = min(0.95, (right - TABLE_LEFT - 0.75) / len(columns))
        ends = [right - step * (len(columns) - 1 - index) for index in range(len(columns))]
        for end, model in zip(ends, columns, strict=True):
            self._text(end, top, textwrap.shorten(model["label"], 18), 7.5, SOFT, "bold", ha="right")
        y = top + 0.08
        for row in summary.rows:
            self._line(y)
            self._text(TABLE_LEFT, y + 0.25, f"{row['label']} {row['arrow']}", 9, INK, "bold")
            for end, cell in zip(ends, row["cells"], strict=False):
                self._text(end, y + 0.2, cell["text"], 9, INK, "bold" if cell["best"] else "normal", ha="right")
                self._text(end, y + 0.34, cell["interval"], 6, SOFT, ha="right")
            y += 0.44
        self._line(y)
        self._wrapped(TABLE_LEFT, y + 0.06, summary.caption, 7, SOFT, 66)

    def _line(self, y: float) -> None:
        place = 1 - y / PAGE[1]
        ends = [TABLE_LEFT / PAGE[0], 1 - MARGIN / PAGE[0]]
        self.figure.add_artist(matplotlib.lines.Line2D(ends, [place, place], color=LINE, linewidth=0.8))
