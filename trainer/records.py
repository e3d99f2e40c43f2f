"""The contents of this project's JSON files, for `trainer.files.read_json`.

Each is a TypedDict of the keys that a reader needs or may find. A file may have more keys, as one of another
version has; they are kept where the content goes into another file, such as a model's into its evaluation.
"""

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict  # pydantic takes that of `typing` from Python 3.12 on

from trainer.config import wrong_image_size


class _InputSize:
    """Has pydantic check a size, but takes no 0.1 s to import it where no file is read, as for `--help`."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(_valid_size, handler(source))


def _valid_size(size: list[int]) -> list[int]:
    if wrong := wrong_image_size(size) if len(size) == 2 else "not a height and a width":
        raise ValueError(wrong)
    return size


ImageSize = Annotated[list[int], _InputSize]
"""Height and width of the network's input, pixels."""
Aliases = dict[str, int]
"""Content of ALIASES: alias -> version."""

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
    """MODEL_CONFIG of any model, of one of an earlier version too."""

    image_size: ImageSize
    best_epoch: int
    identity: dict[str, Any]


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
    pictures: list[dict[str, Any]]


class Measured(Scores, total=False):
    """The scores on one dataset, and the images that they were measured on, which earlier versions left out."""

    folder: str
    manifest: dict[str, Any]
    center_bias: list[Any]


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


class _Decided(TypedDict):
    """The decision of an evaluation, and the models that it is about."""

    passed_baseline: bool
    reason: str
    model_configs: dict[str, ModelConfig | None]


class Outcome(_Decided):
    """EVALUATION of a run that has ended."""

    datasets: dict[str, Scores]


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


class Run(TypedDict):
    """RUN_FILE: a run of the pipeline on this machine."""

    environment: str
    parameters: dict[str, str | int | float | bool]
    finished: NotRequired[bool]
    earlier: NotRequired[list[str]]


class Output(TypedDict):
    """An output in kfp's record of a cached task."""

    uri: str


class Registered(TypedDict):
    """The outputs of the task that registers a model."""

    version: int | float | str
    alias: str


class TaskRecord(TypedDict):
    """Kfp's record of the task that registers a model."""

    parameterValues: Registered


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
