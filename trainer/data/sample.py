"""Generate the sample set: synthetic odd-one-out patterns, to try everything without data.

Grids of items on a plain ground in which one differs in colour, orientation or size, after P3 (Kotseruba et
al. 2019, "Do saliency models detect odd-one-out targets?") and SID4VAM (Berga et al. 2019). Example: one red
bar among green ones. The odd item is known, and so is the map: most fixations are on it, the others near the
centre. The set shows that training works. It says nothing about people.

Every byte follows from the settings below, and no image depends on another.
"""

import colorsys
import dataclasses
import functools
import hashlib
import io
import json
import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy import io as mat, ndimage

from trainer.datasets import Dataset
from trainer.places import Member

VERSION = 1
"""Raise it when the same settings give other images."""
SUPERSAMPLING = 3
JPEG_QUALITY = 92
MAT_HEADER = b"MATLAB 5.0 MAT-file, odd-one-out sample"
MAPS_FORM = "salicon"
"""The form of this dataset has densities. The form of every other one has points."""
MOST_PATTERNS = 64
"""Patterns that are kept until all files of their images are read: two for each thread of `prepare`."""

Points = NDArray[np.int64]
Pixels = NDArray[np.uint8]


@dataclasses.dataclass(frozen=True)
class SampleSettings:
    """Settings of one dataset's sample. Their names and values are part of its fingerprint."""

    seed: int
    n_train: int
    n_valid: int
    kinds: dict[str, float]
    """For `color`, `orientation` and `size`, the share of the images with an odd item of another one. Sum: 1."""
    size: tuple[int, int] = (240, 320)
    """(height, width) of the images, pixels."""
    n_observers: int = 12
    n_fixations: tuple[int, int] = (4, 8)
    """Minimum number of fixations of an observer, and the maximum plus one."""
    on_target: float = 0.9
    """Share of the fixations on the odd item."""
    scatter_px: float = 7.0
    """Standard deviation of the fixations around the odd item, pixels."""


SAMPLES: dict[str, SampleSettings] = {
    "salicon": SampleSettings(1, n_train=160, n_valid=40, kinds={"color": 0.8, "orientation": 0.05, "size": 0.15}),
    "fixationadd1000": SampleSettings(
        2, n_train=80, n_valid=20, kinds={"color": 0.6, "orientation": 0.1, "size": 0.3}
    ),
}


@dataclasses.dataclass(frozen=True)
class Pattern:
    """One stimulus and its fixations."""

    stimulus: Image.Image
    target: tuple[int, int]
    """(y, x) of the odd item's centre, pixels."""
    gaze: list[Points]
    """For each observer the fixations in order, (n, 2) as (y, x), pixels."""


def sample_name(dataset: str) -> str:
    """The sample set's own name in the form of `dataset`: its scores must not stand under a real set's name."""
    return "sample-maps" if dataset == MAPS_FORM else "sample-points"


def settings_for(dataset: str) -> SampleSettings:
    """The settings for `dataset`: its own in SAMPLES, or else fixationadd1000's with another seed."""
    Dataset.named(dataset)
    fallback = dataclasses.replace(SAMPLES["fixationadd1000"], seed=zlib.crc32(dataset.encode()))
    return SAMPLES.get(dataset, fallback)


def fingerprint_sample(dataset: str) -> str:
    """A digest (hex) that changes exactly when the content of `members` does. It generates nothing."""
    row = Dataset.named(dataset)
    facts = [VERSION, dataset, dataclasses.asdict(settings_for(dataset)), row.blur_sigma_px, row.map_suffix]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def sample_counts(dataset: str) -> dict[str, int]:
    """Number of images in each split of the whole sample set."""
    chosen = settings_for(dataset)
    return {"train": chosen.n_train, "valid": chosen.n_valid}


def members(dataset: str) -> list[Member]:
    """The files of the sample set in the layout of `dataset`, each generated when it is read, sorted by path.

    - salicon: `images/`, `maps/` (densities) and `fixations/` (`.mat`), each split into train/ and val/.
    - Every other dataset: `stimuli/N.jpg` and `fixation/N.png`, with 255 for each fixated pixel.

    Example: `stimuli/1.jpg` and `fixation/1.png` of osie.
    """
    chosen, row = settings_for(dataset), Dataset.named(dataset)

    # The files of one image are read one after another.
    @functools.lru_cache(MOST_PATTERNS)
    def pattern(index: int) -> Pattern:
        return generate_pattern(chosen, index)

    def member(path: str, index: int, encode: Callable[[Pattern], bytes]) -> Member:
        return Member(path, f"{path} of {sample_name(dataset)}", lambda: encode(pattern(index)))

    def of_image(index: int) -> list[Member]:
        if dataset != MAPS_FORM:
            files = {f"stimuli/{index + 1}.jpg": _stimulus, f"fixation/{index + 1}{row.map_suffix}.png": _points}
        else:
            stem = f"{'train' if index < chosen.n_train else 'val'}/popout_{index + 1:06d}"
            density = functools.partial(_density, sigma_px=row.blur_sigma_px)
            files = {f"images/{stem}.jpg": _stimulus, f"maps/{stem}.png": density}
            files[f"fixations/{stem}.mat"] = _gaze_file
        return [member(path, index, encode) for path, encode in files.items()]

    files = [file for index in range(chosen.n_train + chosen.n_valid) for file in of_image(index)]
    return sorted(files, key=lambda file: file.path)


# === Patterns ===


def generate_pattern(settings: SampleSettings, index: int) -> Pattern:
    """Pattern number `index`, from 0."""
    random = np.random.default_rng([settings.seed, index])
    kind = str(random.choice(list(settings.kinds), p=list(settings.kinds.values())))
    outline = _outline(random, kind)
    ground, common, odd = _colors(random)
    centers, spacing_px = _grid(random, settings.size)
    target = int(random.integers(len(centers)))
    radius_px = spacing_px * float(random.uniform(0.2, 0.24) if kind == "size" else random.uniform(0.25, 0.31))
    tilt = float(random.uniform(0, np.pi))
    turn = float(random.choice([-1, 1]) * random.uniform(0.4, 0.5) * np.pi)

    height, width = settings.size
    canvas = Image.new("RGB", (width * SUPERSAMPLING, height * SUPERSAMPLING), ground)
    pencil = ImageDraw.Draw(canvas)
    for item, center in enumerate(centers):
        is_odd = item == target
        scale = radius_px * float(random.uniform(0.95, 1.05)) * (1.9 if is_odd and kind == "size" else 1)
        angle = tilt + float(random.normal(0, 0.07)) + (turn if is_odd and kind == "orientation" else 0)
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        corners = (center + scale * outline @ rotation) * SUPERSAMPLING
        pencil.polygon([(x, y) for y, x in corners.tolist()], fill=odd if is_odd and kind == "color" else common)
    gaze = _draw_fixations(random, settings, centers[target])
    y, x = centers[target].round().astype(int).tolist()
    return Pattern(canvas.reduce(SUPERSAMPLING), (y, x), gaze)


def _outline(random: np.random.Generator, kind: str) -> NDArray[np.float64]:
    """Corners of an item, (n, 2), at most 1 from the centre. Elongated if orientation is the difference."""
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    disc = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    bar = np.array([[-0.26, -1.1], [-0.26, 1.1], [0.26, 1.1], [0.26, -1.1]])
    square = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) * 0.85
    oriented = [bar, disc * [0.4, 1.1]]
    outlines = oriented if kind == "orientation" else [*oriented, disc, disc, square]
    return outlines[int(random.integers(len(outlines)))]


def _colors(random: np.random.Generator) -> tuple[tuple[int, int, int], ...]:
    """RGB of the ground, of the common items in cool colours, and of the odd one in a warm colour.

    A network without ImageNet's weights learns warm among cool within minutes. Random hues take several times
    as long. Example: an orange item among blue ones.
    """
    is_dark = random.random() < 0.5
    hue = random.uniform(0.36, 0.72)  # green to blue
    opposite = random.uniform(-0.06, 0.14)  # red to yellow
    saturation = random.uniform(0.7, 0.95)
    value = random.uniform(0.85, 1.0) if is_dark else random.uniform(0.55, 0.75)
    ground_value = random.uniform(0.12, 0.3) if is_dark else random.uniform(0.86, 0.97)
    ground = (random.random(), random.uniform(0.04, 0.25 if is_dark else 0.1), ground_value)
    return tuple(
        (round(255 * red), round(255 * green), round(255 * blue))
        for red, green, blue in (
            colorsys.hsv_to_rgb(h % 1, s, v)
            for h, s, v in (ground, (hue, saturation, value), (opposite, saturation, value))
        )
    )


def _grid(random: np.random.Generator, size: tuple[int, int]) -> tuple[NDArray[np.float64], float]:
    """Centres (n, 2) as (y, x) of the items, each moved a little from its place, and their spacing, pixels."""
    n_rows = int(random.integers(3, 6))
    n_columns = round(n_rows * size[1] / size[0])
    spacing_px = 0.93 * min(size[0] / n_rows, size[1] / n_columns)
    rows, columns = np.meshgrid(np.arange(n_rows), np.arange(n_columns), indexing="ij")
    cells = np.stack([rows, columns], axis=-1).reshape(-1, 2) - [(n_rows - 1) / 2, (n_columns - 1) / 2]
    jitter = random.uniform(-0.1, 0.1, cells.shape)
    return (cells + jitter) * spacing_px + [size[0] / 2, size[1] / 2], spacing_px


# === Ground truth ===


def _draw_fixations(
    random: np.random.Generator, settings: SampleSettings, target: NDArray[np.float64]
) -> list[Points]:
    size = np.array(settings.size)
    gaze = []
    for _ in range(settings.n_observers):
        count = int(random.integers(*settings.n_fixations))
        on_target = random.random((count, 1)) < settings.on_target
        near_target = random.normal(target, settings.scatter_px, (count, 2))
        near_center = random.normal(size / 2, size / 5, (count, 2))
        points = np.where(on_target, near_target, near_center)
        gaze.append(np.clip(points.round().astype(np.int64), 0, size - 1))
    return gaze


def density(pattern: Pattern, sigma_px: float) -> Pixels:
    """Map (h, w), 0..255: the number of fixations at each pixel, blurred, its peak at 255."""
    counts = np.zeros((pattern.stimulus.height, pattern.stimulus.width))
    np.add.at(counts, tuple(np.concatenate(pattern.gaze).T), 1)
    blurred = ndimage.gaussian_filter(counts, sigma_px, mode="constant")
    return np.asarray((blurred / blurred.max() * 255).round(), np.uint8)


# === Files ===


def _stimulus(pattern: Pattern) -> bytes:
    return _encode(pattern.stimulus, "JPEG")


def _points(pattern: Pattern) -> bytes:
    """A picture of 0 and 255. 255 is a pixel that an observer fixated."""
    pixels = np.zeros((pattern.stimulus.height, pattern.stimulus.width), np.uint8)
    pixels[tuple(np.concatenate(pattern.gaze).T)] = 255
    return _encode(Image.fromarray(pixels), "PNG")


def _density(pattern: Pattern, sigma_px: float) -> bytes:
    return _encode(Image.fromarray(density(pattern, sigma_px)), "PNG")


def _gaze_file(pattern: Pattern) -> bytes:
    """SALICON's `.mat`: a struct array `gaze`, one element for each observer, with (x, y) counted from 1."""
    gaze = np.zeros((len(pattern.gaze), 1), [("location", "O"), ("timestamp", "O"), ("fixations", "O")])
    for observer, points in zip(gaze[:, 0], pattern.gaze, strict=True):
        observer["fixations"] = (points[:, ::-1] + 1).astype(np.uint16)
        observer["location"] = observer["fixations"].astype(np.float64)
        observer["timestamp"] = 250.0 * np.arange(len(points))[:, None]
    buffer = io.BytesIO()
    size = np.array([[pattern.stimulus.height, pattern.stimulus.width]], np.uint16)
    mat.savemat(buffer, {"gaze": gaze, "resolution": size}, do_compression=True)
    # The first 116 bytes are a text into which scipy writes the time.
    return MAT_HEADER.ljust(116) + buffer.getvalue()[116:]


def _encode(image: Image.Image, format: str) -> bytes:
    buffer = io.BytesIO()
    # `subsampling` 0 keeps the colours of small items. PNG ignores it.
    image.save(buffer, format, quality=JPEG_QUALITY, subsampling=0)
    return buffer.getvalue()
