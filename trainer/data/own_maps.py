"""Maps and files of fixations of one's own: what some of them say about all, before any image is prepared."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from trainer import witness
from trainer.data import decode, honest_maps
from trainer.data.recordings import pictures
from trainer.data.recordings.contradictions import doubt_pictures
from trainer.data.source_layout import Item
from trainer.errors import ContentError
from trainer.machine import map_ahead, open_pool
from trainer.places import Member

MOST_JUDGED = 100
"""Maps of one's own by which all are judged: what most of them have, most of all have."""
N_THREADS = min(os.cpu_count() or 1, 32)


def pedestal_of(items: Sequence[Item]) -> int:
    """`honest_maps.pedestal_of` the maps of one's own, at most `MOST_JUDGED` of them, which are spread evenly.

    Where images have fixations too, these are compared with the maps. Files that cannot be used are put aside
    later.
    """
    with_map = [item for item in items if item.map]
    chosen = with_map[:: math.ceil(len(with_map) / MOST_JUDGED) or 1]
    with open_pool(N_THREADS) as pool:
        measured = [each for each in map_ahead(pool, _measure_map, chosen, 2 * N_THREADS) if each]
    honest_maps.check_fixations([(each.map, each.looked) for each in measured if each.looked])
    return honest_maps.pedestal_of([(each.origin, each.traits) for each in measured])


def ask_pictures(items: Sequence[Item]) -> None:
    """Ask the pictures about maps and files of fixations. Those of tables were asked before."""
    of_files = [item for item in items if item.map or isinstance(item.fixations, Member)]
    of_files.sort(key=lambda item: item.name)
    asked = of_files[: pictures.ENOUGH_ASKED]
    with open_pool(N_THREADS) as pool:
        read = dict(enumerate(pool.map(_look, asked)))
    looked = {image: each[0] for image, each in read.items() if each}
    sizes = {image: each[1] for image, each in read.items() if each}
    testimony = pictures.PictureWitness([item.stimulus for item in asked]).ask_about(looked, sizes)
    for doubt in doubt_pictures(testimony, f"{len(of_files):,} images"):
        raise doubt


def _look(item: Item) -> tuple[witness.Looked, tuple[int, int]] | None:
    """Where people looked at an image, by its own files, and its (height, width). None if one cannot be used."""
    try:
        decoded = decode.decode(item, blur_sigma_px=1, as_seen=True)
    except ContentError:
        return None
    size = decoded.stimulus.shape[0], decoded.stimulus.shape[1]
    if decoded.gaze is not None:
        return witness.Looked.of_points(decoded.gaze.points, size), size
    return witness.Looked.of_density(decoded.density, size), size


@dataclass(frozen=True)
class _Measured:
    """A map of one's own."""

    origin: str
    traits: honest_maps.Traits
    map: witness.Grid
    looked: witness.Looked | None
    """Where people looked, if fixations are known too."""


def _measure_map(item: Item) -> _Measured | None:
    """Measure a map of one's own. None for points, and if a file cannot be used."""
    assert item.map is not None
    try:
        stimulus = decode.decode_stimulus(item.stimulus, as_seen=True)
        size = stimulus.shape[0], stimulus.shape[1]
        levels = decode.decode_map(item.map, size, as_seen=True)
        points = None if item.fixations is None else decode.read_gaze(item.fixations, size, as_seen=True).points
    except ContentError:
        return None
    if decode.is_points(levels):
        return None
    looked = None if points is None else witness.Looked.of_points(points, size)
    traits = honest_maps.Traits.of(levels, stimulus)
    return _Measured(item.map.origin, traits, witness.to_grid(levels), looked)
