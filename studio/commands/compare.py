"""Compare two designs: where B gets more or less attention than A, and what that changes for regions.

  python -m studio compare before.png after.png --region button:20,300,160,48 --output-dir maps
  python -m studio compare a.png b.png --region button:20,300,160,48 --region-b button:20,340,180,48
  python -m studio compare https://example.com https://staging.example.com --json -

A and B are pictures (files, or gs://), HTML files, or addresses, which are opened as for `check`. They need the
same aspect ratio. A change is not clear if the same picture changes as much when it is saved again, scaled or
moved by 4 pixels. --output-dir gets one picture: the difference over B. To compare models, use
`python -m trainer compare`.
"""

import argparse
import pathlib
import sys
from typing import Any

from studio.browser_settings import PageConfig
from studio.difference import changes_table, compare_designs, read_designs
from studio.web_pages import find_page, is_page
from trainer.api import find, parse_regions
from trainer.tools import (
    Input,
    Parser,
    PredictConfig,
    add_model,
    add_region,
    add_settings,
    look_up,
    output_file,
    printable,
    results_dir,
    settings_of,
    summarize,
)

HELP = "compare two designs: which parts get more or less attention"
JSON_SCHEMA = 2
"""Version of what `--json` writes. It grows when a value changes its meaning or goes."""


def configure(parser: Parser) -> None:
    add = parser.add_argument
    add("designs", nargs=2, metavar="DESIGN", help="A and B: picture, HTML file, or address of a page, each.")
    add_model(parser)
    add(
        "--output-dir",
        type=results_dir,
        default="",
        metavar="DIR",
        help="Folder for the picture of the difference, A-to-B.png.",
    )
    add_region(parser)
    add(
        "--region-b",
        action="append",
        default=[],
        metavar="NAME:X,Y,W,H",
        help="Where a --region is on B, if it is elsewhere there: pixels of B, or all four in %%.",
    )
    add("--json", type=output_file, metavar="FILE", help="Write the comparison as JSON. - is stdout.")
    add_settings(parser, PredictConfig, ("kind", "most_megapixels"))
    add_settings(parser, PageConfig)


def execute(parsed: argparse.Namespace) -> None:
    summarize(parsed.json, lambda: _compare(parsed))


def _compare(parsed: argparse.Namespace) -> dict[str, Any]:
    """Compare two designs. Returns the content of --json."""
    from rich.console import Console

    regions = parse_regions(parsed.region)
    seconds = {region.name: region for region in parse_regions(parsed.region_b)}
    for name in seconds:
        look_up("region", name, {region.name: region for region in regions})
    pages = settings_of(PageConfig, parsed)
    designs = [find_page(name, pages) if is_page(name) else Input.find(name) for name in parsed.designs]
    stems = [pathlib.PurePosixPath(design.key).stem for design in designs]
    output = pathlib.Path(parsed.output_dir, f"{stems[0]}-to-{stems[1]}.png") if parsed.output_dir else None
    for design in designs:
        design.protect(filter(None, [parsed.json, output]))
    model = find(parsed.model)
    notice = model.tell()
    pictures = settings_of(PredictConfig, parsed)
    pixels = read_designs(designs, regions, seconds, pictures.most_pixels)
    print("loading the model ...", file=sys.stderr, flush=True)
    model.load()
    compared = compare_designs(model, designs, pixels, regions, seconds, output, pictures.kind)
    if regions:
        Console().print(changes_table(compared.changes, [design.key for design in designs]))
    print(f"{compared.sentence}{f' ({compared.seen_as})' if compared.seen_as else ''}")
    if output:
        print(f"the difference is in {printable(str(output))}")
    return {
        "schema": JSON_SCHEMA,
        "named": model.name,
        "model": str(model.folder),
        "notice": notice,
        "first": designs[0].name,
        "second": designs[1].name,
        "picture": str(output) if output else None,
        "kind": compared.kind,
        "moved": compared.moved,
        "regions": [change.as_json() for change in compared.changes],
    }
