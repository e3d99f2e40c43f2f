"""Test sets of an evaluation: which of their images were also trained on, and what a reader must know of them."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainer import artifacts, generated
from trainer.artifacts import SPLITS, Manifest
from trainer.errors import UserError, some

Path = str | os.PathLike[str]


def deciding_dataset(gate_on: str, manifests: Mapping[str, Manifest]) -> str:
    """Name of the dataset that decides: the first one to train on, or the first test set if `gate_on` is `test`.

    Raises:
        UserError: there is no such dataset, or test sets alone.
    """
    tests = [name for name, manifest in manifests.items() if manifest.is_test_set]
    others = [name for name in manifests if name not in tests]
    if not others:
        raise UserError(
            f"{tests[0]} is a test set, and the centre bias comes from training images; name the prepared data "
            "that the model was trained on as well"
        )
    if gate_on != "test":
        return others[0]
    if not tests:
        raise UserError("gate_on is test, but there is no test set; set test_dataset, or set gate_on to finetune")
    return tests[0]


def center_bias_folder(folders: Mapping[str, Path], manifests: Mapping[str, Manifest], name: str) -> pathlib.Path:
    """The prepared dataset whose centre bias is the baseline on dataset `name`: its own, or of the first one if
    it is a test set, which has no training images.
    """
    own = manifests[name].is_test_set
    return pathlib.Path(folders[deciding_dataset("finetune", manifests) if own else name])


def training_data(folders: Iterable[Path], model_config: Mapping[str, Any] | None) -> list[Path]:
    """Find the prepared datasets that a model may have been trained on.

    Args:
        folders: prepared datasets; test sets do not count.
        model_config: content of its MODEL_CONFIG, if it has one. If the origin of all its weights is known, the
            fingerprints of its data tell; else every dataset counts.
    """
    configs = list(generated.trainings(model_config))
    fingerprints = {config.get("fingerprint") for config in configs}
    known = bool(configs) and all("fingerprint" in config for config in configs)
    manifests = {folder: Manifest.load(folder) for folder in folders}
    return [
        folder
        for folder, manifest in manifests.items()
        if not manifest.is_test_set and (not known or manifest.fingerprint in fingerprints)
    ]


def overlap(folder: Path, training: Sequence[Path]) -> list[str]:
    """Names of the images of a test set that are also in prepared datasets to train on, in either of their splits.

    Images are the same if their pixels are. Validation images count because they choose the best epoch.

    Raises:
        UserError: no image is left, or a folder has no `artifacts.IMAGES`.
    """
    manifest = Manifest.load(folder)
    known = {digest for data in training for _, digest in artifacts.images(data, SPLITS)}
    images = artifacts.images(folder, [manifest.held_out])
    names = sorted(name for name, digest in images if digest in known)
    if images and len(names) == len(images):
        raise UserError(
            f"all {len(images):,} test images of {manifest.dataset} are also in the training data; choose another "
            "test_dataset or test_source, or prepare all data with the same test_share. The validation images are "
            "evaluated without a test set"
        )
    return names


def overlap_note(title: str, names: Sequence[str], n_images: int) -> str:
    """A sentence about the images that were left out; empty if none was.

    Args:
        title: name of the test set's images, such as `test images of osie`.
        names: those that were left out.
        n_images: number of the others.
    """
    if not names:
        return ""
    are, they = ("is", "it is") if len(names) == 1 else ("are", "they are")
    all_images = f"{len(names) + n_images:,} {title}"
    return (
        f"{len(names):,} of the {all_images} {are} also in the training data, so {they} left out: {some(names)}."
    )


def test_caution(
    model: str, model_config: Mapping[str, Any] | None, manifest: Mapping[str, Any], compared: Mapping[str, float]
) -> str:
    """A warning if a model was trained on data of the test set's name that is not at hand; else empty.

    Args:
        model: Name of the model in the sentence.
        model_config: Content of its MODEL_CONFIG, if it has one.
        manifest: Content of the test set's `Manifest`.
        compared: Fingerprint and `Manifest.test_share` of the training data with which the images were compared. A
            model that kept less apart had validation images that this data does not have.
    """
    dataset = manifest["dataset"]
    is_split_here = manifest["split"] != "given" or manifest.get("test_share")
    for config in generated.trainings(model_config) if is_split_here else ():
        is_same_kind = generated.is_sample(config) == generated.is_sample(manifest)
        is_compared = compared.get(config.get("fingerprint", ""), 1.0) <= config.get("test_share", 0.0)
        if config.get("dataset") == dataset and is_same_kind and not is_compared:
            return (
                f"The {model} was trained on {dataset} too. Some of the test images may have been in its training "
                "or validation set, so its scores on them may be too good."
            )
    return ""
