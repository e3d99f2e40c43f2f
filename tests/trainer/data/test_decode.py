import io
import os

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image
from scipy import io as mat, ndimage

from tests.refusals import refused
from tests.small_sources import POINTS, SIZE, density_map, point_map, stimulus
from trainer.data import decode
from trainer.data.source_layout import Item
from trainer.errors import ContentError
from trainer.metrics.points import blur
from trainer.places.archive_files import Member


def picture(pixels, format="PNG", name="x", **options):
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return file(buffer.getvalue(), f"{name}.{format.lower()}")


def file(content, name):
    return Member(f"set/{name}", f"{name} in set.zip", lambda: content)


def gaze(*observers):
    """A file like SALICON's, of (x, y) counted from 1."""
    structs = np.zeros((len(observers), 1), [("location", "O"), ("timestamp", "O"), ("fixations", "O")])
    for struct, points in zip(structs[:, 0], observers, strict=True):
        struct["fixations"] = np.array(points, np.float64).reshape(-1, 2) if points else np.zeros((0, 0))
    return mat_file({"gaze": structs})


def mat_file(content):
    buffer = io.BytesIO()
    mat.savemat(buffer, content)
    return file(buffer.getvalue(), "x.mat")


def item(map, fixations=None, pixels=None):
    return Item("x.png", picture(stimulus(0) if pixels is None else pixels), map, fixations)


# === Images ===


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, bool])
def test_points_are_detected_for_every_marker_value(dtype):
    marked = (point_map() > 0).astype(dtype)
    decoded = decode.decode(item(picture(marked)), 2.0)
    assert decoded.ground_truth == "points"
    np.testing.assert_array_equal(decoded.gaze.points, POINTS)


def test_only_known_formats_are_decoded(tmp_path, monkeypatch):
    called = tmp_path / "called"
    ghostscript = tmp_path / "gs"
    ghostscript.write_text(f'#!/bin/sh\necho "$@" >> {called}\nexit 1\n')
    ghostscript.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # Pillow looks for it once
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 80 60\n%%EndComments\nshowpage\n%%EOF\n"
    for content in (eps, picture(stimulus(0), "PCX").read(), picture(stimulus(0), "TGA").read()):
        with refused(ContentError, "003.png in set.zip"):
            decode.decode_stimulus(file(content, "003.png"))
    assert not called.exists()


# === Ground truth ===


def test_points_become_a_density_as_the_reference_blurs_them():
    decoded = decode.decode(item(picture(point_map())), 3.0)
    expected = ndimage.gaussian_filter(point_map() / 255, 3.0)
    span = (expected - expected.min()) / (expected.max() - expected.min())
    # Kroner et al., download.py: imsave writes floor(256 x), as a grey that may be one level darker.
    assert set(np.unique(np.minimum(np.floor(256 * span), 255) - decoded.density)) <= {0, 1}
    assert (decoded.density.min(), decoded.density.max()) == (0, 255)
    np.testing.assert_array_equal(decoded.gaze.points, POINTS)


def test_an_image_of_points_in_addition_to_a_density_gives_the_fixations_even_as_jpeg():
    for fixations in (picture(point_map()), picture(point_map(), "JPEG", quality=95)):
        decoded = decode.decode(item(picture(density_map(1)), fixations), 2.0)
        assert decoded.ground_truth == "density"
        np.testing.assert_array_equal(decoded.gaze.points, POINTS)


def looked_at(size=(240, 320), n=60):
    """A map of points (h, w), most near the centre and some next to each other."""
    spread = np.random.default_rng(3).normal(np.array(size) / 2, np.array(size) / 6, (n, 2)).astype(np.int64)
    points = np.concatenate([spread, spread[: n // 4] + 1])
    return point_map(size, np.clip(points, 0, np.array(size) - 1))


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize(
    ("format", "quality"), [("JPEG", 60), ("JPEG", 75), ("JPEG", 90), ("JPEG", 95), ("JPEG", 100), ("WEBP", 75)]
)
def test_points_are_the_same_pixels_in_a_compressed_picture(format, quality, mode):
    points = looked_at()
    compressed = picture(Image.fromarray(points).convert(mode), format, quality=quality)
    for files in ((None, compressed), (compressed, None)):  # of a map, and of fixations
        decoded = decode.decode(item(*files, stimulus(0, points.shape)), 5.0)  # type: ignore[call-arg]
        assert decoded.ground_truth == "points"
        np.testing.assert_array_equal(decoded.gaze.points, np.argwhere(points))
        assert decoded.gaze.is_pictured


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
@pytest.mark.parametrize("sigma_px", [2, 4, 6])
def test_a_density_of_few_bright_pixels_is_none_of_points(sigma_px, format):
    blurred = ndimage.gaussian_filter(looked_at().astype(np.float64), sigma_px)
    density = picture((255 * blurred / blurred.max()).astype(np.uint8), format, name="f")
    pixels = stimulus(0, blurred.shape)
    assert np.mean(blurred > blurred.max() / 2) < 0.02  # as few as points may be
    assert decode.decode(item(density, pixels=pixels), 5.0).ground_truth == "density"
    with refused(ContentError, f"f.{format.lower()} in set.zip"):
        decode.decode(item(None, density, pixels), 5.0)


def test_gaze_counts_from_one_keeps_repeats_and_leaves_out_what_is_outside():
    """Less than a pixel outside belongs to the border."""
    fixations = gaze([(1, 1), (1, 1), (33, 24)], [], [(40, 30), (35, 1), (-1, 5), (5, 4), (5, 0)])
    decoded = decode.decode(item(picture(density_map(1)), fixations), 2.0)
    assert decoded.gaze.points.tolist() == [[0, 0], [0, 0], [23, 31], [3, 4], [0, 4]]
    assert decoded.gaze.observers.tolist() == [0, 0, 0, 2, 2]
    assert (decoded.gaze.n_outside, decoded.gaze.n_blinks) == (3, 0)


def test_fixations_that_are_mostly_outside_are_of_another_image():
    with refused(ContentError, "2 of 3", "24 x 32"):
        decode.decode(item(picture(density_map(1)), gaze([(1, 1), (200, 100), (9, 90)])), 2.0)


def test_blinks_are_no_fixations():
    assert decode.read_gaze(gaze([(1, 1), *[(np.nan, np.nan)] * 9]), (24, 32)).n_blinks == 9
    with refused(ContentError, 2):
        decode.read_gaze(gaze([(np.nan, np.nan), (1, np.nan)]), (24, 32))


def test_fixations_alone_become_the_density():
    matrix = mat_file({"fixLocs": point_map() // 255})
    decoded = decode.decode(item(None, matrix), 2.0)
    assert decoded.ground_truth == "points"
    np.testing.assert_array_equal(decoded.gaze.points, POINTS)
    np.testing.assert_array_equal(decoded.density, blur(POINTS, SIZE, 2.0))


def test_a_map_of_another_size_and_the_same_ratio_is_accepted():
    decoded = decode.decode(item(picture(point_map()), pixels=stimulus(0, (48, 64))), 2.0)
    assert decoded.density.shape == (48, 64)
    assert decoded.gaze.points.tolist() == (2 * POINTS + 1).tolist()


@pytest.mark.parametrize(("size", "fits"), [((25, 32), True), ((24, 33), True), ((24, 35), False)])
def test_the_ratio_of_a_map_may_differ_by_one_pixel(size, fits):
    resized = picture(density_map(0, size), name="map")
    if fits:
        assert decode.decode(item(resized), 2.0).density.shape == size
    else:
        with refused(ContentError, "map.png in set.zip", f"{size[0]} x {size[1]}", "24 x 32"):
            decode.decode(item(resized), 2.0)


@pytest.mark.parametrize(
    ("map", "fixations", "named"),
    [
        (picture(np.zeros(SIZE, np.uint8)), None, "x.png in set.zip"),
        (picture(np.zeros(SIZE, np.uint16)), None, "x.png in set.zip"),
        (picture(density_map(1)), gaze([], []), "x.mat in set.zip"),
    ],
)
def test_ground_truth_that_cannot_be_used_is_named(map, fixations, named):
    with refused(ContentError, named):
        decode.decode(item(map, fixations), 2.0)


@pytest.mark.parametrize(
    ("map", "is_points"),
    [
        (point_map(), True),
        (density_map(0), False),
        (point_map(points=np.argwhere(np.ones((4, 5)))), False),  # 20 of 768 pixels are more than 2%
        (np.where(density_map(0) % 100 == 7, density_map(0), 0), True),  # three levels in 1.2%
        (np.eye(400, dtype=np.uint8) * np.arange(400, dtype=np.uint8), False),  # 256 levels in 0.25%
    ],
)
def test_points_are_distinguished_from_a_density(map, is_points):
    assert decode.is_points(map) == is_points


def test_points_move_with_the_image_into_its_box():
    moved = decode.rescale_points(np.array([[0, 0], [479, 639], [240, 320]]), (15, 0, 120, 160), (480, 640))
    assert moved.tolist() == [[15, 0], [134, 159], [75, 80]]
