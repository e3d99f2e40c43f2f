"""Variants of training images: against SciPy and Pillow, and the same however the images come."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance
from scipy import ndimage

from tests.prepared import write_prepared
from trainer.artifacts import Manifest
from trainer.data.augment import Augmentation
from trainer.data.batches import Split, training_batches

N, HEIGHT, WIDTH = 12, 24, 40
FLIP, ZOOM, COLORS = Augmentation(flip=True), Augmentation(zoom=0.4), Augmentation(color_jitter=0.3)
ALL = Augmentation(flip=True, zoom=0.4, color_jitter=0.3)


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    folder = write_prepared(tmp_path_factory.mktemp("data") / "prepared", n_train=N, size=(HEIGHT, WIDTH))
    return Split.load(folder, Manifest.load(folder), "train")


def varied(split, augmentation, **drawn):
    """The variants of all images; `drawn` overrides what is drawn."""
    of_all = augmentation.draw(N, 1, 0) | {name: np.float32(values) for name, values in drawn.items()}
    batch = {"index": np.arange(N), "stimulus": split.stimulus, "density": split.density}
    tensors = {name: tf.constant(values) for name, values in of_all.items()}
    return augmentation.vary({name: tf.constant(values) for name, values in batch.items()}, tensors)


def test_half_of_the_images_are_mirrored_with_their_maps(split):
    drawn = ALL.draw(10_000, 1, 0)["flip"]
    assert abs(drawn.mean() - 0.5) < 4 * 0.5 / 100  # four standard errors
    assert set(np.unique(drawn)) == {0.0, 1.0}
    flips = np.arange(N) % 2
    variants = varied(split, FLIP, flip=flips)
    for name, originals in (("stimulus", split.stimulus), ("density", split.density)):
        expected = np.where(flips[:, None, None, None] == 1, originals[:, :, ::-1], originals)
        np.testing.assert_array_equal(variants[name], expected)


def test_crop_is_enlarged_as_by_scipy(split):
    boxes = ZOOM.draw(N, 1, 0)["box"]
    variants = varied(split, ZOOM)
    for name, originals in (("stimulus", split.stimulus), ("density", split.density)):
        for variant, original, (top, left, bottom, right) in zip(
            variants[name].numpy(), originals, boxes, strict=True
        ):
            rows, columns = np.linspace(top, bottom, HEIGHT), np.linspace(left, right, WIDTH)
            grid = np.meshgrid(rows * (HEIGHT - 1), columns * (WIDTH - 1), indexing="ij")
            for channel in range(original.shape[-1]):
                expected = ndimage.map_coordinates(
                    np.float64(original[..., channel]), grid, order=1, mode="nearest"
                )
                assert (
                    np.abs(variant[..., channel].astype(np.float64) - expected).max() <= 0.5 + 1e-3
                )  # rounded to bytes


def test_crops_are_inside_and_keep_the_ratio():
    for zoom in (0.1, 0.9):
        boxes = Augmentation(zoom=zoom).draw(1000, 1, 0)["box"].astype(np.float64)
        sizes = boxes[:, 2:] - boxes[:, :2]
        assert boxes.min() >= 0
        assert boxes.max() <= 1 + 1e-6
        np.testing.assert_allclose(sizes[:, 0], sizes[:, 1], atol=1e-6)
        assert 1 - zoom - 1e-6 <= sizes.min() < 1 - 0.95 * zoom
        assert sizes.max() > 1 - 0.05 * zoom


ENHANCERS = ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color


@pytest.mark.parametrize("kind", range(3))
def test_colors_change_as_by_pillow(split, kind):
    factors = np.ones((N, 3))
    factors[:, kind] = np.linspace(0.7, 1.3, N)
    variants = {name: values.numpy() for name, values in varied(split, COLORS, color=factors).items()}
    np.testing.assert_array_equal(variants["density"], split.density)
    for variant, original, factor in zip(variants["stimulus"], split.stimulus, factors[:, kind], strict=True):
        expected = np.asarray(ENHANCERS[kind](Image.fromarray(original)).enhance(factor))
        # Pillow truncates its result, and rounds the grey that it mixes with.
        assert np.abs(variant.astype(int) - expected).max() <= 2


def variants_of(split, batch_size, epoch=0, augmentation=ALL, seed=9, skip_steps=0, **replicas):
    """Index -> variant, of one epoch."""
    seen = {}
    batches = training_batches(split, batch_size, seed, epoch, skip_steps, augmentation=augmentation, **replicas)
    for batch in batches.as_numpy_iterator():
        for index, stimulus, density in zip(batch["index"], batch["stimulus"], batch["density"], strict=True):
            seen[int(index)] = stimulus.tobytes() + density.tobytes()
    return seen


def test_variants_depend_on_the_image_and_the_epoch_alone(split):
    expected = variants_of(split, 1)
    assert len(expected) == N
    assert variants_of(split, 4) == expected
    assert variants_of(split, 4, n_replicas_here=2, n_replicas=2) == expected
    for first in range(2):
        assert variants_of(split, 4, first_replica=first, n_replicas=2).items() < expected.items()
    assert variants_of(split, 4, skip_steps=2).items() < expected.items()
    for other in ({"epoch": 1}, {"seed": 8}):
        changed = variants_of(split, 1, **other)
        assert all(changed[index] != expected[index] for index in range(N))


def test_one_kind_of_variant_does_not_change_the_others():
    drawn = {
        "flip": Augmentation(flip=True),
        "box": Augmentation(zoom=0.4),
        "color": Augmentation(color_jitter=0.3),
    }
    together = ALL.draw(N, 1, 0)
    for name, alone in drawn.items():
        np.testing.assert_array_equal(alone.draw(N, 1, 0)[name], together[name])


def test_nothing_drawn_changes_nothing(split):
    assert not Augmentation()
    variants = varied(split, ALL, flip=np.zeros(N), box=np.tile([0, 0, 1, 1], (N, 1)), color=np.ones((N, 3)))
    np.testing.assert_array_equal(variants["stimulus"], split.stimulus)
    np.testing.assert_array_equal(variants["density"], split.density)
