"""An evaluation on disk: the names of its files, and what its JSON file holds."""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from trainer.network.model_folder import ImageSize, ModelConfig

PREDICTIONS = "predictions"
"""Folder of the images in the report."""
SHIPPED_MAP = "shipped_map.png"
"""The candidate's map of an image of the package, which an endpoint must return; absent without an endpoint."""

KNOWN = "known_images.zip"
"""The images that decided, with their recordings, for the next candidate (`trainer.evaluation.known`)."""
RECORDED = "recorded.csv"
"""The images of a model's data: the lines of `prepared_data.IMAGES`, and which data they are of."""


class DatasetScores(TypedDict):
    """The scores on one dataset."""

    models: dict[str, dict[str, float | None]]


class Pages(TypedDict):
    """The images that a model predicted as pages."""

    n_images: int
    image_size: ImageSize
    """The model's input size for them."""


class ReportedScores(DatasetScores):
    """The scores on one dataset, with all that a report shows of them."""

    manifest: dict[str, Any]
    has_fixations: bool
    n_images: int
    intervals: dict[str, dict[str, Any]]
    gains: dict[str, dict[str, Any]]
    n_units: NotRequired[int]
    """Number of the images, with those of a group as one: that of the values of every interval."""
    over_people: NotRequired[list[str]]
    """The metrics whose intervals hold for other images and other people, the rest for the same people."""
    n_fixations: NotRequired[int]
    """Fixations on the images that were scored."""
    n_observers: NotRequired[int]
    """The most observers of one of them; 0 if observers are not told apart."""
    image_sizes: NotRequired[dict[str, ImageSize]]
    """Model -> its input size, at which it answered; evaluations of earlier versions have no sizes."""
    pages: NotRequired[dict[str, Pages]]
    """Model -> the images that it saw as pages, at a size of their own; models without any are absent."""
    map_size: NotRequired[ImageSize]
    """The frame at whose scale maps were compared."""
    runtime: NotRequired[str]
    """What computed the maps, and in which precision; evaluations of earlier versions have none."""
    worse: NotRequired[dict[str, list[str]]]
    """Centre bias or current default -> the metrics in which the candidate is significantly worse."""
    pictures: list[dict[str, Any]]


class ComparedScores(DatasetScores, total=False):
    """The scores on one dataset, and the images that they were measured on, which earlier versions left out."""

    folder: str
    manifest: dict[str, Any]
    center_bias: list[Any]
    image_sizes: dict[str, ImageSize]
    runtime: str


class ComparedEvaluation(TypedDict):
    """EVALUATION of a model that is compared with others."""

    datasets: dict[str, ComparedScores]
    model_folders: NotRequired[dict[str, str]]
    code_version: NotRequired[str]


class KnownScores(TypedDict):
    """The gain on the images on which the current default was decided, as `gate.Known`."""

    verdict: str
    n_images: int
    mean: float | None
    low: float | None
    high: float | None
    level: float
    n_shared: int
    n_changed: int


class DecidingScores(DatasetScores):
    """The scores on the dataset that decides, or on another one."""

    decisive_gain: NotRequired[dict[str, Any]]
    spread: NotRequired[float]
    """Standard deviation of the gains on images."""
    could_find: NotRequired[float]
    """The mean gain that the decision finds half of the time."""


class RegisteredEvaluation(TypedDict):
    """EVALUATION of a model that is registered."""

    datasets: dict[str, DecidingScores]
    decides: str
    promote: bool
    reason: str
    decided: NotRequired[bool]
    gate: NotRequired[str]
    end: NotRequired[str]
    known: NotRequired[KnownScores | None]
    n_known: NotRequired[int]
    decision: NotRequired[int]
    questions: NotRequired[list[str]]


class _DecidedEvaluation(TypedDict):
    """The decision of an evaluation, and the models that it is about."""

    passed_baseline: bool
    reason: str
    model_configs: dict[str, ModelConfig | None]


class RunEvaluation(_DecidedEvaluation):
    """EVALUATION of a run that has ended."""

    datasets: dict[str, DatasetScores]
    data_warnings: NotRequired[list[str]]
    end: NotRequired[str]


class ReportedEvaluation(_DecidedEvaluation):
    """EVALUATION as a report shows it."""

    datasets: dict[str, ReportedScores]
    decides: str
    promote: bool
    gate: str
    gate_margin: float
    gate_confidence: float
    shown_confidence: float
    code_version: str
    end: NotRequired[str]
    known: NotRequired[KnownScores | None]
    run: NotRequired[str]
    date: NotRequired[str]
    data_warnings: NotRequired[list[str]]
