"""Copies of a picture: the same one under several names, also scaled, compressed again, cropped or mirrored.

A picture's hash is the lowest frequencies of its cosine transform, as in pHash (C. Zauner, Implementation and
benchmarking of perceptual image hash functions, 2010). But each has four bits in place of one, so that the
hashes of its crops and of its mirror image follow from its own. Two pictures are copies if a crop of one,
perhaps mirrored, is nearly a crop of the other. Example: a photograph and its thumbnail. Copies belong to one
group, as the pages of a site do. The shares of copies that are found are in research/log.md.
"""

import dataclasses
import os
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import fft

from trainer.data.source_layout import MAX_PIXELS, MOST_IMAGE_BYTES, Item
from trainer.data.splits import split_key_of
from trainer.machine import Tracker, map_ahead, open_pool
from trainer.pictures import as_seen, open_header
from trainer.places import Member
from trainer.texts import some

SIDE_PX = 64
"""Side of the grey square that a picture is shrunk to."""
FREQUENCIES = 16
"""The lowest frequencies in each direction that make the hash."""
COMPARED = 14
"""Those that are compared: a crop has higher frequencies than the hash tells of."""
LEVELS = 16
"""Values of a frequency in the hash, one hexadecimal digit."""
LARGEST = 8.0
"""The largest amplitude that the hash tells from larger ones, in medians of the picture's."""
CROPS = (0.0, 0.02, 0.04)
"""Shares of its width or height that may be cropped from each side of a picture. Sides that are cropped by another
share, up to .04, are nearly like the nearest of these."""
LEAST_ALIKE = 0.88
"""Least correlation of copies. 700 photographs and their copies, scaled, compressed again, mirrored and cropped
by up to 3% on each side, correlate more in 99.7% of the cases or more. Different photographs correlate by at
most .57."""
COARSE = 8
"""The lowest frequencies in each direction that are compared first, without crops."""
LEAST_ALIKE_COARSELY = 0.55
"""Least correlation of these, which one in 20,000 pairs of different photographs has."""
LEAST_FILLED = 0.4
"""Least share of the 8 x 8 parts of a picture that have contrast. A sparse picture, such as a line of text,
looks like others of its kind at low frequencies. The sparsest of 700 photographs has contrast in .44 of its
parts."""
CONTRAST = 8
"""Range of the grey levels of a part that has contrast."""
LEAST_NOTICED = 0.25
"""Least share of the parts with at least a tenth of the strongest part's contrast. If one object outshines all
else, only its place is compared. The photograph with the fewest such parts has .27."""
BLOCK = 2048
"""Number of hashes that are compared with as many others at a time."""
BATCH = 32
"""So many pictures are compared with all their crops at a time."""

Floats = NDArray[np.float32]


def with_copies(items: Sequence[Item]) -> tuple[list[Item], list[str]]:
    """Find the copies among the images of a source, and join the groups that they connect.

    Example: if the groups a and b have copies of one picture, all their images form one group.

    Args:
        items: The images, with the groups that are known.

    Returns:
        The images in the same order, each with its `hash`, its `picture` and its `group`. And sentences about
            the copies.
    """
    members = sorted((item.stimulus for item in items), key=lambda member: member.path)
    hashes = _hashes(members)
    firsts = [members[first].path for first in first_copies(hashes)]
    known = {member.path: (each, first) for member, each, first in zip(members, hashes, firsts, strict=True)}
    marked = []
    for item in items:
        hash_, picture = known[item.stimulus.path]
        marked.append(dataclasses.replace(item, hash=hash_, picture=picture))
    copies = [item for item in marked if item.picture != item.stimulus.path]
    pairs = some([f"{item.stimulus.path} of {item.picture}" for item in copies])
    what = "Copies, also scaled, compressed again, cropped or mirrored, count as one image"
    return _joined(marked), [f"{what}: {len(copies):,} ({pairs})."] if copies else []


def first_copies(hashes: Sequence[str]) -> list[int]:
    """The place of the first copy of each picture, in the order of the hashes. A new picture has its own place.

    Copies of copies are copies, however much they differ themselves. Example: [0, 1, 0] if the third picture
    is a copy of the first.

    Args:
        hashes: `hash_of` each picture. A picture without one is a copy of none.
    """
    places: dict[str, int] = {}
    same = [places.setdefault(each, place) if each else place for place, each in enumerate(hashes)]
    known = np.array(list(places.values()), np.int64)
    frequencies = _frequencies(list(places))
    firsts = np.arange(len(known))
    for row, columns in _candidates(frequencies, frequencies, is_same=True):
        for start in range(0, len(columns), BATCH):
            batch = columns[start : start + BATCH]
            batch = batch[firsts[batch] != firsts[row]]
            if len(batch):
                alike = batch[_likeness(frequencies[row], frequencies[batch]) >= LEAST_ALIKE]
                connected = np.unique(firsts[[*alike, row]])
                firsts[np.isin(firsts, connected[1:])] = connected[0]
    first_of = dict(zip(known.tolist(), known[firsts].tolist(), strict=True))
    return [first_of.get(place, place) for place in same]


def match_copies(
    hashes_now: Sequence[str], hashes_before: Sequence[str], mirrored: bool = True
) -> list[int | None]:
    """The place of a copy of each picture among earlier ones, by the rule of `first_copies` for two pictures.

    Args:
        hashes_now: `hash_of` each picture.
        hashes_before: `hash_of` each earlier one.
        mirrored: Whether mirror images count. Their recordings are mirrored, too.

    Returns:
        For each picture the place in `hashes_before` of one with an equal hash, else of the first copy that
            is found, most alike at the lowest frequencies first. None for a new picture, or without a hash.
            Example: [3, None].
    """
    places: dict[str, int] = {}
    for place, each in enumerate(hashes_before):
        if each:
            places.setdefault(each, place)
    found = {each: places.get(each) for each in hashes_now if each}
    asked = [each for each, place in found.items() if place is None]
    now, before, known = _frequencies(asked), _frequencies(list(places)), list(places.values())
    for row, columns in _candidates(now, before):
        for start in range(0, len(columns), BATCH):
            batch = columns[start : start + BATCH]
            alike = batch[_likeness(now[row], before[batch], mirrored) >= LEAST_ALIKE]
            if len(alike):
                found[asked[row]] = known[alike[0]]
                break
    return [found.get(each) for each in hashes_now]


def hash_of(picture: Image.Image) -> str:
    """The hash of a picture, 256 hexadecimal digits. Empty for a sparse picture, which resembles others.

    Each digit is the amplitude of one frequency, times this frequency, since natural images have larger ones
    at lower frequencies (D. J. Field, 1987). The first one, of the mean, says nothing.
    """
    # JPEG decodes an eighth of its pixels in a fifth of the time.
    picture.draft("L", (4 * SIDE_PX, 4 * SIDE_PX))
    small = np.asarray(as_seen(picture).convert("L").resize((SIDE_PX, SIDE_PX), Image.Resampling.BOX), np.float64)
    parts = small.reshape(8, SIDE_PX // 8, 8, SIDE_PX // 8)
    ranges = np.ptp(parts, axis=(1, 3))
    if (ranges >= CONTRAST).mean() < LEAST_FILLED or (ranges >= ranges.max() / 10).mean() < LEAST_NOTICED:
        return ""
    amplitudes = fft.dctn(small, norm="ortho")[:FREQUENCIES, :FREQUENCIES] * _radii(FREQUENCIES)
    largest = LARGEST * max(float(np.median(np.abs(amplitudes))), 1e-9)
    roots = np.sign(amplitudes) * np.sqrt(np.abs(amplitudes) / largest)
    half = LEVELS // 2
    digits = np.clip(np.floor(roots * (half - 0.5)), -half, half - 1).astype(np.int64) + half
    return "".join(f"{digit:x}" for digit in digits.ravel())


# === Frequencies of crops ===


def _radii(frequencies: int) -> NDArray[np.float64]:
    """(n, n) distances of the frequencies from the mean's."""
    y, x = np.mgrid[:frequencies, :frequencies]
    radii: NDArray[np.float64] = np.hypot(y, x)
    return radii


def _cropping(before: float, behind: float) -> Floats:
    """(COMPARED, FREQUENCIES): a matrix from the cosines of a line to its part without these shares."""
    centres, order = (np.arange(2 * SIDE_PX) + 0.5) / (2 * SIDE_PX), np.arange(FREQUENCIES)
    scale = np.where(order == 0, 1, np.sqrt(2)) / np.sqrt(len(centres))
    whole = scale * np.cos(np.pi * np.outer(centres, order))
    part = scale * np.cos(np.pi * np.outer(before + (1 - before - behind) * centres, order))
    matrix: Floats = (whole.T @ part)[:COMPARED].astype(np.float32)
    return matrix


_CROPPINGS = np.concatenate([_cropping(before, behind) for before in CROPS for behind in CROPS])
"""(crops of a line x COMPARED, FREQUENCIES)."""


def _frequencies(hashes: Sequence[str]) -> Floats:
    """(n, FREQUENCIES, FREQUENCIES) amplitudes that hashes tell, in any unit."""
    digits = np.frombuffer("".join(hashes).encode(), np.uint8).reshape(-1, FREQUENCIES, FREQUENCIES)
    values = np.array([int(chr(code), LEVELS) if chr(code) in "0123456789abcdef" else 0 for code in range(256)])
    roots = values[digits] - (LEVELS - 1) / 2
    radii = _radii(FREQUENCIES)
    radii[0, 0] = np.inf  # the mean
    return (np.sign(roots) * roots**2 / radii).astype(np.float32)


def _directions(amplitudes: Floats) -> Floats:
    """(..., n * n - 1) unit vectors of (..., n, n) amplitudes. Their products are the correlations.

    They are compared to the power of .25. Otherwise few large ones decide, and pages of one template are
    alike.
    """
    n = amplitudes.shape[-1]
    vectors = (amplitudes * _radii(n).astype(np.float32)).reshape(*amplitudes.shape[:-2], n * n)[..., 1:]
    vectors = np.copysign(np.sqrt(np.sqrt(np.abs(vectors))), vectors)
    directions: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
    return directions


def _mirrored(directions: Floats) -> Floats:
    """The directions of the mirror images: odd frequencies along a line change their signs."""
    n = round((directions.shape[-1] + 1) ** 0.5)
    signs = np.tile(np.where(np.arange(n) % 2, -1, 1), n)[1:].astype(np.float32)
    return directions * signs


def _crops(frequencies: Floats) -> Floats:
    """(n, crops, COMPARED**2 - 1) directions of all crops of each picture."""
    n_crops = len(CROPS) ** 2
    cropped = (_CROPPINGS @ frequencies @ _CROPPINGS.T).reshape(-1, n_crops, COMPARED, n_crops, COMPARED)
    return _directions(cropped.swapaxes(2, 3).reshape(-1, n_crops**2, COMPARED, COMPARED))


def _likeness(one: Floats, others: Floats, mirrored: bool = True) -> Floats:
    """(n,) largest correlation of any crop of a picture, perhaps mirrored, with any crop of each of n others."""
    crops = _crops(one[None])[0]
    both = np.concatenate([crops, _mirrored(crops)]) if mirrored else crops
    likeness: Floats = (_crops(others).reshape(-1, both.shape[1]) @ both.T).reshape(len(others), -1).max(axis=1)
    return likeness


def _candidates(rows: Floats, columns: Floats, is_same: bool = False) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each row that is coarsely like some columns, and these, those first that are most alike.

    Args:
        rows: Frequencies of pictures.
        columns: Those of others.
        is_same: Whether both are the same: then only earlier columns count.
    """
    if not len(columns):
        return
    left, right = (_directions(each[:, :COARSE, :COARSE]) for each in (rows, columns))
    for top in range(0, len(left), BLOCK):
        block = left[top : top + BLOCK]
        found = []
        for start in range(0, top + 1 if is_same else len(right), BLOCK):
            others = right[start : start + BLOCK].T
            alike = np.maximum(block @ others, _mirrored(block) @ others)
            if is_same and start == top:
                alike = np.tril(alike + 1, -1) - 1
            row, column = np.nonzero(alike >= LEAST_ALIKE_COARSELY)
            found.append((row, column + start, alike[row, column]))
        row, column, alike = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.lexsort((column, -alike, row))
        row, column = row[order], column[order]
        edges = np.searchsorted(row, np.arange(len(block) + 1))
        for index in np.unique(row):
            yield top + int(index), column[edges[index] : edges[index + 1]]


# === Files ===


def _hashes(members: Sequence[Member]) -> list[str]:
    hashes = []
    with Tracker("look for copies", len(members), "images") as tracker, open_pool() as pool:
        for each in map_ahead(pool, _hash_of_file, members, 4 * (os.cpu_count() or 1)):
            hashes.append(each)
            tracker.advance()
    return hashes


def _hash_of_file(member: Member) -> str:
    """The hash of an image file. Empty if it cannot be read, since preparing it says so."""
    try:
        picture = open_header(member.content(MOST_IMAGE_BYTES))
        return hash_of(picture) if picture.width * picture.height <= MAX_PIXELS else ""
    except Exception:  # Pillow's decoders raise whatever their parsing meets, down to struct.error
        return ""


def _joined(items: Sequence[Item]) -> list[Item]:
    """The images with one group, and one `split_key`, for all that copies of the same picture connect.

    The key is the first of the images' keys. So an image stays in its split by hash when a copy with a later
    key is added. Example: of the keys `a` and `b` it is `a`.
    """
    parents: dict[str, str] = {}

    def root(key: str) -> str:
        while parents.setdefault(key, key) != key:
            key = parents[key]
        return key

    connected: dict[str, list[Item]] = {}
    for item in items:
        if item.group:
            parents[root(f"picture {item.picture}")] = root(f"group {item.group}")
    for item in items:
        connected.setdefault(root(f"picture {item.picture}"), []).append(item)
    groups = {
        key: (
            min(each.group or each.stimulus.path for each in group),
            min(split_key_of(each) for each in group),
        )
        for key, group in connected.items()
        if len(group) > 1
    }
    joined = []
    for item in items:
        group, split_key = groups.get(root(f"picture {item.picture}"), (item.group, item.split_key))
        joined.append(dataclasses.replace(item, group=group, split_key=split_key))
    return joined
