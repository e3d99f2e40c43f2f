"""Check that regions of a design get the attention that they need, for a team's pipeline.

  python -m studio check design.png --region button:20,300,160,48 --require 'button>=8%'
  python -m studio check design.png --regions regions.json --baseline before.png --max-drop 30%
  python -m studio check https://example.com --selector '#buy' --require 'buy.rank<=2' --junit attention.xml

DESIGN is a picture (a file, or gs://), an HTML file, or an address. An HTML file and an address are opened in the
machine's Chromium or Chrome (CHROME_PATH names another), with an empty profile. The page's scripts run in the
browser's sandbox, and the browser fetches everything that the page requests.

A requirement is NAME[.MEASURE], then >=, <=, > or <, then a limit. The measures:
  share   part of the attention that falls into the region, in % (without a measure: NAME>=8%)
  peak    largest value in the region, in % of the map's largest (NAME.peak>=50%)
  ratio   share divided by the region's part of the area; 1 if attention were spread evenly (NAME.ratio>1.5)
  rank    place among all regions by share, 1 for the largest (NAME.rank<=2)
  drop    part of its share in the baseline that the region has lost, in % (NAME.drop<=30%)
  screen  screen of a long page that has most of the region, 1 for the top (NAME.screen<=1)

A long page is predicted screen by screen, and a region is measured on the screen that has most of it. The floor is
the share that a region keeps with its content painted over, since a map has some attention for each place.

The exit status is 0 if every requirement is met, 1 if one is not, and 2 if the check cannot be made.
"""

import argparse
import os
import sys
from typing import Any

from studio.browser_settings import PageConfig
from studio.designs import parse_element, read_all
from studio.verdict_pictures import name_pictures, write_pictures
from studio.verdicts import DROP, all_requirements, judge_designs, verdicts_table, write_junit
from trainer.api import SettingError, UserError, find, parse_regions, read_regions
from trainer.tools import (
    Parser,
    PredictConfig,
    add_model,
    add_region,
    add_settings,
    check,
    output_file,
    printable,
    results_dir,
    settings_of,
    summarize,
)

HELP = "check that regions of a design get the attention that they need"
FAILS, CANNOT_CHECK = 1, 2
"""Exit status if a requirement is not met, and if the check cannot be made."""
STDOUT = "-"
"""File name that stands for standard output."""


def configure(parser: Parser) -> None:
    parser.add_argument(
        "design", metavar="DESIGN", help="Picture, HTML file, or address of a page, which is opened."
    )
    add = parser.group("requirements").add_argument
    add(
        "--require",
        action="append",
        default=[],
        metavar="REQUIREMENT",
        help="What a region needs, such as 'button>=8%%' or 'button.rank<=2', in quotes. Repeat it for more.",
    )
    add("--baseline", metavar="DESIGN", help="Earlier design of the same kind, with the same regions.")
    add(
        "--max-drop",
        default="",
        metavar="PERCENT",
        help="Largest drop of each region from the baseline, such as 30%%, unless a requirement gives its own.",
    )
    group = parser.group("regions")
    add_region(group)
    add = group.add_argument
    add(
        "--regions",
        default="",
        metavar="FILE",
        help="Regions that the demo's page saved as JSON, or that predict wrote with --json.",
    )
    add(
        "--selector",
        action="append",
        default=[],
        metavar="[NAME=]SELECTOR",
        help="CSS selector of an element of the page, which is a region. '#buy' is named buy. Repeat it for more.",
    )
    add_model(parser)
    add = parser.group(PredictConfig.TITLE).add_argument
    add(
        "--output-dir",
        default="",
        metavar="DIR",
        help="Folder for the maps of both designs with their regions, and for the pictures of pages.",
    )
    add("--junit", metavar="FILE", help="Write JUnit's XML, with a test case for each requirement.")
    add("--json", metavar="FILE", help="Write what was measured, and the verdicts, as JSON. - is stdout.")
    add_settings(parser, PredictConfig, ("kind", "most_megapixels"))
    add_settings(parser, PageConfig)


def execute(parsed: argparse.Namespace) -> None:
    try:
        passed = _execute(parsed)["passed"]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(CANNOT_CHECK) from None
    if not passed:
        raise SystemExit(FAILS)


def _execute(parsed: argparse.Namespace) -> dict[str, Any]:
    results_dir(parsed.output_dir)
    outputs = [output_file(file) for file in (parsed.json, parsed.junit) if file and file != STDOUT]
    read = [file for file in (parsed.design, parsed.baseline, parsed.regions) if file]
    places = [os.path.realpath(file) for file in (*outputs, *dict.fromkeys(read))]
    is_new = len(set(places)) == len(places)
    check(is_new, "--json or --junit names a file that is read or written: name another", SettingError)
    return summarize(parsed.json, lambda: _check(parsed))


def _check(parsed: argparse.Namespace) -> dict[str, Any]:
    """Check a design. Returns the content of --json."""
    from rich.console import Console

    saved = read_regions(parsed.regions) if parsed.regions else []
    elements = [parse_element(text) for text in parsed.selector]
    others = [*(region.name for region in saved), *(element.name for element in elements)]
    regions = [*parse_regions(parsed.region, others), *saved]
    names = [*(region.name for region in regions), *(element.name for element in elements)]
    check(bool(names), "there is no region to check: give it with --region, --regions or --selector", SettingError)
    requirements = all_requirements(parsed.require, parsed.max_drop, names)
    check(
        bool(requirements),
        "nothing is required: give --require 'NAME>=8%', or --baseline with --max-drop 30%",
        SettingError,
    )
    drop = next((each for each in requirements if each.measure == DROP), None)
    has_earlier = not drop or bool(parsed.baseline)
    check(has_earlier, f"{drop} needs an earlier design: give it with --baseline", SettingError)
    pages, pictures = settings_of(PageConfig, parsed), settings_of(PredictConfig, parsed)
    model = find(parsed.model)
    notice = model.tell()
    given = [name for name in (parsed.design, parsed.baseline) if name is not None]
    designs = read_all(given, regions, elements, pages, pictures.most_pixels)
    paths = name_pictures(parsed.output_dir, designs) if parsed.output_dir else {}
    checked = judge_designs(model, designs, requirements, pictures.kind)
    write_pictures(paths, checked)
    if parsed.junit:
        write_junit(parsed.junit, checked, {"model": model.name, "notice": notice})
    Console().print(verdicts_table(checked))
    for verdict in checked.failed:
        print(verdict.sentence)
    for note in checked.notes:
        print(f"note: {note}")
    seen_as = model.seen_as(checked.design.map.page)
    where = f", see {printable(parsed.output_dir)}" if paths else ""
    print(f"{checked.sentence}{f' ({seen_as})' if seen_as else ''}{where}")
    used = {"named": model.name, "model": str(model.folder), "notice": notice}
    return {**used, **checked.as_json(), "files": {name: str(path) for name, path in paths.items()}}
