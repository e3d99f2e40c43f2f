"""The site in headless Chromium: the browser's maps, figures and pictures are those of Python."""

import base64
import csv
import io
import json
import re

import numpy as np
import pytest
from PIL import ExifTags, Image

from studio.demo.app import PAGE, shrink_maps
from studio.site.build import SHA512, build_site, fetch_runtime
from tests.narrow import narrowed, weights_of
from tests.refusals import refused
from tests.studio.demo import SIZE, encoded, picture, written
from tests.studio.site import FIRST, ISOLATED, SECOND, click_extension, extended, opening, received, sent, serving
from tests.trainer import predictable
from trainer.api import Model, read_picture
from trainer.errors import MismatchError, NotFoundError
from trainer.models.answering import Answering
from trainer.network.compact import write_compact
from trainer.network.model_folder import PICTURE
from trainer.network.preprocess import Frame
from trainer.prediction import heat
from trainer.prediction.predictor import Prepared
from trainer.prediction.regions import Region, measure_regions
from trainer.prediction.screens import rows_of_screens

LEVEL = 1 / 255
PREDICT = """async ([bytes, screen]) => {
  const file = new File([decoded(bytes)], "image.png");
  const { values, ...map } = await (await import("./server.js")).predict(file, { screen });
  return { ...map, values: await encoded(values) };
}"""
PREPARE = """async ([bytes, [height, width], size]) => {
  const image = { values: decoded(bytes), height, width, channels: 3 };
  return encoded((await import("./resize.js")).prepare(image, [0, height], size).values);
}"""
RESTORE = """async ([each, [height, width], rows, size]) => {
  const [{ restore }, { peaked }, { joined }] = [
    await import("./resize.js"), await import("./kinds.js"), await import("./screens.js"),
  ];
  const maps = each.map((bytes, index) => {
    const grid = { values: new Float32Array(decoded(bytes).buffer), height, width, channels: 1 };
    const map = restore(grid, { height: rows[index][1] - rows[index][0], width: size[1] });
    return each.length > 1 ? peaked(map) : map;
  });
  return encoded(joined(maps, rows, { height: size[0], width: size[1] }).values);
}"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An untrained narrow model whose kernels have 8 bits, as those of the export."""
    folder = tmp_path_factory.mktemp("site") / "model"
    with narrowed():
        write_compact(weights_of(predictable.network(3)), folder, {"image_size": list(SIZE), "dataset": "osie"})
        return Model(Answering("tiny", folder)).load()


@pytest.fixture(scope="module")
def folder(model, runtime, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    with narrowed():
        build_site(model, runtime, folder)
    return folder


@pytest.fixture(scope="module")
def usual(browser, folder):
    """The site, which tests share: its start takes a second."""
    with opening(browser, folder) as watched:
        yield watched


@pytest.fixture
def page(usual):
    """The site, newly loaded; fails on troubles."""
    usual.page.evaluate("sessionStorage.clear()")  # the regions of the test before
    usual.page.reload()
    usual.page.locator(f"{FIRST} .choose").wait_for()
    usual.troubles.clear()  # requests of the page before
    yield usual.page
    assert usual.troubles == []


def predict(page, content, screen=""):
    """The maps of the browser, (n, h, w), of each screen."""
    found = page.evaluate(PREDICT, [base64.b64encode(content).decode(), screen])
    return received(found["values"]).reshape(len(found["windows"]), found["height"], found["width"])


def choose(page, name, content, panel=FIRST):
    upload = {"name": name, "mimeType": "image/png", "buffer": content}
    page.locator(f"{panel} input[type=file]").set_input_files(upload)


def load_image(page, name, pixels, panel=FIRST):
    choose(page, name, encoded(pixels), panel)
    page.locator(f"{panel} .name", has_text=name).wait_for()


def download(page, selector):
    with page.expect_download() as download:
        page.click(selector)
    return download.value.suggested_filename, download.value.path().read_bytes()


# === Numbers ===


@pytest.mark.parametrize("size", [(64, 96), (90, 130), (700, 513), (31, 20), (1, 7), (65, 3000), (400, 64)])
def test_images_are_resized_as_in_python(usual, size):
    pixels = picture(*size)
    found = received(usual.page.evaluate(PREPARE, [sent(pixels), size, SIZE]))
    # Sums in double precision instead of single: 24 bits of 255, times the pixels that are averaged.
    expected = Frame(SIZE).image(pixels)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-3)


@pytest.mark.parametrize(
    ("size", "screen"),
    [((90, 130), "whole"), ((64, 96), "whole"), ((40, 30), "whole"), ((500, 7), "whole"), ((501, 350), "desktop")],
)
def test_maps_are_resized_as_in_python(usual, model, size, screen):
    rows = rows_of_screens(size, screen)
    predictions = np.random.default_rng(0).random((len(rows), *SIZE), np.float32)
    wanted = [[sent(each) for each in predictions], SIZE, [[each.start, each.stop] for each in rows], size]
    found = received(usual.page.evaluate(RESTORE, wanted))
    expected = model._loaded.restore(Prepared(size, 0, rows, {}), {PICTURE: predictions})
    np.testing.assert_allclose(found.reshape(size), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "screen"),
    [
        ((300, 400), ""),
        ((60, 95), ""),
        ((1101, 1777), ""),  # reduced for the page
        ((2103, 390), "phone"),
        ((1700, 900), ""),
        ((1700, 900), "desktop"),
        ((2103, 390), "whole"),
    ],
)
@pytest.mark.parametrize("draw", [picture, written])
def test_maps_of_the_browser_are_those_of_python(usual, model, size, screen, draw):
    pixels = draw(*size)
    found = predict(usual.page, encoded(pixels), screen)
    # Where the middle of a pixel is on the border of two parts of the reduced map, it may count for either.
    np.testing.assert_allclose(found, shrink_maps(model.predict(pixels, screen)), atol=1e-3)


def rotated(pixels):
    """A JPEG of the size (40, 60) that is seen with (60, 40)."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    return encoded(pixels, "JPEG", quality=95, subsampling=0, exif=exif)


def transparent(pixels):
    alpha = np.linspace(0, 255, pixels.shape[1]).astype(np.uint8)
    return encoded(np.dstack([pixels, np.broadcast_to(alpha, pixels.shape[:2])]))


def deep(pixels):
    """A PNG with 16 bits of grey."""
    return encoded(pixels[..., 0].astype(np.uint16) * 257)


@pytest.mark.parametrize("encode", [rotated, transparent, deep])
def test_files_are_decoded_as_in_python(usual, model, encode):
    content = encode(picture(40, 60))
    pixels = read_picture(content, "image.png")
    (found,) = predict(usual.page, content)
    np.testing.assert_allclose(found, model.predict(pixels), atol=2 * LEVEL)


def test_threads_give_the_same_map(browser, folder, model):
    pixels = picture(90, 130)
    with opening(browser, folder, ISOLATED) as watched:
        assert watched.page.evaluate("crossOriginIsolated")
        (found,) = predict(watched.page, encoded(pixels))
    np.testing.assert_allclose(found, model.predict(pixels), atol=1e-4)


# === Use ===


def test_regions_of_an_example_are_measured(page, model):
    page.click("[data-example='examples/coffee.jpg']")
    page.locator(f"{FIRST} .name", has_text="coffee.jpg").wait_for()
    page.click("#add")
    name, content = download(page, "#json")
    assert name == "coffee_regions.json"
    (found,) = json.loads(content)
    region = Region(found["region"], found["x"], found["y"], found["width"], found["height"])
    pixels = np.asarray(Image.open(PAGE / "examples" / "coffee.jpg").convert("RGB"))
    (expected,) = measure_regions(model.predict(pixels), [region])
    assert found["share"] == pytest.approx(expected.share, abs=LEVEL)


def test_floor_of_a_region_is_that_of_python(page, model):
    pixels = picture(300, 400)
    load_image(page, "one.png", pixels)
    page.click("#add")
    page.locator("tbody td:nth-child(3)", has_text="%").wait_for()
    (found,) = json.loads(download(page, "#json")[1])
    region = Region(found["region"], found["x"], found["y"], found["width"], found["height"])
    saliency = model.predict(pixels)
    (measured,) = measure_regions(saliency, [region])
    assert found["floor"] == pytest.approx(model.floor(pixels, saliency, measured), abs=LEVEL)
    assert found["floor"] != pytest.approx(measured.share, abs=LEVEL / 10)


def test_downloads_are_those_of_python(page, model):
    pixels = picture(60, 80)
    load_image(page, "one.png", pixels)
    page.locator("#opacity").fill("60")
    density = model.predict(pixels)
    grey = np.asarray(heat.draw_grey(density))[..., None]
    for kind, expected in (("overlay", heat.blend(pixels, density, 0.6)), ("map", grey)):
        name, content = download(page, f"{FIRST} .save-{kind}")
        assert name == f"one_{kind}.png"
        found = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)
        assert found.shape == pixels.shape
        # A level of the map may be rounded the other way, and the overlay's colours with it.
        assert np.abs(found - expected).max() <= 2


def test_two_images_are_compared(page):
    load_image(page, "a.png", picture(60, 80, 1))
    page.click("#compare")
    load_image(page, "b.png", picture(60, 80, 2), SECOND)
    page.locator("#difference").wait_for()
    assert "of the attention is elsewhere" in page.locator("#difference .note").inner_text()


def test_many_images_are_a_strip_with_one_table(page, model):
    pixels = {f"{seed}.png": picture(60, 80, seed) for seed in range(3)}
    uploads = [{"name": name, "mimeType": "image/png", "buffer": encoded(each)} for name, each in pixels.items()]
    page.locator(f"{FIRST} input[type=file]").set_input_files(uploads)
    page.locator("#strip .progress", has_text="3 of 3 images predicted").wait_for()
    page.click("#add")
    page.locator("#all td", has_text="peak").nth(2).wait_for()
    rows = list(csv.DictReader(io.StringIO(download(page, "#all-csv")[1].decode())))
    assert [row["file"] for row in rows] == list(pixels)
    for row in rows:
        region = Region("", *(float(row[side]) for side in ("x", "y", "width", "height")))
        (expected,) = measure_regions(model.predict(pixels[row["file"]]), [region])
        assert float(row["share"]) == pytest.approx(expected.share, abs=LEVEL)
    page.click("#strip .close")  # else the browser asks before it loads the page again


def test_page_says_that_images_stay_and_asks_for_no_address(page):
    assert "stay in this browser" in page.locator("#privacy").inner_text()
    assert not page.locator(f"{FIRST} .address").is_visible()


def test_policy_of_the_page_holds(usual):
    usual.page.reload()
    refused = usual.page.evaluate("fetch('http://127.0.0.1:9/').catch((error) => error.message)")
    assert refused == "Failed to fetch"
    assert any("violates the following Content Security Policy" in trouble for trouble in usual.troubles)
    usual.troubles.clear()


def test_last_of_two_images_wins(page):
    choose(page, "slow.png", encoded(written(2103, 390)))
    choose(page, "next.png", encoded(picture(60, 40)))
    page.locator(".name", has_text="next.png").wait_for()
    assert page.locator(f"{FIRST} .screens").inner_text() == ""


def test_a_prediction_can_be_cancelled(page):
    load_image(page, "first.png", picture(60, 40))
    choose(page, "slow.png", encoded(written(21030, 390)))
    page.locator(f"{FIRST} .busy", has_text=re.compile(r"Predicting screen \d+ of 23… \d+%")).wait_for()
    page.click(f"{FIRST} .cancel")
    assert page.locator(f"{FIRST} .name").inner_text() == "first.png"
    load_image(page, "next.png", picture(40, 60))


def test_other_files_are_refused(page):
    choose(page, "photo.tif", encoded(picture(60, 40), "TIFF"))
    page.locator("#message", has_text="photo.tif is damaged, or not JPEG, PNG, WebP, GIF, AVIF or BMP").wait_for()


@pytest.mark.parametrize("name", ["model.onnx", "ort-wasm-simd-threaded.wasm", "worker.js"])
def test_files_that_do_not_arrive_are_fetched_again(browser, folder, name):
    with opening(browser, folder, refused=[name]) as watched:
        choose(watched.page, "one.png", encoded(picture(60, 40)))
        watched.page.locator("#message .retry").wait_for()
        assert watched.troubles
        watched.page.context.unroute_all()
        watched.troubles.clear()
        watched.page.click("#message .retry")
        watched.page.locator(f"{FIRST} .name", has_text="one.png").wait_for()


# === Building ===


def test_another_archive_than_the_published_one_is_refused(model, tmp_path):
    with refused(MismatchError, SHA512):
        build_site(model, b"another", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_without_npm_the_command_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with refused(NotFoundError, "npm"):
        fetch_runtime()


# === As an extension ===


def test_button_shows_the_map_of_the_tab(browser, folder, tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "garden.html").write_text("<h1>Everything for your garden</h1><button>Buy</button>")
    with (
        serving(tmp_path / "shop", {}) as host,
        extended(browser, folder, tmp_path / "profile") as (context, extension),
    ):
        address = f"{host}garden.html"
        context.new_page().goto(address)
        page = click_extension(context, extension, address)
        page.locator(f"{FIRST} .name", has_text="garden.html.png").wait_for()
        assert page.locator(f"{FIRST} .size").inner_text().startswith("640")
        assert page.evaluate("crossOriginIsolated")
        page.reload()  # the picture was given once, and is kept nowhere
        page.locator(f"{FIRST} .choose").wait_for()
