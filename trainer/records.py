"""What the JSON files of this project hold, for `trainer.files.read_json`. Standard library only.

Each is a TypedDict of the keys that a reader needs or, with `total=False`, may find; a file may have more.
"""

from typing import Annotated, Any, TypedDict

from trainer.config import wrong_image_size


def _wrong_version(number: int) -> str:
    return "" if number > 0 else "and versions count from 1"


def _wrong_length(sides: list[int]) -> str:
    return "" if len(sides) == 2 else "not a height and a width"


ImageSize = Annotated[list[int], _wrong_length, wrong_image_size]
"""Height and width of the network's input, pixels."""
Aliases = dict[str, Annotated[int, _wrong_version]]
"""ALIASES: alias -> version."""

# === MODEL_CONFIG ===


class Predicting(TypedDict, total=False):
    """The settings of a training that its model predicts with."""

    flip_prediction: bool


class _Origin(TypedDict, total=False):
    """What every reader of a MODEL_CONFIG may find."""

    source: str
    dataset: str
    fingerprint: str
    test_share: float
    weights_sha256: str
    settings: Predicting
    base_model: "ModelConfig | None"


class ModelConfig(_Origin, total=False):
    """Of any model, one of an earlier version too."""

    image_size: ImageSize
    best_epoch: int
    identity: dict[str, Any]


class SizedConfig(_Origin):
    """Of a model that predicts at its own size."""

    image_size: ImageSize


class BaseConfig(_Origin):
    """Of a model that a training starts from."""

    best_epoch: int
    identity: dict[str, Any]


# === EVALUATION ===


class Scores(TypedDict):
    """The scores on one dataset."""

    models: dict[str, dict[str, float | None]]


class Result(Scores):
    """The same with all that is shown of them."""

    manifest: dict[str, Any]
    has_fixations: bool
    n_images: int
    intervals: dict[str, dict[str, Any]]
    gains: dict[str, dict[str, Any]]
    pictures: list[dict[str, Any]]


class Measured(Scores, total=False):
    """The same with the images that they were measured on; without them it is of an earlier version."""

    folder: str
    manifest: dict[str, Any]
    center_bias: list[Any]


class _Compared(TypedDict):
    """The scores on each dataset."""

    datasets: dict[str, Measured]


class Compared(_Compared, total=False):
    """Of a model that is compared with others."""

    model_folders: dict[str, str]
    code_version: str


class Decision(TypedDict):
    """Of a model that is registered."""

    datasets: dict[str, Scores]
    decides: str
    promote: bool
    reason: str


class _Decided(TypedDict):
    """What was decided, and on which models."""

    passed_baseline: bool
    reason: str
    model_configs: dict[str, ModelConfig | None]


class Outcome(_Decided):
    """Of a run that has ended."""

    datasets: dict[str, Scores]


class _Dated(TypedDict, total=False):
    """When and in which run it was made; one of an earlier version does not say so."""

    run: str
    date: str


class Evaluation(_Decided, _Dated):
    """Of a report."""

    datasets: dict[str, Result]
    decides: str
    promote: bool
    gate: str
    gate_margin: float
    gate_confidence: float
    shown_confidence: float
    code_version: str


# === Versions and runs ===


class Prepared(TypedDict, total=False):
    """Prepared data that a version was trained on."""

    dataset: str
    source: str
    counts: dict[str, int]


class Lineage(TypedDict, total=False):
    """The origin of a version."""

    run: str
    folder: str
    code_version: str
    data: dict[str, Prepared]
    model: ModelConfig | None


class Version(TypedDict, total=False):
    """VERSION; its writer may be another program."""

    version: int
    created: str
    reason: str
    metrics: dict[str, Any]
    decided_on: str
    lineage: Lineage


class Earlier(TypedDict, total=False):
    """RUN_FILE, to find the latest attempt."""

    earlier: list[str]


class Run(Earlier):
    """RUN_FILE: a run of the pipeline on this machine."""

    environment: str
    parameters: dict[str, str | int | float | bool]


class StoredRun(Run, total=False):
    """The same, which may say that it has ended."""

    finished: bool


class Output(TypedDict):
    """An output in kfp's record of a cached task."""

    uri: str


class Registered(TypedDict):
    """What kfp records of the task that registers a model."""

    version: int | float | str
    alias: str


class TaskRecord(TypedDict):
    """Kfp's record of that task."""

    parameterValues: Registered


# === Regions ===


class MarkedRegion(TypedDict):
    """An entry of the list that the demo's page saves; in pixels of its picture, from the top left."""

    picture: str
    """Which picture it was marked on: A or B."""
    region: str
    """Its name."""
    x: float
    y: float
    width: float
    height: float


class WrittenRegion(TypedDict):
    """An entry in what `predict --json` writes."""

    region: str
    """Its text, as `--region` has it."""


class PredictedImage(TypedDict, total=False):
    """An image in what `predict --json` writes; one that could not be read has no regions."""

    regions: list[WrittenRegion]


class Predicted(TypedDict):
    """What `predict --json` writes."""

    images: list[PredictedImage]
