"""How much a map changes when its picture is the same to people: `python -m research.change_noise FOLDER ...`.

Each picture in the folders is compared with itself, saved as JPEG of quality 85, scaled by 2 and by 0.5, and moved
by 4 pixels to the right and down. Prints, for the model `pretrained`, the median and the 95th percentile of the
change of a region's share, and how many of these changes are clear (`Change.is_clear`). Then the same of whole
maps.
"""

import io
import itertools
import pathlib
import sys
from collections import defaultdict

import numpy as np
from PIL import Image

from studio.difference import CLEAR_MOVED, share_moved
from trainer.api import Change
from trainer.models.find import choose_model
from trainer.models.model_names import PRETRAINED
from trainer.pictures import Pixels, read_picture
from trainer.prediction.predictor import Predictor
from trainer.prediction.regions import Region, measure_regions

JPEG_QUALITY = 85
MOVED_PX = 4
SIDES = (0.05, 0.1, 0.2, 0.4)
"""Sides of the regions, as parts of the picture's."""
REGIONS = 50
"""Regions of each size in a picture, at random places."""
SHARES = (0, 0.0025, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1)
"""Limits of the groups of shares."""


def variants(pixels: Pixels) -> dict[str, Pixels]:
    """Return what was done to a picture (h, w, 3) -> the picture after it."""
    height, width = pixels.shape[:2]
    jpeg = io.BytesIO()
    picture = Image.fromarray(pixels)
    picture.save(jpeg, "JPEG", quality=JPEG_QUALITY)
    sizes = {f"{by}x": (round(width * by), round(height * by)) for by in (2, 0.5)}
    grown = np.pad(pixels, ((MOVED_PX, 0), (MOVED_PX, 0), (0, 0)), "edge")
    return {
        "JPEG": read_picture(jpeg.getvalue(), "the JPEG"),
        **{name: np.asarray(picture.resize(size, Image.Resampling.LANCZOS)) for name, size in sizes.items()},
        f"{MOVED_PX} px": grown[:height, :width],
    }


def main(folders: list[str]) -> None:
    predictor, random = Predictor(choose_model(PRETRAINED).announced().folder), np.random.default_rng(0)
    pairs, whole = defaultdict(list), defaultdict(list)
    for path in sorted(each for folder in folders for each in pathlib.Path(folder).iterdir()):
        pixels = read_picture(path.read_bytes(), path.name)
        height, width = pixels.shape[:2]
        regions = [
            Region("", int(x * width), int(y * height), side * width, side * height)
            for side in SIDES
            for y, x in random.uniform(0, 1 - side, (REGIONS, 2))
        ]
        sides = [f"side {side:.0%}" for side in SIDES for _ in range(REGIONS)]
        before = predictor.predict(pixels)
        for kind, image in variants(pixels).items():
            after = predictor.predict(image, like=before)  # as two designs are compared
            whole[kind].append(share_moved(before, after))
            for side, *measures in zip(
                sides, measure_regions(before, regions), measure_regions(after, regions), strict=True
            ):
                pair = tuple(each.share for each in measures)
                low, high = next(limits for limits in itertools.pairwise(SHARES) if pair[0] <= limits[1])
                for name in (side, kind, f"share {low:.4g} to {high:.4g}"):
                    pairs[name].append(pair)
        print(path.name, {kind: round(100 * values[-1], 1) for kind, values in whole.items()}, flush=True)
    for name in sorted(pairs):
        changes = [100 * abs(after - before) for before, after in pairs[name]]
        clear = np.mean([Change.is_clear(*pair) for pair in pairs[name]])
        middle, high = np.quantile(changes, (0.5, 0.95))
        print(f"{name:24}{len(changes):8}{middle:8.2f}{high:8.2f} pp  {clear:.1%} clear")
    for kind, values in whole.items():
        middle, high = 100 * np.quantile(values, (0.5, 0.95))
        clear = np.mean(np.array(values) > CLEAR_MOVED)
        print(f"moved, {kind:17}{len(values):8}{middle:8.2f}{high:8.2f} %   {clear:.1%} clear")


if __name__ == "__main__":
    main(sys.argv[1:])
