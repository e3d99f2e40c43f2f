"""Grey pictures in the place of maps: what the shards hold of honest ones, and what is refused."""

import io

import numpy as np
import pytest
from matplotlib import image as pyplot_image
from matplotlib.figure import Figure
from PIL import Image
from scipy import ndimage

from tests import refusals
from tests.small_sources import save
from trainer.data import fetch, honest_maps, prepared_data, tfrecords
from trainer.data.honest_maps import Traits
from trainer.data.settings import FetchConfig
from trainer.errors import ContentError

SIZE = (120, 160)
"""(height, width) of the images and of the prepared ones, pixels."""
N = 8


def picture(index):
    """A photograph-like image (h, w, 3): patches with sharp edges and some noise."""
    random = np.random.default_rng(index)
    patches = ndimage.gaussian_filter(random.normal(size=SIZE), 6) > 0
    grey = np.where(patches, 170, 60) + random.normal(0, 12, SIZE)
    return np.repeat(grey.clip(0, 255).astype(np.uint8)[..., None], 3, axis=2)


def truth(index, sigma_px=5.0):
    """A density (h, w), 0 to 1, of fixations that are most at the centre."""
    random = np.random.default_rng(100 + index)
    points = random.normal(np.array(SIZE) / 2, np.array(SIZE) / 6, (20, 2)).clip(0, np.array(SIZE) - 1)
    marked = np.zeros(SIZE)
    np.add.at(marked, tuple(points.astype(int).T), 1)
    blurred = ndimage.gaussian_filter(marked, sigma_px)
    return blurred / blurred.max()


def levels(values):
    return np.round(255 * values).astype(np.uint8)


def grey(index):
    return picture(index)[..., 0] / 255


def edges(index):
    slopes = ndimage.gaussian_gradient_magnitude(grey(index), 1)
    return slopes / slopes.max()


def as_jpeg(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=75)
    return np.asarray(Image.open(file))


def savefig(density, cmap="gray", axis="on", axes=None, behind=None):
    """(h, w) of a density as Matplotlib saves it, in axes of its own choice or at `axes`."""
    figure = Figure(figsize=(SIZE[1] / 40, SIZE[0] / 40), dpi=40)
    drawn = figure.add_axes(axes) if axes else figure.add_subplot()
    drawn.imshow(density, cmap=cmap)
    if behind is not None:
        drawn.imshow(behind, cmap="gray", alpha=0.5)
    drawn.axis(axis)
    return saved(figure.savefig)


def saved(save_to, *arguments, **options):
    file = io.BytesIO()
    save_to(file, *arguments, format="png", **options)
    return np.asarray(Image.open(file).convert("L"))


def write(folder, make, n=N):
    """`images/N.png` and the maps that `make(index)` makes."""
    for index in range(n):
        save(folder / "images" / f"{index}.png", picture(index))
        save(folder / "maps" / f"{index}.png", make(index))
    return folder


def prepare(folder):
    """The manifest, and the example of each image by its number."""
    output = folder.parent / "prepared"
    manifest = fetch.fetch_dataset(FetchConfig("custom", str(folder), "120x160", split="shuffle"), output)
    found = [each for split in prepared_data.SPLITS for each in tfrecords.read_examples(output, split)]
    return manifest, {int(example.name.rpartition("/")[2].partition(".")[0]): example for example in found}


def refused(folder, *named):
    with refusals.refused(ContentError, *named):
        prepare(folder)
    assert not (folder.parent / "prepared").exists()


def background_of(manifest):
    """The level that the notes say is about subtracted, 0 if they say nothing of it."""
    (note,) = [each for each in manifest.notes if "background" in each] or ["level 0 "]
    return int(note.partition("level ")[2].split()[0])


def assert_is_truth(examples):
    assert len(examples) == N
    for index, example in examples.items():
        density = example.density.astype(float)
        assert np.corrcoef(density.ravel(), truth(index).ravel())[0, 1] > 0.99
        assert np.quantile(density / density.max(), 0.05) < 0.01


# === Sets of maps ===


@pytest.mark.parametrize(
    "make",
    [
        lambda index: levels(truth(index)),
        lambda index: as_jpeg(levels(truth(index))),
        lambda index: saved(pyplot_image.imsave, truth(index), cmap="gray"),
        lambda index: savefig(truth(index), axis="off", axes=(0, 0, 1, 1)),
    ],
    ids=["plain", "jpeg", "imsave", "savefig without margins"],
)
def test_honest_maps_stay_as_they_are(make, tmp_path):
    manifest, examples = prepare(write(tmp_path / "lab", make))
    assert_is_truth(examples)
    assert background_of(manifest) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda index: savefig(truth(index)),
        lambda index: savefig(truth(index), axis="off"),
        lambda index: savefig(truth(index), axis="off", axes=(0.02, 0.02, 0.96, 0.96)),
        lambda index: savefig(truth(index), cmap="gray_r"),
        lambda index: savefig(truth(index), behind=grey(index)),
        lambda index: levels(1 - truth(index)),
        lambda index: levels(1 - truth(index, 20)),
        lambda index: levels(0.5 + 0.5 * (1 - truth(index))),
    ],
    ids=["axes", "off", "narrow margins", "gray_r", "over the image", "inverted", "inverted wide", "both"],
)
def test_maps_that_are_brightest_at_the_border_are_refused(make, tmp_path):
    refused(write(tmp_path / "lab", make), 8, "maps/0.png", "border", "margins", "black")


@pytest.mark.parametrize(
    "make",
    [
        lambda index: levels(0.5 * truth(index) + 0.5 * grey(index)),
        lambda index: levels(0.9 * truth(index) + 0.1 * grey(index)),
        lambda index: levels(np.maximum(truth(index), 0.3 * grey(index))),
        lambda index: savefig(truth(index), axis="off", axes=(0, 0, 1, 1), behind=grey(index)),
        lambda index: levels(grey(index)),
        lambda index: levels(1 - grey(index)),
        lambda index: levels(edges(index)),
        lambda index: levels(edges(index) > 0.3),
    ],
    ids=["blended", "faint", "lightened", "savefig", "the image", "its negative", "its edges", "lines"],
)
def test_maps_that_follow_the_edges_of_their_images_are_refused(make, tmp_path):
    refused(write(tmp_path / "lab", make), 8, "maps/0.png", "edges")


def blurred(index):
    light = ndimage.gaussian_filter(grey(index), 6)
    return levels(
        (light - light.min()) / np.ptp(light) * (np.hanning(SIZE[0])[:, None] * np.hanning(SIZE[1])) ** 0.1
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda index: levels(truth(index) > 0.3),
        lambda index: levels(np.kron(np.random.default_rng(index).integers(0, 6, (3, 4)), np.ones((40, 40))) / 5),
        lambda index: levels(truth(index) * np.random.default_rng(index).random(SIZE)),
        lambda index: levels(truth(0)),
        blurred,
    ],
    ids=["masks", "labels", "noise", "one map for all", "blurred pictures"],
)
def test_maps_that_are_no_densities_are_refused(make, tmp_path):
    refused(write(tmp_path / "set", make), "8 of 8")


def test_edges_of_other_images_are_not_looked_for():
    """What a map shares with its own image counts."""
    own, other = (Traits.of(levels(edges(1)), picture(index)) for index in (1, 2))
    assert other.edges < honest_maps.MOST_EDGES < own.edges


@pytest.mark.parametrize("n_bad", [4, 5])
def test_most_maps_decide(n_bad, tmp_path):
    source = write(
        tmp_path / "lab", lambda index: savefig(truth(index)) if index < n_bad else levels(truth(index))
    )
    if n_bad > N / 2:
        refused(source, 5, 8, "border")
    else:
        assert len(prepare(source)[1]) == N


# === Backgrounds ===


@pytest.mark.parametrize(
    ("make", "level"),
    [
        (lambda index: 128 + levels(truth(index) * 127 / 255), 128),
        (lambda index: as_jpeg(128 + levels(truth(index) * 127 / 255)), 128),
        (lambda index: 20 + levels(truth(index) * 235 / 255), 20),
        (lambda index: (32768 + truth(index) * 32767).astype(np.uint16), 128),
        (lambda index: levels((truth(index) + 0.1 * index + 0.1) / (1.1 + 0.1 * index)), 85),  # 4 of 8: 0.5 / 1.5
    ],
    ids=["128", "jpeg", "20", "16 bits", "other levels"],
)
def test_a_grey_background_is_subtracted_and_said(make, level, tmp_path):
    manifest, examples = prepare(write(tmp_path / "lab", make))
    assert_is_truth(examples)
    assert background_of(manifest) == pytest.approx(level, abs=1)


def test_points_on_a_grey_background_are_fixations(tmp_path):
    def make(index):
        marked = np.full(SIZE, 128, np.uint8)
        marked[60, 70 + index] = marked[50, 90] = 255
        return marked

    manifest, examples = prepare(write(tmp_path / "lab", make))
    assert manifest.ground_truth == "points"
    assert background_of(manifest) == 128
    assert examples[3].fixations.tolist() == [[50, 90], [60, 73]]


def test_a_pedestal_that_cannot_be_told_from_attention_is_refused(tmp_path):
    source = write(tmp_path / "lab", lambda index: 128 + levels(truth(index, 40) * 127 / 255))
    refused(source, 8, "maps/0.png", 127)


def test_a_wide_blur_is_no_background(tmp_path):
    """No part of such a map is flat, and its darkest level is none that was added."""
    manifest, examples = prepare(write(tmp_path / "lab", lambda index: levels(truth(index, 40))))
    assert min(example.density.min() for example in examples.values()) > 8
    assert background_of(manifest) == 0


def test_a_map_that_is_all_background_is_named(tmp_path):
    def make(index):
        if index != 3:
            return 128 + levels(truth(index) * 127 / 255)
        marked = np.full(SIZE, 128, np.uint8)
        marked[0, :9] = 120
        return marked

    refused(write(tmp_path / "lab", make), "maps/3.png", 0)


# === One map ===


def test_the_border_is_compared_with_what_is_inside():
    density = np.zeros(SIZE, np.uint8)
    assert Traits.of(density, picture(0)).border == 0.5
    density[:2], density[40:80, 40:80] = 100, 200  # 320 of 1,104 pixels at the border, and 1,600 of 18,096 inside
    brighter, darker = 320 * (18_096 - 1_600), 1_104 * 1_600
    assert Traits.of(density, picture(0)).border == pytest.approx(brighter / (brighter + darker))


def test_the_smallest_map_has_traits():
    traits = Traits.of(np.array([[7]], np.uint8), np.zeros((1, 1, 3), np.uint8))
    assert (traits.border, traits.edges, traits.darkest, traits.flat) == (0.5, 0, 7, 1)
