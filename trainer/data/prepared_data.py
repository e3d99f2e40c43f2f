"""The files of a prepared dataset: their names, its manifest, and the list of its images.

Example: `train-00000-of-00004.tfrecord`, `manifest.json`, `images.csv`, `objects.csv` and `center_bias.npy`.

What grows with the number of images is in a file of its own, so that the manifest is small.
"""

import csv
import dataclasses
import pathlib
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, NotRequired

from typing_extensions import TypedDict

from trainer.data.settings import CUSTOM
from trainer.errors import ContentError
from trainer.io import StrPath, checked_json, read_json, write_json

MANIFEST = "manifest.json"
MOST_BYTES = 2**24
"""Largest manifest that is read. Those of earlier versions have an entry for each file of the source."""
CENTER_BIAS = "center_bias.npy"
"""Mean of the training set's maps in relative image coordinates: (120, 160) float32 that sums to 1."""
IMAGES = "images.csv"
"""One line for each image: its split, what `ListedImage` has, and its `trainer.data.statistics.FEATURES`."""
OBJECTS = "objects.csv"
"""One line for each file of the source, with the fields of `SourceObject`. Earlier versions wrote none."""
SPLITS = ("train", "valid")
TEST = "test"
"""The only split of a test set: held-out images, used for neither training nor model selection."""
SPLIT_NAMES = {"train": "training", "valid": "validation", TEST: "test"}
"""Split -> its name in sentences."""
ORIGINALS = "originals"
"""Name of the shards with the originals of held-out images, next to the shards of the splits."""
TEST_SUFFIX = "-test"
"""Suffix of a test set's name in stored scores, so that nobody takes them for validation scores."""

SHARD_BYTES = 96 * 10**6
"""Approximate size of a shard: large enough for sequential reading, small enough for several readers."""
MIN_SHARDS = 4
MIN_EXAMPLES = 64
"""With this many examples there are at least `MIN_SHARDS` shards, so that they can be read in parallel."""
MAP_SHARE = 0.1
"""Approximate size of a compressed map, divided by the size of its stimulus."""
PREPARE_AGAIN = "prepare the dataset again"
"""Remedy for a prepared dataset that is damaged."""


def shard_name(split: str, index: int, count: int) -> str:
    """File name of shard `index` of `count`."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


def shard_count(n_examples: int, image_size: tuple[int, int]) -> int:
    """Number of shards for `n_examples` images of (H, W). Example: 26 for 10,000 images of 240 x 320."""
    example_bytes = image_size[0] * image_size[1] * 3 * (1 + MAP_SHARE)
    return max(round(n_examples * example_bytes / SHARD_BYTES), MIN_SHARDS if n_examples >= MIN_EXAMPLES else 1)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Contents and origin of a prepared dataset."""

    dataset: str
    source: str
    fingerprint: str
    image_size: tuple[int, int]
    """(height, width) of the shards' images, pixels."""
    counts: dict[str, int]
    """Number of images in each split."""
    expected_counts: dict[str, int]
    """Number of images in each split of the complete dataset."""
    split: str
    """`Dataset.split` of the dataset."""
    ground_truth: str
    """Form of the map files: `density` or `points`."""
    blur_sigma_px: float
    """Standard deviation, in original pixels, of the Gaussian that turned points into a density. 0 without it."""
    has_fixations: bool
    """Whether fixated pixels are known, which the point metrics need."""
    original_sizes: dict[str, int]
    """Original size, as `height x width` -> number of images."""
    shards: dict[str, list[str]]
    originals: list[str]
    """The shards with the held-out images as the source has them, in the order of their split."""
    code_version: str
    has_observers: bool = False
    """Whether the observers of all fixations are told apart."""
    has_known_observers: bool = False
    """Whether an observer has the same number in all images, so that it is known who saw several of them."""
    licence: str = ""
    """Terms under which the dataset may be used. Empty if unknown."""
    citation: str = ""
    """The publication to cite. Empty if unknown."""
    test_share: float = 0.0
    """Share of the validation images that is held out as a test set: this dataset itself if `is_test_set`."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """Sentences for people: how the source was understood, and what was left out and why."""
    reading: str = ""
    """How tables of recordings of one's own were read, as TOML. Empty without tables."""
    bad_images: dict[str, str] = dataclasses.field(default_factory=dict)
    """Name of an image that cannot be used -> why, for the first `trainer.data.bad_images.MOST_LISTED` of them."""
    as_seen: bool = False
    """Whether pictures are decoded as people see them (`trainer.pictures.read_picture`), like all pictures
    of one's own. Otherwise they are decoded as the reference decodes published datasets, without orientation
    tags and transparency."""
    map_variation: float = 0.0
    """Mean chi-squared divergence of an image's histogram from the centre bias, in coarse cells."""
    schema: int = 5
    """Version of the form of prepared data. Data of another schema are refused, and prepared again."""

    @staticmethod
    def name_of(dataset: str, source: str) -> str:
        """The name of a dataset. Recordings of one's own have the last part of their source, without an ending.

        Example: `lab-eyes` for custom data from gs://study/lab eyes.zip.
        """
        if dataset != CUSTOM:
            return dataset
        last = source.rstrip("/").rpartition("/")[2].partition(".")[0]
        return re.sub(r"[^a-z0-9_]+", "-", last.lower()).strip("-") or CUSTOM

    @property
    def is_own(self) -> bool:
        """Whether the dataset is recordings of one's own."""
        return self.dataset == CUSTOM

    @property
    def is_test_set(self) -> bool:
        """Whether the dataset is a test set, which has no training images."""
        return TEST in self.counts

    @property
    def held_out(self) -> str:
        """The split that models are evaluated on."""
        return TEST if self.is_test_set else "valid"

    @property
    def bias_split(self) -> str:
        """The centre bias is made of the images of this split."""
        return TEST if self.is_test_set else "train"

    def save(self, folder: pathlib.Path) -> None:
        """Write the manifest into `folder`. Raises `UserError` if it cannot be written."""
        write_json(folder / MANIFEST, dataclasses.asdict(self))

    @classmethod
    def load(cls, folder: StrPath) -> "Manifest":
        """Read the manifest of the prepared dataset in `folder`. Keys of earlier versions are left out.

        Raises:
            UserError: the folder has no manifest, or one of another schema.
        """
        path = pathlib.Path(folder) / MANIFEST
        remedy = f"{folder} is not a prepared dataset. Make one with `python -m trainer fetch`"
        # The kinds of its values depend on its schema.
        return cls.of(read_json(path, remedy, dict[str, Any], MOST_BYTES), str(path))

    @classmethod
    def of(cls, fields: dict[str, Any], origin: str) -> "Manifest":
        """The manifest with the fields that were read from `origin`. Raises `ContentError` as `load`."""
        if fields.get("schema") != cls.schema:
            raise ContentError(
                f"{origin} has schema {fields.get('schema')}, this version reads {cls.schema}: {PREPARE_AGAIN}"
            )
        manifest: Manifest = checked_json(fields, origin, PREPARE_AGAIN, cls)
        return manifest

    @classmethod
    def load_all(cls, folders: Mapping[str, StrPath]) -> "dict[str, Manifest]":
        """The manifests of prepared datasets, by name. Raises `UserError` if one has no held-out images."""
        manifests = {name: cls.load(folder) for name, folder in folders.items()}
        for name, manifest in manifests.items():
            if not manifest.counts.get(manifest.held_out):
                raise ContentError(
                    f"dataset {name} has no validation images ({manifest.counts}). Prepare it with some"
                )
        return manifests


class ListedImage(NamedTuple):
    """An image in `IMAGES`."""

    name: str
    digest: str
    """Digest of its pixels."""
    group: str
    """Name of its group. Empty for an image of its own."""
    hash: str
    """`trainer.data.copies.hash_of` it. Empty for a sparse picture."""
    recording: str
    """Digests of where people looked at it, in ascending order, with a space between them: one for the fixated
    pixels of each observer, whatever the observer's name, or for all of them if observers are not told apart. One
    more is of its density, if that is not made of the fixations. A picture that is saved in another format keeps
    them, and one that is scaled, cropped or mirrored does not."""

    @property
    def unit(self) -> tuple[str, str]:
        """A key that all images of a group share, in any split. An image without a group has one of its own.

        Example: the name of a site and an empty text, for each of its pages.
        """
        return self.group, "" if self.group else self.digest


def images(folder: StrPath, splits: Collection[str]) -> list[ListedImage]:
    """List the images in these splits of a prepared dataset.

    Raises:
        UserError: the folder has no `IMAGES`.
    """
    path = pathlib.Path(folder) / IMAGES
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["split"] in splits]
            columns = ("image", "digest", "group", "hash", "recording")
            return [ListedImage(*(row[column] for column in columns)) for row in rows]
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise ContentError(f"{path} cannot be read ({error!r}): {PREPARE_AGAIN}") from None


def hashes_of(split: str) -> str:
    """The key of the hashes of a split's images in TRAINING_IMAGES, beside the key of their digests.

    Example: `train_hashes`, beside `train`.
    """
    return f"{split}_hashes"


def images_to_train_on(folder: StrPath) -> dict[str, dict[str, list[str]]]:
    """The entry of TRAINING_IMAGES for prepared data. Empty for data without IMAGES."""
    if not (pathlib.Path(folder) / IMAGES).exists():
        return {}
    entry = {}
    for split in SPLITS:
        listed = images(folder, [split])
        entry[split] = sorted(image.digest for image in listed)
        entry[hashes_of(split)] = sorted({image.hash for image in listed if image.hash})
    return {Manifest.load(folder).fingerprint: entry}


class Distribution(TypedDict):
    """The values of one of `trainer.data.statistics.FEATURES`, in the form in which they are compared."""

    mean: float
    std: float
    quantiles: list[float]


class MeanMap(TypedDict):
    """The centre bias of the training images, in coarse cells."""

    cells: list[list[float]]
    """Share of attention in each cell."""
    images: int
    variation: float
    """`Manifest.map_variation`."""


class Statistics(TypedDict):
    """The statistics of a prepared dataset, or of some of its images (see `trainer.data.statistics`)."""

    images: int
    values: dict[str, Distribution]
    center_bias: NotRequired[MeanMap]
