"""The flags and the work of a command that writes maps: `predict` of images, and `predict` of the studio.

What is slow to import is imported where the command runs.
"""

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from trainer.commands.shared_flags import add_model, add_region
from trainer.errors import interrupted_status
from trainer.prediction import PredictConfig
from trainer.settings import Parser, add_settings, output_file, results_dir, settings_of, summarize
from trainer.texts import printable, some

if TYPE_CHECKING:
    from rich.table import Table

    from trainer.models import Answering
    from trainer.prediction import ImageResult, Input, Predictor

    FindImages = Callable[[bool], tuple[Sequence[Input], Sequence[str]]]

TEXTS = ("image", "region")
"""Titles of the columns that have no numbers."""


def add_map_flags(parser: Parser) -> None:
    """Give `parser` the flags that `write_maps` reads: of the model, regions, results, and `PredictConfig`."""
    add_model(parser)
    parser.add_argument(
        "--output-dir",
        type=results_dir,
        default="",
        metavar="DIR",
        help="Folder for the results. It keeps the layout of the input folders. Without it, a local file gets its "
        "results next to it if nothing else is asked for, or if --format is given.",
    )
    add_region(parser)
    parser.add_argument(
        "--json", type=output_file, metavar="FILE", help="Write the outcome of each image as JSON. - is stdout."
    )
    add_settings(parser, PredictConfig)


def write_maps(parsed: argparse.Namespace, find: "FindImages", choose: "Callable[[str], Answering]") -> None:
    """Predict images, write and print what the flags of `add_map_flags` ask for.

    Args:
        parsed: the command line.
        find: lists the images, and the files that were skipped. Its argument says whether results are written
            without a folder for them.
        choose: returns the model of a name, such as `choose_model`.

    Raises:
        UserError: a flag or an image is wrong, before anything is written. Or nothing more can be written.
        SystemExit: with 1 if there is no map of an image, which stderr says. As `interrupted_status` after Ctrl-C.
    """
    try:
        summary = summarize(parsed.json, lambda: _write_maps(parsed, find, choose))
    except KeyboardInterrupt as error:
        print("interrupted. The files written so far are complete", file=sys.stderr)
        raise SystemExit(interrupted_status(error)) from None
    if summary["failed"]:
        raise SystemExit(1)


def _write_maps(
    parsed: argparse.Namespace, find: "FindImages", choose: "Callable[[str], Answering]"
) -> dict[str, Any]:
    """Predict each image. Returns the content of --json."""
    from trainer.prediction import ImageResult, Maps, parse_regions

    config = settings_of(PredictConfig, parsed)
    default = ("png",) if parsed.output_dir else () if parsed.region or parsed.json else ("overlay",)
    formats = config.formats or default
    regions = parse_regions(parsed.region)
    inputs, skipped = find(bool(formats and not parsed.output_dir))
    maps = Maps(inputs, parsed.output_dir, formats, config, regions)
    for image in inputs if parsed.json else ():
        image.protect([parsed.json])
    answering = choose(parsed.model).announced()
    notice = answering.tell()
    from trainer.prediction import Predictor

    predictor = Predictor(answering.folder)
    results = _collect(maps.predict(predictor), len(inputs))
    _print_summary(results, predictor, parsed.output_dir, skipped)
    return {
        "schema": ImageResult.SCHEMA,
        "named": answering.name,
        "model": str(answering.folder),
        "notice": notice,
        "failed": sum(bool(result.error) for result in results),
        "images": [result.as_json() for result in results],
    }


def _collect(predicted: Generator["ImageResult", None, None], count: int) -> list["ImageResult"]:
    """Collect all results, show the progress, and print errors."""
    from trainer.machine import Tracker

    results, failed = [], 0
    with (
        # One image has no speed, and the summary says what became of it.
        Tracker("predicting", count, "images") if count > 1 else contextlib.nullcontext() as tracker,
        contextlib.closing(predicted),
    ):
        for result in predicted:
            if result.error:
                failed += 1
                print(f"error: {result.error}", file=sys.stderr, flush=True)
            results.append(result)
            if tracker:
                tracker.advance(details=f"{failed} failed" if failed else "")
    return results


def _print_summary(
    results: Sequence["ImageResult"], predictor: "Predictor", output_dir: str, skipped: Sequence[str]
) -> None:
    """Print the table of regions, the number of predicted images, and where their results are."""
    from rich.console import Console

    predicted = [result for result in results if not result.error]
    if any(result.measures for result in predicted):
        Console().print(measures_table(predicted))
    beside = [str(path) for result in predicted for path in result.written.values()]
    written = [output_dir] if output_dir and predicted else beside
    where = f", see {some([printable(path) for path in written])}" if written else ""
    if len(results) == len(predicted) == 1:
        print(predicted[0])
    seen = Counter(result.seen_as for result in predicted)
    kinds = "".join(f", {f'{n} ' if len(results) > 1 else ''}{seen_as}" for seen_as, n in seen.items() if seen_as)
    print(f"{len(predicted)} of {len(results)} image{'s' * (len(results) > 1)} predicted{where}{kinds}")
    if skipped:
        print(
            f"skipped, since the name does not end like an image's: {some([printable(name) for name in skipped])}"
        )


def measures_table(results: Sequence["ImageResult"]) -> "Table":
    """Make a table of the regions of each image, ordered by screen and rank."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("image", "rank", "region", "share", "area", "share / area", "peak"):
        table.add_column(Text(title), justify="left" if title in TEXTS else "right", overflow="fold")
    for result in results:
        for row, measured in enumerate(sorted(result.measures, key=lambda each: (each.screen, each.rank))):
            table.add_row(
                Text("" if row else result.input.label),
                str(measured.rank),
                Text(printable(measured.region.name)),
                f"{measured.share:.1%}{measured.of_screen}",
                f"{measured.area:.1%}",
                f"{measured.ratio:.1f}",
                f"{measured.peak:.2f}",
            )
    return table
