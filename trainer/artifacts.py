"""Names and schemas of the files inside artifacts. Standard library only.

A *prepared data set* is a folder with `MANIFEST`, `CENTER_BIAS` and the shards of each split.
A *model* is a folder with `SAVED_MODEL`, `WEIGHTS`, `MODEL_CONFIG` and `HISTORY`.
An *evaluation* is a folder with `EVALUATION`, `PER_IMAGE` and `PREDICTIONS`.
"""

import dataclasses
import functools
import importlib.metadata
import os
import pathlib
import subprocess
from collections.abc import Iterable, Mapping

from trainer.errors import UserError
from trainer.files import read_json, write_json

MANIFEST = "manifest.json"
CENTER_BIAS = "center_bias.npy"
"""Mean of the training set's maps in relative image coordinates: (120, 160) float32 that sums to 1."""
SPLITS = ("train", "valid")

SAVED_MODEL = "saved_model"
WEIGHTS = "model.weights.h5"
MODEL_CONFIG = "config.json"
HISTORY = "history.jsonl"
VERSION_EXTRA = "assets.extra"
"""Folder inside a SavedModel that serving leaves alone: a registered version keeps its model there."""
REGISTRY, MODEL_NAME = "models", "msinet"
"""The local registry's folder, in the working directory, and the name under which the pipeline registers."""
ALIASES = "aliases.json"
"""In the folder of a registered name, beside its versions: alias -> version."""
DEFAULT, CHALLENGER = "default", "challenger"
"""The aliases that the pipeline sets."""

EVALUATION = "evaluation.json"
PER_IMAGE = "per_image.csv"
PREDICTIONS = "predictions"
"""Folder of the pictures that the report shows."""

RUN_FILE = "run.json"
"""In the folder of a run of the pipeline on this machine."""
RUN_ATTEMPTS = "msinet-*"
"""Its attempts' folders; kfp names them by their time."""

SCHEMA = 1


def shard_name(split: str, index: int, count: int) -> str:
    """File name of shard `index` of `count`."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


@dataclasses.dataclass(frozen=True)
class SourceObject:
    """One file at a source: its name relative to the source, its size, and the CRC32C of its bytes (hex)."""

    name: str
    size_bytes: int
    crc32c: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a prepared data set holds and where it came from."""

    dataset: str
    source: str
    fingerprint: str
    image_size: tuple[int, int]
    """(height, width) of the shards' images, pixels."""
    counts: dict[str, int]
    """Images in each split."""
    expected_counts: dict[str, int]
    """Images in each split of the complete data set, from its row."""
    split: str
    """`given`, or how the split was made."""
    ground_truth: str
    """What the files of maps were: `density` or `points`."""
    blur_sigma_px: float
    """Standard deviation, in original pixels, of the Gaussian that made points a density; 0 where none did."""
    has_fixations: bool
    """Whether fixated pixels are known, so that the point metrics can be computed."""
    original_sizes: dict[str, int]
    """How many images have each original size, `height x width`."""
    shards: dict[str, list[str]]
    objects: list[SourceObject]
    code_version: str
    schema: int = SCHEMA

    def save(self, folder: pathlib.Path) -> None:
        write_json(folder / MANIFEST, dataclasses.asdict(self))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Manifest":
        path = pathlib.Path(folder) / MANIFEST
        fields = read_json(path, f"{folder} is not a prepared data set; make one with `python -m trainer fetch`")
        if fields.get("schema") != SCHEMA:
            raise UserError(
                f"{path} has schema {fields.get('schema')}, this version reads {SCHEMA}: prepare the data again"
            )
        fields["image_size"] = tuple(fields["image_size"])
        fields["objects"] = [SourceObject(**each) for each in fields["objects"]]
        return cls(**fields)


def prepared_by_name(folders: Iterable[str | os.PathLike[str]]) -> dict[str, pathlib.Path]:
    """Prepared data sets by the name of what they hold; the second of one name is `NAME-2`."""
    found: dict[str, pathlib.Path] = {}
    for folder in folders:
        name = Manifest.load(folder).dataset
        found[name if name not in found else f"{name}-{len(found) + 1}"] = pathlib.Path(folder)
    return found


def load_manifests(folders: Mapping[str, str | os.PathLike[str]]) -> dict[str, Manifest]:
    """Those of prepared data sets, by their names; `UserError` where one has no images to evaluate on."""
    manifests = {name: Manifest.load(folder) for name, folder in folders.items()}
    for name, manifest in manifests.items():
        if not manifest.counts.get("valid"):
            raise UserError(f"data set {name} has no validation images ({manifest.counts}); prepare it with some")
    return manifests


def latest_attempt(run: pathlib.Path) -> pathlib.Path | None:
    """What the last start of the run in a folder wrote, all of it new; None where it has not come to a task.

    RUN_FILE names the attempts that were there before as `earlier`; a run of an earlier version has none.
    """
    earlier = read_json(run / RUN_FILE, f"{run} is not a run").get("earlier", ())
    return max((each for each in run.glob(RUN_ATTEMPTS) if each.name not in earlier), default=None)


@functools.cache
def code_version() -> str:
    """Version of this package, with the commit where it is known (`MSINET_COMMIT` or a git checkout)."""
    version = importlib.metadata.version("msinet-pipelines")
    commit = os.environ.get("MSINET_COMMIT", "")
    if not commit:
        git = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
        try:
            commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            commit = ""
    return f"{version}+{commit}" if commit else version
