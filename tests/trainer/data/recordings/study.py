"""Made-up eye-tracking studies with a known truth: pictures, people, and where each of them looked.

A study is drawn by weighted choices. Each is written down under the name of its axis, so that its seed
gives the study again.
"""

import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from PIL import Image

WORDS = (
    *("beach", "bridge", "castle", "garden", "kitchen", "market", "harbour", "forest", "street", "museum"),
    *("bakery", "library", "meadow", "office", "orchard", "palace", "quarry", "river", "school", "station"),
    *("temple", "tower", "tunnel", "valley", "village", "waterfall", "window", "workshop", "zebra", "island"),
)
FIRST_NAMES = ("anna", "bob", "carla", "dmitri", "elif", "frank", "grace", "hugo")
NAMES = {
    "p01.png": 4,
    "1.png": 3,
    "101.jpg": 2,
    "01.png": 2,
    "words": 3,
    "words with blanks": 1,
    "umlauts": 1,
    "subfolders": 1,
    "equal names in subfolders": 1,
    "IMG_0001.jpg": 1,
}
NUMBERED = ("1.png", "101.jpg", "01.png")
"""Names of pictures without a letter before their suffix."""
SIZES = {
    "640x480": ((640, 480),),
    "800x600": ((800, 600),),
    "1280x720": ((1280, 720),),
    "portrait": ((480, 640),),
    "mixed": ((640, 480), (800, 600), (480, 640), (1024, 768), (700, 300)),
}
"""(width, height) of pictures, pixels."""
PEOPLE = {"S01": 4, "1": 3, "101": 1, "first names": 2, "0": 1}
"""How people are labelled."""
LEAST_OUTSIDE_PX, MOST_OUTSIDE_PX = 3, 25
"""How far a fixation outside of its picture is from it."""
NEAR_PX = 2
"""Fixations of one picture are further apart than this in x or in y."""
STEPS = (-1, 0, 1)


class Fixation(NamedTuple):
    """One fixation, in pixels of its picture from the upper left corner."""

    picture: int
    person: int
    number: int
    """From 1, for each person and picture."""
    trial: int
    """From 1: which of the pictures that this person saw it was."""
    x: float
    y: float
    start_ms: int
    """Since the picture was shown."""
    duration_ms: int


class Draw:
    """Random choices, written down.

    Args:
        seed: of the choices.
        forced: axis -> the choice that is made whatever the weights, if the axis has it.
    """

    def __init__(self, seed: int, forced: Mapping[str, str] | None = None) -> None:
        self.random = np.random.default_rng(seed)
        self.forced = forced or {}
        self.choices: dict[str, str] = {}
        self.doubts: list[str] = []
        """Why an expert who sees the files would ask before reading them; empty if there is no reason to."""

    def pick(self, axis: str, weights: Mapping[str, float]) -> str:
        """One of the choices of an axis."""
        shares = np.array(list(weights.values()), float)
        choice = list(weights)[self.random.choice(len(shares), p=shares / shares.sum())]
        if self.forced.get(axis) in weights:
            choice = self.forced[axis]
        self.choices[axis] = choice
        return choice

    def chance(self, share: float) -> bool:
        """True in this share of the calls."""
        return bool(self.random.random() < share)

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return int(self.random.integers(low, high + 1))

    def any_of(self, values):
        """One of the values."""
        return values[self.integer(0, len(values) - 1)]

    def ask(self, doubt: str, condition: bool = True) -> None:
        """Note a reason for which an expert would ask, if the condition holds."""
        if condition:
            self.doubts.append(doubt)


@dataclasses.dataclass
class Study:
    """Pictures, people and fixations."""

    paths: list[str]
    """Paths of the pictures below the source."""
    cells: list[str]
    """What a table calls each picture, with its suffix; a path if names alone do not tell pictures apart."""
    sizes: list[tuple[int, int]]
    """(width, height) of each picture, pixels."""
    people: list[str]
    fixations: list[Fixation]
    """Ordered by person and trial."""
    n_lost: int = 0
    """How many of the pictures, the first ones, are not on disk."""

    @property
    def stems(self) -> list[str]:
        """The names of pictures in tables, without their suffixes."""
        return [cell.rpartition(".")[0] for cell in self.cells]

    def truth(self) -> dict[str, list[tuple[float, float, int]]]:
        """Path of a picture -> (x, y, person) of the fixations inside of it; without pictures that have none."""
        found = collections.defaultdict(list)
        for each in self.fixations:
            width, height = self.sizes[each.picture]
            if 0 <= each.x < width and 0 <= each.y < height:
                found[self.paths[each.picture]].append((each.x, each.y, each.person))
        return dict(found)

    def write_pictures(self, folder: pathlib.Path, seed: int) -> None:
        """Write each picture as flat blocks of random grey, no two alike."""
        pictures = enumerate(zip(self.paths, self.sizes, strict=True))
        for index, (path, size) in itertools.islice(pictures, self.n_lost, None):
            blocks = np.random.default_rng([seed, index]).integers(0, 256, (12, 16), np.uint8)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST)
            picture.save(folder / path, **({"compress_level": 1} if path.endswith(".png") else {}))


def draw_study(draw: Draw, names=NAMES, sizes=SIZES, most_pictures=30, most_people=8, looks="everywhere") -> Study:
    """Draw a study.

    Args:
        draw: the choices.
        names: the weights of names of pictures.
        sizes: the sizes to choose from.
        most_pictures: at least 6.
        most_people: at least 2.
        looks: "everywhere", or the corner of the pictures where all fixations are: "upper right", "upper left".
    """
    n_pictures = min(draw.integer(6, most_pictures), draw.integer(6, most_pictures))
    n_people = min(draw.integer(2, most_people), draw.integer(2, most_people))
    cells, folders = _names(draw.pick("names", names), n_pictures)
    root = draw.pick("pictures' folder", {"images": 4, "stimuli": 2, "": 2, "my pictures/final": 1})
    paths = ["/".join(filter(None, (root, *parts))) for parts in zip(folders, cells, strict=True)]
    if draw.choices["names"] == "equal names in subfolders":
        cells = [f"{folder}/{cell}" for folder, cell in zip(folders, cells, strict=True)]
    size = draw.pick("sizes", {name: 1 if name != "640x480" else 2 for name in sizes})
    people = _people(draw.pick("people's labels", PEOPLE), n_people)
    study = Study(paths, cells, [draw.any_of(SIZES[size]) for _ in paths], people, [])
    _look(study, draw, looks)
    return study


def _names(kind: str, n: int) -> tuple[list[str], list[str]]:
    """The names of `n` pictures, and the folder of each."""
    flat = [""] * n
    halves = ["indoor" if index < n // 2 else "outdoor" for index in range(n)]
    if kind == "equal names in subfolders":
        return [f"{index + 1 - (n // 2) * (index >= n // 2)}.png" for index in range(n)], halves
    forms = {
        "p01.png": lambda index: f"p{index + 1:02d}.png",
        "1.png": lambda index: f"{index + 1}.png",
        "101.jpg": lambda index: f"{index + 101}.jpg",
        "01.png": lambda index: f"{index + 1:02d}.png",
        "words": lambda index: f"{WORDS[index]}.png",
        "words with blanks": lambda index: f"old {WORDS[index]} (view {index % 3 + 1}).png",
        "umlauts": lambda index: f"{WORDS[index]}_grün_ß.png",
        "subfolders": lambda index: f"{WORDS[index]}.png",
        "IMG_0001.jpg": lambda index: f"IMG_{2000 + 7 * index:04d}.jpg",
    }
    return [forms[kind](index) for index in range(n)], halves if kind == "subfolders" else flat


def _people(kind: str, n: int) -> list[str]:
    if kind == "first names":
        return list(FIRST_NAMES[:n])
    first = {"S01": 1, "1": 1, "101": 101, "0": 0}[kind]
    return [f"S{index + first:02d}" if kind == "S01" else str(index + first) for index in range(n)]


def _look(study: Study, draw: Draw, looks: str) -> None:
    """Add fixations near hot spots, which tend to the centre, and a few outside of the picture.

    No two of a picture are at one place, so that a reader who counts one for two is wrong for certain.
    """
    random = draw.random
    hot_spots = [
        np.clip(random.normal(0.5, 0.18, (draw.integer(2, 4), 2)), 0.1, 0.9) for _ in range(len(study.paths))
    ]
    taken = [set() for _ in study.paths]
    outside = random.uniform(0.01, 0.04) if looks == "everywhere" else 0
    skipped = 0.05 if draw.pick("trials", {"all": 4, "some skipped": 1}) == "some skipped" else 0
    for person in range(len(study.people)):
        trial = 0
        for picture in random.permutation(len(study.paths)):
            if draw.chance(skipped) and person != picture % len(study.people):  # each picture has someone
                continue
            trial, time_ms = trial + 1, draw.integer(80, 250)
            for number in range(1, draw.integer(4, 10) + 1):
                while True:
                    x, y = _position(random, hot_spots[picture], study.sizes[picture], outside, looks)
                    near = {(round(x / NEAR_PX) + dx, round(y / NEAR_PX) + dy) for dx in STEPS for dy in STEPS}
                    if not near & taken[picture]:
                        break
                taken[picture].add((round(x / NEAR_PX), round(y / NEAR_PX)))
                duration_ms = int(np.clip(random.lognormal(5.45, 0.35), 80, 900))
                study.fixations.append(Fixation(int(picture), person, number, trial, x, y, time_ms, duration_ms))
                time_ms += duration_ms + draw.integer(20, 60)


def _position(random, hot_spots, size, outside: float, looks: str) -> tuple[float, float]:
    """(x, y) of one fixation, pixels; either at least 1 inside of its picture or some outside."""
    width, height = size
    spot = hot_spots[random.integers(len(hot_spots))]
    x, y = random.normal(spot, 0.06) if random.random() < 0.75 else random.normal(0.5, 0.22, 2)
    if looks != "everywhere":
        x, y = 0.5 * x + (0.5 if looks == "upper right" else 0), 0.5 * y
    x, y = min(max(x * width, 2), width - 3), min(max(y * height, 2), height - 3)
    if random.random() < outside:
        far = random.uniform(LEAST_OUTSIDE_PX, MOST_OUTSIDE_PX)
        side = random.integers(4)
        x = [-far, width + far, x, x][side]
        y = [y, y, -far, height + far][side]
    return round(float(x), 2), round(float(y), 2)
