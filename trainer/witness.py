"""A witness of recordings: maps that agree with where people looked, if positions mean what they are taken for.

The maps are the default model's, or show where other people looked at the same images. Fixations are
looked up in them under many readings: as they are, upside down, moved, scaled. Each map counts without what it has
in common with the maps of the other images, so that a habit such as looking at the centre is no evidence for a
reading. What is left is specific to the image, and honest fixations find more of it as they are than under any
other reading.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

__all__ = [
    "FEWEST",
    "GRID",
    "Grid",
    "Looked",
    "Reading",
    "agreement",
    "better_reading",
    "odd_observers",
    "to_grid",
]

GRID = (48, 64)
"""(height, width) of the maps that are compared, cells."""
FEWEST = 12
"""So many images tell one reading from another."""
CERTAIN = 3.5
"""Standard errors by which another reading must agree better: about 140 readings are tried."""
RELEVANT = 0.1
"""Least gain of another reading, as a share of the agreement that it reaches."""
LEAST = 0.3
"""Agreement that a reading must reach: maps that know nothing agree with any reading by up to 0.2. (`pretrained`
reaches 1.1 to 1.4 on photographs.)"""
STEP, FARTHEST = 0.02, 0.3
"""Positions are moved by multiples of `STEP`, up to `FARTHEST` of a side."""
LEAST_MOVED = 0.03
"""A smaller displacement is not named: maps are not that sharp."""
SCALES = (0.5, 2 / 3, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0)
SPREAD = 0.06
"""Standard deviation of the Gaussian around the fixations of other people, as a share of the image's sides."""
CERTAIN_OF_PEOPLE = 5.0
"""As `CERTAIN`, of one of many people."""
MOST_LOST = 1 / 3
"""A person agrees with nobody if the agreement is below this share of most people's, by `CERTAIN_OF_PEOPLE`."""

Grid = npt.NDArray[np.float64]
Points = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Looked:
    """Where people looked at one image."""

    points: Points
    """(n, 2) of (y, x) in shares of the image's sides, 0..1."""
    weights: npt.NDArray[np.float64]
    """(n,): share of the attention at each of them. They sum to 1."""
    aspect: float
    """Width / height of the image."""

    @classmethod
    def of_points(cls, points: npt.ArrayLike, size: tuple[int, int]) -> "Looked":
        """Fixations: pixels (n, 2) of (y, x) in an image of `size` (height, width)."""
        shares = (np.asarray(points, np.float64).reshape(-1, 2) + 0.5) / size
        return cls(shares, np.full(len(shares), 1 / max(1, len(shares))), size[1] / size[0])

    @classmethod
    def of_density(cls, density: npt.ArrayLike, size: tuple[int, int]) -> "Looked":
        """A density map (h, w), not all 0, of an image of `size` (height, width)."""
        cells = to_grid(density)
        y, x = np.nonzero(cells)
        weights = cells[y, x] / cells.sum()
        return cls((np.stack([y, x], 1) + 0.5) / GRID, weights, size[1] / size[0])


@dataclasses.dataclass(frozen=True)
class Reading:
    """A reading of positions that agrees with the maps better than the one in use."""

    text: str
    """What the positions look like, such as `y were upside down`."""
    agreement: float
    """Mean over images of the maps' values at the positions under this reading, standard deviations."""
    as_read: float
    """The same as the positions are."""
    n_images: int

    def __str__(self) -> str:
        return (
            f"as if {self.text} (agreement {self.agreement:.2f} instead of {self.as_read:.2f} on "
            f"{self.n_images:,} images)"
        )


Read = Callable[[Looked], Points]
"""Where people looked under a reading: (n, 2) as `Looked.points`, perhaps outside of the image."""


def to_grid(values: npt.ArrayLike) -> Grid:
    """A map (h, w) in cells of `GRID`."""
    image = Image.fromarray(np.asarray(values, np.float32))
    return np.asarray(image.resize(GRID[::-1], Image.Resampling.BOX), np.float64)


def agreement(maps: Sequence[Grid], looked: Sequence[Looked]) -> npt.NDArray[np.float64]:
    """How much of what is specific to its map each image's fixations find, (n,), in standard deviations."""
    specific = _specific(maps)
    return np.array([_found(each, where, where.points) for each, where in zip(specific, looked, strict=True)])


def better_reading(maps: Sequence[Grid], looked: Sequence[Looked], certain: float = CERTAIN) -> Reading | None:
    """Find the reading that agrees best with the maps, if it does so certainly and by a relevant amount.

    Args:
        maps: of each image, (GRID), of any scale.
        looked: Where people looked at the same images.
        certain: Standard errors by which another reading must agree better.

    Returns:
        None if the positions agree best as they are, or if there are fewer than `FEWEST` images.
    """
    if len(maps) < FEWEST:
        return None
    specific = _specific(maps)
    found = {
        text: np.array([_found(each, where, read(where)) for each, where in zip(specific, looked, strict=True)])
        for text, read in _readings().items()
    }
    as_read = found.pop("")
    text = max(found, key=lambda name: float(found[name].mean()))
    best = found[text]
    gains = best - as_read
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains))
    if best.mean() < LEAST or gains.mean() <= max(certain * error, RELEVANT * best.mean()):
        return None
    return Reading(text, float(best.mean()), float(as_read.mean()), len(gains))


def odd_observers(images: Iterable[tuple[Points, npt.NDArray[np.int64], float]]) -> dict[int, Reading | None]:
    """Find the people who do not look where the others do on the same images.

    Args:
        images: (n, 2) positions as in `Looked`, (n,) number of the observer, the same person on all images, and
            width / height, of each image.

    Returns:
        Observer -> the reading under which his fixations agree with the others. None if there is none, and they
        agree with them no more than by chance.
    """
    maps: dict[int, list[Grid]] = {}
    looked: dict[int, list[Looked]] = {}
    for points, observers, aspect in images:
        for observer in np.unique(observers).tolist():
            own = observers == observer
            if own.all():
                continue
            maps.setdefault(observer, []).append(_density(points[~own]))
            n_own = int(own.sum())
            looked.setdefault(observer, []).append(Looked(points[own], np.full(n_own, 1 / n_own), aspect))
    found = {
        observer: agreement(of_images, looked[observer])
        for observer, of_images in maps.items()
        if len(of_images) >= FEWEST
    }
    usual = float(np.median([values.mean() for values in found.values()])) if found else 0.0
    odd: dict[int, Reading | None] = {}
    for observer, values in found.items():
        reading = better_reading(maps[observer], looked[observer], CERTAIN_OF_PEOPLE)
        error = float(values.std(ddof=1)) / math.sqrt(len(values))
        is_lost = values.mean() < MOST_LOST * usual and usual - values.mean() > CERTAIN_OF_PEOPLE * error
        if reading is not None or is_lost:
            odd[observer] = reading
    return odd


def _specific(maps: Sequence[Grid]) -> list[Grid]:
    """What is specific to each map: standardized, and without the mean of all."""
    scaled = [(each - each.mean()) / max(float(each.std()), 1e-12) for each in maps]
    common = np.mean(scaled, axis=0)
    return [each - common for each in scaled]


def _found(values: Grid, looked: Looked, points: Points) -> float:
    """The mean of the values at positions. One outside of the image counts as at its edge."""
    y, x = (np.clip((points * GRID).astype(np.int64), 0, np.array(GRID) - 1)).T
    return float(values[y, x] @ looked.weights)


def _density(points: Points) -> Grid:
    """The density of fixations, in cells of `GRID`."""
    y, x = (np.clip((points * GRID).astype(np.int64), 0, np.array(GRID) - 1)).T
    counts = np.bincount(y * GRID[1] + x, minlength=GRID[0] * GRID[1]).reshape(GRID).astype(np.float64)
    return np.asarray(ndimage.gaussian_filter(counts, [SPREAD * side for side in GRID], mode="constant"))


def _readings() -> dict[str, Read]:
    """What positions may look like -> how they are then to be read. An empty text for as they are."""
    readings: dict[str, Read] = {
        "": lambda looked: looked.points,
        "y were upside down": lambda looked: np.stack([1 - looked.points[:, 0], looked.points[:, 1]], 1),
        "x were from right to left": lambda looked: np.stack([looked.points[:, 0], 1 - looked.points[:, 1]], 1),
        "they were turned by 180 degrees": lambda looked: 1 - looked.points,
        "x and y were exchanged": lambda looked: looked.points[:, ::-1] * (looked.aspect, 1 / looked.aspect),
    }
    for scale in SCALES:
        readings[f"they were scaled by {scale:.2g} from the upper left corner"] = _scaled(scale, 0.0)
        readings[f"they were scaled by {scale:.2g} from the centre"] = _scaled(scale, 0.5)
    n_steps = round(FARTHEST / STEP)
    steps = [step * STEP for step in range(-n_steps, n_steps + 1)]
    for down, right in itertools.product(steps, steps):
        if math.hypot(down, right) >= LEAST_MOVED and (not down or not right or abs(down) == abs(right)):
            readings[_moved_text(down, right)] = _moved(down, right)
    return readings


def _scaled(scale: float, origin: float) -> Read:
    return lambda looked: (looked.points - origin) / scale + origin


def _moved(down: float, right: float) -> Read:
    return lambda looked: looked.points - (down, right)


def _moved_text(down: float, right: float) -> str:
    parts = [
        f"{abs(right):.0%} of the width to the {'right' if right > 0 else 'left'}" if right else "",
        f"{abs(down):.0%} of the height {'down' if down > 0 else 'up'}" if down else "",
    ]
    return f"all were moved by {' and '.join(filter(None, parts))}"
