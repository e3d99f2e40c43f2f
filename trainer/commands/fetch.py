"""Fetch a dataset, check it, and write it as shards at the network's input size."""

import argparse
import dataclasses
import pathlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer.commands.shared_flags import add_cache_dir
from trainer.data import FetchConfig
from trainer.datasets import Dataset
from trainer.errors import AmbiguousError, PlaceError, SettingError, check
from trainer.io import replacing
from trainer.machine import announce
from trainer.models import PRETRAINED
from trainer.settings import (
    Parser,
    add_settings,
    advising_flags,
    as_flags,
    output_dir,
    output_file,
    settings_of,
)
from trainer.texts import visible

if TYPE_CHECKING:
    from trainer.data import AmbiguousReadingsError, Manifest

HELP = "fetch and prepare a dataset"


def configure(parser: Parser) -> None:
    add_settings(parser, FetchConfig)
    parser.add_argument(
        "--test",
        action="store_true",
        help=(
            "Prepare a test set: all images, or if the split is given, the validation images, or with "
            "--test-share, that share of the validation images. Pass it to `evaluate` as a further --dataset-dir."
        ),
    )
    add_cache_dir(parser)
    parser.add_argument("--output-dir", type=output_dir, metavar="DIR", help="Folder for the prepared dataset.")
    parser.add_argument(
        "--preview", type=output_file, metavar="HTML", help="Write a page with a grid of stimuli and their maps."
    )
    parser.add_argument(
        "--propose",
        type=lambda text: output_file(text) if text else "",
        nargs="?",
        const="",
        metavar="TOML",
        help=(
            "custom: prepare nothing, but write what the tables seem to mean to reading.toml in the source's "
            "folder, or to TOML. Check it, and keep it in the uppermost folder of the data: tables are then read "
            "by it."
        ),
    )


def execute(parsed: argparse.Namespace) -> None:
    with advising_flags(FetchConfig):
        _fetch(parsed)


def _fetch(parsed: argparse.Namespace) -> None:
    config = settings_of(FetchConfig, parsed)
    FetchConfig.check_recordings([config])
    Dataset.named(config.dataset)
    if parsed.propose is not None:
        _propose(config, parsed)
        return
    check(bool(parsed.output_dir), "--output-dir is not given. Name a folder for the data", SettingError)
    from trainer.data import AmbiguousReadingsError, fetch_dataset

    test_of = config.dataset if parsed.test else ""
    try:
        manifest = fetch_dataset(config, parsed.output_dir, parsed.cache_dir, test_of)
    except AmbiguousReadingsError as error:
        if not parsed.preview:
            raise
        _write_readings([error], parsed.preview)
        raise AmbiguousError(f"{error}\n{parsed.preview} shows each of them on the images") from None
    if parsed.preview:
        announce(f"drawing {parsed.preview}")
        from trainer.reports import write_preview

        write_preview(parsed.output_dir, parsed.preview)
    _print_end(manifest, parsed)


def _propose(config: FetchConfig, parsed: argparse.Namespace) -> None:
    """Write `reading.toml`, and a page with the doubts about it."""
    from trainer.data import propose_reading

    folder = pathlib.Path(config.source)
    path = pathlib.Path(parsed.propose or (folder / config.READING if folder.is_dir() else config.READING))
    check(not path.exists(), f"{path} exists already. Remove it, or name another file", PlaceError)
    proposal = propose_reading(config, parsed.cache_dir)
    with replacing(path) as partial:
        partial.write_text(proposal.text, encoding="utf-8")
    print(visible(proposal.text), end="")
    if parsed.preview:
        _write_readings(proposal.doubts, parsed.preview)
    place = "" if path.parent == folder else ", and put it into the uppermost folder of the data"
    doubts = f"Not proven: {len(proposal.doubts)}, see not_proven. " if proposal.doubts else ""
    print(f"wrote {path}. {doubts}Check it, correct it{place}. Then run fetch without --propose")


def _write_readings(doubts: "Sequence[AmbiguousReadingsError]", page: str) -> None:
    """Write a page with the readings of doubtful recordings, and with the flags that choose them."""
    from trainer.reports import write_readings

    for doubt in doubts:
        doubt.readings = [
            dataclasses.replace(each, setting=as_flags(each.setting, FetchConfig)) for each in doubt.readings
        ]
    write_readings(doubts, page)


def _print_end(manifest: "Manifest", parsed: argparse.Namespace) -> None:
    """Print notes, what was written, and the next command."""
    from trainer.reports import counts_text

    if not manifest.is_own:  # whose notes were printed before
        print("".join(f"note: {visible(note)}\n" for note in manifest.notes), end="")
    written = f"{counts_text(manifest.counts)} images of {manifest.dataset}"
    if parsed.preview:
        written += f", preview: {parsed.preview}"
    folder = f"--dataset-dir {shlex.quote(parsed.output_dir)}"
    start = f" --base-model {PRETRAINED} --recipe small" if manifest.is_own else ""
    following = f"train {folder} --output-dir model{start}"
    if manifest.is_test_set:
        following = f"evaluate --model MODEL {folder} --output-dir evaluation"
    print(f"wrote {parsed.output_dir}: {written}. Next: python -m trainer {following}")
