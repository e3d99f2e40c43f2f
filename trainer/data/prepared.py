"""A prepared dataset as one object: its manifest, its images with their fixations, and its statistics."""

import functools
import pathlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from trainer.data import prepared_data
from trainer.data.prepared_data import IMAGES, MANIFEST, TEST_SUFFIX, ListedImage, Manifest, Statistics
from trainer.data.settings import FetchConfig
from trainer.io import StrPath

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trainer.data.center_bias import CenterBias
    from trainer.data.held_out_set import HeldOutImage
    from trainer.data.tfrecords import Example, Original


class PreparedData:
    """A prepared dataset in a folder. Nothing is read, and no TensorFlow loaded, before it is asked for.

    Example: `PreparedData("data").examples("train")`.

    Args:
        folder: the folder. It may be empty, or not exist.
    """

    def __init__(self, folder: StrPath) -> None:
        self.folder = pathlib.Path(folder)

    @staticmethod
    def by_name(folders: Iterable[StrPath]) -> dict[str, pathlib.Path]:
        """The folders of prepared datasets by name. A test set's name ends in `TEST_SUFFIX`.

        Recordings of one's own are named after their source. A second dataset of the same name is `NAME-2`.
        Example: `salicon`, `salicon-test`.

        Raises:
            UserError: a folder has no prepared dataset.
        """
        by_name: dict[str, pathlib.Path] = {}
        for folder in folders:
            manifest = Manifest.load(folder)
            name = manifest.name_of(manifest.dataset, manifest.source)
            suffix = TEST_SUFFIX if manifest.is_test_set else ""
            if name + suffix in by_name:
                name += f"-{len(by_name) + 1}"
            by_name[name + suffix] = pathlib.Path(folder)
        return by_name

    @staticmethod
    def is_test_set(name: str) -> bool:
        """Whether a name of `by_name` is a test set's. Example: `osie-test`."""
        return name.endswith(TEST_SUFFIX)

    @classmethod
    def images_of(cls, name: str) -> str:
        """Words for the held-out images of a dataset, by its name of `by_name`.

        Example: `test images of osie` for `osie-test`.
        """
        kind = "test" if cls.is_test_set(name) else "validation"
        return f"{kind} images of {name.removesuffix(TEST_SUFFIX)}"

    def write_test_set(self, name: str, images: "Sequence[HeldOutImage]") -> None:
        """Write held-out images, at least one, as a test set of its own into the folder, which is there and empty.

        It has fixations if all images have them, and observers if all fixations have them.
        """
        from trainer.data.held_out_set import write_test_set

        write_test_set(self.folder, name, images)

    def decide(
        self,
        config: FetchConfig,
        cache_dir: str | None = None,
        test_of: str = "",
        shard_gigabytes: float = FetchConfig.SHARD_GIGABYTES,
    ) -> list[int]:
        """Begin to prepare a dataset in several processes, in shards of about so many bytes at the source.

        Returns:
            The room in bytes that each shard needs on a disk (see `stages`).
        """
        from trainer.data.stages import decide, scratch_bytes

        decide(config, self.folder, cache_dir, test_of, round(shard_gigabytes * 10**9))
        return scratch_bytes(self.folder)

    def prepare_shard(self, shard: int, source: str = "", cache_dir: str | None = None) -> None:
        """Prepare the images of one shard, counted from 0, after `decide` (see `stages`)."""
        from trainer.data.stages import prepare_shard

        prepare_shard(self.folder, shard, source, cache_dir)

    def check_is_of(self, config: FetchConfig, test_of: str = "") -> None:
        """Check that `decide` with these settings would give this dataset, as far as its manifest tells.

        Raises:
            ConflictError: it is another one, or the source has changed.
            UserError: the source may not be read.
        """
        from trainer.data.prepared_source import check_same

        check_same(self.folder, self.manifest, config, test_of)

    def merge(self) -> Manifest:
        """Make the dataset of its shards when all are prepared (see `stages`)."""
        from trainer.data.stages import merge

        return merge(self.folder)

    @property
    def is_there(self) -> bool:
        """Whether the folder has a prepared dataset. A run leaves a folder empty if it needs no data there."""
        return (self.folder / MANIFEST).exists()

    @property
    def image_list(self) -> pathlib.Path:
        """The file with a line for each image (see `ListedImage`). Data of earlier versions have none."""
        return self.folder / IMAGES

    @functools.cached_property
    def manifest(self) -> Manifest:
        """Its manifest. Raises `UserError` if there is none, or one of another schema."""
        return Manifest.load(self.folder)

    def images(self, splits: Collection[str]) -> list[ListedImage]:
        """The images in these splits. Raises `UserError` if there is no `image_list`."""
        return prepared_data.images(self.folder, splits)

    def images_to_train_on(self) -> dict[str, dict[str, list[str]]]:
        """The entry of TRAINING_IMAGES for these data. Empty without an `image_list`."""
        return prepared_data.images_to_train_on(self.folder)

    def statistics(self, without: Collection[str] = ()) -> Statistics | None:
        """The statistics of the images, without the images that have these digests.

        They do not depend on the order of the images.

        Returns:
            None without an `image_list`, and if no image is left.
        """
        from trainer.data.statistics import read_statistics  # loads NumPy

        return read_statistics(self.folder, without)

    @property
    def center_bias(self) -> "CenterBias":
        """The centre bias of the training images, or of a test set. Raises `ContentError` if it is damaged."""
        from trainer.data.center_bias import CenterBias

        return CenterBias.read(self.folder)

    def examples(self, split: str) -> "Iterator[Example]":
        """The examples of a split in order, as arrays, one at a time.

        Raises:
            UserError: there is no prepared dataset, or a shard is missing, damaged or not of this dataset.
        """
        from trainer.data.tfrecords import read_examples

        return read_examples(self.folder, split)

    def some_examples(self, split: str, most: int) -> "list[Example]":
        """About `most` examples of a split, or all: the first ones of each shard, so that few are read of many.

        Raises:
            UserError: as `examples`.
        """
        from trainer.data.tfrecords import some_examples

        return some_examples(self.folder, split, most)

    def held_out(self) -> "Iterator[tuple[Example, Original]]":
        """The held-out images in order, as they are prepared and as the source has them, one at a time.

        Raises:
            UserError: as `examples`, or the originals are not of the held-out images.
        """
        from trainer.data.tfrecords import read_held_out

        return read_held_out(self.folder)

    def pixels(self, original: "Original") -> "NDArray[np.uint8]":
        """(h, w, 3) RGB of a held-out image, decoded as for a training on these data."""
        from trainer.data.decode import decode_original

        return decode_original(original.name, original.file, self.manifest.as_seen)
