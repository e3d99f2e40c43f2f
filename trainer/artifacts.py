"""Names and schemas of the files inside artifacts.

A *prepared dataset* is a folder with `MANIFEST`, `IMAGES`, `CENTER_BIAS` and shards, of each split and of the
originals of its held-out images.
A *model* is a folder with `SAVED_MODEL`, `WEIGHTS`, `MODEL_CONFIG` and `HISTORY`.
An *evaluation* is a folder with `EVALUATION`, `PER_IMAGE` and `PREDICTIONS`.
"""

import csv
import dataclasses
import functools
import importlib.metadata
import os
import pathlib
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, NotRequired

from typing_extensions import TypedDict  # pydantic takes that of `typing` from Python 3.12 on

from trainer.config import CUSTOM
from trainer.errors import UserError
from trainer.io.files import checked_json, read_json, write_json

StrPath = str | os.PathLike[str]
"""The path of a file or folder, as the standard library takes it."""

MANIFEST = "manifest.json"
CENTER_BIAS = "center_bias.npy"
"""Mean of the training set's maps in relative image coordinates: (120, 160) float32 that sums to 1."""
IMAGES = "images.csv"
"""One line for each image: its split, its name, a digest of its stimulus, the same for the same pixels, the name
of its group, empty for an image of its own, and its `trainer.data.statistics.FEATURES`."""
TRAINING_IMAGES = "training_images.json"
SPLITS = ("train", "valid")
TEST = "test"
"""The only split of a test set: held-out images, used for neither training nor model selection."""
SPLIT_NAMES = {"train": "training", "valid": "validation", TEST: "test"}
"""Split -> its name in sentences."""
ORIGINALS = "originals"
"""Name of the shards with the originals of held-out images, next to those of the splits."""
TEST_SUFFIX = "-test"
"""Suffix of a test set's name in stored scores, so that nobody takes them for validation scores."""

SAVED_MODEL = "saved_model"
WEIGHTS = "model.weights.h5"
MODEL_CONFIG = "config.json"
MODEL_REMEDY = "give the folder of a model that `train` wrote"
"""End of a message about a folder without WEIGHTS or with a damaged MODEL_CONFIG."""
COMPACT_WEIGHTS = "weights.int8.npz"
"""Weights of a model in compact form, in place of WEIGHTS; its folder has only MODEL_CONFIG besides."""
WEIGHTS_SHA256 = "weights_sha256"
"""Key of the MODEL_CONFIG of a model in compact form: SHA-256 of its COMPACT_WEIGHTS, 64 hex digits."""
HISTORY = "history.jsonl"
VERSION_EXTRA = "assets.extra"
"""Folder inside a SavedModel that TensorFlow Serving ignores; a registered version keeps its model there."""
REGISTRY, MODEL_NAME = "models", "msinet"
"""The local registry's folder in the working directory, and the name that the pipeline registers."""
ALIASES = "aliases.json"
"""File next to the versions of a registered name: alias -> version."""
DEFAULTS = "defaults.json"
"""File next to ALIASES: when the default moved, and to which version, oldest first."""
DEFAULT, CHALLENGER = "default", "challenger"
"""The aliases that the pipeline sets."""
SERVING = "serving"
"""Folder next to the versions of a registered name that has the SavedModel of the default alone, by its number."""

EVALUATION = "evaluation.json"
PER_IMAGE = "per_image.csv"
PREDICTIONS = "predictions"
"""Folder of the images in the report."""
SHIPPED_MAP = "shipped_map.png"
"""The candidate's map of an image of the package, which an endpoint must return; absent without an endpoint."""

RUN_FILE = "run.json"
"""File in the folder of a local run of the pipeline."""
RUN_ATTEMPTS = "msinet-*"
"""Folders of the run's attempts; kfp names them by time."""

SCHEMA = 4
PREPARE_AGAIN = "prepare the dataset again"
"""Remedy for a prepared dataset that is damaged."""


def checkpoints_of(model: str) -> str:
    """Folder or address of the checkpoints of the training that writes `model`, unless another one is given."""
    return f"{model.rstrip('/')}.checkpoints"


def shard_name(split: str, index: int, count: int) -> str:
    """File name of shard `index` of `count`."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


@dataclasses.dataclass(frozen=True)
class SourceObject:
    """A file of a source: its name relative to the source, its size, and the CRC32C of its content (hex)."""

    name: str
    size_bytes: int
    crc32c: str
    sha256: str = ""
    """SHA-256 of the content of a downloaded file, 64 hex digits; empty for others."""


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
    """Standard deviation, in original pixels, of the Gaussian that turned points into a density; 0 without it."""
    has_fixations: bool
    """Whether fixated pixels are known, which the point metrics need."""
    original_sizes: dict[str, int]
    """Original size, as `height x width` -> number of images."""
    shards: dict[str, list[str]]
    originals: list[str]
    """The shards with the held-out images as the source has them, in the order of their split."""
    objects: list[SourceObject]
    code_version: str
    has_observers: bool = False
    """Whether the observers of all fixations are told apart."""
    licence: str = ""
    """Terms under which the dataset may be used; empty if unknown."""
    citation: str = ""
    """The publication to cite; empty if unknown."""
    test_share: float = 0.0
    """Share of the validation images that is held out as a test set: this dataset itself if `is_test_set`."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """Sentences for people: how the source was understood, and what was left out and why."""
    bad_images: dict[str, str] = dataclasses.field(default_factory=dict)
    """Name of an image that cannot be used -> why; the first `trainer.data.bad_images.MOST_LISTED` of them."""
    map_variation: float = 0.0
    """Mean chi-squared divergence of an image's histogram from the centre bias, in coarse cells."""
    schema: int = SCHEMA

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
        """The split whose images make the centre bias."""
        return TEST if self.is_test_set else "train"

    def save(self, folder: pathlib.Path) -> None:
        """Write the manifest into `folder`; raises `UserError` if it cannot be written."""
        write_json(folder / MANIFEST, dataclasses.asdict(self))

    @classmethod
    def load(cls, folder: StrPath) -> "Manifest":
        """Read the manifest of the prepared dataset in `folder`.

        Raises:
            UserError: the folder has no manifest, or one of another schema.
        """
        path = pathlib.Path(folder) / MANIFEST
        remedy = f"{folder} is not a prepared dataset; make one with `python -m trainer fetch`"
        fields = read_json(path, remedy, dict[str, Any])  # the kinds of its values depend on its schema
        if fields.get("schema") != SCHEMA:
            raise UserError(
                f"{path} has schema {fields.get('schema')}, this version reads {SCHEMA}: {PREPARE_AGAIN}"
            )
        manifest: Manifest = checked_json(fields, str(path), PREPARE_AGAIN, cls)
        return manifest


def prepared_by_name(folders: Iterable[StrPath]) -> dict[str, pathlib.Path]:
    """Return the folders of prepared datasets by name: that of the dataset, with `-test` for a test set.

    Recordings of one's own are named after their source. A second dataset of the same name is `NAME-2`.
    """
    by_name: dict[str, pathlib.Path] = {}
    for folder in folders:
        manifest = Manifest.load(folder)
        name = dataset_name(manifest.dataset, manifest.source)
        suffix = TEST_SUFFIX if manifest.is_test_set else ""
        if name + suffix in by_name:
            name += f"-{len(by_name) + 1}"
        by_name[name + suffix] = pathlib.Path(folder)
    return by_name


def dataset_name(dataset: str, source: str) -> str:
    """The name of a dataset; for recordings of one's own the last part of their source, without an ending."""
    if dataset != CUSTOM:
        return dataset
    last = source.rstrip("/").rpartition("/")[2].partition(".")[0]
    return re.sub(r"[^a-z0-9_]+", "-", last.lower()).strip("-") or CUSTOM


def load_manifests(folders: Mapping[str, StrPath]) -> dict[str, Manifest]:
    """The manifests of prepared datasets, by name; raises `UserError` if one has no validation images."""
    manifests = {name: Manifest.load(folder) for name, folder in folders.items()}
    for name, manifest in manifests.items():
        if not manifest.counts.get(manifest.held_out):
            raise UserError(f"dataset {name} has no validation images ({manifest.counts}); prepare it with some")
    return manifests


class ListedImage(NamedTuple):
    """An image in `IMAGES`."""

    name: str
    digest: str
    """Digest of its pixels."""
    group: str
    """Name of its group; empty for an image of its own."""

    @property
    def unit(self) -> tuple[str, str]:
        """A key that all images of a group share, in any split; an image without a group has one of its own."""
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
            return [ListedImage(row["image"], row["digest"], row["group"]) for row in rows]
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise UserError(f"{path} cannot be read ({error!r}): {PREPARE_AGAIN}") from None


def images_to_train_on(folder: StrPath) -> dict[str, dict[str, list[str]]]:
    """The entry of TRAINING_IMAGES for prepared data; empty for data without IMAGES."""
    if not (pathlib.Path(folder) / IMAGES).exists():
        return {}
    fingerprint = Manifest.load(folder).fingerprint
    return {fingerprint: {split: sorted(image.digest for image in images(folder, [split])) for split in SPLITS}}


def training_images(model: StrPath) -> dict[str, dict[str, list[str]]]:
    """The content of TRAINING_IMAGES in a model's folder; empty without it, as an imported model is.

    It is the fingerprint of each dataset that the model, its base model and so on were trained on -> `train` or
    `valid` -> digests of the images' pixels.

    Raises:
        UserError: the file is damaged.
    """
    path = pathlib.Path(model) / TRAINING_IMAGES
    if not path.exists():
        return {}
    content: dict[str, dict[str, list[str]]] = read_json(path, MODEL_REMEDY, dict[str, dict[str, list[str]]])
    return content


def latest_attempt(run: pathlib.Path) -> pathlib.Path | None:
    """The folder of the last attempt at a local run; None if no task of it has started."""
    earlier = read_json(run / RUN_FILE, f"{run} is not a run", dict[str, Any]).get("earlier", [])
    return max((attempt for attempt in run.glob(RUN_ATTEMPTS) if attempt.name not in earlier), default=None)


@functools.cache
def code_version() -> str:
    """Version of this package, with the commit if it is known (from `MSINET_COMMIT` or a git checkout)."""
    version = importlib.metadata.version("msinet-pipelines")
    commit = os.environ.get("MSINET_COMMIT", "")
    if not commit:
        git = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
        try:
            commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            commit = ""
    return f"{version}+{commit}" if commit else version


# === The contents of JSON files, for `trainer.io.files.read_json` ===
#
# Each is a TypedDict of the keys that a reader needs or may find. A file may have more keys, as one of another
# version has; they are kept where the content goes into another file, such as a model's into its evaluation.


ImageSize = list[int]
"""Height and width of the network's input, pixels."""
Aliases = dict[str, int]
"""Content of ALIASES: alias -> version."""


class Move(TypedDict):
    """An entry of DEFAULTS: the default became this version then."""

    version: int
    since: str


# === MODEL_CONFIG ===


class Predicting(TypedDict, total=False):
    """The settings of a training that its model predicts with."""

    flip_prediction: bool


class _Origin(TypedDict, total=False):
    """The origin of a model, which every MODEL_CONFIG may have."""

    source: str
    dataset: str
    fingerprint: str
    test_share: float
    weights_sha256: str
    settings: Predicting
    base_model: "ModelConfig | None"


class ModelConfig(_Origin, total=False):
    """MODEL_CONFIG of any model, of an imported one too."""

    image_size: ImageSize
    best_epoch: int
    identity: dict[str, Any]
    calibration: dict[str, float] | None
    """The numbers of `trainer.models.calibration.Calibration`."""


class SizedConfig(_Origin):
    """MODEL_CONFIG of a model that predicts at its own size."""

    image_size: ImageSize


class BaseConfig(_Origin):
    """MODEL_CONFIG of a model that a training starts from."""

    best_epoch: int
    identity: dict[str, Any]


# === HISTORY ===


class Epoch(TypedDict):
    """A line of HISTORY: one epoch of a training."""

    epoch: int
    steps: int
    loss: float
    valid_loss: float
    seconds: float
    images_per_s: float
    best: bool


# === EVALUATION ===


class Scores(TypedDict):
    """The scores on one dataset."""

    models: dict[str, dict[str, float | None]]


class Result(Scores):
    """The scores on one dataset, with all that a report shows of them."""

    manifest: dict[str, Any]
    has_fixations: bool
    n_images: int
    intervals: dict[str, dict[str, Any]]
    gains: dict[str, dict[str, Any]]
    n_units: NotRequired[int]
    """Number of the images, with those of a group as one: that of the values of every interval."""
    n_fixations: NotRequired[int]
    """Fixations on the images that were scored."""
    n_observers: NotRequired[int]
    """The most observers of one of them; 0 if observers are not told apart."""
    image_sizes: NotRequired[dict[str, ImageSize]]
    """Model -> its input size, at which it answered; evaluations of earlier versions have no sizes."""
    map_size: NotRequired[ImageSize]
    """The frame at whose scale maps were compared."""
    worse: NotRequired[dict[str, list[str]]]
    """Centre bias or current default -> the metrics in which the candidate is significantly worse."""
    pictures: list[dict[str, Any]]


class Measured(Scores, total=False):
    """The scores on one dataset, and the images that they were measured on, which earlier versions left out."""

    folder: str
    manifest: dict[str, Any]
    center_bias: list[Any]
    image_sizes: dict[str, ImageSize]


class Compared(TypedDict):
    """EVALUATION of a model that is compared with others."""

    datasets: dict[str, Measured]
    model_folders: NotRequired[dict[str, str]]
    code_version: NotRequired[str]


class Decision(TypedDict):
    """EVALUATION of a model that is registered."""

    datasets: dict[str, Scores]
    decides: str
    promote: bool
    reason: str
    decided: NotRequired[bool]


class _Decided(TypedDict):
    """The decision of an evaluation, and the models that it is about."""

    passed_baseline: bool
    reason: str
    model_configs: dict[str, ModelConfig | None]


class Outcome(_Decided):
    """EVALUATION of a run that has ended."""

    datasets: dict[str, Scores]
    data_warnings: NotRequired[list[str]]


class Evaluation(_Decided):
    """EVALUATION as a report shows it."""

    datasets: dict[str, Result]
    decides: str
    promote: bool
    gate: str
    gate_margin: float
    gate_confidence: float
    shown_confidence: float
    code_version: str
    run: NotRequired[str]
    date: NotRequired[str]
    data_warnings: NotRequired[list[str]]


# === Versions and runs ===


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
    """The statistics of a prepared dataset, or of some of its images; see `trainer.data.statistics`."""

    images: int
    values: dict[str, Distribution]
    center_bias: NotRequired[MeanMap]


class Prepared(TypedDict, total=False):
    """Prepared data that a version was trained on."""

    dataset: str
    source: str
    counts: dict[str, int]
    statistics: Statistics | None


class Lineage(TypedDict, total=False):
    """The origin of a version."""

    run: str
    folder: str
    code_version: str
    inputs: str
    base_version: str
    data: dict[str, Prepared]
    model: ModelConfig | None


class Version(TypedDict, total=False):
    """VERSION; its writer may be another program."""

    version: int
    created: str
    reason: str
    promote: bool
    decided: bool
    metrics: dict[str, Any]
    decided_on: str
    lineage: Lineage


class RunRecord(TypedDict):
    """RUN_FILE: a run of the pipeline on this machine."""

    environment: str
    parameters: dict[str, str | int | float | bool]
    finished: NotRequired[bool]
    result: NotRequired[str]
    ended: NotRequired[str]
    earlier: NotRequired[list[str]]


class Output(TypedDict):
    """An output in kfp's record of a cached task."""

    uri: str


class TaskRecord(TypedDict):
    """Kfp's record of a task, with the parameters that it returned."""

    parameterValues: dict[str, Any]


# === Regions ===


class MarkedRegion(TypedDict):
    """An entry of the list that the demo's page saves; in pixels of its picture, from the top left."""

    picture: str
    """The picture that it was marked on: A or B."""
    region: str
    """The region's name."""
    x: float
    y: float
    width: float
    height: float


class WrittenRegion(TypedDict):
    """A region in what `predict --json` writes."""

    region: str
    """The region as `--region` takes it."""


class PredictedImage(TypedDict, total=False):
    """An image in what `predict --json` writes; one that could not be read has no regions."""

    regions: list[WrittenRegion]


class Predicted(TypedDict):
    """The file that `predict --json` writes."""

    images: list[PredictedImage]
