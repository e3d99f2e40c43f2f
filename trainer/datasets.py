"""The datasets of this project. Standard library only.

Sizes, splits and ground truth are those of the reference implementation (alexanderkroner/saliency, data.py and
config.py). All datasets have the same layout: a folder of stimuli, a folder of maps and, for some, a folder of
fixations. Files of one image have the same path below these folders (see `trainer/data/layout.py`).
"""

import dataclasses

from trainer.errors import look_up


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A dataset."""

    image_size: tuple[int, int]
    """(height, width) of the network's input, pixels."""
    n_train: int
    n_valid: int
    blur_sigma_px: float = 16.0
    """Standard deviation, in original pixels, of the Gaussian that turns points into a density, if the maps are
    points; 16 px is the reference's default."""
    split: str = "shuffle"
    """`given`: by folders train/ and val/; `shuffle`: of the sorted paths with seed 42; `shuffle_per_category`:
    the same shuffle in each folder of images."""
    source: str = ""
    """Its address on Cloud Storage; empty if it must be given by the user."""
    map_suffix: str = ""
    """Suffix of a map's stem, which follows the stem of its image."""
    fixation_suffix: str = ""
    """The same for fixations."""


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
    """The dataset `name`; raises `UserError` with the nearest known name if it is unknown."""
    return look_up("dataset", name, DATASETS)
