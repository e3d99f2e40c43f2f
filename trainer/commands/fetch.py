"""Fetch a dataset, check it, and write it as shards at the network's input size."""

import argparse

from trainer.config import FetchConfig
from trainer.settings_cli import add_cache_dir, add_settings, output_dir, output_file, settings

HELP = "fetch and prepare a dataset"


def configure(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, FetchConfig)
    add_cache_dir(parser)
    parser.add_argument(
        "--output-dir", type=output_dir, required=True, metavar="DIR", help="Folder for the prepared dataset."
    )
    parser.add_argument(
        "--preview", type=output_file, metavar="HTML", help="Write a page with a grid of stimuli and their maps."
    )


def execute(parsed: argparse.Namespace) -> None:
    from trainer.data.fetch import fetch_dataset
    from trainer.reports.preview import write_preview

    fetch_dataset(settings(FetchConfig, parsed), parsed.output_dir, parsed.cache_dir)
    if parsed.preview:
        write_preview(parsed.output_dir, parsed.preview)
