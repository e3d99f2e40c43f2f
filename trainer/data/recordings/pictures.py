"""The pictures as witness of what positions mean: the maps of `pretrained`, compared with where people looked."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

import trainer
from trainer import witness
from trainer.data.source_layout import MOST_IMAGE_BYTES, Points, Size
from trainer.machine import Tracker
from trainer.pictures import read_picture
from trainer.places import Member
from trainer.prediction import Predictor
from trainer.witness import Grid, Looked, Testimony

MOST_ASKED = 40
"""So many pictures are asked: right readings of 40 web pages were told from each fault (see research/log.md)."""
MODEL = pathlib.Path(trainer.__file__).parent / "models" / "pretrained"
"""The model whose maps they are: it comes with the package."""


class PictureWitness:
    """What the pictures of a source say about positions. Maps are predicted once, when they are first needed."""

    def __init__(self, pictures: Sequence[Member]) -> None:
        self.pictures = pictures
        self._maps: dict[int, Grid] = {}

    def ask(self, images: NDArray[np.int32], points: Points, sizes: Mapping[int, Size]) -> Testimony:
        """What the pictures say about fixations.

        Args:
            images: (n,) the picture of each fixation.
            points: (n, 2) of (y, x), pixels of the picture.
            sizes: Picture -> (height, width), pixels.
        """
        numbers, counts = np.unique(images, return_counts=True)
        chosen = sorted(numbers[np.argsort(-counts, kind="stable")][:MOST_ASKED].tolist())
        if len(chosen) < witness.FEWEST:
            return witness.judge([], [])
        self._predict(chosen)
        looked = [Looked.of_points(points[images == image], sizes[image]) for image in chosen]
        of_size = [f"{sizes[image][0]} x {sizes[image][1]} pixels" for image in chosen]
        groups = of_size if len(set(of_size)) > 1 else ()
        return witness.judge([self._maps[image] for image in chosen], looked, groups)

    def _predict(self, images: Sequence[int]) -> None:
        missing = [image for image in images if image not in self._maps]
        if not missing:
            return
        predictor = Predictor(MODEL)
        with Tracker("ask pictures", len(missing), "pictures") as tracker:
            for image in missing:
                picture = read_picture(self.pictures[image].content(MOST_IMAGE_BYTES), self.pictures[image].origin)
                self._maps[image] = witness.to_grid(predictor.predict(picture))
                tracker.advance()
