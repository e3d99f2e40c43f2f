"""Measure `fetch`: images/s, images per core and second, and the memory that it needs, for many images.

    python -m benchmarks.fetch_rate --source FOLDER [--images 15000] [--found 1000000]

FOLDER has SALICON's archives `images.zip`, `maps.zip` and `fixations.zip`; its images are repeated under other
names until there are --images of them. 15,000 images of 640 x 480 take 5 minutes on 2 cores with nothing else
to do, and 6 GB of disk. The rate per core and second counts CPU seconds, which other work on the machine changes
less.

--found is the number of images for the second table: memory and time for pairing the files of so many images,
which grow with their number; the memory for preparing them does not. 0 leaves it out.
"""

import argparse
import itertools
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import zipfile

ARCHIVES = ("images", "maps", "fixations")
TRAIN_SHARE = 2 / 3
"""Of the images; SALICON's."""
MEMBERS_OF = """
import resource, sys, time
from trainer import datasets
from trainer.data import layout
from trainer.sources import Member
n = int(sys.argv[1])
start = time.process_time()
members = [
    Member(f"{kind}/{split}/COCO_{split}2014_{i:012d}.{suffix}", f"{split}/{i}", bytes)
    for split in ("train", "val")
    for kind, suffix in (("images", "jpg"), ("maps", "png"), ("fixations", "mat"))
    for i in range(n // 2)
]
layout.find_items(members, datasets.get("salicon"), "source")
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def repeat(source: pathlib.Path, folder: pathlib.Path, n_images: int) -> None:
    """Write archives of `n_images` images into `folder`, whose files are those of `source` in turn."""
    n_train = round(n_images * TRAIN_SHARE)
    for name in ARCHIVES:
        with (
            zipfile.ZipFile(source / f"{name}.zip") as read,
            zipfile.ZipFile(folder / f"{name}.zip", "w") as write,
        ):
            files = sorted(member for member in read.namelist() if not member.endswith("/"))
            for index, member in enumerate(itertools.islice(itertools.cycle(files), n_images)):
                split, suffix = "train" if index < n_train else "val", pathlib.PurePosixPath(member).suffix
                prefix = "images/" if name == "images" else ""
                write.writestr(f"{prefix}{split}/COCO_{split}2014_{index:012d}{suffix}", read.read(member))


def fetch(source: pathlib.Path, output: pathlib.Path, n_images: int) -> str:
    """A row of the table: the command `fetch`, in a process of its own."""
    flags = ["--dataset", "salicon", "--source", str(source), "--output-dir", str(output)]
    start = time.monotonic()
    subprocess.run([sys.executable, "-m", "trainer", "fetch", *flags, "--allow-partial-data", "true"], check=True)
    wall_s, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    rates = f"{n_images / wall_s:.1f} | {n_images / cpu_s:.1f}"
    return f"| {n_images:,} | {wall_s:.0f} | {rates} | {used.ru_maxrss / 1000:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--images", type=int, default=15_000)
    parser.add_argument("--found", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch, "source")
        folder.mkdir()
        repeat(arguments.source, folder, arguments.images)
        row = fetch(folder, pathlib.Path(scratch, "prepared"), arguments.images)
    print(f"\n{os.cpu_count()} cores")
    print("| images | seconds | images/s | images per core and second | peak memory, MB |\n|---|---|---|---|---|")
    print(row)
    if arguments.found:
        command = [sys.executable, "-c", MEMBERS_OF, str(arguments.found)]
        seconds, kilobytes = map(float, subprocess.check_output(command, text=True).split())
        print("\n| images found | seconds | peak memory, MB |\n|---|---|---|")
        print(f"| {arguments.found:,} | {seconds:.0f} | {kilobytes / 1000:,.0f} |")


if __name__ == "__main__":
    main()
