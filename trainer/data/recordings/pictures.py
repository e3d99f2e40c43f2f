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
"""So many pictures prove a reading: right readings of 40 web pages were told from each fault (see
research/log.md)."""
ENOUGH_ASKED = 12
"""So many may contradict one that a column or a person has said: of 12, 94% of the faults of web pages are found,
and 69% of posters'."""
MODEL = pathlib.Path(trainer.__file__).parent / "models" / "pretrained"
"""The model whose maps they are: it comes with the package."""


class PictureWitness:
    """What the pictures of a source say about positions. Maps are predicted once, when they are first needed."""

    def __init__(self, pictures: Sequence[Member]) -> None:
        self.pictures = pictures
        self._maps: dict[int, Grid] = {}

    def ask(
        self, images: NDArray[np.int32], points: Points, sizes: Mapping[int, Size], is_said: bool = False
    ) -> Testimony:
        """What the pictures say about fixations.

        Args:
            images: (n,) the picture of each fixation.
            points: (n, 2) of (y, x), pixels of the picture.
            sizes: Picture -> (height, width), pixels.
            is_said: Whether a column or a person says what positions mean. Fewer pictures are asked then.
        """
        chosen = _window(images, max(ENOUGH_ASKED, len(self._maps)) if is_said else MOST_ASKED)
        if len(chosen) < witness.FEWEST:
            return witness.judge([], [])
        self._predict(chosen)
        looked = [Looked.of_points(points[images == image], sizes[image]) for image in chosen]
        return self._judge(chosen, looked, sizes)

    def ask_about(self, looked: Mapping[int, Looked], sizes: Mapping[int, Size]) -> Testimony:
        """What the pictures say about where people looked at each, of which `ENOUGH_ASKED` are asked."""
        chosen = _window(np.array([*looked], np.int32), ENOUGH_ASKED)
        if len(chosen) < witness.FEWEST:
            return witness.judge([], [])
        self._predict(chosen)
        return self._judge(chosen, [looked[image] for image in chosen], sizes)

    def _judge(self, chosen: Sequence[int], looked: Sequence[Looked], sizes: Mapping[int, Size]) -> Testimony:
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


def _window(images: NDArray[np.int32], most: int) -> list[int]:
    """At most so many images that follow one another, with the most fixations. `images` has the image of each."""
    numbers, counts = np.unique(images, return_counts=True)
    n = min(most, len(numbers))
    sums = np.convolve(counts, np.ones(n, np.int64), "valid") if n else np.zeros(1)
    start = int(sums.argmax())
    found: list[int] = numbers[start : start + n].tolist()
    return found
