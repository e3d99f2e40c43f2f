"""Copies of a picture: the same one under several names, also scaled, compressed again or cropped by a few pixels.

Copies are found by a perceptual hash: the signs of the lowest frequencies of the picture's cosine transform, as
pHash takes them (C. Zauner, Implementation and benchmarking of perceptual image hash functions, 2010). The shares
of copies that it finds are in research/log.md. Copies belong to one group, as the pages of a site do.
"""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import fft

from trainer.data.source_layout import MAX_PIXELS, MOST_IMAGE_BYTES, Item
from trainer.errors import some
from trainer.io.archive_files import Member
from trainer.io.pictures import as_seen, open_header
from trainer.io.progress import Tracker, map_ahead, open_pool

SIDE_PX = 64
"""Side of the grey square that a picture is shrunk to."""
FREQUENCIES = 16
"""The lowest frequencies in each direction that make the hash."""
MOST_DIFFERENT = 32
"""Most bits, of 255, in which the hashes of copies differ. Those of 700 photographs, scaled, compressed again or
cropped by up to 4 pixels on each side, differ in fewer, and different photographs in 86 or more."""
LEAST_FILLED = 0.4
"""Least share of the 8 x 8 parts of a picture that have contrast. A sparse picture, such as a line of text, looks
like others of its kind at low frequencies; the sparsest of 700 photographs has contrast in .44 of its parts."""
CONTRAST = 8
"""Range of the grey levels of a part that has contrast."""
BLOCK = 2048
"""Number of hashes that are compared with all earlier ones at a time."""

Bits = NDArray[np.bool_]


def with_copies(items: Sequence[Item]) -> tuple[list[Item], list[str]]:
    """Find the copies among the images of a source, and let the groups that they connect be one.

    Args:
        items: The images, with the groups that are known.

    Returns:
        The images in the same order, each with its `picture` and its `group`; and sentences about the copies.
    """
    members = sorted((item.stimulus for item in items), key=lambda member: member.path)
    firsts = first_copies(_hashes(members))
    pictures = {member.path: members[first].path for member, first in zip(members, firsts, strict=True)}
    marked = [dataclasses.replace(item, picture=pictures[item.stimulus.path]) for item in items]
    copies = [item for item in marked if item.picture != item.stimulus.path]
    pairs = some([f"{item.stimulus.path} of {item.picture}" for item in copies])
    notes = [f"Copies, also scaled, compressed again or cropped, count as one image: {len(copies):,} ({pairs})."]
    return _joined(marked), notes if copies else []


def first_copies(hashes: Sequence[Bits | None]) -> list[int]:
    """The place of the first copy of each picture, in the order of the hashes; its own place for a new picture.

    Copies of copies are copies, however much they differ themselves.

    Args:
        hashes: (255,) of each picture; None for one without a hash, which is a copy of none.
    """
    readable = {place: bits for place, bits in enumerate(hashes) if bits is not None}
    known, firsts = np.array(list(readable), np.int64), np.arange(len(hashes))
    # The number of bits that differ is (bits - product) / 2 for bits of -1 and 1.
    signs = np.array([np.where(bits, 1, -1) for bits in readable.values()], np.float32)
    for start in range(0, len(known), BLOCK):
        rows = signs[start : start + BLOCK]
        for column in range(0, start + 1, BLOCK):
            alike = rows @ signs[column : column + BLOCK].T >= rows.shape[1] - 2 * MOST_DIFFERENT
            if column == start:
                alike = np.tril(alike, -1)
            for row in np.flatnonzero(alike.any(axis=1)):
                same = np.unique(firsts[[*known[column + np.flatnonzero(alike[row])], known[start + row]]])
                firsts[np.isin(firsts, same[1:])] = same[0]
    return [int(first) for first in firsts]


def hash_of(picture: Image.Image) -> Bits | None:
    """The perceptual hash of a picture, (255,) bits; None for a sparse one, which resembles others."""
    # JPEG decodes an eighth of its pixels in a fifth of the time.
    picture.draft("L", (4 * SIDE_PX, 4 * SIDE_PX))
    small = np.asarray(as_seen(picture).convert("L").resize((SIDE_PX, SIDE_PX), Image.Resampling.BOX), np.float64)
    parts = small.reshape(8, SIDE_PX // 8, 8, SIDE_PX // 8)
    if (np.ptp(parts, axis=(1, 3)) >= CONTRAST).mean() < LEAST_FILLED:
        return None
    lowest = fft.dctn(small, norm="ortho")[:FREQUENCIES, :FREQUENCIES].ravel()[1:]  # without the mean
    bits: Bits = lowest > np.median(lowest)
    return bits


def _hashes(members: Sequence[Member]) -> list[Bits | None]:
    hashes = []
    with Tracker("look for copies", len(members), "images") as tracker, open_pool() as pool:
        for bits in map_ahead(pool, _hash_of_file, members, 4 * (os.cpu_count() or 1)):
            hashes.append(bits)
            tracker.advance()
    return hashes


def _hash_of_file(member: Member) -> Bits | None:
    """The hash of an image file; None if it cannot be read, which is said where it is prepared."""
    try:
        picture = open_header(member.content(MOST_IMAGE_BYTES))
        return hash_of(picture) if picture.width * picture.height <= MAX_PIXELS else None
    except Exception:  # Pillow's decoders raise whatever their parsing meets, down to struct.error
        return None


def _joined(items: Sequence[Item]) -> list[Item]:
    """The images with one group, and one `split_key`, for all that copies of the same picture connect.

    The key is the first of those of the images, so that an image stays where it is in a split by hash when a copy
    is added whose key comes after its own.
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
            min(each.split_key or each.name for each in group),
        )
        for key, group in connected.items()
        if len(group) > 1
    }
    joined = []
    for item in items:
        group, split_key = groups.get(root(f"picture {item.picture}"), (item.group, item.split_key))
        joined.append(dataclasses.replace(item, group=group, split_key=split_key))
    return joined
