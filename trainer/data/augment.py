"""Random variants of training images, the same in every run, on every machine and for every number of replicas."""

import dataclasses

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

GRAY = (0.299, 0.587, 0.114)
"""Weights of R, G and B in the luma of ITU-R BT.601."""


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """Which variants are drawn; the fields are those of `trainer.config.TrainConfig`."""

    flip: bool = False
    zoom: float = 0.0
    color_jitter: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.flip or self.zoom or self.color_jitter)

    def draw(self, count: int, seed: int, epoch: int) -> dict[str, NDArray[np.float32]]:
        """What `vary` does to each of `count` images in an epoch, counted from 0.

        Drawn for all images at once by their index, so that it does not depend on the batch, on the replicas, or
        on where a run resumes. Each kind has a stream of its own, so that one does not change the others.

        Returns:
            flip (n,): 1 for images to mirror, else 0. box (n, 4): top, left, bottom and right of the crop as
            shares of height and width. color (n, 3): factors of brightness, contrast and saturation.
        """
        streams = [np.random.default_rng(np.random.SeedSequence([seed, epoch, kind])) for kind in (1, 2, 3)]
        flips = streams[0].random(count) < 0.5 * self.flip
        sides = 1 - self.zoom * streams[1].random((count, 1))  # height and width keep their ratio
        corners = streams[1].random((count, 2)) * (1 - sides)
        factors = streams[2].uniform(1 - self.color_jitter, 1 + self.color_jitter, (count, 3))
        drawn = {"flip": flips, "box": np.concatenate([corners, corners + sides], 1), "color": factors}
        return {name: values.astype(np.float32) for name, values in drawn.items()}

    def vary(self, batch: dict[str, tf.Tensor], drawn: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The variants of a batch.

        Args:
            batch: stimulus (b, H, W, 3) uint8 and density (b, H, W, 1) uint8, and other tensors, which are kept.
            drawn: rows of `draw` for these images.

        Returns:
            The same shapes and types.
        """
        images = {name: tf.cast(batch[name], tf.float32) for name in ("stimulus", "density")}
        if self.zoom:
            images = {name: _crop(image, drawn["box"]) for name, image in images.items()}
        if self.flip:
            mirrored = drawn["flip"][:, None, None, None] > 0
            images = {name: tf.where(mirrored, image[:, :, ::-1], image) for name, image in images.items()}
        if self.color_jitter:
            images["stimulus"] = _jitter(images["stimulus"], drawn["color"])
        return {**batch, **{name: _to_bytes(image) for name, image in images.items()}}


def _crop(images: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
    """The boxes of the images, bilinear at the images' size."""
    count, (height, width) = tf.shape(images)[0], images.shape[1:3]
    return tf.image.crop_and_resize(images, boxes, tf.range(count), (height, width))


def _jitter(images: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Brightness, then contrast, then saturation, as `ColorJitter` of torchvision defines them."""
    brightness, contrast, saturation = (factors[:, None, None, None, kind] for kind in range(3))
    images = tf.clip_by_value(images * brightness, 0, 255)
    gray = tf.reduce_sum(images * GRAY, axis=-1, keepdims=True)
    mean = tf.reduce_mean(gray, axis=(1, 2, 3), keepdims=True)
    images = tf.clip_by_value(mean + contrast * (images - mean), 0, 255)
    gray = tf.reduce_sum(images * GRAY, axis=-1, keepdims=True)
    return gray + saturation * (images - gray)


def _to_bytes(images: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.round(tf.clip_by_value(images, 0, 255)), tf.uint8)
