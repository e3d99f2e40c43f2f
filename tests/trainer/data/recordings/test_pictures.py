"""Pictures and maps of one's own, in all forms that programs write: what the shards hold, or the refusal."""

import io

import numpy as np
import pytest
from PIL import ExifTags, Image
from scipy import io as matlab, ndimage

from tests import refusals
from tests.refused_pictures import chunk
from tests.small_sources import stimulus
from tests.trainer.data.recordings.recorded import rows
from trainer import pictures
from trainer.data import decode, fetch, prepared_data, tfrecords
from trainer.data.settings import FetchConfig
from trainer.errors import ContentError
from trainer.evaluation.scoring import Scorer
from trainer.network.preprocess import Frame

SIZE = (48, 64)
"""(height, width) of the images, pixels, and of the prepared ones."""
NAMES = [f"p{index:02}" for index in range(1, 9)]


def truth(name, sigma_px=4.0, size=SIZE):
    """The density (h, w) of an image, 0..1, of fixations that are most at its centre."""
    random = np.random.default_rng(int(name[1:]))
    points = random.normal(np.array(size) / 2, np.array(size) / 6, (20, 2)).clip(0, np.array(size) - 1)
    marked = np.zeros(size)
    np.add.at(marked, tuple(points.astype(int).T), 1)
    blurred = ndimage.gaussian_filter(marked, sigma_px)
    return (blurred - blurred.min()) / np.ptp(blurred)


def levels(values):
    return np.round(values * 255).astype(np.uint8)


def jet(values):
    """The colours (h, w, 3) of a heat map."""
    channels = [1.5 - np.abs(4 * values - peak) for peak in (3, 2, 1)]
    return levels(np.clip(np.stack(channels, axis=-1), 0, 1))


def with_alpha(colors, alpha):
    colors = np.broadcast_to(colors, (*alpha.shape, 3)).astype(np.uint8)
    return Image.fromarray(np.concatenate([colors, levels(alpha)[..., None]], axis=2))


def write(path, image, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)


def write_maps(folder, make, suffix="png", map_name="{}", maps="maps", names=NAMES, **options):
    """`images/NAME.png` and maps that `make` from the truth."""
    for index, name in enumerate(names):
        write(folder / "images" / f"{name}.png", stimulus(index, SIZE))
        write(folder / maps / f"{map_name.format(name)}.{suffix}", make(truth(name)), **options)
    return folder


def prepare(folder, **settings):
    """The manifest, and name -> example of a source."""
    output = folder.parent / "prepared"
    manifest = fetch.fetch_dataset(
        FetchConfig("custom", str(folder), "48x64", **{"split": "shuffle", **settings}), output
    )
    found = [each for split in prepared_data.SPLITS for each in tfrecords.read_examples(output, split)]
    return manifest, {example.name.rpartition("/")[2]: example for example in found}


def refused(folder, kind, *words, **settings):
    with refusals.refused(kind, *words):
        prepare(folder, **settings)
    assert not (folder.parent / "prepared").exists()


def correlation(first, second):
    return np.corrcoef(first.ravel().astype(float), second.ravel().astype(float))[0, 1]


# === Stimuli ===


def screen(index):
    """A transparent screenshot, whose hidden pixels are black."""
    pixels = np.zeros((*SIZE, 4), np.uint8)
    pixels[8:40, 8:56] = [*np.random.default_rng(index).integers(0, 256, 3), 255]
    pixels[12:30, 10 : 20 + 4 * index, :3] = stimulus(index, SIZE)[12:30, 10 : 20 + 4 * index]
    return Image.fromarray(pixels)


def with_late_orientation(image):
    """A PNG whose orientation tag, turned by 90 degrees, is behind its pixels."""
    content = io.BytesIO()
    image.save(content, "PNG")
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    data = content.getvalue()
    return data[:-12] + chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0")) + data[-12:]


def turned(index):
    """An image lying on its side, and the tag by which it is turned upright."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    return Image.fromarray(stimulus(index, SIZE)).transpose(Image.Transpose.ROTATE_90), exif


def write_transparent(path, index):
    write(path.with_suffix(".png"), screen(index))


def write_palette(path, index):
    write(path.with_suffix(".png"), screen(index).quantize(200))


def write_jpeg(path, index):
    image, exif = turned(index)
    write(path.with_suffix(".jpg"), image, exif=exif, quality=90)


def write_late(path, index):
    path.with_suffix(".png").write_bytes(with_late_orientation(turned(index)[0]))


@pytest.mark.parametrize("write_one", [write_transparent, write_palette, write_jpeg, write_late])
def test_a_picture_is_trained_on_and_evaluated_as_predict_sees_it(write_one, tmp_path):
    source = tmp_path / "lab"
    (source / "images").mkdir(parents=True)
    for index, name in enumerate(NAMES):
        write_one(source / "images" / name, index)
    files = {path.name: path for path in (source / "images").iterdir()}
    points = {name: [(60 - n, 5), (50, 20 + n), (10, 45 - n)] for n, name in enumerate(sorted(files))}
    lines = [f"{name},{x},{y}" for name, own in points.items() for x, y in own]
    (source / "fix.csv").write_text(rows("image,x,y", *lines))
    manifest, examples = prepare(source, coordinates="pixels")
    assert examples.keys() == files.keys()
    assert manifest.original_sizes == {"48x64": len(NAMES)}
    for name, example in examples.items():
        seen = pictures.read_picture(files[name].read_bytes(), name)
        np.testing.assert_array_equal(example.stimulus, np.round(Frame(SIZE).image(seen)))
        assert example.fixations.tolist() == [[y, x] for x, y in points[name]]
    scorer = Scorer(tmp_path / "prepared", manifest, {})
    for example, original in tfrecords.read_held_out(tmp_path / "prepared"):
        seen = pictures.read_picture(files[original.name].read_bytes(), original.name)
        np.testing.assert_array_equal(scorer._pixels(original), seen)
        assert seen.shape[:2] == example.original_size


def test_a_published_dataset_is_read_as_the_reference_reads_it(tmp_path):
    source = write_maps(tmp_path / "lab", levels)
    for index, name in enumerate(NAMES):
        write(source / "images" / f"{name}.png", screen(index))
    config = FetchConfig("osie", str(source), "48x64", allow_partial_data=True)
    manifest = fetch.fetch_dataset(config, tmp_path / "prepared")
    assert not manifest.as_seen
    for example in tfrecords.read_examples(tmp_path / "prepared", "train"):
        assert not example.stimulus[0].any()  # transparent, and black


def test_a_jpeg_has_the_digest_that_it_has_in_a_published_dataset(tmp_path):
    source = write_maps(tmp_path / "lab", levels)
    for index, name in enumerate(NAMES):
        (source / "images" / f"{name}.png").unlink()
        smooth = ndimage.gaussian_filter(stimulus(index, SIZE), (2, 2, 0))
        write(source / "images" / f"{name}.jpg", smooth, quality=60)
    digests = []
    for dataset in ("osie", "custom"):
        config = FetchConfig(dataset, str(source), "48x64", allow_partial_data=dataset == "osie")
        output = tmp_path / dataset
        fetch.fetch_dataset(config, output)
        digests.append({each.name: each.digest for each in prepared_data.images(output, prepared_data.SPLITS)})
    assert digests[0] == digests[1]


# === Maps ===


def transparent_where_black(density):
    return with_alpha(levels(density)[..., None], (density > 0.01).astype(float))


@pytest.mark.parametrize(
    ("make", "suffix"),
    [
        (levels, "png"),
        (levels, "jpg"),
        (levels, "webp"),
        (lambda density: Image.fromarray(levels(density)).convert("RGB"), "png"),
        (lambda density: Image.fromarray(levels(density)).quantize(200), "png"),
        (lambda density: (density * 65535).astype(np.uint16), "png"),
        (lambda density: (density * 1e-3).astype(np.float32), "tiff"),
        (lambda density: np.where(density < 0.01, np.nan, density).astype(np.float32), "tiff"),
        (lambda density: Image.fromarray(levels(density)).resize((32, 24), Image.Resampling.BOX), "png"),
        (lambda density: with_alpha(255, density), "png"),
        (lambda density: with_alpha(0, density), "png"),
        (lambda density: with_alpha((255, 0, 0), density), "png"),
        (lambda density: with_alpha(np.where(density > 0.02, 255, 0)[..., None], density), "png"),
        (transparent_where_black, "png"),
        (lambda density: with_alpha(levels(density)[..., None], np.ones(SIZE)), "png"),
        (lambda density: with_alpha(levels(density)[..., None], np.full(SIZE, 0.5)), "png"),
    ],
)
def test_a_density_in_grey_levels_or_in_transparency_is_right(make, suffix, tmp_path):
    manifest, examples = prepare(write_maps(tmp_path / "lab", make, suffix))
    assert (manifest.bad_images, len(examples)) == ({}, len(NAMES))
    for name, example in examples.items():
        assert correlation(example.density, truth(name[:3])) > 0.99


def overlay(density):
    picture = stimulus(0, SIZE) * (1 - density[..., None]) + jet(density) * density[..., None]
    return picture.astype(np.uint8)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (jet, "coloured"),
        (lambda density: with_alpha(jet(density), density), "coloured"),
        (lambda density: with_alpha(jet(density), np.full(SIZE, 0.5)), "coloured"),
        (lambda density: Image.fromarray(jet(density)).quantize(64), "coloured"),
        (overlay, "coloured"),
        (lambda density: with_alpha(levels(density)[..., None], 1 - density), "transparent"),
        (lambda density: np.full(SIZE, 90, np.uint8), "90"),
        (lambda density: with_alpha(90, np.ones(SIZE)), "90"),
        (lambda density: np.full(SIZE, 0.5, np.float32), "tiff"),
    ],
)
def test_a_map_of_another_form_is_refused(make, word, tmp_path):
    suffix = "tiff" if word == "tiff" else "png"
    refused(write_maps(tmp_path / "lab", make, suffix), ContentError, f"maps/p02.{suffix}", word)


def test_one_map_of_another_form_is_put_aside(tmp_path):
    source = write_maps(tmp_path / "lab", levels)
    write(source / "maps" / "p03.png", jet(truth("p03")))
    manifest, examples = prepare(source, max_bad_share=0.2)
    assert manifest.bad_images.keys() == {"p03.png"}
    assert "coloured" in manifest.bad_images["p03.png"]
    assert len(examples) == len(NAMES) - 1


@pytest.mark.parametrize("sigma_px", [2, 4, SIZE[1] / 8])
@pytest.mark.parametrize("invert", [False, True])
def test_maps_that_are_black_where_people_looked_are_refused(sigma_px, invert, tmp_path):
    def make(name):
        density = truth(name, sigma_px)
        return levels(1 - density if invert else density)

    source = tmp_path / "lab"
    for index, name in enumerate(NAMES):
        write(source / "images" / f"{name}.png", stimulus(index, SIZE))
        write(source / "maps" / f"{name}.png", make(name))
    if invert:
        refused(source, ContentError, 8)
    else:
        assert len(prepare(source)[1]) == len(NAMES)


@pytest.mark.parametrize("kind", ["density", "points"])
def test_a_map_of_one_s_own_is_turned_upright(kind, tmp_path):
    exif = turned(0)[1]
    marked = np.zeros(SIZE, np.uint8)
    marked[5, 60] = 255

    def make(density):
        upright = levels(density) if kind == "density" else marked
        return Image.fromarray(upright).transpose(Image.Transpose.ROTATE_90)

    _, examples = prepare(write_maps(tmp_path / "lab", make, exif=exif))
    for name, example in examples.items():
        if kind == "density":
            assert correlation(example.density, truth(name[:3])) > 0.99
        else:
            assert example.fixations.tolist() == [[5, 60]]


# === Names ===


@pytest.mark.parametrize("map_name", ["{}_fixMap", "{}_heatmap", "map_{}", "a-{}-b", "{}1"])
def test_maps_with_a_common_affix_are_paired(map_name, tmp_path):
    manifest, examples = prepare(write_maps(tmp_path / "lab", levels, map_name=map_name))
    assert manifest.bad_images == {}
    for name, example in examples.items():
        assert correlation(example.density, truth(name[:3])) > 0.99
    assert any(repr(part) in note for note in manifest.notes for part in map_name.split("{}") if part)


def test_numbers_are_paired_by_the_shortest_affix(tmp_path):
    source = tmp_path / "lab"
    names = [*range(1, 10), *range(11, 20)]
    for name in names:
        write(source / "images" / f"{name}.png", stimulus(name, SIZE))
        write(source / "maps" / f"map_{name}.png", levels(truth(f"p{name}")))
    _, examples = prepare(source)
    assert len(examples) == len(names)
    for name, example in examples.items():
        assert correlation(example.density, truth(f"p{name.removesuffix('.png')}")) > 0.99


def test_an_affix_of_some_maps_is_none_of_all(tmp_path):
    source = write_maps(tmp_path / "lab", levels)
    for name in NAMES[:3]:
        (source / "maps" / f"{name}.png").rename(source / "maps" / f"{name}_new.png")
    refused(source, ContentError, "3 of 8", "'p01'", "'p01_new'")


def test_an_image_without_its_map_counts_once(tmp_path):
    source = write_maps(tmp_path / "lab", levels)
    for index, path in enumerate(sorted((source / "maps").iterdir())):
        path.rename(path.with_name(f"other{index * 7919}.png"))
    refused(source, ContentError, "8 of 8")
    write(source / "maps" / "more.png", levels(truth("p01")))
    refused(source, ContentError, "9 of 9")


# === Files that are not read ===


def write_points(folder, images):
    points = [f"{name},{x},{y}" for name in images for x, y in ((60, 5), (50, 20), (10, 45))]
    (folder / "fix.csv").write_text(rows("image,x,y", *points))


@pytest.mark.parametrize(("suffix", "named"), [("avif", "AVIF"), ("heic", "HEIC"), ("png", "AVIF")])
@pytest.mark.parametrize("by", ["maps", "table"])
def test_formats_that_are_not_read_are_named(suffix, named, by, tmp_path):
    brand = {"AVIF": b"avif", "HEIC": b"heic"}[named]
    content = (28).to_bytes(4, "big") + b"ftyp" + brand + bytes(40)
    with refusals.refused(ContentError, "x", named, "PNG"):
        pictures.read_picture(content, "x")
    source = write_maps(tmp_path / "lab", levels, maps="maps" if by == "maps" else "heat")
    for path in (source / "images").iterdir():
        path.unlink()
        path.with_suffix(f".{suffix}").write_bytes(content)
    if by == "table":
        for path in (source / "heat").iterdir():
            path.unlink()
        write_points(source, [path.name for path in (source / "images").iterdir()])
    refused(source, ContentError, f"images/p01.{suffix}", named, "PNG")


def test_folders_that_seem_to_hold_maps_are_named(tmp_path):
    source = write_maps(tmp_path / "lab", levels, maps="saliency_maps/heatmaps_7s")
    refused(source, ContentError, "saliency_maps/heatmaps_7s", "maps/")
    (source / "info.csv").write_text(rows("image,category", *(f"{name}.png,web" for name in NAMES)))
    refused(source, ContentError, "saliency_maps/heatmaps_7s", "maps/")


def test_a_matlab_file_of_version_7_3_is_refused_before_images_are_read(tmp_path, monkeypatch):
    source = write_maps(tmp_path / "lab", levels)
    for name in NAMES:
        path = source / "fixations" / f"{name}.mat"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64" + bytes(500))
    monkeypatch.setattr(decode, "decode", None)
    refused(source, ContentError, "fixations/p01.mat", "-v7", "fixLocs")
    for name in NAMES:
        matlab.savemat(source / "fixations" / f"{name}.mat", {"fixLocs": truth(name) == 1})
    monkeypatch.undo()
    _, examples = prepare(source)
    peaks = {f"{name}.png": np.argwhere(truth(name) == 1).tolist() for name in NAMES}
    assert {name: example.fixations.tolist() for name, example in examples.items()} == peaks
