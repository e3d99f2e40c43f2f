"""Every setting of the trainer: its default, its meaning and its range.

Defaults are defined in these dataclasses alone; command-line flags and pipeline parameters of the same names are
derived from them.
"""

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypedDict, Unpack

from trainer.errors import Checks, UserError, check, check_choice, look_up, nearest
from trainer.evaluation.metric_table import DENSITY, FIXATIONS, LEAD, METRICS, metrics_that_need

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
LEARNING_RATE_SCALING = ("auto", "none", "sqrt", "linear", "capped")
SCHEDULES = ("constant", "cosine")
CACHES = ("auto", "memory", "disk")
SAMPLE = "sample"
"""The source that means: generate the sample dataset."""
NO_FILE = ("imagenet", "none")
"""Values of `initial_weights` that name neither a file nor an address."""
PRETRAINED = "pretrained"
"""Name of the trained model that comes with this package, in the folder trainer/models/pretrained."""


class ResultFormat(NamedTuple):
    """A format in which `predict` writes a map."""

    ending: str
    """End of the file names in a folder for the results."""
    beside: str
    """End of the file names beside the images, unlike any image's."""
    help: str


PREDICT_FORMATS = {
    "png": ResultFormat(".png", "-attention-map.png", "grey, 8 bits"),
    "png16": ResultFormat("-16bit.png", "-attention-16bit.png", "grey, 16 bits"),
    "npy": ResultFormat(".npy", "-attention.npy", "float32, 0..1"),
    "overlay": ResultFormat("-overlay.png", "-attention.png", "heat colours over the image"),
}
"""Name of each output format of `predict` -> its files."""
MEGAPIXEL = 10**6
MOST_MEGAPIXELS = 100.0
"""Largest image that is read, unless a user sets another limit."""
GATE_ON = ("finetune", "test")
EXPORT_FORMATS = ("saved-model", "int8")
SIGNATURES = ("serving_default", "serve_bytes")
"""Signatures of a SavedModel: for prepared images, and for encoded images."""
MAX_INPUT_PX = 4096
"""Longest side of the network's input."""
CUSTOM = "custom"
"""Name of the dataset that is the user's own recordings."""
COORDINATES = ("auto", "pixels", "fraction", "degrees")
RECORDING_SPLITS = ("auto", "hash", "hash_by_folder", "folders", "column", "shuffle")
COLUMNS = (
    "image",
    "x",
    "y",
    "observer",
    "trial",
    "duration",
    "time",
    "fixation",
    "valid",
    "event",
    "split",
    "group",
)
"""The roles that a column of a table can have."""
RECORDING_SETTINGS = (
    "columns",
    "coordinates",
    "screen_size",
    "image_on_screen",
    "blur_px",
    "pixels_per_degree",
    "split",
)
"""Fields of `FetchConfig` that describe the user's own recordings."""

RECORDINGS = "recordings of your own (dataset custom)"
OPTIMIZATION = "loss, optimizer and learning rate"
AUGMENTATION = "augmentation"

# === Settings and their ranges ===


class Range(TypedDict, total=False):
    """The values that a setting may have. A number with a bound is finite."""

    gt: float
    ge: float
    lt: float
    le: float
    choices: Collection[str]
    pattern: str
    """Regular expression of a whole text."""
    hint: str
    """Words for `pattern`, which follow "write" in a message."""


COMPARISONS = {
    "gt": ("above", operator.gt),
    "ge": ("at least", operator.ge),
    "lt": ("below", operator.lt),
    "le": ("at most", operator.le),
}
"""Bound of a `Range` -> its words, and what compares a value with it."""


def setting(default: Any, help: str, group: str = "", **limits: Unpack[Range]) -> Any:
    """A dataclass field with its default, the sentence that describes it to a user, and its range.

    `group` is the title under which helps show its flag; by default that of its class, in `TITLE`. The class has
    to call `check_ranges`.
    """
    return dataclasses.field(default=default, metadata={"help": help, "group": group, "range": limits})


def check_ranges(config: Any) -> None:
    """Check each setting of a dataclass against its range.

    Raises:
        UserError: with a line for each setting that is outside of its range: its name, its value and the range.
    """
    checks = Checks()
    for field in dataclasses.fields(config):
        with checks.collect():
            _check_range(field.name, getattr(config, field.name), field.metadata["range"])
    checks.raise_errors()


def _check_range(name: str, value: Any, limits: Range) -> None:
    if "choices" in limits:
        check_choice(name, value, limits["choices"])
    if "pattern" in limits and re.fullmatch(limits["pattern"], value) is None:
        raise UserError(f"{name} is {value!r}; write {limits['hint']}")
    bounds = [(*COMPARISONS[key], limits[key]) for key in COMPARISONS if key in limits]  # type: ignore[literal-required]
    is_finite = not bounds or abs(value) < math.inf
    if not (is_finite and all(holds(value, bound) for _, holds, bound in bounds)):
        shown = f"{value:g}" if isinstance(value, float) else value
        allowed = " and ".join(
            f"{words} {bound if isinstance(bound, int) else f'{bound:g}'}" for words, _, bound in bounds
        )
        raise UserError(f"{name} is {shown}; it must be {allowed}{'' if is_finite else ', and finite'}")


def group_of(config: Any, field: "dataclasses.Field[Any]") -> str:
    """The title under which helps show the flag of a field of the dataclass `config`."""
    return str(field.metadata["group"] or getattr(config, "TITLE", "options"))


def configs_of(values: Mapping[str, Any], *configs: Any) -> list[Any]:
    """An instance of each dataclass in `configs`, from settings by name; one without a value has its default.

    JSON has one type of number, so 3 may arrive as 3.0, and 2.0 as 2: each becomes what its field has. Raises
    `UserError` for a name that is a setting of none of them, with the nearest one.
    """
    kinds: dict[str, Any] = {field.name: field.type for config in configs for field in dataclasses.fields(config)}
    for name in values:
        check(name in kinds, f"unknown setting {name!r}{nearest(name, kinds)}")
    return [
        config(**{field.name: kinds[field.name](values[field.name]) for field in fields if field.name in values})
        for config in configs
        if (fields := dataclasses.fields(config))
    ]


# === Settings that are written as text ===


def parse_image_size(text: str) -> tuple[int, int]:
    """(height, width) in pixels of a text such as `240x320`.

    Raises:
        UserError: if the text is malformed, or if a side is not a positive multiple of 8, or above MAX_INPUT_PX.
    """
    match = re.fullmatch(r"(\d{1,9})x(\d{1,9})", text)
    if match is None:
        raise UserError(f"image_size is {text!r}; write height x width in pixels, such as 240x320")
    height, width = int(match[1]), int(match[2])
    if wrong := wrong_image_size((height, width)):
        raise UserError(f"image_size is {text}: {wrong}")
    return height, width


def wrong_image_size(size: Sequence[int]) -> str:
    """Explain why (height, width) cannot be an input size of the network; empty if it can."""
    if max(size) > MAX_INPUT_PX:
        return f"a side of the network's input has {MAX_INPUT_PX:,} pixels at most, for which it takes gigabytes"
    if any(side % 8 or side < 8 for side in size):
        near = "x".join(str(max(8, round(side / 8) * 8)) for side in size)
        return (
            "the network halves its input three times, so height and width must be divisible by 8; the nearest "
            f"size is {near}"
        )
    return ""


def parse_profile_steps(text: str) -> tuple[int, int] | None:
    """Return the first and the last step to profile, counted from 1, of a text such as `10-20`; None for none.

    Raises:
        UserError: if the steps are out of order.
    """
    if not text:
        return None
    first, last = map(int, text.split("-"))
    check(1 <= first <= last, f"profile_steps is {text}; steps count from 1, and the first is not after the last")
    return first, last


def parse_screen_size(text: str) -> tuple[int, int]:
    """(height, width) in pixels of a `FetchConfig.screen_size` such as `1080x1920`."""
    height, width = map(int, text.split("x"))
    return height, width


def parse_columns(text: str) -> dict[str, str]:
    """Parse a text such as `image=stimulus,x=gx,y=gy`: role in COLUMNS -> name of the column.

    Raises:
        UserError: the text is malformed, or names something unknown.
    """
    named: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, _, name = (piece.strip() for piece in part.partition("="))
        if role not in COLUMNS:
            raise UserError(f"columns names {role!r}; what a column may hold is: {', '.join(COLUMNS)}")
        if not name or role in named:
            raise UserError(f"columns is {text!r}; write pairs such as image=stimulus,x=gx,y=gy, each role once")
        named[role] = name
    if ("x" in named) != ("y" in named):
        raise UserError(f"columns is {text!r}; name both x and y, or neither")
    return named


# === Recipes: names for sets of training settings ===

PAPER, BEST, SMALL = "paper", "best", "small"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Settings of `TrainConfig` by name; those that are not named keep their values."""

    summary: str
    base: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of a training that starts from an encoder, or from nothing."""
    finetune: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of a training that starts from a model."""

    def settings(self, fine_tuning: bool) -> Mapping[str, Any]:
        """The settings of a fine-tuning or of a base training."""
        return self.finetune if fine_tuning else self.base


_BEST_BASE = {
    "epochs": 6,
    "learning_rate": 2e-5,
    "learning_rate_scaling": "sqrt",
    "warmup_epochs": 0.5,
    "schedule": "cosine",
    "flip": True,
}
RECIPES = {
    PAPER: Recipe("the defaults, those of Kroner et al. 2020"),
    BEST: Recipe(
        "mirrored images and a falling learning rate, for hundreds of images",
        base=_BEST_BASE,
        finetune={
            "epochs": 3,
            "learning_rate": 6e-5,
            "learning_rate_scaling": "sqrt",
            "warmup_epochs": 0.3,
            "schedule": "cosine",
            "flip": True,
        },
    ),
    SMALL: Recipe(
        "for fine-tuning on a few hundred images of your own",
        base=_BEST_BASE,
        finetune={
            "epochs": 5,
            "learning_rate": 3e-5,
            "learning_rate_scaling": "sqrt",
            "warmup_epochs": 0.3,
            "schedule": "cosine",
            "patience": 2,
            "flip": True,
        },
    ),
}


def described_recipes() -> str:
    """Describe all recipes and their settings for a help text."""
    return "; ".join(f"{name}: {recipe.summary}{_steps(recipe)}" for name, recipe in RECIPES.items())


def _steps(recipe: Recipe) -> str:
    steps = {"base training": recipe.base, "fine-tuning": recipe.finetune}
    parts = [f"{step} with {listed(settings)}" for step, settings in steps.items() if settings]
    return f" ({'; '.join(parts)})" if parts else ""


def listed(settings: Mapping[str, Any]) -> str:
    """Write settings as parameters, such as `epochs=3 flip=true`."""
    return " ".join(f"{name}={_written(value)}" for name, value in settings.items())


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


# === The settings of each part ===


@dataclasses.dataclass(frozen=True)
class FetchConfig:
    """Settings of `fetch`, which turns one dataset into prepared shards."""

    TITLE: ClassVar[str] = "dataset"
    dataset: str = setting("salicon", "Name of a dataset in trainer/data/datasets.py.")
    source: str = setting(
        "",
        "Location of the dataset: a folder or an archive, here or on gs://; an archive at an https:// address or "
        "on Google Drive (drive:ID), several with spaces between them; `sample` to generate the sample dataset, "
        "empty to download it from its public source.",
    )
    image_size: str = setting("", "Input size of the network, height x width in pixels; empty for the dataset's.")
    allow_partial_data: bool = setting(
        False,
        "Accept a number of images that differs from trainer/data/datasets.py; not needed for the sample dataset.",
    )
    max_bad_share: float = setting(
        0.01,
        "Largest share of unusable images, at least 0 and below 1: images that cannot be decoded, have a "
        "missing or empty map, or are in two splits. They are left out, and named with the reason in "
        "manifest.json. For custom, and for public datasets with allow_partial_data; otherwise any bad image "
        "is an error.",
        ge=0,
        lt=1,
    )
    private_sources: bool = setting(
        False, "Also fetch from http:// addresses, whose content can be changed in transit."
    )
    max_examples: int = setting(
        0, "Use at most this many images of each split, for quick trials; 0 uses all.", ge=0
    )
    test_share: float = setting(
        0.0,
        "Share of the validation images, at least 0 and below 1, to hold out as a test set, used for neither "
        "training nor model selection. A test set consists of this share only. The same share is held out of "
        "every dataset of a run, so that test_dataset may name a dataset that trains. Refused for recordings with "
        "images labelled test, which have a test set. 0 for none.",
        ge=0,
        lt=1,
    )
    columns: str = setting(
        "",
        "custom: the names of the tables' columns, such as image=stimulus,x=gx,y=gy,observer=pid; also trial, "
        "time, duration, fixation (its number), valid, event, split and group. Write y=-NAME if y grows "
        "upwards. Empty to recognize common names.",
        group=RECORDINGS,
    )
    coordinates: str = setting(
        "auto",
        "custom: unit of the positions in tables: pixels, fraction (0 to 1), degrees (from the centre; needs "
        "pixels_per_degree), or auto: by the columns' names and values.",
        group=RECORDINGS,
        choices=COORDINATES,
    )
    screen_size: str = setting(
        "",
        "custom: size of the screen, height x width in pixels, if positions are on the screen; empty if they are "
        "on the image.",
        group=RECORDINGS,
        pattern=r"([1-9]\d{0,8}x[1-9]\d{0,8})?",
        hint="height x width in pixels, such as 1080x1920",
    )
    image_on_screen: str = setting(
        "center",
        "custom: how the screen shows an image: center (at its own size), fit (enlarged to fill the screen, "
        "centred), X,Y (the pixel of its upper left corner) or X,Y,HEIGHTxWIDTH (scaled to this size).",
        group=RECORDINGS,
        pattern=r"center|fit|-?\d{1,9},-?\d{1,9}(,[1-9]\d{0,8}x[1-9]\d{0,8})?",
        hint="center, fit, X,Y or X,Y,HEIGHTxWIDTH",
    )
    blur_px: float = setting(
        0.0,
        "custom: standard deviation of the Gaussian that turns fixations into a density, in pixels of the images; "
        "0 for one degree if pixels_per_degree is given, else 1/30 of the median image's longer side.",
        group=RECORDINGS,
        ge=0,
    )
    pixels_per_degree: float = setting(
        0.0,
        "custom: pixels per degree of visual angle, in the images and, for positions, on the screen.",
        group=RECORDINGS,
        ge=0,
    )
    split: str = setting(
        "auto",
        "custom: how images are split into training and validation: hash (80% and 20%, by hashes of the "
        "images' names, so that added images move no others), hash_by_folder (by the folders' names: all "
        "images of a folder are in one split), folders (train/ and val/), column (of the tables), shuffle "
        "(exactly 80% and 20%, but each added image moves others), or auto: the column split if there is one, "
        "else the folders if there are both, else hash. A column that `columns` names as group keeps the "
        "images of a group together. With auto, images labelled test, in a column or by a folder test/, are "
        "used for testing only.",
        group=RECORDINGS,
        choices=RECORDING_SPLITS,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.image_size:
            parse_image_size(self.image_size)
        parse_columns(self.columns)
        check(
            self.coordinates != "degrees" or self.pixels_per_degree > 0,
            "coordinates is degrees, but pixels_per_degree is not given; set it to the pixels of one degree",
        )
        check(
            self.image_on_screen != "fit" or bool(self.screen_size),
            "image_on_screen is fit, but screen_size is not given; set it, such as 1080x1920",
        )
        check(
            (self.dataset, self.source) != (CUSTOM, SAMPLE),
            f"{CUSTOM} is recordings of your own, but their source is {SAMPLE!r}; give their folder, "
            "archive or address",
        )

    @property
    def accepts_partial(self) -> bool:
        """Whether the numbers of images may differ from the table of datasets; those of the sample dataset do."""
        return self.allow_partial_data or self.source == SAMPLE


def check_recordings_used(configs: Sequence[Any]) -> None:
    """Raise `UserError` if a `FetchConfig` describes one's own recordings, but none has the dataset `custom`."""
    if any(config.dataset == CUSTOM for config in configs):
        return
    for config in configs:
        for field in dataclasses.fields(config):
            if field.name in RECORDING_SETTINGS and getattr(config, field.name) != field.default:
                raise UserError(
                    f"{field.name} describes recordings of your own (dataset {CUSTOM}), but the dataset is "
                    f"{config.dataset}; leave it out"
                )


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Settings of one training; the defaults are the paper's (Kroner et al. 2020, section 3.4)."""

    TITLE: ClassVar[str] = "training"
    recipe: str = setting(
        PAPER,
        f"Set of settings of the trainings. {described_recipes()}. Each ends with a calibration (calibrate). "
        "A setting of a recipe cannot be given as well. "
        "In a form that gives every setting, as in the console, one with its default value becomes the recipe's.",
        choices=RECIPES,
    )
    epochs: int = setting(10, "Passes over the training set.", ge=1)
    batch_size: int = setting(1, "Images per step, over all replicas; 0 for the default of the accelerator.", ge=0)
    accumulation: int = setting(
        1,
        "Number of parts into which each device splits its images of a step; computed one after another, to "
        "save memory.",
        ge=1,
    )
    learning_rate: float = setting(
        1e-5, "Learning rate of Adam for a batch of one.", group=OPTIMIZATION, gt=0, le=1
    )
    learning_rate_scaling: str = setting(
        "auto",
        "How the learning rate grows with the batch size: none, sqrt (its square root), linear, capped (linear up "
        "to 64, then with the square root), or auto: capped if batch_size is 0, else none.",
        group=OPTIMIZATION,
        choices=LEARNING_RATE_SCALING,
    )
    warmup_epochs: float = setting(
        0.0, "Epochs over which the learning rate rises from 0.", group=OPTIMIZATION, ge=0
    )
    schedule: str = setting(
        "constant",
        "Learning rate after the warm-up: constant, or cosine (decays to 0 at the end).",
        group=OPTIMIZATION,
        choices=SCHEDULES,
    )
    flip: bool = setting(
        False,
        "Mirror every training image and its map left to right with a probability of one half.",
        group=AUGMENTATION,
    )
    flip_prediction: bool = setting(
        False,
        "Let the trained model predict each image and its mirror image, and average both maps (test-time "
        "augmentation): a little better, in twice the time. Evaluation, serving and exports do so too; the "
        "training itself does not change.",
        group=AUGMENTATION,
    )
    calibrate: bool = setting(
        True,
        "After the training, fit five numbers to the validation images, so that the model's maps spread as far as "
        "observers do. They become part of the model if images that they are not fitted to gain significantly.",
        group=OPTIMIZATION,
    )
    patience: int = setting(
        0,
        "Stop after this many epochs without a better validation loss; 0 never stops early.",
        group=OPTIMIZATION,
        ge=0,
    )
    seed: int = setting(42, "Seed of the initial weights and of the order of the images.", ge=0, le=2**32 - 1)
    precision: str = setting(
        "auto",
        "float32, bfloat16, float16 (with loss scaling), or auto: the fastest on the hardware.",
        choices=PRECISIONS,
    )
    initial_weights: str = setting(
        "imagenet",
        "Weights to start from: imagenet (an encoder, downloaded by Keras), pretrained (the trained model that "
        "comes with this package), author:salicon (the whole network, downloaded from its author), none, or a "
        "file of VGG16 or of the whole network in any format that `python -m trainer import-weights` reads; a "
        "base model replaces them.",
        pattern=r"(?s:.*\S.*)",
        hint="imagenet, pretrained, none, or a file of weights",
    )
    checkpoint_minutes: float = setting(10.0, "Longest time between two checkpoints, in minutes.", gt=0)
    deterministic: bool = setting(
        True,
        "Use only operations whose results are bit-for-bit reproducible.",
    )
    profile_steps: str = setting(
        "",
        "Steps to profile for TensorBoard, such as 10-20; empty for none.",
        pattern=r"(\d{1,9}-\d{1,9})?",
        hint="the first and the last step, such as 10-20",
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        check(
            self.warmup_epochs < self.epochs,
            f"warmup_epochs is {self.warmup_epochs:g}; it must be below epochs, which is {self.epochs}",
        )
        parse_profile_steps(self.profile_steps)


def with_recipe(
    config: TrainConfig, fine_tuning: bool, given: Collection[str] = (), named: Callable[[str], str] = str
) -> TrainConfig:
    """Put the settings of a recipe in place of the defaults in `config`.

    Args:
        config: the settings, with the name of the recipe.
        fine_tuning: whether the training starts from a model.
        given: names of the settings that a person is known to have given; whatever differs from its default counts
            as given too.
        named: the name by which a person gives a setting, from that of its field; it stands in the message.

    Raises:
        UserError: a setting was given that the recipe sets to another value.
    """
    chosen = RECIPES[config.recipe].settings(fine_tuning)
    was_given = {
        field.name: field.name in given or getattr(config, field.name) != field.default
        for field in dataclasses.fields(config)
    }
    own = {name: getattr(config, name) for name in chosen if was_given[name]}
    twice = {name: value for name, value in own.items() if value != chosen[name]}
    if twice:
        values = listed({named(name): value for name, value in twice.items()})
        theirs = listed({named(name): chosen[name] for name in twice})
        raise UserError(
            f"{' and '.join(map(named, twice))} {'are' if len(twice) > 1 else 'is'} given twice: {values}, "
            f"and {listed({named('recipe'): config.recipe})} sets {theirs}; leave out one"
        )
    return dataclasses.replace(config, **chosen)


def with_batch(config: TrainConfig, batch_size: int) -> TrainConfig:
    """The settings with the batch size in use, and with `auto` scaling of the learning rate resolved for it."""
    scaling = config.learning_rate_scaling
    if scaling == "auto":
        scaling = "none" if config.batch_size else "capped"
    return dataclasses.replace(config, batch_size=batch_size, learning_rate_scaling=scaling)


@dataclasses.dataclass(frozen=True)
class DataGateConfig:
    """Settings of the gate that data have to pass before anything is trained."""

    TITLE: ClassVar[str] = "data gate"
    min_images: int = setting(
        0, "Smallest number of images of the fine-tuning data; with fewer, the run ends before it trains.", ge=0
    )
    min_observers: int = setting(
        0,
        "Smallest number of observers of the median image of the fine-tuning data; with fewer, or if observers "
        "are not told apart, the run ends before it trains. 0 for any.",
        ge=0,
    )
    data_gate: str = setting(
        "warn",
        "What large differences from the data of the current default do, in sizes, luminance, fixations or centre "
        "bias: warn (a sentence in the report), or strict (the run ends before it trains).",
        choices=("warn", "strict"),
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
    """Settings of the gate, which compares a candidate with the current default model."""

    TITLE: ClassVar[str] = "gate"
    gate: str = setting(
        LEAD,
        "Metric in which a candidate must beat the current default model to replace it: "
        f"{', '.join(metrics_that_need(DENSITY))}, or if the deciding dataset has fixations "
        f"{', '.join(metrics_that_need(FIXATIONS))}; "
        "`always` promotes every candidate, `never` none.",
        choices=(*METRICS, "always", "never"),
    )
    gate_margin: float = setting(0.0, "Minimum gain of the candidate in the gate's metric.", ge=0)
    gate_confidence: float = setting(
        0.95,
        "Probability that a year of weekly runs promotes only models that are better. The confidence interval of "
        "the gain, over images that neither model was trained on, must lie above gate_margin; the more decisions "
        "there were in the last year, the wider it is. 0 compares the means alone.",
        ge=0,
        lt=1,
    )
    gate_on: str = setting(
        "finetune",
        "Images on which the gate decides: finetune (the validation images of the fine-tuning data; in `evaluate` "
        "those of the first --dataset-dir), or test (the images of test_dataset).",
        choices=GATE_ON,
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclasses.dataclass(frozen=True)
class HeldOutConfig:
    """Settings of a test set: held-out images, used for neither training nor model selection."""

    TITLE: ClassVar[str] = "test set"
    test_dataset: str = setting(
        "",
        "Name of a dataset in trainer/data/datasets.py to use for testing only: all its images, or if its split "
        "is given, its validation images (of custom, those labelled test, if there are any), or with test_share, "
        "that share of its validation images. Images that are also in the training data are left out. Empty "
        "for none.",
    )
    test_source: str = setting(
        "",
        "Location of the test set, of the same kinds as that of a dataset to train on, or `sample`; empty for the "
        "location in trainer/data/datasets.py.",
    )

    def __post_init__(self) -> None:
        check(
            bool(self.test_dataset or not self.test_source),
            f"test_source is {self.test_source!r}, but test_dataset is empty; name the dataset that it holds",
        )


@dataclasses.dataclass(frozen=True)
class PredictConfig:
    """Settings of the results that `predict` writes for each image."""

    TITLE: ClassVar[str] = "images and results"
    format: str = setting(
        "",
        "Formats to write, separated by commas: "
        f"{', '.join(f'{name} ({each.help})' for name, each in PREDICT_FORMATS.items())}. To score maps, write "
        "npy or png16. Empty for png in a folder for the results, and overlay next to an image.",
    )
    opacity: float = setting(0.88, "Opacity of the overlay's brightest colour, 0 to 1.", ge=0, le=1)
    batch_size: int = setting(8, "Images per batch of the network.", ge=1)
    most_megapixels: float = setting(
        MOST_MEGAPIXELS, "Largest image; each megapixel takes 15 MB of memory, of a TIFF with floats 24 MB.", gt=0
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        for name in self.formats:
            look_up("format", name, PREDICT_FORMATS)

    @property
    def formats(self) -> tuple[str, ...]:
        """The chosen keys of PREDICT_FORMATS, each once."""
        return tuple(dict.fromkeys(name.strip() for name in self.format.split(","))) if self.format else ()

    @property
    def most_pixels(self) -> int:
        """Number of pixels of the largest image."""
        return int(self.most_megapixels * MEGAPIXEL)


PREDICT_DEFAULTS = PredictConfig()
