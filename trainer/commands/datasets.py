"""List the datasets, or show one.

python -m trainer datasets
python -m trainer datasets salicon
"""

import argparse
import pathlib
import textwrap
from typing import TYPE_CHECKING

from trainer.commands.shared_flags import add_cache_dir
from trainer.datasets import DATASETS, Archive, Dataset

if TYPE_CHECKING:
    from trainer.datasets import Download

HELP = "list the datasets: where they are, their licences, and what is kept of them"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", help="Dataset to show in full. Without it all are listed.")
    add_cache_dir(parser)


def execute(parsed: argparse.Namespace) -> None:
    from trainer.datasets import cache_folder

    root = cache_folder(parsed.cache_dir)
    if parsed.name:
        _print_one(parsed.name, Dataset.named(parsed.name), root)
    else:
        _print_all(root)


def _print_all(root: pathlib.Path | None) -> None:
    for name, row in DATASETS.items():
        kept = sum(found is not None for found in _kept(row, root).values())
        hosts = dict.fromkeys(archive.place.host for archive in row.archives)
        images = "any images" if row.any_count else f"{row.n_train} + {row.n_valid} images"
        where = f"{', '.join(hosts)}, {kept} of {len(row.archives)} archives cached"
        where = where if row.archives else "not public"
        print(f"{name:<16} {images:<20} {_size(row)}  {where}")
        print(f"{'':<16} licence: {textwrap.shorten(row.licence or 'not stated', 90, placeholder=' ...')}")
    print(f"\nThe cache is {root or 'off'}. `python -m trainer datasets NAME` shows one in full.")


def _print_one(name: str, row: Dataset, root: pathlib.Path | None) -> None:
    images = f"{row.n_train} images for training, {row.n_valid} for validation"
    images = "any number of images" if row.any_count else images
    print(f"{name}: {images}. Input size {_size(row)}")
    for title, text in (("licence", row.licence), ("citation", row.citation), ("homepage", row.homepage)):
        print(f"{title}: {text or 'not stated'}")
    for archive, found in _kept(row, root).items():
        print(f"\n{archive.name}: {archive.address}")
        print(f"  published digest: {archive.digest or 'none'}")
        if found:
            print(f"  cached on {found.time[:10]}: {found.path}, {found.size_bytes / 1e6:.3g} MB")
            print(f"  SHA-256: {found.sha256}")
        else:
            print("  not in the cache")


def _kept(row: Dataset, root: pathlib.Path | None) -> "dict[Archive, Download | None]":
    from trainer.datasets import Origin

    return {archive: Origin.kept(archive, root) if root else None for archive in row.archives}


def _size(row: Dataset) -> str:
    return "x".join(map(str, row.image_size))
