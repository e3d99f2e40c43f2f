"""Fetch a dataset, check it, and write it as shards at the network's input size."""

import argparse
import shlex

from trainer.config import FetchConfig
from trainer.settings_cli import add_settings, output_dir, output_file, settings

HELP = "fetch and prepare a dataset"


def configure(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, FetchConfig)
    parser.add_argument(
        "--test",
        action="store_true",
        help="Prepare a test set: all images are only tested on, or if the split is given the validation images. "
        "`evaluate` takes it as a further --dataset-dir.",
    )
    parser.add_argument(
        "--output-dir", type=output_dir, required=True, metavar="DIR", help="Folder for the prepared dataset."
    )
    parser.add_argument(
        "--preview", type=output_file, metavar="HTML", help="Write a page with a grid of stimuli and their maps."
    )


def execute(parsed: argparse.Namespace) -> None:
    from trainer.data.fetch import fetch_dataset
    from trainer.reports.pages import counts
    from trainer.reports.preview import write_preview

    config = settings(FetchConfig, parsed)
    manifest = fetch_dataset(config, parsed.output_dir, config.dataset if parsed.test else "")
    if parsed.preview:
        write_preview(parsed.output_dir, parsed.preview)
    preview = f"; preview: {parsed.preview}" if parsed.preview else ""
    folder = shlex.quote(parsed.output_dir)
    command = f"python -m trainer train --dataset-dir {folder} --output-dir model"
    if manifest.is_test_set:
        command = f"python -m trainer evaluate --model MODEL --dataset-dir TRAINED --dataset-dir {folder}"
    images = f"{counts(manifest.counts)} images of {manifest.dataset}"
    print(f"wrote {parsed.output_dir}: {images}{preview}; next: {command}")
