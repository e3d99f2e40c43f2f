"""Predict the saliency maps of web pages, and measure how much attention their regions get.

  python -m studio predict https://example.com
  python -m studio predict https://example.com --full-page --output-dir maps --format png,overlay
  python -m studio predict landing.html --region button:20,300,160,48 --json regions.json

PAGE is the address of a page or an image, or an HTML file. `python -m trainer predict` takes images. Pages are
opened as for `check`. The first command writes example.com-attention.png into the current folder, the attention in
heat colours. The results of an HTML file are next to it. With --full-page, a long page gets a map for each of its
screens, since nobody sees it at once: what is measured is a part of the screen. A page that cannot be shown is
reported on stderr with the reason, and the others are still predicted. The exit status is 1 if any page failed,
else 0. A line on stderr says which model is used.
"""

import argparse

from studio.browser_settings import PageConfig
from studio.web_pages import find_page, is_page
from trainer.api import SettingError
from trainer.tools import Parser, add_map_flags, add_settings, check, printable, settings_of, write_maps

HELP = "predict saliency maps of web pages, measure regions"


def configure(parser: Parser) -> None:
    parser.add_argument("pages", nargs="+", metavar="PAGE", help="Address of a page or an image, or an HTML file.")
    add_map_flags(parser)
    add_settings(parser, PageConfig)


def execute(parsed: argparse.Namespace) -> None:
    config = settings_of(PageConfig, parsed)
    for name in parsed.pages:
        check(
            is_page(name),
            f"{printable(name)} is neither an address nor an HTML file: `python -m trainer predict` takes images",
            SettingError,
        )
    write_maps(parsed, [find_page(name, config) for name in dict.fromkeys(parsed.pages)])
