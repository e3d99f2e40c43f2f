"""The data sets this project knows. Standard library only.

Sizes, splits and ground truth are those of the reference implementation (alexanderkroner/saliency, data.py and
config.py). Every data set is read from the same layout: a folder of stimuli, a folder of maps, and where there
is one a folder of fixations, files of one image having the same path below them (see `trainer/data/fetch.py`).
"""

import dataclasses

from trainer.errors import look_up


@dataclasses.dataclass(frozen=True)
class Dataset:
    """One data set."""

    image_size: tuple[int, int]
    """(height, width) of the network's input for it, pixels."""
    n_train: int
    n_valid: int
    blur_sigma_px: float = 16.0
    """Standard deviation, in original pixels, of the Gaussian that turns points into a density, where the maps
    turn out to be points; 16 px is what the reference takes unless it says otherwise."""
    split: str = "shuffle"
    """`given` by folders train/ and val/, `shuffle` of the sorted paths with seed 42, or `shuffle_per_category`:
    the same shuffle in each folder of images."""
    source: str = ""
    """Where it can be had from Cloud Storage; empty where there is no such place."""
    map_suffix: str = ""
    """What the stems of its maps have behind the stems of their images."""
    fixation_suffix: str = ""
    """The same for its fixations."""


DATASETS: dict[str, Dataset] = {
    "salicon": Dataset((240, 320), 10_000, 5_000, split="given"),
    "mit1003": Dataset((360, 360), 803, 200, map_suffix="_fixMap", fixation_suffix="_fixPts"),
    "cat2000": Dataset((216, 384), 1600, 400, split="shuffle_per_category"),
    "dutomron": Dataset((360, 360), 4168, 1000),
    "pascals": Dataset((360, 360), 650, 200),
    "osie": Dataset((240, 320), 500, 200),
    "fiwi": Dataset((216, 384), 99, 50, blur_sigma_px=30.0),
    "fixationadd1000": Dataset((360, 360), 800, 200, source="gs://hmm-ml-models/fixation/add1000.tar.gz"),
}


def get(name: str) -> Dataset:
    """The row of data set `name`; a `UserError` that names the nearest known one otherwise."""
    return look_up("data set", name, DATASETS)
