"""Scenes of which it is known where people look, and the recordings of a laboratory that shows them.

A scene is a picture of a textured ground with some objects of four kinds. Where people look depends on each
object's kind, contrast and size, and a little on the centre: that rule is a `World`, whose density is known at
each pixel. Another world has the same pictures, and people who look at other kinds of objects. The observers of
the laboratory are persons: each draws fixations from the density, with a bias, a noise and lapses of their own.

Everything follows from a seed, and no scene depends on another.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw
from scipy import ndimage

SIZE = 96, 128
"""(height, width) of the scenes, pixels."""
KINDS = "face", "sign", "ball", "leaf"
N_OBJECTS = 3, 6
"""Minimum number of objects, and the maximum plus one."""
RADIUS = 5.0, 11.0
CONTRAST = 0.45, 1.0
"""Share of an object's own colour in its pixels."""
JPEG_QUALITY = 85
TABLE = "fixations.csv"

Pixels = npt.NDArray[np.uint8]
Density = npt.NDArray[np.float64]
Points = npt.NDArray[np.float64]
"""(n, 2): x and y, pixels from the upper left corner."""


@dataclasses.dataclass(frozen=True)
class World:
    """A rule that says where people look."""

    name: str
    interest: Mapping[str, float]
    """Of KINDS: how much an object of full contrast, and of the mean radius, attracts."""
    elsewhere: float = 0.2
    """Share of the density that is on no object, around the centre."""


HABIT = World("habit", {"face": 1.0, "sign": 0.35, "ball": 0.12, "leaf": 0.04})
DRIFTED = World("drifted", {"face": 0.04, "sign": 0.12, "ball": 0.35, "leaf": 1.0})
"""People now look at what they used to pass over."""


@dataclasses.dataclass(frozen=True)
class Thing:
    """An object of a scene."""

    kind: str
    x: float
    y: float
    radius: float
    contrast: float


@dataclasses.dataclass(frozen=True)
class Observer:
    """A person of the laboratory."""

    name: str
    bias: tuple[float, float]
    """(x, y) by which all fixations of this person are off, pixels."""
    noise: float
    """Standard deviation of each fixation around its place, pixels."""
    lapses: float
    """Share of the fixations that are anywhere in the picture."""
    fixations: tuple[int, int]
    """Minimum number of fixations in a scene, and the maximum plus one."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """A picture, and where each observer looked."""

    pixels: Pixels
    """(h, w, 3) RGB."""
    points: Points
    observers: npt.NDArray[np.str_]
    """(n,): the name of the observer of each point."""
    seed: int
    """The scene's; copies of a picture have its seed."""


Laboratory = dict[str, Recording]
"""File name of each picture -> its recording."""


def things(seed: int) -> list[Thing]:
    """The objects of the scene with this seed, none of which covers another's centre."""
    rng = np.random.default_rng((seed, 0))
    height, width = SIZE
    placed: list[Thing] = []
    for _ in range(rng.integers(*N_OBJECTS)):
        radius, contrast = rng.uniform(*RADIUS), rng.uniform(*CONTRAST)
        kind = str(rng.choice(KINDS))
        x, y = rng.uniform(radius + 4, width - radius - 4), rng.uniform(radius + 4, height - radius - 4)
        if all(np.hypot(x - other.x, y - other.y) > radius + other.radius for other in placed):
            placed.append(Thing(kind, x, y, radius, contrast))
    return placed


def picture(seed: int) -> Pixels:
    """The picture of the scene with this seed, (h, w, 3) RGB."""
    rng = np.random.default_rng((seed, 1))
    texture = sum(ndimage.gaussian_filter(rng.standard_normal(SIZE), s, mode="wrap") * s for s in (0.7, 2, 6))
    ground = rng.uniform(90, 150, 3) + np.asarray(texture)[..., None] * rng.uniform(8, 18)
    for thing in things(seed):
        drawn, mask = _drawn(thing)
        alpha = mask[..., None] * thing.contrast
        ground = ground * (1 - alpha) + drawn * alpha
    noisy = ground + rng.normal(0, 2, ground.shape)
    return noisy.round().clip(0, 255).astype(np.uint8)


def _drawn(thing: Thing) -> tuple[Density, Density]:
    """The object's colours, (h, w, 3) in 0..255, and where it is, (h, w) in 0..1."""
    scale = 4
    height, width = (side * scale for side in SIZE)
    colors, mask = Image.new("RGB", (width, height)), Image.new("L", (width, height))
    paint, cut = ImageDraw.Draw(colors), ImageDraw.Draw(mask)
    r = thing.radius

    def box(x: float, y: float, half_width: float, half_height: float) -> tuple[float, float, float, float]:
        """A box around a place in the object, where x and y are in radii."""
        left, top = thing.x + x * r - half_width * r, thing.y + y * r - half_height * r
        return left * scale, top * scale, (left + 2 * half_width * r) * scale, (top + 2 * half_height * r) * scale

    if thing.kind == "face":
        cut.ellipse(box(0, 0, 0.8, 1), fill=255)
        paint.rectangle(box(0, 0, 1, 1), fill=(235, 180, 150))
        paint.rectangle(box(0, -0.85, 1, 0.3), fill=(70, 45, 30))
        for x in (-0.35, 0.35):
            paint.ellipse(box(x, -0.1, 0.16, 0.16), fill=(20, 20, 30))
        paint.rectangle(box(0, 0.5, 0.3, 0.08), fill=(150, 40, 50))
    elif thing.kind == "sign":
        cut.rectangle(box(0, 0, 1, 0.7), fill=255)
        paint.rectangle(box(0, 0, 1, 1), fill=(245, 225, 60))
        for y in (-0.35, 0, 0.35):
            paint.rectangle(box(0, y, 0.75, 0.08), fill=(30, 30, 30))
    elif thing.kind == "ball":
        cut.ellipse(box(0, 0, 0.9, 0.9), fill=255)
        paint.rectangle(box(0, 0, 1, 1), fill=(40, 70, 200))
        paint.ellipse(box(-0.3, -0.3, 0.25, 0.25), fill=(230, 235, 255))
    else:
        cut.ellipse(box(0, 0, 0.55, 1), fill=255)
        paint.rectangle(box(0, 0, 1, 1), fill=(40, 140, 50))
        paint.rectangle(box(0, 0, 0.06, 1), fill=(150, 200, 110))
    size = SIZE[::-1]
    shrunk = (np.asarray(image.resize(size, Image.Resampling.BOX), np.float64) for image in (colors, mask))
    drawn, shape = shrunk
    return drawn, shape / 255


def density(seed: int, world: World) -> Density:
    """Where people look in the scene with this seed: the probability of each pixel, (h, w), which sum to 1."""
    height, width = SIZE
    y, x = np.mgrid[:height, :width] + 0.5
    centre = np.exp(-(((x - width / 2) / (0.3 * width)) ** 2 + ((y - height / 2) / (0.3 * height)) ** 2) / 2)
    total = np.zeros(SIZE)
    for thing in things(seed):
        sigma = 2.5 + thing.radius / 2
        near = np.exp(-((x - thing.x) ** 2 + (y - thing.y) ** 2) / (2 * sigma**2)) / sigma**2
        size = thing.radius / np.mean(RADIUS)
        total += world.interest[thing.kind] * thing.contrast * size * near
    total *= 0.25 + 0.75 * centre
    total /= total.sum()
    around = centre + 0.1
    mixed: Density = (1 - world.elsewhere) * total + world.elsewhere * around / around.sum()
    return mixed


@functools.cache
def people(count: int = 10) -> tuple[Observer, ...]:
    """The observers of the laboratory."""
    rng = np.random.default_rng(7)
    return tuple(
        Observer(
            f"P{number:02}",
            (float(rng.normal(0, 0.7)), float(rng.normal(0, 0.7))),
            float(rng.uniform(0.5, 2)),
            float(rng.uniform(0.02, 0.12)),
            (4, int(rng.integers(6, 9))),
        )
        for number in range(1, count + 1)
    )


def look(where: Density, observer: Observer, rng: np.random.Generator) -> Points:
    """The fixations of a person in a scene with this density; all are inside of the picture."""
    height, width = where.shape
    n = rng.integers(*observer.fixations)
    pixels = rng.choice(where.size, n, p=where.ravel())
    lapsed = rng.random(n) < observer.lapses
    pixels[lapsed] = rng.integers(where.size, size=lapsed.sum())
    points = np.stack([pixels % width, pixels // width], 1) + rng.random((n, 2))
    points += observer.bias + rng.normal(0, observer.noise, (n, 2))
    return points.clip(0, (width - 0.1, height - 0.1))


def record(seed: int, world: World = HABIT, session: int = 0) -> Recording:
    """The scene with this seed, shown to all observers; another session has other fixations."""
    where = density(seed, world)
    rng = np.random.default_rng((seed, 2, session))
    looks = {each.name: look(where, each, rng) for each in people()}
    observers = np.repeat(list(looks), [len(points) for points in looks.values()])
    return Recording(picture(seed), np.concatenate(list(looks.values())), observers, seed)


def name_of(seed: int) -> str:
    """The file name of the scene with this seed."""
    return f"stimulus-{seed:04}.png"


def laboratory(seeds: range, world: World = HABIT, session: int = 0) -> Laboratory:
    """The recordings of the scenes with these seeds."""
    return {name_of(seed): record(seed, world, session) for seed in seeds}


def write(scenes: Laboratory, folder: pathlib.Path) -> None:
    """Write the pictures and a table of all fixations, as the dataset `custom` reads them.

    The suffix of a name is the picture's format. A row of the table is a fixation: image, observer, x and y.
    """
    stimuli = folder / "stimuli"
    stimuli.mkdir(parents=True)
    rows = ["image,observer,x,y"]
    for name, scene in scenes.items():
        quality = {"quality": JPEG_QUALITY} if name.endswith(".jpg") else {}
        Image.fromarray(scene.pixels).save(stimuli / name, **quality)  # type: ignore[arg-type]
        rows += [
            f"{name},{observer},{x:.1f},{y:.1f}"
            for observer, (x, y) in zip(scene.observers, scene.points, strict=True)
        ]
    (folder / TABLE).write_text("\n".join(rows) + "\n")
