"""List the datasets, show one, or write the SHA-256 of its archives into the table of a source checkout.

python -m trainer datasets
python -m trainer datasets salicon
python -m trainer datasets salicon --record
"""

import argparse
import pathlib
import textwrap
from typing import TYPE_CHECKING

from trainer import datasets
from trainer.cli import add_cache_dir
from trainer.datasets import DATASETS, Dataset

if TYPE_CHECKING:
    from trainer.downloads.cache import Download

HELP = "list the datasets: where they are, their licences, and what is kept of them"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", help="Dataset to show in full; without it all are listed.")
    add_cache_dir(parser)
    parser.add_argument(
        "--record",
        action="store_true",
        help="Fetch the archives of NAME from their public places; write their SHA-256 into trainer/datasets.py.",
    )


def execute(parsed: argparse.Namespace) -> None:
    from trainer.downloads import cache
    from trainer.errors import check

    check(bool(parsed.name) or not parsed.record, "name the dataset whose SHA-256 to record")
    root = cache.cache_folder(parsed.cache_dir)
    if not parsed.name:
        _print_all(root)
        return
    row = datasets.get(parsed.name)
    if parsed.record:
        _record(row, root)
    _print_one(parsed.name, row, root)


def _print_all(root: pathlib.Path | None) -> None:
    for name, row in DATASETS.items():
        kept = sum(found is not None for found in _kept(row, root).values())
        hosts = dict.fromkeys(_host(place.address) for place in row.places)
        images = "any images" if row.any_count else f"{row.n_train} + {row.n_valid} images"
        where = (
            f"{', '.join(hosts)}, {kept} of {len(row.places)} archives cached" if row.places else "no public place"
        )
        print(f"{name:<16} {images:<20} {_size(row)}  {where}")
        print(f"{'':<16} licence: {textwrap.shorten(row.licence or 'not stated', 90, placeholder=' ...')}")
    print(f"\nThe cache is {root or 'off'}. `python -m trainer datasets NAME` shows one in full.")


def _print_one(name: str, row: Dataset, root: pathlib.Path | None) -> None:
    images = f"{row.n_train} images for training, {row.n_valid} for validation"
    images = "any number of images" if row.any_count else images
    print(f"{name}: {images}; input size {_size(row)}")
    for title, text in (("licence", row.licence), ("citation", row.citation), ("homepage", row.homepage)):
        print(f"{title}: {text or 'not stated'}")
    for place, found in _kept(row, root).items():
        print(f"\n{place.name}: {place.address}")
        print(f"  SHA-256 of the table: {place.sha256 or 'nobody has recorded it'}")
        if found:
            print(f"  cached on {found.time[:10]}: {found.path}, {found.size_bytes / 1e6:.3g} MB")
            print(f"  SHA-256: {found.sha256}")
        else:
            print("  not in the cache")


def _record(row: Dataset, root: pathlib.Path | None) -> None:
    from trainer import files
    from trainer.downloads import archives
    from trainer.downloads.cache import record, table

    path = table()
    with files.folder(files.LOCAL) as folder:
        found = archives.fetch(archives.public(row), root or folder)
    sums = {place.address: each.sha256 for place, each in zip(row.places, found, strict=True)}
    for address in record(path, sums):
        print(f"{path}: SHA-256 of {address} is {sums[address]}")


def _kept(row: Dataset, root: pathlib.Path | None) -> "dict[datasets.Place, Download | None]":
    from trainer.downloads import archives

    return {place: archives.kept(place, root) if root else None for place in row.places}


def _host(address: str) -> str:
    scheme, _, rest = address.partition("://")
    if address.startswith(datasets.DRIVE):
        return "Google Drive"
    return "Cloud Storage" if scheme == "gs" else rest.partition("/")[0]


def _size(row: Dataset) -> str:
    return "x".join(map(str, row.image_size))
