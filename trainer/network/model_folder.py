"""A model on disk: the names of the files in its folder, and what its JSON files hold."""

import pathlib
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NotRequired

from typing_extensions import TypedDict

from trainer.errors import ContentError, check
from trainer.io import StrPath, parse_json, read_json
from trainer.network.architecture import Architecture
from trainer.network.networks import network_of

SAVED_MODEL = "saved_model"
ASSETS_EXTRA = "assets.extra"
"""Folder inside a SavedModel that TensorFlow Serving ignores. A registered version has its model there."""
MODEL_WEIGHTS = "model.weights.h5"
MODEL_CONFIG = "config.json"
MODEL_REMEDY = "give the folder of a model that `train` wrote"
"""End of a message about a folder without WEIGHTS or with a damaged MODEL_CONFIG."""
COMPACT_WEIGHTS = "weights.int8.npz"
"""Weights of a model in compact form, in place of WEIGHTS. MODEL_CONFIG has their checksum."""
PRETRAINED_FOLDER = pathlib.Path(__file__).parents[1] / "models" / "pretrained"
"""The model that comes with this package, in compact form."""
GET_PRETRAINED = "get it again with `git checkout -- trainer/models/pretrained`, or install msinet-pipelines again"
WEIGHTS_SHA256 = "weights_sha256"
"""Key of the MODEL_CONFIG of a model in compact form: SHA-256 of its COMPACT_WEIGHTS, 64 hex digits."""
HISTORY = "history.jsonl"
"""One line for each epoch, an `Epoch`."""
TRAINING_IMAGES = "training_images.json"
"""The images that the model was trained on, see `ModelFolder.training_images`."""
EVALUATION, PER_IMAGE = "evaluation.json", "per_image.csv"
"""Scores of the model and of each image. A registered model keeps the scores from the run that registered it."""
LEFT_OUT = "left_out_observers.csv"
"""Scores of each image without one of its observers. Absent if it is not known who saw which images."""
MOST_DIGESTS_BYTES = 2**28
"""Largest TRAINING_IMAGES that is read: an image has 35 bytes, and its hash 267."""


class Predicting(TypedDict, total=False):
    """The settings of a training that its model predicts with."""

    flip_prediction: bool


class _Origin(TypedDict, total=False):
    """The origin of a model, which every MODEL_CONFIG may have."""

    network: str
    """A name of `trainer.network.networks`. Absent in models of earlier versions."""
    source: str
    dataset: str
    fingerprint: str
    test_share: float
    weights_sha256: str
    settings: Predicting
    base_model: "ModelConfig | None"


class CalibrationNumbers(TypedDict):
    """The numbers of `trainer.network.calibration.Calibration`."""

    exponent: float
    bias_logit: float
    bias_slope: float
    bias_height: float
    bias_width: float
    bias_y: NotRequired[float]
    bias_x: NotRequired[float]


PICTURE, PAGE = "picture", "page"
"""Kinds of images (`trainer.prediction.kinds`). A model may have a `KindConfig` for pages."""


class KindConfig(TypedDict):
    """What a model has for one kind of images in place of the keys of its MODEL_CONFIG."""

    image_size: list[int]
    """Height and width of the network's input, pixels."""
    settings: Predicting
    calibration: "CalibrationNumbers | None"


class ModelConfig(_Origin, total=False):
    """MODEL_CONFIG of any model, of an imported one too."""

    image_size: list[int]
    best_epoch: int
    identity: dict[str, Any]
    calibration: "CalibrationNumbers | None"
    kinds: dict[str, KindConfig]
    """Kind of images, such as PAGE -> what differs for it."""


class SizedConfig(_Origin):
    """MODEL_CONFIG of a model that predicts at its own size."""

    image_size: list[int]
    kinds: NotRequired[dict[str, KindConfig]]


class BaseConfig(_Origin):
    """MODEL_CONFIG of a model that a training starts from."""

    best_epoch: int
    identity: dict[str, Any]
    calibration: NotRequired["CalibrationNumbers | None"]


def for_kind(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The content of MODEL_CONFIG with the size, the averaging and the calibration for one kind of images,
    such as `page`.
    """
    return {**config, **config.get("kinds", {}).get(kind, {})}


def flips(config: Mapping[str, Any]) -> bool:
    """Whether a model averages, by the content of its MODEL_CONFIG."""
    return bool(config.get("settings", {}).get("flip_prediction", False))


class Epoch(TypedDict):
    """A line of HISTORY: one epoch of a training."""

    epoch: int
    steps: int
    loss: float
    valid_loss: float
    seconds: float
    images_per_s: float
    best: bool


class ModelFolder:
    """The folder of a model: the paths of its files, and what they hold.

    Example: `ModelFolder("runs/mine/model").image_size` is (240, 320).
    """

    NEEDED: ClassVar[tuple[str, ...]] = (MODEL_WEIGHTS, MODEL_CONFIG)
    """Names of the files that every registered model has."""
    LAST: ClassVar[str] = MODEL_CONFIG
    """Name of the file that is written last, so that a folder with it has a whole model."""

    def __init__(self, path: StrPath) -> None:
        self.path = pathlib.Path(path)
        """The folder, which need not exist."""
        self.config_file = self.path / MODEL_CONFIG
        self.history_file = self.path / HISTORY
        self.images_file = self.path / TRAINING_IMAGES
        self.saved_model = self.path / SAVED_MODEL

    @classmethod
    def pretrained(cls) -> "ModelFolder":
        """The folder of the model that comes with this package. Some installations do not have it."""
        return cls(PRETRAINED_FOLDER)

    @classmethod
    def among(cls, names: Collection[str]) -> list[str]:
        """The files of a model in a listing of its folder, also in compact form. Empty without weights.

        Example: of `config.json`, `model.weights.h5` and `notes.txt` the first two.
        """
        weights = MODEL_WEIGHTS if MODEL_WEIGHTS in names else COMPACT_WEIGHTS
        return (
            [name for name in (weights, MODEL_CONFIG, TRAINING_IMAGES) if name in names]
            if weights in names
            else []
        )

    @property
    def remedy(self) -> str:
        """End of a message about missing or damaged files: how to get them."""
        return GET_PRETRAINED if self.path == PRETRAINED_FOLDER else MODEL_REMEDY

    @property
    def weights(self) -> pathlib.Path:
        """The weights: COMPACT_WEIGHTS if there is no WEIGHTS but them, else WEIGHTS.

        Example: an empty folder has WEIGHTS, so that a message names that file.
        """
        compact, whole = self.path / COMPACT_WEIGHTS, self.path / MODEL_WEIGHTS
        return compact if compact.is_file() and not whole.is_file() else whole

    @property
    def has_weights(self) -> bool:
        """Whether this is the folder of a model, in compact form too."""
        return self.weights.is_file()

    @property
    def checkpoints(self) -> str:
        """Folder of the checkpoints of the training that writes this model, unless another one is given.

        Example: `runs/mine/model` has `runs/mine/model.checkpoints`.
        """
        return f"{self.path}.checkpoints"

    def files_to_register(self) -> list[pathlib.Path]:
        """The files that a version of a registry has. Models of earlier versions and imported ones have no list
        of images.
        """
        needed = [self.path / MODEL_WEIGHTS, self.config_file, self.history_file]
        return [*needed, self.images_file] if self.images_file.exists() else needed

    def config(self, remedy: str = "") -> ModelConfig:
        """The content of MODEL_CONFIG.

        Args:
            remedy: end of the message, if not `remedy` of the folder.

        Raises:
            UserError: the file is missing or damaged.
        """
        content: ModelConfig = read_json(self.config_file, remedy or self.remedy, ModelConfig)
        return content

    def known_config(self, remedy: str = "") -> ModelConfig | None:
        """The content of MODEL_CONFIG. None without one. Arguments and errors are as in `config`."""
        return self.config(remedy) if self.config_file.is_file() else None

    def config_of_base(self) -> ModelConfig:
        """The content of MODEL_CONFIG, with all that a training which starts from this model needs.

        Raises:
            UserError: the file is missing or damaged, or lacks a key, such as `best_epoch`.
        """
        content: ModelConfig = read_json(self.config_file, self.remedy, BaseConfig)
        return content

    def history(self, remedy: str) -> list[Epoch]:
        """The epochs of the model's training. Empty without HISTORY, and for an imported model.

        Raises:
            UserError: the file is damaged. The message ends with the `remedy`.
        """
        path = self.history_file
        lines = path.read_bytes().splitlines() if path.is_file() else []
        return [parse_json(line, str(path), remedy, Epoch) for line in lines]

    def training_images(self) -> dict[str, dict[str, list[str]]]:
        """The content of TRAINING_IMAGES. Empty without it, as for an imported model.

        It is the fingerprint of each dataset that the model, its base model and so on were trained on -> `train`
        or `valid` -> digests of the images' pixels. Beside them, `train_hashes` or `valid_hashes` have
        `trainer.data.copies.hash_of` the images. Models of earlier versions do not have these.

        Example: `{"0517": {"train": ["a3..."], "train_hashes": ["9c..."]}}`.

        Raises:
            UserError: the file is damaged.
        """
        if not self.images_file.exists():
            return {}
        content: dict[str, dict[str, list[str]]] = read_json(
            self.images_file, MODEL_REMEDY, dict[str, dict[str, list[str]]], MOST_DIGESTS_BYTES
        )
        return content

    @property
    def architecture(self) -> Architecture:
        """The network of the model. Without MODEL_CONFIG it is the default one.

        Raises:
            UserError: MODEL_CONFIG is damaged, or this version does not know the network.
        """
        return network_of(self.known_config() or {})

    @property
    def image_size(self) -> tuple[int, int]:
        """(H, W) of the input that the network was trained at, pixels. Raises as `image_sizes`."""
        return self.image_sizes[PICTURE]

    @property
    def image_sizes(self) -> dict[str, tuple[int, int]]:
        """Kind of images -> (H, W) of the input, pixels: of PICTURE, and of kinds with a size of their own.

        Example: `{"picture": (240, 320), "page": (480, 640)}`.

        Raises:
            UserError: MODEL_CONFIG is missing or damaged, or a size does not fit the network.
        """
        config = read_json(self.config_file, MODEL_REMEDY, SizedConfig)
        architecture, sizes = network_of(config), {}
        for kind in (PICTURE, *config.get("kinds", {})):
            size = for_kind(config, kind)["image_size"]
            wanted = f"two multiples of {architecture.stride} above 0"
            check(
                architecture.fits(size),
                f"{self.config_file} has the image_size {size}, but it must be {wanted}: {MODEL_REMEDY}",
                ContentError,
            )
            sizes[kind] = size[0], size[1]
        return sizes
