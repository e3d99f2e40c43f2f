r"""One `custom` dataset of maps, made from several sets of recordings, each blurred by about one degree.

`pretrained` was last trained on such a dataset (research/results.md, "One joint training"). A set is a folder with
images in `stimuli/` and a table `fixations.csv` whose columns `image`, `x` and `y` are pixels of the image. The
images of prepared sets can be left out, so that models can be scored on them.

    python -m research.joint_dataset osie=FOLDER:0.03 crowd=FOLDER:0.0254 scene=FOLDER:0.03125 \
      --valid osie=PREPARED --held-out osie=PREPARED crowd=PREPARED scene=PREPARED --output joint
    python -m trainer fetch --dataset custom --source joint --split folders --image-size 240x320 \
      --output-dir joint-data
"""

import argparse
import csv
import pathlib
import shutil
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def main() -> None:
    """Write `stimuli/SPLIT/SET/` and `maps/SPLIT/SET/`, where SPLIT is train or val."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "sets", nargs="+", help="NAME=FOLDER:SIGMA, where SIGMA is a share of the image's longer side."
    )
    parser.add_argument("--valid", nargs="*", default=[], help="NAME=PREPARED: its images are for validation.")
    parser.add_argument("--held-out", nargs="*", default=[], help="NAME=PREPARED: its images are left out.")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parsed = parser.parse_args()
    from trainer.metrics.points import blur

    valid, held_out = _images_of(parsed.valid), _images_of(parsed.held_out)
    for each in parsed.sets:
        name, _, rest = each.partition("=")
        folder, _, sigma = rest.rpartition(":")
        counts = {"train": 0, "val": 0}
        for image, points in _fixations(pathlib.Path(folder) / "fixations.csv").items():
            stimulus = pathlib.Path(folder, "stimuli", image)
            with Image.open(stimulus) as picture:
                width, height = picture.size
            inside = points[((points >= 0) & (points < (height, width))).all(axis=1)]
            if (name, image) in held_out or not len(inside):
                continue
            split = "val" if (name, image) in valid else "train"
            stimuli, maps = (parsed.output / kind / split / name for kind in ("stimuli", "maps"))
            stimuli.mkdir(parents=True, exist_ok=True)
            maps.mkdir(parents=True, exist_ok=True)
            density = blur(inside, (height, width), float(sigma) * max(width, height))
            Image.fromarray(density).save((maps / image).with_suffix(".png"))
            shutil.copy(stimulus, stimuli)
            counts[split] += 1
        print(name, counts)


def _images_of(prepared_sets: Iterable[str]) -> set[tuple[str, str]]:
    """The name of each prepared set with the name of each of its images, as `fetch` listed them."""
    return {
        (name, row["image"])
        for name, _, folder in (each.partition("=") for each in prepared_sets)
        for row in csv.DictReader(pathlib.Path(folder, "images.csv").open())
    }


def _fixations(table: pathlib.Path) -> dict[str, NDArray[np.int64]]:
    """Fixated pixels (n, 2), y and x, for each image of a table."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for row in csv.DictReader(table.open()):
        rows.setdefault(row["image"], []).append((float(row["y"]), float(row["x"])))
    return {image: np.floor(points).astype(np.int64) for image, points in rows.items()}


if __name__ == "__main__":
    main()
