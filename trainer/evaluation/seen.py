"""The images that models have seen in their trainings, which an evaluation of these models leaves out.

A model's folder lists them (`model_folder.TRAINING_IMAGES`). A model of an earlier version has no such list: then
the prepared data of its trainings tells, if it is at hand, and a sentence says so if it is not.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.data import SPLITS, Manifest, PreparedData, hashes_of, match_copies
from trainer.datasets import HASH, HASH_BY_FOLDER
from trainer.errors import MismatchError
from trainer.io import StrPath
from trainer.models import Provenance
from trainer.network import ModelFolder


@dataclass(frozen=True)
class Seen:
    """The images that a model was trained on, and the images that chose its epoch."""

    digests: Mapping[str, frozenset[str]]
    """Split -> digests of the pixels, and `hashes_of` it -> hashes, as `PreparedData.images` has them."""
    listed: frozenset[str]
    """Fingerprints of the data that the model's own list is about."""
    prepared: Mapping[str, float]
    """Fingerprint -> `Manifest.test_share` of the prepared data that tells the images of other trainings."""
    model_config: dict[str, Any] | None
    """Content of its MODEL_CONFIG, if it has one."""

    @classmethod
    def by(cls, model: StrPath, at_hand: Iterable[StrPath]) -> "Seen":
        """Collect the images that the model in a folder has seen.

        Args:
            model: Folder of the model.
            at_hand: Prepared data that it may have been trained on. Test sets do not count.

        Raises:
            UserError: a file of the model or of the data is damaged.
        """
        config = ModelFolder(model).known_config("train the model again")
        listed = ModelFolder(model).training_images()
        keys = [*SPLITS, *map(hashes_of, SPLITS)]
        digests = {key: {each for images in listed.values() for each in images.get(key, ())} for key in keys}
        prepared = {}
        for folder in training_data(at_hand, config):
            manifest = Manifest.load(folder)
            if manifest.fingerprint not in listed and (entry := PreparedData(folder).images_to_train_on()):
                prepared[manifest.fingerprint] = manifest.test_share
                for key in keys:
                    digests[key] |= set(entry[manifest.fingerprint][key])
        frozen = {key: frozenset(each) for key, each in digests.items()}
        return cls(frozen, frozenset(listed), prepared, None if config is None else dict(config))

    def among(self, folder: StrPath, splits: Collection[str] = ()) -> set[str]:
        """Return the names of the held-out images of prepared data that the model has seen.

        An image has been seen if the model saw the same pixels or a copy by `copies.match_copies`, and with an
        image its group has been seen. Example: with a page of a site, all pages of the site. For a test
        set, the images count that chose the model's epoch. For validation data, which chooses it again, images
        count only if the model was trained on them. `splits` says otherwise, if it is not empty.
        """
        data = PreparedData(folder)
        manifest = data.manifest
        splits = splits or (SPLITS if manifest.is_test_set else ("train",))
        if not manifest.is_test_set and not data.image_list.exists():
            return set()  # prepared by an earlier version
        seen = frozenset().union(*(self.digests[split] for split in splits))
        hashes = sorted(frozenset().union(*(self.digests[hashes_of(split)] for split in splits)))
        images = data.images([*manifest.counts])
        units = {image.unit for image in images if image.digest in seen}
        others = [image for image in images if image.unit not in units]
        copies = match_copies([image.hash for image in others], hashes)
        units |= {image.unit for image, place in zip(others, copies, strict=True) if place is not None}
        return {image.name for image in data.images([manifest.held_out]) if image.unit in units}

    def caution(self, model: str, manifest: Manifest) -> str:
        """Warn if the model may have seen held-out images that nothing tells of. Otherwise empty.

        Args:
            model: Name of the model in the sentence.
            manifest: The data's.
        """
        dataset, is_test_set = manifest.dataset, manifest.is_test_set
        if manifest.split == "given" and not (is_test_set and manifest.test_share):
            return ""
        for config in Provenance(self.model_config).trainings:
            fingerprint = config.get("fingerprint", "" if is_test_set else manifest.fingerprint)
            is_same_kind = Provenance(config).is_sample == Provenance(vars(manifest)).is_sample
            if config.get("dataset") != dataset or not is_same_kind or fingerprint in self.listed:
                continue
            if is_test_set:
                # A model that held out less had validation images that the data at hand does not have.
                if self.prepared.get(fingerprint, 1.0) > config.get("test_share", 0.0):
                    return (
                        f"The {model} was trained on {dataset} too. Some of the test images may have been in its "
                        "training or validation set, so its scores on them may be too good."
                    )
            elif fingerprint != manifest.fingerprint or not _same_rule(config, manifest):
                return (
                    f"The {model} was trained on another version of {dataset} (fingerprint {fingerprint[:8]}, "
                    f"here {manifest.fingerprint[:8]}) or with another split, and has no list of its training "
                    "images. Some of these images may be among them, so its scores may be too good."
                )
        return ""


def training_data(folders: Iterable[StrPath], config: Mapping[str, Any] | None) -> list[StrPath]:
    """Find the prepared datasets that a model may have been trained on.

    Args:
        folders: Prepared datasets. Test sets do not count.
        config: Content of the model's MODEL_CONFIG, if it has one. If the origin of all its weights is known, the
            fingerprints of its data tell. Otherwise every dataset counts.
    """
    trainings = list(Provenance(config).trainings)
    fingerprints = {each.get("fingerprint") for each in trainings}
    known = bool(trainings) and all("fingerprint" in each for each in trainings)
    manifests = {folder: Manifest.load(folder) for folder in folders}
    return [
        folder
        for folder, manifest in manifests.items()
        if not manifest.is_test_set and (not known or manifest.fingerprint in fingerprints)
    ]


def check_some_unseen(folder: StrPath, names: Iterable[str]) -> None:
    """Raise `UserError` if all images of a test set have been seen."""
    manifest = Manifest.load(folder)
    n_images = manifest.counts[manifest.held_out]
    if len(set(names)) == n_images:
        raise MismatchError(
            f"all {n_images:,} test images of {manifest.dataset} are in the training data, or in groups with "
            "images that are. Choose another test_dataset or test_source, or prepare all data with the same "
            "test_share. The validation images are evaluated without a test set"
        )


def _same_rule(config: Mapping[str, Any], manifest: Manifest) -> bool:
    """Return whether a training's data was split as these data. Earlier versions had no hash."""
    if "split" in config:
        return bool(config["split"] == manifest.split)
    return manifest.split not in (HASH, HASH_BY_FOLDER)
