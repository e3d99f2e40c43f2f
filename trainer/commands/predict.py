"""Predict the saliency maps of images, and measure how much attention their regions get.

  python -m trainer predict photo.jpg
  python -m trainer predict photos gs://bucket/more --output-dir maps --format png,overlay
  python -m trainer predict page.png --region button:20,300,160,48 --region logo:2%,1%,20%,8%
  python -m trainer predict --compare before.png after.png --region button:20,300,160,48 --output-dir maps
  python -m trainer predict https://example.com --full-page

IMAGE is a file, a folder (searched with its subfolders), a glob, the same on Cloud Storage (gs://), or the
address of a page or an image, which Chromium opens as for `check`. The first command writes photo-attention.png
next to the photo: its attention in heat colours; the last writes example.com-attention.png, a map for each screen
of the page, since nobody sees a long page at once: what is measured is a part of the screen. An image that cannot
be read is reported on stderr with the reason, and the others are still predicted. The exit status is 1 if any
image failed, else 0. A line on stderr says which model is used.
"""

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from trainer.cli import (
    Parser,
    add_model,
    add_region,
    add_settings,
    flag_of,
    output_file,
    results_dir,
    settings,
    summarize,
)
from trainer.config import PREDICT_DEFAULTS, PageConfig, PredictConfig
from trainer.errors import check, interrupted_status, look_up, printable, some
from trainer.files import local_path
from trainer.runtime import announce, load_tensorflow

if TYPE_CHECKING:
    from trainer.prediction.predict import Outcome
    from trainer.prediction.regions import Region

HELP = "predict saliency maps, measure regions, compare designs"
IMAGE_SETTINGS = ("format", "opacity", "batch_size")
"""Settings that `--compare` does not use."""


def configure(parser: Parser) -> None:
    add = parser.add_argument
    add("images", nargs="*", metavar="IMAGE", help="File, folder, glob, or gs:// or web address.")
    add_model(parser)
    add(
        "--output-dir",
        type=results_dir,
        default="",
        metavar="DIR",
        help="Folder for the results; it keeps the layout of the input folders. Without it, a local file gets its "
        "results next to it if nothing else is asked for, or if --format is given.",
    )
    add_region(parser)
    add("--compare", nargs=2, metavar=("A", "B"), help="Two designs: where B gets more or less attention than A.")
    add(
        "--region-b",
        action="append",
        default=[],
        metavar="NAME:X,Y,W,H",
        help="Where a --region is on B of --compare, if it is elsewhere there: pixels of B, or all four in %%.",
    )
    add("--json", type=output_file, metavar="FILE", help="Write the outcome of each image as JSON; - is stdout.")
    add_settings(parser, PredictConfig)
    add_settings(parser, PageConfig)


def execute(parsed: argparse.Namespace) -> None:
    check(bool(parsed.images) != bool(parsed.compare), "give either images, or --compare with two designs")
    config = settings(PredictConfig, parsed)
    if parsed.compare:
        names = [name for name in IMAGE_SETTINGS if getattr(config, name) != getattr(PREDICT_DEFAULTS, name)]
        flags = ", ".join(map(flag_of, names))
        check(not names, f"{flags} cannot be used with --compare, which writes one image of the difference")
    try:
        summary = summarize(parsed.json, lambda: (_compare if parsed.compare else _predict)(parsed, config))
    except KeyboardInterrupt as error:
        print("interrupted; the files written so far are complete", file=sys.stderr)
        raise SystemExit(interrupted_status(error)) from None
    if summary.get("failed"):
        raise SystemExit(1)


def _regions(texts: Sequence[str]) -> list["Region"]:
    from trainer.prediction.regions import check_names, parse_region

    regions = [parse_region(text) for text in texts]
    check_names([region.name for region in regions])
    return regions


def _predict(parsed: argparse.Namespace, config: PredictConfig) -> dict[str, Any]:
    """Predict each image; returns the content of --json."""
    from trainer.models.find import find_answering
    from trainer.prediction.inputs import find_inputs
    from trainer.prediction.predict import JSON_SCHEMA, name_results, predict, protect

    default = ("png",) if parsed.output_dir else () if parsed.region or parsed.json else ("overlay",)
    formats = config.formats or default
    for name in parsed.images if formats and not parsed.output_dir else ():
        # A second run would take results next to the images of a folder as images.
        check(
            not local_path(name).is_dir(),
            f"{printable(name)} is a folder; name a folder for the results of its images with --output-dir",
        )
    regions = _regions(parsed.region)
    listing = find_inputs(parsed.images, parsed.output_dir, settings(PageConfig, parsed))
    inputs = listing.inputs
    paths = name_results(inputs, parsed.output_dir, formats)
    protect(inputs, [parsed.json] if parsed.json else [])
    answering = find_answering(parsed.model)
    notice = answering.tell()
    load_tensorflow()
    from trainer.prediction.predictor import Predictor

    announce("loading the model")
    predicted = predict(Predictor(answering.folder), inputs, paths, config, regions)
    outcomes = _collect(predicted, len(inputs))
    _print_summary(outcomes, parsed.output_dir, listing.skipped)
    return {
        "schema": JSON_SCHEMA,
        "named": answering.name,
        "model": str(answering.folder),
        "notice": notice,
        "failed": sum(bool(outcome.error) for outcome in outcomes),
        "images": [outcome.as_json() for outcome in outcomes],
    }


def _collect(predicted: Generator["Outcome", None, None], count: int) -> list["Outcome"]:
    """Collect all outcomes; shows the progress, and prints errors."""
    from trainer.progress import Tracker

    outcomes, failed = [], 0
    with (
        # One image has no speed, and the summary says what became of it.
        Tracker("predicting", count, "images") if count > 1 else contextlib.nullcontext() as tracker,
        contextlib.closing(predicted),
    ):
        for outcome in predicted:
            if outcome.error:
                failed += 1
                print(f"error: {outcome.error}", file=sys.stderr, flush=True)
            outcomes.append(outcome)
            if tracker:
                tracker.advance(details=f"{failed} failed" if failed else "")
    return outcomes


def _print_summary(outcomes: Sequence["Outcome"], output_dir: str, skipped: Sequence[str]) -> None:
    """Print the table of regions, the number of predicted images, and where their results are."""
    from rich.console import Console

    from studio.difference import measures_table
    from trainer.prediction.regions import FOCUS_AREA

    predicted = [outcome for outcome in outcomes if not outcome.error]
    if any(outcome.measures for outcome in predicted):
        Console().print(measures_table(predicted))
    beside = [str(path) for outcome in predicted for path in outcome.written.values()]
    written = [output_dir] if output_dir and predicted else beside
    where = f", see {some([printable(path) for path in written])}" if written else ""
    if len(outcomes) == len(predicted) == 1:
        (y, x), focus, screens = predicted[0].peak_at, predicted[0].focus, predicted[0].screens
        cut, whole = (f", cut into {screens} screens", "each screen") if screens > 1 else ("", "the image")
        print(f"peak at x {x}, y {y}{cut}; {focus:.0%} of the attention is on {FOCUS_AREA:.0%} of {whole}")
    print(f"{len(predicted)} of {len(outcomes)} image{'s' * (len(outcomes) > 1)} predicted{where}")
    if skipped:
        print(
            f"skipped, since the name does not end like an image's: {some([printable(name) for name in skipped])}"
        )


def _compare(parsed: argparse.Namespace, config: PredictConfig) -> dict[str, Any]:
    """Compare two designs; returns the content of --json."""
    from rich.console import Console

    from studio.difference import changes_table, compare_designs, read_designs
    from trainer.models.find import find_answering
    from trainer.prediction.inputs import find_one
    from trainer.prediction.predict import JSON_SCHEMA, protect

    regions = _regions(parsed.region)
    seconds = {region.name: region for region in _regions(parsed.region_b)}
    for name in seconds:
        look_up("region", name, {region.name: region for region in regions})
    inputs = [find_one(name, settings(PageConfig, parsed)) for name in parsed.compare]
    stems = [pathlib.PurePosixPath(image.key).stem for image in inputs]
    output = pathlib.Path(parsed.output_dir, f"{stems[0]}-to-{stems[1]}.png") if parsed.output_dir else None
    protect(inputs, filter(None, [parsed.json, output]))
    answering = find_answering(parsed.model)
    notice = answering.tell()
    pixels = read_designs(inputs, regions, seconds, config.most_pixels)
    load_tensorflow()
    from trainer.prediction.predictor import Predictor

    announce("loading the model")
    compared = compare_designs(Predictor(answering.folder), inputs, pixels, regions, seconds, output)
    if regions:
        Console().print(changes_table(compared.changes, [image.key for image in inputs]))
    print(compared.sentence)
    if output:
        print(f"the difference is in {printable(str(output))}")
    return {
        "schema": JSON_SCHEMA,
        "named": answering.name,
        "model": str(answering.folder),
        "notice": notice,
        "first": inputs[0].name,
        "second": inputs[1].name,
        "picture": str(output) if output else None,
        "moved": compared.moved,
        "regions": [change.as_json() for change in compared.changes],
    }
