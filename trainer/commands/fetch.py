"""Fetch a data set, check it, and write it as shards of the network's size."""

import argparse

from trainer.config import FetchConfig
from trainer.settings_cli import add_settings, output_dir, output_file, settings

HELP = "fetch and prepare a data set"


def configure(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, FetchConfig)
    parser.add_argument(
        "--output-dir", type=output_dir, required=True, metavar="DIR", help="Folder of the prepared data set."
    )
    parser.add_argument(
        "--preview", type=output_file, metavar="HTML", help="Page with a grid of stimuli and their maps to write."
    )


def execute(parsed: argparse.Namespace) -> None:
    from trainer.data.fetch import fetch_dataset
    from trainer.reports.preview import write_preview

    fetch_dataset(settings(FetchConfig, parsed), parsed.output_dir)
    if parsed.preview:
        write_preview(parsed.output_dir, parsed.preview)
