"""An evaluation: what it holds in memory, and in its folder. EVALUATION is written and read here alone.

Loads no NumPy, so that a registry can read an evaluation without it.
"""

import dataclasses
import enum
import pathlib
from typing import Any, ClassVar

from typing_extensions import TypedDict

from trainer import wording
from trainer.data import Manifest
from trainer.errors import GateError, PlaceError
from trainer.evaluation import sample_notices
from trainer.evaluation.settings import metric_of
from trainer.io import StrPath, checked_json, is_taken, parse_json, read_limited, write_json
from trainer.network import EVALUATION, LEFT_OUT, PER_IMAGE, ModelConfig
from trainer.texts import some

PREDICTIONS = "predictions"
"""Folder of the images in the report."""
SHIPPED_MAPS = ("shipped_map.png", "shipped_page_map.png")
"""The candidate's maps of a photograph and of a web page of the package, which an endpoint must return. Absent
unless the registry is on Vertex AI."""
KNOWN = "known_images.zip"
"""The images that decided, with their recordings, for the next candidate (`trainer.evaluation.known`)."""
RECORDED = "recorded.csv"
"""The images of a model's data: the lines of `prepared_data.IMAGES`, and which data they are of."""
CONFIDENCE = 0.95
"""Level of an interval, unless another one is asked for."""
KNOWN_LEVEL = 0.9
"""Level of the interval of the gain on known images. A candidate that is equal there is called worse in one case
of twenty. That is the safe side."""
MOST_BYTES = 2**24
"""Largest EVALUATION that is read. It names the images."""
BECOMES = "The candidate becomes the default"
"""Beginning of the reason for a promotion."""
LONG = ("shards", "originals")
"""Fields of a manifest that an evaluation leaves out: they have one entry for each shard."""

Scores = dict[str, float]
"""Metric -> value, such as `{"kld": 0.41, "cc": 0.83}`. A metric that cannot be computed is absent."""
Interval = list[float]
"""Lower and upper end."""
Intervals = dict[str, Interval | None]
"""Metric -> confidence interval of the mean. None for too few images."""


class Role(enum.StrEnum):
    """What has scores in an evaluation: two models, two baselines, and people. Keys of its files."""

    CANDIDATE = "candidate"
    CHAMPION = "champion"
    """The current default model."""
    CENTER_BIAS = "centre_bias"
    UNIFORM = "uniform"
    """A map with the same value everywhere."""
    OBSERVERS = "observers"


class Significance(enum.StrEnum):
    """What an interval says of a gain."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SIGNIFICANT = "not significant"
    SAME = "the same"
    """No image has a difference."""


@dataclasses.dataclass(frozen=True)
class Gain:
    """How much better one model is than another on the same images. Positive is better in every metric.

    Example: a KLD of 0.4 against 0.5 is a gain of 0.1, although it is lower.
    """

    mean: float
    low: float | None
    """Lower end of the confidence interval of the mean. None for fewer than `confidence.MIN_IMAGES` images."""
    high: float | None
    p_value: float
    """Two-sided p-value of a paired t-test. It is below 1 - level exactly if the interval excludes 0."""
    n_images: int
    better_on: int
    worse_on: int
    level: float = dataclasses.field(default=CONFIDENCE, kw_only=True)
    """Confidence level of the interval."""
    of_groups: bool = dataclasses.field(default=False, kw_only=True)
    """Whether images belong together, so that `n_images` counts groups, and an image of its own as one."""

    @property
    def outcome(self) -> Significance:
        """BETTER or WORSE if the interval excludes 0."""
        if not (self.better_on or self.worse_on):
            return Significance.SAME
        if self.low is not None and self.low > 0:
            return Significance.BETTER
        is_worse = self.high is not None and self.high < 0
        return Significance.WORSE if is_worse else Significance.NOT_SIGNIFICANT

    @property
    def p_shown(self) -> float:
        """The p-value for readers, corrected if this is one of several comparisons."""
        return self.p_value


@dataclasses.dataclass(frozen=True)
class Share:
    """How far a model comes on the way from one score to another: 0 at the start, 1 at the end, or beyond.

    Example: if the centre bias has a CC of 0.4, people have 0.8 and the model has 0.7, its share is 0.75.
    """

    share: float | None
    """None if the end is not certainly better than the start, or there are too few images."""
    low: float | None
    """Lower end of the confidence interval. None with `share`."""
    high: float | None


@dataclasses.dataclass(frozen=True)
class Choice:
    """The two numbers by which fixations become a prediction.

    Example: with a blur of 0.02 and a bias of 0.1 in an image of 640 x 480 pixels, fixations are blurred by 13
    pixels, and a tenth of the prediction is the centre bias.
    """

    blur: float
    """Standard deviation of the Gaussian, divided by the longer side."""
    bias: float
    """Share of the centre bias, 0..1."""


@dataclasses.dataclass(frozen=True)
class HeldOutScores:
    """The scores of models and of people against the same held-out people."""

    means: dict[str, Scores]
    """Model, centre bias or `Role.OBSERVERS` -> mean scores."""
    intervals: dict[str, Intervals]
    shares: dict[str, dict[str, Share]]
    """Model -> metric -> how far it comes from the centre bias to people."""
    choices: dict[str, list[Choice]]
    """Metric -> the choices with which people predict best: one, or two for the halves of a test set."""


@dataclasses.dataclass(frozen=True)
class CeilingScores:
    """The ceiling of a dataset (`trainer.evaluation.ceiling`)."""

    n_images: int
    n_chosen_of: int
    """Number of the images among which they were chosen."""
    n_too_few: int
    """Number of chosen images with fewer than two observers, which are left out."""
    n_observers: tuple[int, float, int]
    """The fewest observers of an image, the median, and the most."""
    truth_blur: float
    n_units: int
    """Number of groups of images. An image of its own is one."""
    leave_one_out: HeldOutScores
    split_half: HeldOutScores


@dataclasses.dataclass(frozen=True)
class NoCeiling:
    """A dataset has observers, and no ceiling, such as when none of its images has two observers."""

    absent: str
    """Why there is none, as a sentence."""


@dataclasses.dataclass(frozen=True)
class Pages:
    """The images that a model predicted as pages."""

    n_images: int
    image_size: list[int]
    """The model's input size for them."""


@dataclasses.dataclass(frozen=True)
class Picture:
    """An image of the report."""

    group: str
    """Why it is shown: `best`, `median`, `worst`, `gains`, `losses`, or with a metric, such as `best nss`."""
    image: str
    scores: dict[str, Scores]
    files: dict[str, str]
    """`stimulus`, `density` or a model -> path in the folder of the evaluation."""


@dataclasses.dataclass(frozen=True)
class ScoredDataset:
    """The scores on one dataset. What earlier versions left out has a default."""

    has_fixations: bool
    manifest: Manifest
    """The prepared data, without the fields in LONG."""
    models: dict[str, Scores]
    """Model -> mean scores."""
    intervals: dict[str, Intervals]
    gains: dict[str, Gain]
    """Metric -> gain of the candidate over the current default. Empty without one."""
    n_images: int
    n_units: int
    """Number of values of every interval. A group of images is one, and so is an image of its own."""
    pictures: list[Picture]
    folder: str = ""
    """Folder of the prepared data."""
    center_bias: tuple[str, int] | None = None
    """Fingerprint and number of the images of the centre bias. None if these are the training images."""
    left_out: list[str] = dataclasses.field(default_factory=list)
    """Names of the images that one of the models was trained on."""
    worse: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """Centre bias or current default -> the metrics in which the candidate is significantly worse."""
    over_people: list[str] = dataclasses.field(default_factory=list)
    """The metrics with intervals for other images and other people. The rest are for the same people."""
    decisive_gain: Gain | None = None
    """The gain that decides. None on another dataset, and without a current default."""
    spread: float | None = None
    """Standard deviation of the gains on images."""
    could_find: float | None = None
    """The mean gain that the decision finds half of the time."""
    n_fixations: int = 0
    """Fixations on the images that were scored."""
    n_observers: int = 0
    """The most observers of one of them. 0 if observers are not told apart."""
    image_sizes: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    """Model -> its input size, at which it answered."""
    map_size: list[int] = dataclasses.field(default_factory=list)
    """(height, width) of the frame in which maps were compared."""
    runtime: str = ""
    """What computed the maps, and in which precision."""
    pages: dict[str, Pages] = dataclasses.field(default_factory=dict)
    """Model -> the images that it saw as pages, at a size of their own. Models without any are absent."""
    ceiling: CeilingScores | NoCeiling | None = None
    """None for a dataset without observers."""

    def left_out_note(self, title: str) -> str:
        """A sentence about the images that were left out. Empty if none was.

        `title` is the name of all images, such as `test images of osie`.
        """
        if not self.left_out:
            return ""
        are, they = ("is", "it is") if len(self.left_out) == 1 else ("are", "they are")
        all_images = f"{len(self.left_out) + self.n_images:,} {title}"
        return (
            f"{len(self.left_out):,} of the {all_images} {are} in the training data, or in a group with images "
            f"that are, so {they} left out: {some(self.left_out)}."
        )

    @property
    def center_bias_text(self) -> str:
        """Which images make the centre bias, as a sentence."""
        fingerprint, n_images = self.origin_of_bias
        kind = "fixations" if self.manifest.has_fixations else "maps"
        own = self.manifest.is_test_set and fingerprint == self.manifest.fingerprint
        of = f"{n_images:,} {'test' if own else 'training'} images"
        without = ", for each image without the tenth that it belongs to" if own else ""
        return f"Centre bias: the smoothed {kind} of the {of}{without}."

    @property
    def origin_of_bias(self) -> tuple[str, int]:
        """Fingerprint of the data that the centre bias is made of, and the number of its images there."""
        return self.center_bias or (self.manifest.fingerprint, self.manifest.counts["train"])

    def content(self) -> dict[str, Any]:
        """The content for EVALUATION, without what is None."""
        content = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        for name in LONG:
            del content["manifest"][name]
        return content


class Ending(enum.StrEnum):
    """How an evaluation ends."""

    PROMOTED = "promoted"
    CHALLENGER = "challenger"
    UNDECIDED = "not decided"
    HELD = "held"
    """By a question about the data."""
    DISAGREE = "disagree"
    """The candidate is better on new images and worse on known ones."""


@dataclasses.dataclass(frozen=True)
class Known:
    """The gain of a candidate over the current default on the known images.

    Example: `Known("worse", 60, mean=-0.2, low=-0.3, high=-0.1)`.
    """

    verdict: str
    """WORSE, NOT_WORSE, GONE or FORGOTTEN."""
    n_images: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = KNOWN_LEVEL
    n_shared: int = 0
    """Number of the known images that are in the new data."""
    n_changed: int = 0
    """Number of shared images with other recordings now."""

    WORSE: ClassVar[str] = "worse"
    NOT_WORSE: ClassVar[str] = "not worse"
    GONE: ClassVar[str] = "gone"
    FORGOTTEN: ClassVar[str] = "forgotten"

    @classmethod
    def of(cls, gain: Gain, n_images: int, n_shared: int, n_changed: int) -> "Known":
        """The gain, and whether it is significantly below 0."""
        verdict = cls.WORSE if gain.high is not None and gain.high < 0 else cls.NOT_WORSE
        return cls(verdict, n_images, gain.mean, gain.low, gain.high, gain.level, n_shared, n_changed)

    @property
    def text(self) -> str:
        """What the gain on known images is, as a clause. Empty without known images."""
        if self.mean is None:
            return ""
        level = wording.percent(self.level)
        ends = "" if self.low is None else f" ({level} interval {self.low:.4f} to {self.high:.4f})"
        return f"the gain on the {self.n_images:,} known images is {self.mean:.4f}{ends}"


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The scores of a candidate, and the decision whether it becomes the default.

    What earlier versions left out has a default.
    """

    datasets: dict[str, ScoredDataset]
    """Name -> scores. The dataset that decides is the first."""
    decides: str
    """Name of the dataset that decides."""
    gate: str
    gate_margin: float
    gate_confidence: float
    shown_confidence: float
    """Level of the intervals that are shown."""
    passed_baseline: bool
    """Whether the candidate is at least as good as the centre bias."""
    promote: bool
    """Whether the candidate becomes the default."""
    reason: str
    """Why, in one or more sentences for people."""
    model_configs: dict[str, dict[str, Any] | None]
    """Model -> content of its MODEL_CONFIG, if it has one. Without `champion` there is no current default."""
    code_version: str
    gate_on: str = ""
    beats_champion: bool | None = None
    """Whether the candidate is significantly better than the current default. None without one."""
    end: str = ""
    """How it ends, an `Ending`. Empty for an evaluation of an earlier version."""
    decided: bool = True
    """Whether there were enough images that neither model was trained on."""
    known: Known | None = None
    """The gain on the images on which the current default was decided. None if there never were any."""
    n_known: int = 0
    """Number of the known images that the next candidate is compared on."""
    model_folders: dict[str, str] = dataclasses.field(default_factory=dict)
    decision: int = 0
    """Number of the decision in the last year, from 1. It is 0 if it has none."""
    data_warnings: list[str] = dataclasses.field(default_factory=list)
    """Sentences about the data of the run."""
    questions: list[str] | None = None
    """Those among them that hold a promotion. None if nothing was asked."""
    run: str = ""
    """Name of the run of the pipeline. Empty outside of one."""
    date: str = ""

    @staticmethod
    def check_output(folder: StrPath) -> None:
        """Raise `UserError` if there is something at the place of an evaluation."""
        if is_taken(pathlib.Path(folder)):
            raise PlaceError(f"{folder} exists already: choose another folder for the evaluation, or remove it")

    @staticmethod
    def kept_files(folder: pathlib.Path) -> dict[str, pathlib.Path]:
        """The files of an evaluation that a version keeps: name -> path. They let two versions be compared."""
        always = {name: folder / name for name in (EVALUATION, PER_IMAGE)}
        others = {name: folder / name for name in (LEFT_OUT, *SHIPPED_MAPS, KNOWN, RECORDED)}
        return always | {name: path for name, path in others.items() if path.exists()}

    @classmethod
    def read(cls, folder: StrPath, remedy: str) -> "Evaluation":
        """Read the evaluation in a folder. Raises `ContentError` as `parse` does."""
        path = pathlib.Path(folder, EVALUATION)
        return cls.parse(read_limited(path, remedy, MOST_BYTES), str(path), remedy)

    @classmethod
    def parse(cls, content: bytes, origin: str, remedy: str) -> "Evaluation":
        """Parse the content of EVALUATION.

        Args:
            content: JSON.
            origin: Name of the file in error messages.
            remedy: End of the error message.

        Raises:
            ContentError: it is not JSON, a key is missing, or a value has another type.
        """
        value: _Form = parse_json(content, origin, remedy, _Form)
        datasets = {name: _completed(each) for name, each in value["datasets"].items()}
        evaluation: Evaluation = checked_json({**value, "datasets": datasets}, origin, remedy, cls)
        return evaluation

    def write(self, folder: pathlib.Path) -> None:
        """Write EVALUATION into a folder."""
        others = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "datasets"
        }
        content = {
            "datasets": {name: each.content() for name, each in self.datasets.items()},
            **others,
            "known": dataclasses.asdict(self.known) if self.known else None,
        }
        write_json(folder / EVALUATION, content)

    @property
    def metric(self) -> str:
        """The metric that compares the candidate with the current default, such as `kld`."""
        return metric_of(self.gate)

    @property
    def conditional_reason(self) -> str:
        """The reason, in words for a candidate that is not registered."""
        return self.reason.replace(BECOMES, "The candidate would become the default", 1)

    @property
    def notices(self) -> list[str]:
        """What readers must know of data and models of the sample set, as sentences."""
        manifests = {name: vars(result.manifest) for name, result in self.datasets.items()}
        return sample_notices.of_evaluation(self.model_configs, manifests)

    def require_baseline(self) -> None:
        """Raise `GateError` with the numbers if the candidate is worse than the centre bias."""
        if not self.passed_baseline:
            advice = " Train the candidate longer, or check its data and its loss curve." if self.run else ""
            bias = self.deciding.center_bias_text
            raise GateError(f"{self.reason} {bias}{advice} (dataset {self.decides})")

    @property
    def is_held(self) -> bool:
        """Whether it waits for a person: a question about the data, or data and model disagree."""
        return self.end in (Ending.HELD, Ending.DISAGREE)

    @property
    def deciding(self) -> ScoredDataset:
        """The scores on the dataset that decides."""
        return self.datasets[self.decides]


class _Form(TypedDict):
    """EVALUATION, as far as its values are not made into objects."""

    datasets: dict[str, dict[str, Any]]
    model_configs: dict[str, ModelConfig | None]


def _completed(result: dict[str, Any]) -> dict[str, Any]:
    """The results on a dataset with what their manifest leaves out, and what earlier versions did not know.

    Example: `n_units` of an evaluation from before there were groups is the number of its images.
    """
    completed = {"n_units": result.get("n_images"), **result}
    if isinstance(manifest := result.get("manifest"), dict):
        completed["manifest"] = {"shards": {}, "originals": [], **manifest}
    if isinstance(ceiling := result.get("ceiling"), dict) and "n_images" in ceiling:
        completed["ceiling"] = {"n_units": ceiling["n_images"], **ceiling}
    return completed
