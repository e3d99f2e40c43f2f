"""Decode the files of one image: the stimulus, its map as a density, and its fixated pixels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from scipy import ndimage

from trainer.data.source_layout import (
    MAX_PIXELS,
    MAX_POINT_SHARE,
    MOST_IMAGE_BYTES,
    POINTS,
    Fixations,
    Gaze,
    Item,
    Points,
    read_matlab,
)
from trainer.errors import ContentError
from trainer.metrics import blur
from trainer.pictures import Picture, open_header, read_picture, upright
from trainer.places import Member
from trainer.texts import first_line

Pixels = NDArray[np.uint8]

MAX_POINT_LEVELS = 16
"""A map with at most this number of values, and less than `MAX_POINT_SHARE` of its pixels above 0, is points."""
BRIGHT = 127
"""Compressed points are above this level."""
FEW_POINTS = 12
"""So many fixated pixels of an image, or fewer, may all be beside another one."""
MOST_TOUCHING = 0.75
"""Largest share of fixated pixels beside another one. It is at most .29 in 200 images of SALICON, and 1 for discs
and lines."""
LOSSY = ("JPEG", "MPO", "WEBP")
"""Formats with a compression that gives points faint neighbours."""
DECODED_BY_TENSORFLOW = {"JPEG": ("L", "RGB"), "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16", "I")}
"""Formats and modes that TensorFlow decodes, as the reference does. Pillow decodes the others."""
MOST_STEP = 8
"""Levels that differ by more are of two colours, or of two grey levels. Compression changes some by less."""
MOST_DIFFERENT = 0.01
"""Share of the pixels of a grey map that may look otherwise, or be darker than its darkest level."""


@dataclass(frozen=True)
class Decoded:
    """One image at its original size."""

    stimulus: Pixels
    """(h, w, 3) RGB."""
    density: Pixels
    """(h', w'), not all zero, with the stimulus's aspect ratio."""
    gaze: Gaze | None
    """In pixels of the stimulus. None if only a density is known."""
    ground_truth: str
    """The form of the map's file: `density` or `points`."""


def decode(item: Item, blur_sigma_px: float, as_seen: bool = False, has_pedestal: bool = False) -> Decoded:
    """Read and check the files of one image.

    If the map is points, these are the fixations, and a Gaussian of `blur_sigma_px` pixels makes the density.

    Args:
        item: the files.
        blur_sigma_px: standard deviation of the Gaussian.
        as_seen: whether pictures are decoded as people see them, and maps of another form than grey levels
            are refused. If not, all files are decoded as the reference decodes published datasets. Example: a
            photograph with an orientation tag is upright only as seen.
        has_pedestal: whether the `darkest_level` of the map is subtracted from it.

    Raises:
        ContentError: a file cannot be decoded, or the map is empty or has another aspect ratio than the
            stimulus.
    """
    stimulus = decode_stimulus(item.stimulus, as_seen)
    size = (stimulus.shape[0], stimulus.shape[1])
    gaze = read_gaze(item.fixations, size, as_seen) if item.fixations else None
    if item.map is None:
        assert gaze is not None
        return Decoded(stimulus, blur(gaze.points, size, blur_sigma_px), gaze, "points")
    levels = decode_map(item.map, size, as_seen, has_pedestal)
    if not is_points(levels):
        return Decoded(stimulus, levels, gaze, "density")
    # A file of fixations may list a pixel repeatedly, which an image cannot show.
    gaze = gaze or _marked(levels, size, item.map.origin)
    return Decoded(stimulus, blur(gaze.points, size, blur_sigma_px), gaze, "points")


# === Images ===


def decode_stimulus(member: Member, as_seen: bool = False) -> Pixels:
    """(h, w, 3) uint8 RGB of an image of any format and mode.

    If it is decoded `as_seen`, as by `read_picture`. Otherwise transparency and orientation tags are ignored.
    """
    if as_seen:
        return read_picture(member.content(MOST_IMAGE_BYTES), member.origin, MAX_PIXELS)
    return _read_pixels(member, channels=3)[0]


def decode_original(name: str, content: bytes, as_seen: bool) -> Pixels:
    """(h, w, 3) uint8 RGB of an image by the content of its file, as `decode_stimulus`."""
    return decode_stimulus(Member(name, name, lambda: content), as_seen)


def decode_map(
    member: Member, stimulus_size: tuple[int, int], as_seen: bool = False, has_pedestal: bool = False
) -> Pixels:
    """(h, w) uint8 of a map. Raises `ContentError` if it is empty or does not fit the stimulus (height, width).

    Compressed points lose their faint neighbours. Example: a map of 300 x 400 fits a stimulus of 600 x 800.
    `as_seen` and `has_pedestal` are as in `decode`.
    """
    if as_seen:
        levels, kind = _read_map(member)
    else:
        pixels, kind = _read_pixels(member, channels=1)
        levels = pixels[..., 0]
    levels = _without_neighbours(levels) if kind in LOSSY else levels
    height, width = stimulus_size
    ratio = min(levels.shape[0] / height, levels.shape[1] / width)
    # Rounding may change a side by one pixel.
    if max(abs(levels.shape[0] - height * ratio), abs(levels.shape[1] - width * ratio)) > 1:
        raise ContentError(
            f"{member.origin} is {levels.shape[0]} x {levels.shape[1]} pixels (height x width), but its "
            f"image is {height} x {width}, another aspect ratio: replace it by the map of this image"
        )
    if as_seen and 0 < levels.min() == levels.max():
        raise ContentError(
            f"{member.origin} says nothing about where people looked, all its pixels are {levels.max()}: replace "
            "it, or remove it with its image"
        )
    if has_pedestal:
        levels = levels - np.minimum(levels, np.uint8(darkest_level(levels)))
    if not levels.any():
        raise ContentError(
            f"{member.origin} is empty, all its pixels are 0: replace it, or remove it with its image"
        )
    return levels


def _read_map(member: Member) -> tuple[Pixels, str]:
    """(h, w) uint8 of a map, upright, and the name of its format.

    Raises:
        ContentError: it cannot be decoded, it is coloured, or its transparency says something else than its grey.
    """
    picture = Picture(member.content(MOST_IMAGE_BYTES), member.origin, MAX_PIXELS)
    values = picture.decode(lambda opened: _grey_or_rgba(upright(opened)))
    if values.ndim == 3:
        return _only_levels(values, member.origin), picture.format
    return values if values.dtype == np.uint8 else _scaled(values), picture.format


def _grey_or_rgba(picture: Image.Image) -> Image.Image:
    """A picture of grey levels of any depth as it is, and any other in mode RGBA."""
    if picture.mode == "1":
        return picture.convert("L")
    is_grey = picture.mode.startswith(("I", "F")) or (picture.mode == "L" and not picture.has_transparency_data)
    return picture if is_grey else picture.convert("RGBA")


def _only_levels(rgba: Pixels, origin: str) -> Pixels:
    """The grey levels (h, w) of a map, or its alpha channel if all that is seen has one colour."""
    colors, alpha = rgba[..., :3], rgba[..., 3]
    strongest = int(alpha.max())
    is_varied = alpha.min() < strongest
    # Where little is seen, exporters round colours, or write black.
    seen = colors[alpha > strongest // 4] if is_varied else colors.reshape(-1, 3)
    if is_varied and np.ptp(seen, axis=0).max() <= MOST_STEP:
        return alpha
    if _differs(np.ptp(seen, axis=1)):
        raise ContentError(
            f"{origin} is coloured, and the colours of a heat map are no density: blue and red of the palette jet "
            "have one grey level. Export plain grey maps, white where people looked most"
        )
    grey: Pixels = colors.max(axis=2)
    if is_varied and _differs(grey - grey.astype(np.uint16) * alpha // 255):
        raise ContentError(
            f"{origin} is grey and transparent, and its transparency says something else than its grey levels. "
            "Export it without transparency"
        )
    return grey


def _differs(steps: NDArray[Any]) -> bool:
    """Whether differences of levels are more than MOST_STEP in more than MOST_DIFFERENT of the pixels."""
    return bool(np.mean(steps > MOST_STEP) > MOST_DIFFERENT)


def _read_pixels(member: Member, channels: int) -> tuple[Pixels, str]:
    """(h, w, channels) uint8, RGB or grey, and the name of the format."""
    data = member.content(MOST_IMAGE_BYTES)
    try:
        picture = open_header(data)
        if picture.width * picture.height > MAX_PIXELS:
            raise ValueError(f"more than {MAX_PIXELS:,} pixels: shrink it")
        kind, is_deep = picture.format or "", picture.mode.startswith(("I", "F"))
        by_tensorflow = picture.mode in DECODED_BY_TENSORFLOW.get(kind, ())
        # TensorFlow would keep the upper 8 of 16 bits, and lose points with the value 1.
        if by_tensorflow and not (is_deep and channels == 1):
            pixels = np.asarray(tf.io.decode_image(data, channels=channels, expand_animations=False))
        elif is_deep:
            pixels = np.repeat(_scaled(np.asarray(picture))[..., None], channels, axis=2)
        else:
            pixels = np.asarray(picture.convert("RGB" if channels == 3 else "L"))
    except UnidentifiedImageError:  # whose text has an address in memory, another one in each run
        raise ContentError(
            f"{member.origin} is no image, or its header is damaged: download or export it again"
        ) from None
    except (OSError, ValueError, SyntaxError, tf.errors.OpError) as error:
        raise ContentError(
            f"{member.origin} does not decode as an image ({first_line(error)}): download or export it again"
        ) from None
    return pixels.reshape(*pixels.shape[:2], channels), kind


def _scaled(values: NDArray[Any]) -> Pixels:
    """Scale to uint8 with the maximum at 255. Rounds up, so that no positive value becomes 0. NaN becomes 0.

    Example: 0, 0.1 and 40 become 0, 1 and 255.
    """
    values = np.nan_to_num(values, nan=0, posinf=0, neginf=0)
    maximum = values.max()
    if maximum <= 0:
        return np.zeros(values.shape, np.uint8)
    scaled: Pixels = np.ceil(np.clip(values, 0, None) / maximum * 255).astype(np.uint8)
    return scaled


# === Ground truth ===


def is_points(map: Pixels) -> bool:
    """Whether a map (h, w) marks fixated pixels. Otherwise it is a density."""
    is_sparse = np.count_nonzero(map) < MAX_POINT_SHARE * map.size
    return bool(is_sparse and len(np.unique(map)) <= MAX_POINT_LEVELS)


def _without_neighbours(map: Pixels) -> Pixels:
    """A map (h, w) of points without the faint neighbours that compression gives them. Another map is unchanged.

    JPEG with a quality of 60 or more leaves points above level 127 and their neighbours below 64. A density
    has no such gap: in 700 maps of OSIE, the pixels between are at least 0.8 times as many as the pixels
    above.
    """
    is_bright = map > BRIGHT
    n_bright = np.count_nonzero(is_bright)
    n_between = np.count_nonzero(map > BRIGHT // 2) - n_bright
    has_gap = 2 * n_between < n_bright < MAX_POINT_SHARE * map.size
    return np.where(is_bright, 255, 0).astype(np.uint8) if has_gap else map


def darkest_level(map: Pixels) -> int:
    """The level of a map (h, w) that next to no pixel is below.

    Example: 128 if 128 was added to a density, even if JPEG has made some pixels darker.
    """
    return int(np.quantile(map, MOST_DIFFERENT))


def read_gaze(source: Member | Fixations, size: tuple[int, int], as_seen: bool = False) -> Gaze:
    """Fixated pixels, at least one, in a stimulus of `size` (h, w), from any form of file.

    `as_seen` is as in `decode`.

    Raises:
        ContentError: it has no fixation, or most are outside of the image.
    """
    gaze = source.read(size) if isinstance(source, Fixations) else _read_file(source, size, as_seen)
    if gaze.n_outside > len(gaze.points):
        raise ContentError(
            f"{source.origin} has {gaze.n_outside} of {len(gaze.points) + gaze.n_outside} fixations outside of "
            f"its image of {size[0]} x {size[1]} pixels (height x width): it is of another image, or of one of "
            "another size. Replace it, or remove it with its image"
        )
    if not len(gaze.points):
        blinks = f", only {gaze.n_blinks} positions that are not numbers" if gaze.n_blinks else ""
        raise ContentError(f"{source.origin} has no fixation{blinks}: remove it with its image")
    return gaze


def _read_file(member: Member, size: tuple[int, int], as_seen: bool) -> Gaze:
    if member.path.lower().endswith(POINTS):
        return read_matlab(member, size)
    levels = decode_map(member, size, as_seen)
    if not is_points(levels):
        levels = _without_neighbours(levels)
    if not is_points(levels):
        raise ContentError(
            f"{member.origin} is a density in the place of fixations: put it into a folder of maps, or remove it"
        )
    return _marked(levels, size, member.origin)


def _marked(map: Pixels, size: tuple[int, int], origin: str) -> Gaze:
    """The fixated pixels that a map (h', w') of points marks, in a stimulus of `size` (h, w).

    Raises:
        ContentError: nearly all touch one another, as the pixels of drawn discs and lines do.
    """
    n_points = np.count_nonzero(map)
    n_near = ndimage.uniform_filter((map > 0).astype(np.float64), 3, mode="constant") * 9
    if n_points > FEW_POINTS and np.mean(n_near[map > 0] > 1.5) > MOST_TOUCHING:
        raise ContentError(
            f"{origin} has {n_points:,} fixated pixels, and nearly all touch another: are fixations "
            "drawn as discs, or joined by lines? Mark one pixel for each"
        )
    points = rescale_points(np.argwhere(map), (0, 0, *size), (map.shape[0], map.shape[1]))
    return Gaze(points, None, is_pictured=True)


def rescale_points(points: Points, box: tuple[int, int, int, int], size: tuple[int, int]) -> Points:
    """Points (n, 2) in an image of `size` (h, w), after it is resized to `box` (top, left, height, width)."""
    top_left, box_size = np.array(box[:2]), np.array(box[2:])
    scaled = np.floor((points + 0.5) * box_size / np.array(size)).astype(np.int64)
    moved: Points = top_left + np.clip(scaled, 0, box_size - 1)
    return moved
