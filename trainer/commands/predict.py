"""Write the saliency maps of images, and measure how much attention regions of them get.

  python -m trainer predict photo.jpg --output-dir maps
  python -m trainer predict photos gs://bucket/more --output-dir maps --format png,overlay --contact-sheet all.jpg
  python -m trainer predict page.png --region button:20,300,160,48 --region logo:2%,1%,20%,8%
  python -m trainer predict --compare before.png after.png --region button:20,300,160,48 --output-dir maps

IMAGE is a file, a folder with all that is in it, a glob, or the same on Cloud Storage (gs://). An image that
cannot be read is named on stderr with the reason, and the others go on. The exit status is 0 if all went well,
1 if not.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys
from typing import Any

from trainer.config import PREDICT_DEFAULTS, PredictConfig
from trainer.errors import check
from trainer.files import write_json
from trainer.loading import load_tensorflow
from trainer.settings_cli import STDOUT, add_model, add_settings, output_dir, output_file, settings

HELP = "write the saliency maps of images, measure regions, compare designs"
OF_IMAGES = ("format", "opacity", "contour_levels", "batch_size")
"""Settings that mean nothing to `--compare`."""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("images", nargs="*", metavar="IMAGE", help="File, folder, glob, or gs:// address.")
    add_model(parser)
    add(
        "--output-dir",
        type=output_dir,
        default="",
        metavar="DIR",
        help="Folder of the results, laid out as the images' folders.",
    )
    add(
        "--contact-sheet",
        type=output_file,
        metavar="FILE",
        help="Page of thumbnails to write; several for many images.",
    )
    add(
        "--region",
        action="append",
        default=[],
        metavar="NAME:X,Y,W,H",
        help="Region to measure, in pixels from the top left or all in %%; may be repeated.",
    )
    add("--compare", nargs=2, metavar=("A", "B"), help="Two designs: where B gets more or less attention than A.")
    add(
        "--json",
        type=output_file,
        metavar="FILE",
        help="What came of each image, for a machine; - is the standard output.",
    )
    add_settings(parser, PredictConfig)


def execute(parsed: argparse.Namespace) -> None:
    check(bool(parsed.images) != bool(parsed.compare), "give images, or --compare with two designs, one of them")
    config = settings(PredictConfig, parsed)
    if parsed.compare:
        _check_compares(parsed, config)
    asked = parsed.output_dir or parsed.region or parsed.contact_sheet or parsed.json
    what = (
        "--output-dir, --region or --json"
        if parsed.compare
        else "--output-dir, --region, --contact-sheet or --json"
    )
    check(bool(asked), f"nothing is asked for; give {what}")
    try:
        # What is said meanwhile must not get into the JSON.
        with contextlib.redirect_stdout(sys.stderr) if parsed.json == STDOUT else contextlib.nullcontext():
            answer = (_compare if parsed.compare else _predict)(parsed, config)
    except KeyboardInterrupt:
        print("interrupted; the results that are there are whole", file=sys.stderr)
        raise SystemExit(130) from None
    if parsed.json == STDOUT:
        print(json.dumps(answer, indent=2))
    elif parsed.json:
        write_json(pathlib.Path(parsed.json), answer)
    if answer.get("failed"):
        raise SystemExit(1)


def _check_compares(parsed: argparse.Namespace, config: PredictConfig) -> None:
    """Raise `UserError` for options that say what to make of single images."""
    given = ["contact_sheet"] if parsed.contact_sheet else []
    given += [name for name in OF_IMAGES if getattr(config, name) != getattr(PREDICT_DEFAULTS, name)]
    flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    check(not given, f"{flags}: for images, not for --compare, which writes the picture of the difference")


def _regions(parsed: argparse.Namespace) -> list[Any]:
    from trainer.prediction.regions import parse_region

    regions = [parse_region(each) for each in parsed.region]
    twice = sorted({each.name for each in regions if [other.name for other in regions].count(each.name) > 1})
    check(not twice, f"several regions are called {', '.join(twice)}; give each a name of its own")
    return regions


def _predict(parsed: argparse.Namespace, config: PredictConfig) -> dict[str, Any]:
    """Predict each image; what came of it for a machine."""
    from rich.console import Console

    from trainer.models.find import find_model
    from trainer.prediction.inputs import find_inputs, shown
    from trainer.prediction.predict import as_json
    from trainer.prediction.regions_table import measures_table
    from trainer.prediction.results import name_results, protect
    from trainer.prediction.sheet import THUMBNAIL_PX, Sheet
    from trainer.progress import Tracker

    regions, found = _regions(parsed), find_inputs(parsed.images, parsed.output_dir)
    paths = name_results(found.inputs, parsed.output_dir, config.formats if parsed.output_dir else ())
    sheet = Sheet(parsed.contact_sheet, len(found.inputs)) if parsed.contact_sheet else None
    json_files = [parsed.json] if parsed.json else []
    protect(found.inputs, {"--contact-sheet": sheet.paths if sheet else [], "--json": json_files})
    model = find_model(parsed.model)
    outcomes, failed = [], 0
    with (
        Tracker("predicting", len(found.inputs), "images") as tracker,
        sheet or contextlib.nullcontext(),
        contextlib.closing(
            _outcomes(model, found.inputs, paths, config, regions, THUMBNAIL_PX if sheet else 0)
        ) as predicted,
    ):
        for outcome in predicted:
            if outcome.error:
                failed += 1
                print(f"error: {outcome.error}", file=sys.stderr, flush=True)
            elif sheet and outcome.thumbnail:
                sheet.add(outcome.input.shown, *outcome.thumbnail)
            outcomes.append(dataclasses.replace(outcome, thumbnail=None))
            tracker.advance(details=f"{failed} failed" if failed else "")
    if regions and failed < len(outcomes):
        Console().print(measures_table(outcomes))
    written = [parsed.output_dir] if parsed.output_dir and failed < len(outcomes) else []
    written += [str(path) for path in sheet.written] if sheet else []
    where = f", see {', '.join(map(shown, written))}" if written else ""
    print(f"{len(outcomes) - failed} of {len(outcomes)} images predicted{where}")
    if found.skipped:
        others = f" and {len(found.skipped) - 1} more" if len(found.skipped) > 1 else ""
        print(f"not named as pictures, hence left out: {shown(found.skipped[0])}{others}")
    return {"model": str(model), "failed": failed, "images": [as_json(each) for each in outcomes]}


def _outcomes(model: pathlib.Path, inputs: Any, paths: Any, config: PredictConfig, regions: Any, px: int) -> Any:
    """What came of each image; the network is loaded if one can be read."""
    from trainer.prediction.predict import failures, predict

    if failed := failures(inputs, config, regions):
        yield from failed
        return
    load_tensorflow()
    from trainer.prediction.predictor import Predictor

    yield from predict(Predictor(model), inputs, paths, config, regions, px)


def _compare(parsed: argparse.Namespace, config: PredictConfig) -> dict[str, Any]:
    """Compare two designs; where they differ for a machine."""
    from rich.console import Console

    from trainer.models.find import find_model
    from trainer.prediction.designs import as_json, compare_designs, read_designs
    from trainer.prediction.inputs import find_inputs, shown
    from trainer.prediction.regions_table import changes_table
    from trainer.prediction.results import protect

    regions = _regions(parsed)
    found = [find_inputs([each]).inputs for each in parsed.compare]
    for name, images in zip(parsed.compare, found, strict=True):
        check(
            len(images) == 1, f"--compare takes two images, but {shown(name)} has {len(images)}; name one of them"
        )
    first, second = (images[0] for images in found)
    stems = [pathlib.PurePosixPath(each.key).stem for each in (first, second)]
    picture = pathlib.Path(parsed.output_dir, f"{stems[0]}-to-{stems[1]}.png") if parsed.output_dir else None
    protect((first, second), {"--json": [parsed.json] if parsed.json else []})
    model = find_model(parsed.model)
    pixels = read_designs((first, second), regions, config.most_pixels)
    load_tensorflow()
    from trainer.prediction.predictor import Predictor

    changes = compare_designs(Predictor(model), (first, second), pixels, regions, picture)
    if regions:
        Console().print(changes_table(changes, (first.key, second.key)))
    if picture:
        print(f"the difference is in {shown(str(picture))}")
    return {
        "model": str(model),
        "first": first.name,
        "second": second.name,
        "picture": str(picture) if picture else None,
        "regions": [as_json(each) for each in changes],
    }
