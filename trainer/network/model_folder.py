"""A model on disk: the names of the files in its folder, and what its JSON files hold."""

import pathlib
from collections.abc import Mapping
from typing import Any, NotRequired

from typing_extensions import TypedDict

from trainer.io.files import StrPath, read_json

SAVED_MODEL = "saved_model"
ASSETS_EXTRA = "assets.extra"
"""Folder inside a SavedModel that TensorFlow Serving ignores."""
WEIGHTS = "model.weights.h5"
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
"""The images that the model was trained on, see `training_images`."""
EVALUATION, PER_IMAGE = "evaluation.json", "per_image.csv"
"""Scores of the model and of each image. A registered model keeps the scores from the run that registered it."""
LEFT_OUT = "left_out_observers.csv"
"""Scores of each image without one of its observers. Absent if it is not known who saw which images."""


def weights_in(folder: pathlib.Path) -> pathlib.Path:
    """The weights in a model's folder: COMPACT_WEIGHTS if there is no WEIGHTS but them, else WEIGHTS.

    Example: an empty folder has WEIGHTS, so that a message names that file.
    """
    compact, whole = folder / COMPACT_WEIGHTS, folder / WEIGHTS
    return compact if compact.is_file() and not whole.is_file() else whole


def checkpoints_of(model: str) -> str:
    """Folder or address of the checkpoints of the training that writes `model`, unless another one is given.

    Example: `runs/mine/model/` has `runs/mine/model.checkpoints`.
    """
    return f"{model.rstrip('/')}.checkpoints"


MOST_DIGESTS_BYTES = 2**28
"""Largest TRAINING_IMAGES that is read: an image has 35 bytes, and its hash 267."""


def training_images(model: StrPath) -> dict[str, dict[str, list[str]]]:
    """The content of TRAINING_IMAGES in a model's folder. Empty without it, as for an imported model.

    It is the fingerprint of each dataset that the model, its base model and so on were trained on -> `train`
    or `valid` -> digests of the images' pixels. Beside them, `train_hashes` or `valid_hashes` have
    `trainer.data.copies.hash_of` the images. Models of earlier versions do not have these.

    Example: `{"0517": {"train": ["a3..."], "train_hashes": ["9c..."]}}`.

    Raises:
        UserError: the file is damaged.
    """
    path = pathlib.Path(model) / TRAINING_IMAGES
    if not path.exists():
        return {}
    content: dict[str, dict[str, list[str]]] = read_json(
        path, MODEL_REMEDY, dict[str, dict[str, list[str]]], MOST_DIGESTS_BYTES
    )
    return content


ImageSize = list[int]
"""Height and width of the network's input, pixels."""


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


PICTURE, PAGE = KINDS = "picture", "page"
"""Kinds of images (`trainer.prediction.kinds`). A model may have a `KindConfig` for pages."""


class KindConfig(TypedDict):
    """What a model has for one kind of images in place of the keys of its MODEL_CONFIG."""

    image_size: ImageSize
    settings: Predicting
    calibration: "CalibrationNumbers | None"


class ModelConfig(_Origin, total=False):
    """MODEL_CONFIG of any model, of an imported one too."""

    image_size: ImageSize
    best_epoch: int
    identity: dict[str, Any]
    calibration: "CalibrationNumbers | None"
    kinds: dict[str, KindConfig]
    """Kind of images, of KINDS -> what differs for it."""


class SizedConfig(_Origin):
    """MODEL_CONFIG of a model that predicts at its own size."""

    image_size: ImageSize
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


EXPORT_FORMATS = ("saved-model", "onnx", "onnx-int8", "int8")
SIGNATURES = ("serving_default", "serve_bytes")
"""Signatures of a SavedModel: for prepared images, and for encoded images."""
