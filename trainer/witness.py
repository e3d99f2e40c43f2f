"""A witness of recordings: maps that agree with where people looked, if positions mean what they are taken for.

The maps are a model's, or show where other people looked at the same images. Fixations are
looked up in them under many readings: as they are, upside down, moved, scaled. Each map counts without what it has
in common with the maps of the other images, so that a habit such as looking at the centre is no evidence for a
reading. What is left is specific to the image, and honest fixations find more of it as they are than under any
other reading. They also find more of it in the map of their own image than in the maps of others.

`judge` says whether the maps prove a reading, contradict it, or cannot tell.
"""

import dataclasses
import enum
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage, special

__all__ = [
    "FEWEST",
    "GRID",
    "LEAST",
    "Grid",
    "Looked",
    "Reading",
    "Testimony",
    "Verdict",
    "agreement",
    "better_reading",
    "judge",
    "odd_observers",
    "to_grid",
]

GRID = (48, 64)
"""(height, width) of the maps that are compared, cells."""
FEWEST = 6
"""Fewer images tell no reading from another. Of 6 web pages with the gaze of 5 people, 32% of the faults are
found, and 39% of right data is proven."""
CERTAIN = 1e-3
"""Probability by which one of 165 readings seems better by chance, in a t test over images. Of right data of web
pages, posters, charts and photographs, at most 1.3% is contradicted, 0 to 0.2% with more than one person. Of 12
pages 94% of the faults are found, of 12 posters 69%, of 12 photographs 14% to 99%."""
PROVEN = 0.05
"""Probability by which one reading seems worse by chance. All that differ much must seem worse, and of wrong
data at most 1% is proven. Of right data of 9 pages with 5 people it is 80%, of 9 posters 14%."""
RELEVANT = 0.2
"""Least gain of another reading, as a share of the agreement that it reaches. Readings of one person on 51 pages
gain up to 0.16, most by a scale of 1.1, where he is not off."""
LEAST = 0.3
"""Agreement that counts, standard deviations. With right data of web pages, posters, charts and photographs it
is 0.6 to 0.9, and 2.5 on photographs that the model was trained on. With random positions on 30 images or more,
no reading reaches 0.05."""
COARSE = 0.05
"""A reading that moves positions by less, on average and as a share of the sides, is close to the one in use. A
displacement of 6% and a scale of 0.8 of both sides are not."""

AXES = (("they were", True, True), ("x were", False, True), ("y were", True, False))
DIRECTIONS = [each for each in itertools.product((-1, 0, 1), repeat=2) if any(each)]
SPREAD = 0.06
"""Standard deviation of the Gaussian around the fixations of other people, as a share of the image's sides."""

Grid = npt.NDArray[np.float64]
Points = npt.NDArray[np.float64]
Values = npt.NDArray[np.float64]


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
    displacement: float
    """How far the reading moves the positions, on average, as a share of the sides. 1 for another image."""

    def __str__(self) -> str:
        return (
            f"as if {self.text} (agreement {self.agreement:.2f} instead of {self.as_read:.2f} on "
            f"{self.n_images:,} images)"
        )


class Verdict(enum.StrEnum):
    """What the maps say of a reading of positions."""

    AGREES = "agrees"
    """It is proven: people looked where the maps have it, and not by any other reading that differs much."""
    CONTRADICTS = "contradicts"
    """Another reading is certainly better, and by a relevant amount."""
    SILENT = "silent"
    """The maps cannot tell."""


@dataclasses.dataclass(frozen=True)
class Testimony:
    """What the maps of a model say of a reading of positions."""

    verdict: Verdict
    agreement: float
    """Mean over images of what the positions find of what is specific to the image's map, standard deviations."""
    n_images: int
    better: Reading | None = None
    """The better reading, of one that is contradicted. Its `n_images` are fewer if it is about one group. None if
    a group agrees by chance alone, and the other images do not."""
    group: str = ""
    """Label of the group of images that the better reading is about. Empty for all."""

    @property
    def text(self) -> str:
        """A sentence for a report."""
        images = f"{self.n_images:,} picture{'' if self.n_images == 1 else 's'}"
        found = f"{self.agreement:.2f} standard deviations"
        if self.better is not None:
            of_group = f" of the pictures of {self.group}" if self.group else ""
            return f"By the maps of pretrained, positions{of_group} look {self.better}."
        if self.verdict is Verdict.CONTRADICTS:
            return (
                f"By the maps of pretrained, positions of the pictures of {self.group} agree with {images} by "
                f"chance alone ({found}), and others do not."
            )
        if self.verdict is Verdict.AGREES:
            return f"By the maps of pretrained, positions agree with {images} as under no other reading ({found})."
        return f"The maps of pretrained cannot tell whether positions agree with {images} ({found})."


Read = Callable[[Points, Values], Points]
"""Where people looked under a reading, perhaps outside of the image: (n, 2) as `Looked.points`, of such positions
and the width / height of the image of each, (n,)."""


def to_grid(values: npt.ArrayLike) -> Grid:
    """A map (h, w) in cells of `GRID`."""
    image = Image.fromarray(np.asarray(values, np.float32))
    return np.asarray(image.resize(GRID[::-1], Image.Resampling.BOX), np.float64)


def agreement(maps: Sequence[Grid], looked: Sequence[Looked]) -> Values:
    """How much of what is specific to its map each image's fixations find, (n,), in standard deviations."""
    return _found(maps, looked, {"": _readings()[""]})[""]


def judge(maps: Sequence[Grid], looked: Sequence[Looked], groups: Sequence[str] = ()) -> Testimony:
    """Say whether the maps prove a reading of positions, contradict it, or cannot tell.

    They prove it if the positions certainly find higher ranks in the map of their own image than in others', and
    certainly higher ones than under each other reading that is not close to it. On the mean that must hold for
    each group too, so that a part of the images that is read wrongly does not hide behind the rest.

    Args:
        maps: of each image, (GRID), of any scale. Images are in the order of their names.
        looked: Where people looked at the same images.
        groups: A label for each image, such as its size. Empty if nothing is known to tell images apart.
    """
    n = len(maps)
    if not n:
        return Testimony(Verdict.SILENT, 0.0, 0)
    found = _found(maps, looked, _readings())
    mean = float(found[""].mean())
    parts = _parts(groups, n)
    for label, part in parts.items():
        of_part = [each for each, is_in in zip(looked, part, strict=True) if is_in]
        if better := _better({text: values[part] for text, values in found.items()}, of_part, CERTAIN):
            return Testimony(Verdict.CONTRADICTS, mean, n, better, label)
    if better := _neighbour(maps, looked, found[""]):
        return Testimony(Verdict.CONTRADICTS, mean, n, better)
    found = _found([_ranks(each) for each in maps], looked, _readings())
    as_read = found[""]
    others = [text for text, read in _readings().items() if _displacement(looked, read) >= COARSE]
    coarse = [as_read, *(as_read - found[text] for text in others)]
    is_proven = n >= FEWEST and mean >= LEAST and all(_is_above(gains, PROVEN) for gains in coarse)
    is_whole = all(gains[part].mean() > 0 for part in parts.values() for gains in coarse)
    return Testimony(Verdict.AGREES if is_proven and is_whole else Verdict.SILENT, mean, n)


def _neighbour(maps: Sequence[Grid], looked: Sequence[Looked], as_read: Values) -> Reading | None:
    """The reading that positions are of the next image or the one before, if these certainly agree better."""
    if len(maps) <= FEWEST:
        return None
    for text, rolled, kept in (
        ("they were of the next image", [*maps[1:], *maps[:1]], slice(0, -1)),
        ("they were of the image before", [*maps[-1:], *maps[:-1]], slice(1, None)),
    ):
        found = _found(rolled, looked, {text: _readings()[""]})[text]
        if better := _better({"": as_read[kept], text: found[kept]}, looked[kept], CERTAIN):
            return better
    return None


def better_reading(maps: Sequence[Grid], looked: Sequence[Looked], certain: float = CERTAIN) -> Reading | None:
    """Find the reading that agrees best with the maps, if it does so certainly and by a relevant amount.

    Args:
        maps: of each image, (GRID), of any scale.
        looked: Where people looked at the same images.
        certain: Probability by which a reading that is no better seems better.

    Returns:
        None if the positions agree best as they are, or if there are fewer than `FEWEST` images.
    """
    return _better(_found(maps, looked, _readings()), looked, certain) if len(maps) >= FEWEST else None


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
    certain = CERTAIN / max(1, len(found))
    for observer, values in found.items():
        reading = better_reading(maps[observer], looked[observer], certain)
        is_lost = values.mean() < LEAST and _is_above(usual - values, certain)
        if reading is not None or is_lost:
            odd[observer] = reading
    return odd


def _found(maps: Sequence[Grid], looked: Sequence[Looked], readings: Mapping[str, Read]) -> dict[str, Values]:
    """Reading -> the mean of what is specific to each image's map at its positions, (n,).

    A map is standardized, and without the mean of all. A position outside of the image counts as at its edge.
    """
    scaled = np.stack([(each - each.mean()) / max(float(each.std()), 1e-12) for each in maps])
    specific = scaled - scaled.mean(0)
    image = np.repeat(np.arange(len(looked)), [len(each.points) for each in looked])
    points, weights, aspects = _together(looked)
    found = {}
    for text, read in readings.items():
        values = specific[image, *_cells(read(points, aspects))]
        found[text] = np.bincount(image, values * weights, len(looked)).astype(np.float64)
    return found


def _displacement(looked: Sequence[Looked], read: Read) -> float:
    """How far a reading moves the positions, on average, as a share of the image's sides."""
    points, weights, aspects = _together(looked)
    return float(np.hypot(*(read(points, aspects) - points).T) @ weights / len(looked))


def _together(looked: Sequence[Looked]) -> tuple[Points, Values, Values]:
    """The positions on all images, the weight of each, and the width / height of its image."""
    aspects = np.repeat([each.aspect for each in looked], [len(each.points) for each in looked])
    return (
        np.concatenate([each.points for each in looked]),
        np.concatenate([each.weights for each in looked]),
        aspects,
    )


def _ranks(values: Grid) -> Grid:
    """The rank of each cell of a map. Equal cells share theirs.

    Values tell displacements best, and ranks scales: what is far from all peaks counts too. By values,
    `pretrained` refutes a scale of 0.8 from the centre neither on posters nor on small photographs, and would
    even prove it.
    """
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - counts / 2)[places].reshape(values.shape), np.float64)


def _better(found: Mapping[str, Values], looked: Sequence[Looked], certain: float) -> Reading | None:
    """The reading that finds most, if it does so certainly and by a relevant amount. See `better_reading`."""
    as_read = found[""]
    text = max(found, key=lambda name: float(found[name].mean()))
    best = found[text]
    gains = best - as_read
    if len(gains) < FEWEST or best.mean() < LEAST or gains.mean() <= RELEVANT * best.mean():
        return None
    if not _is_above(gains, certain):
        return None
    displacement = _displacement(looked, _readings()[text]) if text in _readings() else 1.0
    return Reading(text, float(best.mean()), float(as_read.mean()), len(gains), displacement)


def _is_above(values: Values, probability: float) -> bool:
    """Whether a mean is above 0, by a t test (one-sided): with `probability` it seems so by chance."""
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return bool(values.mean() > -special.stdtrit(len(values) - 1, probability) * error)


def _parts(groups: Sequence[str], n: int) -> dict[str, npt.NDArray[np.bool_]]:
    """Label -> its images, and an empty label for all. One image alone shows nothing, and is no group."""
    parts = {"": np.ones(n, bool)}
    for label in dict.fromkeys(groups):
        part = np.array(groups) == label
        if 1 < part.sum() < n:
            parts[label] = part
    return parts


def _cells(points: Points) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(y, x) of the cells of `GRID` with positions, or nearest to them."""
    y, x = np.clip((points * GRID).astype(np.int64), 0, np.array(GRID) - 1).T
    return y, x


def _density(points: Points) -> Grid:
    """The density of fixations, in cells of `GRID`."""
    y, x = _cells(points)
    counts = np.bincount(y * GRID[1] + x, minlength=GRID[0] * GRID[1]).reshape(GRID).astype(np.float64)
    return np.asarray(ndimage.gaussian_filter(counts, [SPREAD * side for side in GRID], mode="constant"))


@functools.cache
def _readings() -> dict[str, Read]:
    """What positions may look like -> how they are then to be read. An empty text for as they are."""
    return {
        "": lambda points, _: points,
        "y were upside down": lambda points, _: points * (-1, 1) + (1, 0),
        "x were from right to left": lambda points, _: points * (1, -1) + (0, 1),
        "they were turned by 180 degrees": lambda points, _: 1 - points,
        "x and y were exchanged": lambda points, aspects: np.stack(
            [points[:, 1] * aspects, points[:, 0] / aspects], 1
        ),
        **_scalings(0.5, 2 / 3, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0),
        **_moves(*np.arange(0.04, 0.31, 0.02).tolist()),
    }


def _scalings(*scales: float) -> dict[str, Read]:
    """Positions that are too near to a point, or too far from it, in both directions or in one."""
    readings = {}
    for scale, (what, is_down, is_right) in itertools.product(scales, AXES):
        by = (scale if is_down else 1.0, scale if is_right else 1.0)
        readings[f"{what} scaled by {scale:.3g} from the upper left corner"] = _scaled(by, 0.0)
        readings[f"{what} scaled by {scale:.3g} from the centre"] = _scaled(by, 0.5)
    return readings


def _moves(*steps: float) -> dict[str, Read]:
    """Positions that are moved along a side or along a diagonal, by shares of the image's sides."""
    moves = [(step * down, step * right) for step in steps for down, right in DIRECTIONS]
    return {_moved_text(*move): _moved(*move) for move in moves}


def _scaled(by: tuple[float, float], origin: float) -> Read:
    return lambda points, _: (points - origin) / by + origin


def _moved(down: float, right: float) -> Read:
    return lambda points, _: points - (down, right)


def _moved_text(down: float, right: float) -> str:
    parts = [
        f"{abs(right):.0%} of the width to the {'right' if right > 0 else 'left'}" if right else "",
        f"{abs(down):.0%} of the height {'down' if down > 0 else 'up'}" if down else "",
    ]
    return f"all were moved by {' and '.join(filter(None, parts))}"
