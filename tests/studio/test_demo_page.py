"""The page in headless Chromium: use by mouse, touch and keys, and the figures that it shows."""

import base64
import concurrent.futures
import contextlib
import csv
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from studio.demo import app
from studio.designs import read_all
from studio.difference import share_moved
from tests import kinds
from tests.browser import Watched
from tests.studio import pages
from tests.studio.demo import Held, encoded, picture, serving, write_model, written
from trainer.api import Change
from trainer.models.provenance import Provenance
from trainer.prediction import heat
from trainer.prediction.regions import Region, measure_regions, read_regions
from trainer.wording import MINUS, TIMES

pytestmark = pytest.mark.usefixtures("narrow")

DROP = """([target, files]) => {
  const transfer = new DataTransfer();
  for (const [name, text] of files) {
    transfer.items.add(new File([Uint8Array.from(atob(text), (character) => character.charCodeAt(0))], name));
  }
  const element = document.querySelector(target);
  for (const kind of ["dragover", "drop"]) {
    element.dispatchEvent(new DragEvent(kind, {dataTransfer: transfer, bubbles: true, cancelable: true}));
  }
}"""
PASTE = """async () => {
  const canvas = new OffscreenCanvas(50, 40);
  canvas.getContext("2d").fillRect(10, 10, 20, 20);
  const transfer = new DataTransfer();
  transfer.items.add(new File([await canvas.convertToBlob()], "image.png"));
  document.dispatchEvent(new ClipboardEvent("paste", {clipboardData: transfer, bubbles: true, cancelable: true}));
}"""
TOLD = """() => {
  window.told = [];
  const place = document.querySelector(".busy span");
  const add = (changes) => told.push(...changes.flatMap(({addedNodes: [text]}) => text?.data ?? []));
  new MutationObserver(add).observe(place, {childList: true});
}"""
LOADED = (
    "() => Promise.all([...document.images].filter((each) => each.checkVisibility()).map((each) => each.decode()))"
)
FIRST, SECOND = "#images > :nth-child(1)", "#images > :nth-child(2)"


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    return Held(write_model(tmp_path_factory.mktemp("demo") / "model"))


@pytest.fixture(scope="module")
def address(predictor):
    with serving(predictor) as address:
        yield address


@pytest.fixture(scope="module")
def usual(browser, address):
    """The page in a context without options, which tests share: to make one takes a second."""
    with browser.new_context() as context:
        watched = Watched(context, address)
        watched.page.wait_for_load_state("networkidle")  # a test opens it again, which would cancel requests
        yield watched


@pytest.fixture
def opened(browser, usual, address):
    """Opens the page with options of a browser context; fails on troubles that the test has not removed."""
    watched = []
    with contextlib.ExitStack() as contexts:

        def open_page(place=address, **options):
            if options or place != address:
                watched.append(Watched(contexts.enter_context(browser.new_context(**options)), place))
            else:
                usual.page.evaluate("sessionStorage.clear()")  # the regions of the test before
                usual.page.goto(address)
                watched.append(usual)
            watched[-1].page.locator(f"{FIRST} .choose").wait_for()
            # Else the next test, which opens the page again, could cancel their requests.
            watched[-1].page.evaluate(LOADED)
            return watched[-1]

        yield open_page
        for each in watched:
            rest(each.page)  # else the next test, which opens the page again, would cancel its requests
    assert [troubles_of(each) for each in watched] == [[] for _ in watched]


def rest(page):
    """Wait until the page has predicted what it predicts while it rests."""
    page.wait_for_function("() => !document.querySelector('#work.is-measuring')")


def troubles_of(watched):
    """The troubles of a page but maps: some are cancelled, and Chromium calls a stream that was read failed."""
    return [each for each in watched.troubles if not re.search(r"^failed: .*/map\?", each)]


def file(name, pixels):
    return {"name": name, "mimeType": "image/png", "buffer": encoded(pixels)}


def load(page, upload, panel=FIRST):
    page.locator(f"{panel} input[type=file]").set_input_files(upload)
    page.locator(f"{panel} .name", has_text=upload["name"]).wait_for()


def drag(page, start, end, panel=FIRST):
    """Drag from one position on the image to another, both (x, y) in 0..1."""
    box = page.locator(f"{panel} .boxes").bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*np.mean(places, axis=0).tolist())
    page.mouse.move(*places[1])
    page.mouse.up()


def download(page, selector):
    """Name and bytes of the file that a button downloads."""
    with page.expect_download() as download:
        page.click(selector)
    return download.value.suggested_filename, download.value.path().read_bytes()


def rows(page, has_floors=False):
    """The rows of the regions' CSV, with numbers as floats, and with floors, which come later, if asked for."""
    _, content = download(page, "#csv")
    texts = ("picture", "file", "region", "selector")
    return [
        {
            name: value if name in texts else float(value) if value else None
            for name, value in row.items()
            if has_floors or name != "floor"
        }
        for row in csv.DictReader(io.StringIO(content.decode()))
    ]


def check(row, map, tolerance):
    """A row of the CSV is what `trainer.prediction.regions` measures on the map."""
    region = Region(row["region"], row["x"], row["y"], row["width"], row["height"])
    expected = measure_regions(map, [region])[0]
    assert row["share"] == pytest.approx(expected.share, abs=tolerance)
    assert row["area"] == pytest.approx(expected.area, abs=1e-9)
    assert row["ratio"] == pytest.approx(expected.ratio, abs=1.01 * tolerance / expected.area)
    assert row["peak"] == pytest.approx(expected.peak, abs=100 * tolerance)


def test_model_of_the_sample_set_says_so_above_everything(opened, tmp_path, address):
    notice = Provenance({"source": "sample"}).notice()
    with serving(Held(write_model(tmp_path / "model", source="sample"))) as sample_address:
        shown = opened(sample_address).page.locator("#notice")
        assert shown.inner_text().strip() == notice
        assert shown.bounding_box()["y"] < 200
    assert not opened(address).page.locator("#notice").is_visible()


# === Choosing images ===


def test_dropped_image_gets_its_map(opened, predictor):
    page = opened().page
    pixels = picture(90, 130)
    page.evaluate(DROP, [".empty", [["a photo.png", base64.b64encode(encoded(pixels)).decode()]]])
    page.locator(".name", has_text="a photo.png").wait_for()
    assert page.locator(f"{FIRST} .size").inner_text() == f"130 {TIMES} 90"
    alpha = page.evaluate(
        "() => { const canvas = document.querySelector('.shown canvas');"
        " return [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
        ".filter((_, index) => index % 4 === 3); }"
    )
    levels = np.rint(255 * predictor.predict(pixels)).astype(int)
    steepest = 255 * np.diff(heat.STRENGTHS).max() + 1  # a level may be rounded the other way
    assert np.abs(np.reshape(alpha, (90, 130)) - 255 * heat.STRENGTHS[levels]).max() <= steepest
    page.locator("#status", has_text="Its peak is").wait_for(state="attached")


def test_two_dropped_images_are_compared_and_a_pasted_one_replaces_the_first(opened):
    page = opened().page
    files = [[f"{seed}.png", base64.b64encode(encoded(picture(40, 60, seed))).decode()] for seed in (1, 2)]
    page.evaluate(DROP, ["body", files])
    page.locator("#difference").wait_for()
    assert page.locator(".name:visible").all_inner_texts() == ["1.png", "2.png"]
    page.evaluate(PASTE)
    page.locator(f"{FIRST} .name", has_text="image.png").wait_for()
    assert page.locator(f"{SECOND} .name").inner_text() == "2.png"


def test_last_of_two_images_wins(opened, predictor):
    page = opened().page
    predictor.let_go.clear()
    try:
        page.locator(f"{FIRST} input[type=file]").set_input_files(file("slow.png", picture(40, 60, 1)))
        page.locator(".busy:visible").wait_for()
        page.locator(f"{FIRST} input[type=file]").set_input_files(file("next.png", picture(60, 40, 2)))
    finally:
        predictor.let_go.set()
    page.locator(".name", has_text="next.png").wait_for()
    assert page.locator(f"{FIRST} .size").inner_text() == f"40 {TIMES} 60"


def test_a_prediction_can_be_cancelled(opened, predictor):
    page = opened().page
    load(page, file("first.png", picture(40, 60, 1)))
    predictor.let_go.clear()
    try:
        page.locator(f"{FIRST} input[type=file]").set_input_files(file("slow.png", picture(60, 40, 2)))
        page.click(f"{FIRST} .cancel")
        page.locator(f"{FIRST} .busy").wait_for(state="hidden")
    finally:
        predictor.let_go.set()
    assert page.locator(f"{FIRST} .name").inner_text() == "first.png"
    assert page.locator(f"{FIRST} figcaption").evaluate("element => element === document.activeElement")
    page.click("#add")
    assert len(rows(page)) == 1


def test_page_says_which_screen_is_predicted_and_that_it_waits_for_another_image(opened, predictor):
    first, second = (opened().page, opened(locale="en").page)
    predictor.let_go.clear()
    try:
        for page in (first, second):
            page.evaluate(TOLD)
            page.locator(f"{FIRST} input[type=file]").set_input_files(file("long.png", written(1400, 400)))
            page.locator(f"{FIRST} .busy:visible").wait_for()
        second.locator(f"{FIRST} .busy", has_text="Waiting for another image").wait_for()
    finally:
        predictor.let_go.set()
    for page in (first, second):
        page.locator(f"{FIRST} .name", has_text="long.png").wait_for()
        told = page.evaluate("told")
        assert [text for text in told if "screen" in text] == [
            f"Predicting screen {number} of 2…" for number in (1, 2)
        ]


def test_page_at_an_address_gets_its_map(opened):
    page = opened().page
    with pages.serving({"/shop": "<body style='margin: 0; height: 900px'>"}) as shop:
        page.fill(f"{FIRST} [name=address]", f"{shop}/shop")
        page.check(f"{FIRST} [name=whole]")
        page.click(f"{FIRST} .address button")
        page.locator(f"{FIRST} .name", has_text="127.0.0.1-shop.png").wait_for()
    assert page.locator(f"{FIRST} .size").inner_text() == f"400 {TIMES} 900"


def test_elements_of_an_html_file_become_regions_that_check_finds_where_they_have_moved(opened, tmp_path):
    placed = "position: absolute; top: 100px; width: 80px; height: 40px"
    buttons = [f"<button id={name} style='{placed}; left: {{}}px'>{name}</button>" for name in ("buy", "try")]
    html = f"<body style='margin: 0'><h1>Hello</h1>{''.join(buttons)}"
    before, after = tmp_path / "before.html", tmp_path / "after.html"
    before.write_text(html.format(10, 200))
    after.write_text(html.format(60, 250))
    page = opened().page
    page.fill(f"{FIRST} [name=address]", str(before))
    page.click(f"{FIRST} .address button")
    page.locator(f"{FIRST} .name", has_text="before.png").wait_for()
    offers = page.locator("#elements")
    assert offers.locator("summary").inner_text() == "On this page: 2 buttons, 1 heading"
    both, one = (offers.get_by_role("button", name=name, exact=True) for name in ("All 2 buttons", "buy"))
    both.focus()
    page.keyboard.press("Enter")
    assert one.get_attribute("aria-pressed") == "true"
    name, content = download(page, "#json")
    (tmp_path / name).write_bytes(content)
    saved = read_regions(tmp_path / name)
    assert saved == [
        Region("buy", 10, 100, 80, 40, selector="#buy"),
        Region("try", 200, 100, 80, 40, selector="#try"),
    ]
    with concurrent.futures.ThreadPoolExecutor() as threads:  # this one has the loop of playwright
        (design,) = threads.submit(read_all, [str(after)], saved, [], pages.CONFIG, 10**6).result()
    assert design.regions == (Region("buy", 60, 100, 80, 40), Region("try", 250, 100, 80, 40))
    one.click()
    assert page.locator("tbody input").input_value() == "try"
    page.click("#undo")
    page.locator(f"{FIRST} .box[aria-label^=buy]").press("ArrowRight")  # it is no longer where the element is
    assert one.get_attribute("aria-pressed") == "false"
    for _ in range(2):
        page.click("#undo")
    assert page.locator(".box").count() == 0
    load(page, file("one.png", picture(40, 60)))
    assert not offers.is_visible()


def test_regions_follow_the_elements_of_the_page_that_is_compared(opened, tmp_path):
    for name, left in (("a", 10), ("b", 200)):
        button = (
            f"<button id=buy style='position: absolute; left: {left}px; width: 80px; height: 40px'>Buy</button>"
        )
        (tmp_path / f"{name}.html").write_text(button)
    page = opened().page
    for panel, name in ((FIRST, "a"), (SECOND, "b")):
        page.fill(f"{panel} [name=address]", str(tmp_path / f"{name}.html"))
        page.click(f"{panel} .address button")
        page.locator(f"{panel} .name", has_text=f"{name}.png").wait_for()
        if name == "a":
            page.locator("#elements").get_by_role("button", name="Buy").click()
            page.click("#compare")
    assert [row["x"] for row in rows(page)] == [10, 200]


def test_a_page_that_is_dropped_is_asked_for_by_its_path(opened):
    page = opened().page
    page.evaluate(DROP, [".empty", [["page.html", base64.b64encode(b"<h1>Hello</h1>").decode()]]])
    page.locator("#message", has_text="page.html: ").wait_for()


# === Looking ===


@pytest.mark.parametrize("opacity", [75, 40, 0])
def test_view_is_what_its_download_shows_and_fades_to_the_image(opened, opacity):
    page = opened().page
    pixels = picture(60, 80)
    load(page, file("one.name.png", pixels))
    page.locator("#opacity").fill(str(opacity))
    page.wait_for_timeout(400)  # the map fades in
    # One pixel of the image is one of the screen.
    place = "position: fixed; left: 0; top: 0; width: 80px; z-index: 9"
    page.locator(f"{FIRST} .stage").evaluate("(element, place) => (element.style.cssText += place)", place)
    shot = page.locator(f"{FIRST} .stage").screenshot()
    shown = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(int)
    name, content = download(page, f"{FIRST} .save-overlay")
    assert name == "one.name_overlay.png"
    drawn = np.asarray(Image.open(io.BytesIO(content))).astype(int)
    if opacity == 0:
        np.testing.assert_array_equal(drawn, pixels)
    assert shown.shape == drawn.shape
    assert np.abs(shown - drawn).max() <= 4


# === Regions ===


@pytest.mark.parametrize(("size", "tolerance"), [((300, 400), 1e-5), ((1101, 1777), 2e-5)])
def test_figures_of_the_page_are_those_of_python(opened, predictor, tmp_path, size, tolerance):
    page = opened().page
    pixels = picture(size[0], size[1], seed=5)
    load(page, file("one.png", pixels))
    drag(page, (0.1, 0.2), (0.55, 0.7))
    drag(page, (0.95, 0.9), (0.6, 0.5))  # backwards
    drag(page, (0.7, 0.05), (0.72, 0.08))
    page.locator("tbody input").first.fill('The "logo", left')
    measured = rows(page)
    whole = predictor.predict(pixels)
    for row in measured:
        check(row, whole, tolerance)
    assert measured[0]["region"] == 'The "logo", left'
    assert measured[0]["x"] == pytest.approx(0.1 * size[1], abs=3)
    assert measured[1]["x"] == pytest.approx(0.6 * size[1], abs=3)
    regions = [Region(row["region"], row["x"], row["y"], row["width"], row["height"]) for row in measured]
    expected = measure_regions(whole, regions)
    assert [row["rank"] for row in measured] == [measure.rank for measure in expected]
    share = f"{100 * measured[0]['share']:.1f}%"
    assert page.locator("tbody td").first.inner_text() == share
    assert page.locator(".box .tag").first.inner_text() == f'The "logo", left · {share}'
    name, content = download(page, "#json")
    assert name == "one_regions.json"
    assert json.loads(content)[0].items() >= measured[0].items()
    (tmp_path / name).write_bytes(content)
    assert read_regions(tmp_path / name) == regions
    if tolerance <= 1e-5:
        assert (measured[0]["peak_y"], measured[0]["peak_x"]) == expected[0].peak_at


def test_floor_of_a_region_is_that_of_python(opened, predictor):
    page = opened().page
    pixels = picture(300, 400, seed=5)
    load(page, file("one.png", pixels))
    drag(page, (0.1, 0.2), (0.55, 0.7))
    drag(page, (0.7, 0.0), (1.0, 0.4))
    page.locator("tbody td:nth-child(3)", has_text="%").nth(1).wait_for()
    rest(page)
    measured = rows(page, has_floors=True)
    regions = [Region(row["region"], row["x"], row["y"], row["width"], row["height"]) for row in measured]
    saliency = predictor.predict(pixels)
    expected = [predictor.floor(pixels, saliency, each) for each in measure_regions(saliency, regions)]
    assert [row["floor"] for row in measured] == pytest.approx(expected, abs=1e-5)
    shown = page.locator("tbody td:nth-child(3)").all_inner_texts()
    assert shown == [f"{100 * row['floor']:.1f}%" for row in measured]
    box = page.locator(f"{FIRST} .box").first
    box.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("tbody td:nth-child(3)").first.inner_text() == "…"
    page.locator("tbody td:nth-child(3)", has_text="%").nth(1).wait_for()
    assert rows(page, has_floors=True)[0]["floor"] != pytest.approx(expected[0], abs=1e-7)


@pytest.mark.parametrize("is_blank", [True, False])
def test_map_of_a_blank_image_is_said_to_show_nothing(opened, monkeypatch, is_blank):
    monkeypatch.setattr(app, "CLEAR_MOVED", 0.03)  # an untrained network sees little
    page = opened().page
    pixels = np.full((300, 400, 3), (250, 240, 230), np.uint8) if is_blank else picture(300, 400)
    load(page, file("one.png", pixels))
    rest(page)
    assert page.locator(f"{FIRST} .hollow").is_visible() == is_blank


def test_region_is_moved_resized_removed_and_each_change_undone(opened):
    page = opened().page
    load(page, file("one.png", picture(300, 400)))
    drag(page, (0.2, 0.2), (0.4, 0.4))
    drag(page, (0.3, 0.3), (0.5, 0.3))
    moved = rows(page)[0]
    assert (moved["x"], moved["y"]) == (pytest.approx(160, abs=2), pytest.approx(60, abs=2))
    drag(page, (0.6, 0.4), (0.9, 0.9))
    resized = rows(page)[0]
    assert (resized["x"], resized["width"]) == (moved["x"], pytest.approx(200, abs=4))
    drag(page, (0.6, 0.6), (1.5, 1.5))
    inside = rows(page)[0]
    assert inside["x"] + inside["width"] <= 400
    assert inside["y"] + inside["height"] <= 300
    page.click("tbody button")
    assert page.locator(".box").count() == 0
    assert page.evaluate("document.activeElement.id") == "add"
    page.keyboard.press("Control+z")
    assert rows(page)[0] == inside
    for before in (resized, moved):
        page.click("#undo")  # a drag is one step
        assert rows(page)[0] == before
    page.click("#undo")
    page.click("#undo")
    assert page.locator(".box").count() == 0
    assert page.locator("#undo").is_disabled()


def test_what_was_undone_is_done_again_also_after_another_image(opened):
    page = opened().page
    load(page, file("one.png", picture(300, 400)))
    drag(page, (0.2, 0.2), (0.4, 0.4))
    drag(page, (0.6, 0.6), (0.8, 0.9))

    def places():
        return [[row[side] for side in ("x", "y", "width", "height")] for row in rows(page)]

    both = places()
    for keys in ("Control+y", "Control+Shift+Z"):
        page.keyboard.press("Control+z")
        assert places() == both[:1]
        page.keyboard.press(keys)
        assert places() == both
    page.click("#undo")
    load(page, file("two.png", picture(600, 800)))
    page.click("#redo")
    assert places() == [[2 * side for side in place] for place in both]
    page.click("#undo")
    drag(page, (0.1, 0.1), (0.2, 0.2))
    assert page.locator("#redo").is_disabled()


def test_regions_stay_when_the_page_is_loaded_again(opened):
    page = opened().page
    load(page, file("one.png", picture(300, 400)))
    drag(page, (0.2, 0.2), (0.4, 0.4))
    page.locator("tbody input").fill("Logo")
    before = rows(page)
    rest(page)
    page.reload()
    page.locator("#kept", has_text="Logo").wait_for()
    assert page.evaluate("Object.keys(sessionStorage)") == ["regions"]
    load(page, file("one.png", picture(300, 400)))
    assert not page.locator("#kept").is_visible()
    assert rows(page) == before
    page.click("#add")
    assert rows(page)[1]["region"] == "Region 2"


WRITTEN = {"images": [{"name": "broken.png"}, {"regions": [{"region": "a b:10%,12.5%,20%,50%"}]}]}
MARKED = [
    {"picture": "A", "region": "logo", "x": 20, "y": 10, "width": 80.5, "height": 30},
    {"picture": "B", "region": "logo", "x": 0, "y": 0, "width": 9, "height": 9},
    {"picture": "A", "region": "buy", "x": 0, "y": 0, "width": 200, "height": 100, "selector": "#buy"},
]


@pytest.mark.parametrize("content", [WRITTEN, MARKED])
def test_regions_of_a_file_are_loaded_as_check_reads_them(opened, tmp_path, content):
    page = opened().page
    (tmp_path / "regions.json").write_text(json.dumps(content))
    saved = {"name": "r.json", "mimeType": "application/json", "buffer": json.dumps(content).encode()}
    page.evaluate(DROP, ["body", [["r.json", base64.b64encode(saved["buffer"]).decode()]]])
    page.locator("#kept", has_text="r.json").wait_for()
    load(page, file("one.png", picture(300, 400)))
    page.locator(".box").first.wait_for()
    expected = read_regions(tmp_path / "regions.json")
    boxes = [region.box((300, 400)) for region in expected]
    places = [[x.start, y.start, x.stop - x.start, y.stop - y.start] for y, x in boxes]
    found = rows(page)
    assert [row["region"] for row in found] == [region.name for region in expected]
    assert [[row[side] for side in ("x", "y", "width", "height")] for row in found] == places
    drag(page, (0.95, 0.95), (0.99, 0.99))
    page.locator("#load + input").set_input_files(saved)
    page.locator("tbody tr").nth(len(found)).wait_for(state="detached")
    page.click("#undo")
    assert len(rows(page)) == len(found) + 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "no regions"),
        ('{"images": [{"regions": []}]}', "no regions"),
        ('{"images": [{"regions": [{"region": "logo:1,2,3"}]}]}', "logo"),
        ('[{"picture": "A", "region": "logo", "x": 1, "y": 2, "width": 0, "height": 3}]', "logo"),
        ('[{"picture": "A", "region": "logo", "x": 390, "y": 2, "width": 20, "height": 3}]', "400 pixels wide"),
        ('[{"picture": "A", "region": "buy", "selector": "#buy"}]', "selector"),
        ("[null]", "no name"),
    ],
)
def test_a_broken_file_of_regions_is_refused_with_its_fault(opened, content, reason):
    page = opened().page
    load(page, file("one.png", picture(300, 400)))
    broken = {"name": "r.json", "mimeType": "application/json", "buffer": content.encode()}
    page.locator("#load + input").set_input_files(broken)
    page.locator("#message", has_text="r.json").wait_for()
    assert reason in page.locator("#message").inner_text()
    assert page.locator(".box").count() == 0


def test_everything_can_be_done_with_keys_alone(opened):
    page = opened().page

    def press(*keys):
        for key in keys:
            page.keyboard.press(key)

    def tab_to(selector):
        for _ in range(40):
            press("Tab")
            assert page.evaluate("document.activeElement !== document.body")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                return outline == "solid" or selector.startswith("input") or selector == ".box"
        raise AssertionError(f"Tab does not reach {selector}")

    with page.expect_file_chooser() as chooser:  # including Tab: the browser takes a moment to intercept choosers
        assert tab_to(".choose")
        press("Enter")
    chooser.value.set_files(file("keys.png", picture(100, 200)))
    page.locator(".name", has_text="keys.png").wait_for()
    assert tab_to("#add")
    press("Enter")
    assert page.evaluate("document.activeElement.className").startswith("box")
    before = page.locator(f"{FIRST} .box").get_attribute("aria-label")
    assert "of the attention" in before
    press("Home", *["ArrowLeft"] * 90, *["ArrowUp"] * 50, "ArrowRight", "Control+ArrowDown")
    press("Shift+ArrowRight", "Shift+ArrowDown", "Control+Shift+ArrowLeft")
    assert tab_to("tbody input")
    press("Control+a", *"Title")
    assert page.locator(f"{FIRST} .box").get_attribute("aria-label").startswith("Title, ")
    page.locator("#status", has_text="of the attention").wait_for(state="attached")
    row = rows(page)[0]
    assert (row["x"], row["y"], row["width"], row["height"]) == (2, 1, 41, 22)
    page.locator(f"{FIRST} .box").focus()
    press("Delete")
    assert page.locator(".box").count() == 0
    assert page.evaluate("document.activeElement.id") == "add"
    page.locator("input[name=view]:checked").focus()
    press("ArrowRight")
    assert page.locator("#work").get_attribute("data-view") == "map"
    assert tab_to("#compare")
    press("Space")
    assert page.locator(SECOND).is_visible()


# === Comparing ===


def compare(opened, width):
    """Compare A, 200 x 300 pixels, with B, 400 pixels high, on a page; returns it, and the pixels of both."""
    page = opened().page
    pixels = {"A": picture(200, 300, seed=6), "B": picture(400, width, seed=7)}
    load(page, file("a.png", pixels["A"]))
    page.click("#compare")
    load(page, file("b.png", pixels["B"]), SECOND)
    return page, pixels


def test_two_images_are_compared_region_by_region(opened, predictor):
    page, pixels = compare(opened, 599)
    drag(page, (0.1, 0.1), (0.5, 0.6))
    drag(page, (0.52, 0.5), (0.9, 0.9), SECOND)
    measured = rows(page)
    assert [row["picture"] for row in measured] == ["A", "A", "B", "B"]
    for row in measured:
        check(row, predictor.predict(pixels[row["picture"]]), 1e-5)
    for a, b in zip(measured[:2], measured[2:], strict=True):
        assert b["x"] / 599 == pytest.approx(a["x"] / 300, abs=2e-3)
        assert b["width"] / 599 == pytest.approx(a["width"] / 300, abs=4e-3)
    cells = page.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[:2] == [f"{100 * measured[0]['share']:.1f}%", f"{100 * measured[2]['share']:.1f}%"]
    assert [cells[2] == "no clear change"] == [not Change.is_clear(measured[0]["share"], measured[2]["share"])]
    assert page.evaluate("import('./dom.js').then(({ points }) => points(0.1576, 0.1304))") == f"{MINUS}2.8"
    page.click("#compare")
    assert [row["picture"] for row in rows(page)] == ["A", "A"]
    page.click("#compare")  # B is still there
    assert rows(page) == measured


def test_region_is_dragged_on_each_image_alone(opened, predictor):
    page, pixels = compare(opened, 600)
    drag(page, (0.1, 0.1), (0.3, 0.3))
    drag(page, (0.2, 0.2), (0.6, 0.7), SECOND)
    drag(page, (0.2, 0.2), (0.25, 0.2))  # B's stays
    a, b = rows(page)
    assert [a[side] for side in ("x", "y", "width")] == pytest.approx([45, 20, 60], abs=3)
    assert [b[side] for side in ("x", "y", "width")] == pytest.approx([300, 240, 120], abs=5)
    for row in (a, b):
        check(row, predictor.predict(pixels[row["picture"]]), 1e-5)
    page.evaluate("scrollTo(0, 0)")
    drag(page, (0.7, 0.8), (0.6, 0.7), SECOND)
    before, after = (row["share"] for row in rows(page))
    text = page.locator("tbody td:nth-child(4)").inner_text()
    assert Change.is_clear(before, after)
    assert float(text.replace(MINUS, "-").removesuffix(" pp")) == pytest.approx(100 * (after - before), abs=0.1001)
    assert page.locator("#verdict").inner_text() == f"From A to B, Region 1 loses {text[1:]} of the attention."
    for _ in range(3):
        page.click("#undo")
    assert rows(page)[1]["x"] == pytest.approx(60, abs=3)


def test_two_images_are_seen_as_the_first_one_is(opened, tmp_path):
    with serving(Held(kinds.write_model(tmp_path / "model"))) as address:
        page = opened(address).page
        load(page, file("sky.png", kinds.sky()))
        page.click("#compare")
        load(page, file("other.png", kinds.page()), SECOND)
        assert page.locator(f"{SECOND} .size").inner_text().endswith("seen as a picture")
        load(page, file("page.png", kinds.page()))
        page.locator(f"{SECOND} .size", has_text="seen as a page").wait_for()
        load(page, file("another.png", kinds.sky()), SECOND)
        assert page.locator(f"{SECOND} .size").inner_text().endswith("seen as a page")
        page.select_option("#screen", "whole")
        for panel in (FIRST, SECOND):
            page.locator(f"{panel} .size", has_text="seen as a picture").wait_for()
        rest(page)


def test_only_images_of_one_aspect_ratio_are_compared_and_one_saved_again_has_no_clear_change(opened):
    page = opened().page
    pixels = picture(200, 300, seed=6)
    load(page, file("a.png", pixels))
    page.click("#compare")
    upload = {"name": "b.jpg", "mimeType": "image/jpeg", "buffer": encoded(pixels, "JPEG", quality=85)}
    load(page, upload, SECOND)
    drag(page, (0.1, 0.1), (0.5, 0.6))
    assert page.locator("#verdict").inner_text() == "No region changes clearly from A to B."
    assert page.locator("#difference .note").inner_text().startswith("No clear change overall: ")
    load(page, file("other.png", picture(200, 304, seed=6)), SECOND)
    assert "need the same aspect ratio" in page.locator("#difference .note").inner_text()
    assert not page.locator("#verdict").is_visible()
    assert not page.locator("#difference .stage").is_visible()


def test_difference_is_painted_as_python_paints_it(opened, predictor):
    page = opened().page
    pixels = [picture(80, 120, seed) for seed in (8, 9)]
    load(page, file("a.png", pixels[0]))
    page.click("#compare")
    load(page, file("b.png", pixels[1]), SECOND)
    page.locator("#difference").wait_for()
    a, b = (predictor.predict(image).astype(float) for image in pixels)
    assert f"{100 * share_moved(a, b):.1f}% of the" in page.locator("#difference .note").inner_text()
    drawn = page.evaluate(
        "() => [...document.querySelector('#difference canvas').getContext('2d').getImageData(0, 0, 120, 80).data]"
    )
    colors = np.reshape(drawn, (80, 120, 4)).astype(int)
    part = np.clip((b / b.mean() - a / a.mean()) / heat.CHANGE.limit, -1, 1)
    strong = np.abs(part) > 0.1
    assert strong.any()
    assert np.abs(colors[..., :3] - heat.CHANGE(part / 2 + 0.5))[strong].max() <= 8  # a canvas multiplies
    assert np.abs(colors[..., 3] - 255 * heat.OPACITY * np.abs(part)).max() <= 2


# === Touch, zoom and narrow windows ===


def swipe(page, start, end):
    """Move a finger over the image from one height to another, both 0..1."""
    box = page.locator(f"{FIRST} .boxes").bounding_box()
    x, heights = box["x"] + box["width"] / 2, np.linspace(start, end, 12) * box["height"] + box["y"]
    session = page.context.new_cdp_session(page)
    for index, y in enumerate(heights.tolist()):
        kind = "touchMove" if index else "touchStart"
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
        page.wait_for_timeout(20)  # as a finger is seen
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_that_scrolls_makes_no_region(opened):
    page = opened(viewport={"width": 320, "height": 500}, has_touch=True, is_mobile=True).page
    load(page, file("one.png", picture(900, 300)))
    assert page.locator("#screen").bounding_box()["width"] > 150  # its words are not cut
    page.uncheck("#wide")
    swipe(page, 0.9, 0.3)
    page.wait_for_function("() => scrollY > 0")
    assert page.locator(f"{FIRST} .box").count() == 0
    assert page.locator("#undo").is_disabled()
    page.click("#add")
    (row,) = rows(page)
    assert row["region"] == "Region 1"
    assert row["width"] == row["height"] == 60  # of an image of 300 x 900


def test_image_is_shown_at_its_own_pixels(opened):
    page = opened().page
    load(page, file("one.png", picture(900, 2000)))
    page.check("#actual")
    assert page.locator(f"{FIRST} .stage").bounding_box()["width"] == 2000
    frame = page.locator(f"{FIRST} .frame")
    assert frame.bounding_box()["width"] < 1280
    assert frame.get_attribute("tabindex") == "0"
    page.uncheck("#actual")
    assert page.locator(f"{FIRST} .stage").bounding_box()["width"] < 1280


def test_transparent_parts_are_shown_as_they_are_predicted(opened):
    page = opened().page
    pixels = np.zeros((60, 80, 4), np.uint8)
    pixels[20:40, 20:40] = (200, 0, 0, 255)
    load(page, file("one.png", pixels))
    page.locator("#opacity").fill("0")
    shot = page.locator(f"{FIRST} .stage").screenshot()
    shown = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"))
    assert (shown[5, 5] == 255).all()
    drawn = Image.open(io.BytesIO(download(page, f"{FIRST} .save-overlay")[1]))
    assert drawn.getpixel((2, 2)) == (255, 255, 255)


# === Full pages and print ===


def test_tall_image_scrolls_at_full_width_and_is_seen_by_screens(opened, predictor):
    page = opened(viewport={"width": 1280, "height": 800}).page
    load(page, file("phone.png", picture(844, 390)))
    assert not page.locator("#wide").is_checked()  # one screen is seen as a whole
    load(page, file("long.png", picture(1200, 400)))
    assert page.locator("#wide").is_checked()
    screens = page.locator("#screen option:not([hidden])")
    assert screens.evaluate_all("options => options.map((option) => option.value)") == [
        "",
        "whole",
        "desktop",
        "phone",
    ]
    pixels = picture(2000, 800)
    load(page, file("page.png", pixels))
    frame, stage = (page.locator(f"{FIRST} {part}") for part in (".frame", ".stage"))
    assert stage.bounding_box()["width"] == pytest.approx(frame.bounding_box()["width"], abs=1)
    assert frame.bounding_box()["height"] < 800 < stage.bounding_box()["height"]
    frame.focus()
    page.keyboard.press("End")
    page.wait_for_timeout(500)  # it scrolls smoothly
    assert frame.evaluate("element => element.scrollTop") > 0
    page.select_option("#screen", "desktop")
    page.locator(f"{FIRST} .screens i").nth(3).wait_for(state="attached")
    parts = [predictor.predict(pixels[top : top + 500]) for top in range(0, 2000, 500)]
    drag(page, (0.1, 0.8), (0.6, 0.85))
    drag(page, (0.3, 0.93), (0.5, 0.95))
    measured = rows(page)
    on_screen = [{**row, "y": row["y"] - 1500} for row in measured]
    for row in on_screen:
        check(row, parts[3], 1e-4)
    assert [row["screen"] for row in measured] == [4, 4]
    share = f"{100 * measured[0]['share']:.1f}% of screen 4"
    assert page.locator(".box .tag").first.inner_text() == f"Region 1 · {share}"
    assert page.locator("tbody td").first.inner_text() == share.replace(" of", "\nof")
    levels = np.asarray(Image.open(io.BytesIO(download(page, f"{FIRST} .save-map")[1])))
    assert np.abs(levels - 255 * np.concatenate([part / part.max() for part in parts])).max() <= 1
    page.uncheck("#wide")
    assert stage.bounding_box()["height"] < 800
    load(page, file("photo.png", picture(300, 400)))
    assert not page.locator("#screen").is_visible()


def test_page_prints_maps_regions_and_figures_on_white_without_buttons(opened):
    page = opened(color_scheme="dark").page
    load(page, file("a.png", picture(900, 300, 1)))
    page.click("#compare")
    load(page, file("b.png", picture(900, 300, 2)), SECOND)
    drag(page, (0.1, 0.1), (0.5, 0.2))
    page.evaluate("window.print = () => (window.isPrinted = true)")
    page.click("#print")
    assert page.evaluate("window.isPrinted")
    assert page.title() == "Predicted attention: a.png, b.png"
    page.pdf()
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("button:visible").count() == 0
    for part in (f"{FIRST} canvas", f"{SECOND} .box", "#difference", ".of-heat", "#verdict", "#meanings dl"):
        assert page.locator(part).is_visible(), part
    assert page.locator("tbody input").input_value() == "Region 1"
    frame, stage = (page.locator(f"{FIRST} {part}").bounding_box() for part in (".frame", ".stage"))
    assert frame["height"] == pytest.approx(stage["height"], abs=1)  # nothing is left to scroll to
    colors = "[...document.querySelectorAll('.card')].map((card) => getComputedStyle(card).backgroundColor)"
    assert set(page.evaluate(colors)) == {"rgb(255, 255, 255)"}
    assert page.evaluate(CONTRAST) == []


# === Many images ===


def test_many_images_are_a_strip_and_are_compared_in_one_table_and_file(opened, predictor):
    page = opened(locale="en", viewport={"width": 1280, "height": 900}).page
    pixels = {f"{seed}.png": picture(40 + seed, 60, seed) for seed in range(12)}
    uploads = [file(name, each) for name, each in pixels.items()]
    uploads[1:1] = [{"name": "notes.txt", "mimeType": "text/plain", "buffer": b"only words"}]
    page.locator(f"{FIRST} input[type=file]").set_input_files(uploads)
    page.locator("#strip .progress", has_text="12 of 13 images predicted, 1 failed").wait_for()
    assert page.locator("#strip .name").all_inner_texts() == [each["name"] for each in uploads]
    assert "notes.txt is not a JPEG" in page.locator("#strip .failed").inner_text()
    assert page.locator(f"{FIRST} .name").inner_text() == "0.png"
    assert not page.locator("#message").is_visible()
    drag(page, (0.1, 0.1), (0.5, 0.6))
    drag(page, (0.6, 0.2), (0.9, 0.9))
    page.locator("#all td", has_text="peak").nth(23).wait_for()
    rows_of_all = list(csv.DictReader(io.StringIO(download(page, "#all-csv")[1].decode())))
    assert len(rows_of_all) == 25
    for row in rows_of_all:
        if row["error"]:
            assert row["file"] == "notes.txt"
            continue
        numbers = {name: float(value) for name, value in row.items() if name not in ("file", "region") and value}
        check({**row, **numbers}, predictor.predict(pixels[row["file"]]), 1e-5)
    shares = [f"{100 * float(row['share']):.1f}%" for row in rows_of_all if row["share"]]
    assert [text.split("\n")[0] for text in page.locator("#all td[data-label]").all_inner_texts()] == shares
    assert page.locator("#strip .state").first.inner_text() == shares[1]  # of the region that is selected
    assert page.evaluate(NAMELESS) == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_thumbnail_shows_its_image_at_once_as_the_panel_that_is_chosen(opened, predictor):
    page = opened(locale="en").page
    page.locator(f"{FIRST} input[type=file]").set_input_files(
        [file(f"{n}.png", picture(40, 60, n)) for n in range(4)]
    )
    page.locator("#strip .progress", has_text="4 of 4 images predicted").wait_for()
    rest(page)
    count = predictor.count
    thumbnails = page.locator("#strip li button")
    thumbnails.nth(2).focus()
    page.keyboard.press("Enter")
    page.locator(f"{FIRST} .name", has_text="2.png").wait_for()
    page.click("#compare")
    page.locator("#strip [value=B]").check(force=True)
    thumbnails.nth(3).click()
    page.locator(f"{SECOND} .name", has_text="3.png").wait_for()
    marks = page.locator("#strip li b").all_inner_texts()
    assert [mark for mark in marks if mark] == ["A", "B"]
    page.locator(f"{FIRST} input[type=file]").set_input_files(file("late.png", picture(40, 60, 9)))
    page.locator(f"{FIRST} .name", has_text="late.png").wait_for()
    page.locator("#strip .progress", has_text="5 of 5 images predicted").wait_for()
    rest(page)
    assert predictor.count > count
    page.click("#strip .close")
    assert not page.locator("#strip").is_visible()
    assert not page.locator("#all").is_visible()
    assert page.locator(f"{FIRST} .name").inner_text() == "late.png"


def test_all_images_are_predicted_again_as_another_kind(opened, tmp_path):
    with serving(Held(kinds.write_model(tmp_path / "model"))) as address:
        page = opened(address).page
        uploads = [file(f"{n}.png", kinds.page() if n else kinds.sky()) for n in range(3)]
        regions = {"name": "r.json", "mimeType": "application/json", "buffer": json.dumps(MARKED[:1]).encode()}
        page.locator(f"{FIRST} input[type=file]").set_input_files([*uploads, regions])
        seen = page.locator("#all th small")
        seen.nth(2).wait_for()
        assert seen.all_inner_texts() == ["seen as a picture", "seen as a page", "seen as a page"]
        assert page.locator("tbody input").input_value() == "logo"
        page.select_option("#screen", "whole")
        page.locator("#all th small", has_text="seen as a picture").nth(2).wait_for()
        rest(page)


def test_the_strip_can_pause_and_says_which_images_are_too_many(opened, predictor):
    page = opened(locale="en").page
    predictor.let_go.clear()
    try:
        uploads = [file(f"{n}.png", picture(9, 9, n)) for n in range(103)]
        page.locator(f"{FIRST} input[type=file]").set_input_files(uploads)
        page.locator("#message", has_text="3 images of 103 are left out").wait_for()
        page.click("#strip .pause")
        page.locator("#strip .predicting").wait_for(state="detached")
    finally:
        predictor.let_go.set()
    page.wait_for_timeout(300)
    assert page.locator("#strip .ready").count() == 0
    page.click("#strip .pause")
    page.locator("#strip .progress", has_text="100 of 100 images predicted").wait_for()


def test_one_picture_to_share_has_the_image_as_it_is_shown_and_its_regions(opened):
    page = opened().page
    load(page, file("one.png", picture(300, 1504)))  # as wide as the picture has room for
    _, content = download(page, f"{FIRST} .save-overlay")
    drawn = np.asarray(Image.open(io.BytesIO(content))).astype(int)
    name, content = download(page, "#share")
    assert name == "one_share.png"
    plain = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)
    assert np.abs(plain[129:427, 49:1551] - drawn[1:-1, 1:-1]).max() <= 4
    drag(page, (0.3, 0.4), (0.5, 0.8))
    marked = np.asarray(Image.open(io.BytesIO(download(page, "#share")[1])).convert("RGB")).astype(int)
    assert marked.shape[0] > plain.shape[0]  # it has a table
    changed = np.argwhere((marked[129:427, 49:1551] != plain[129:427, 49:1551]).any(-1)).mean(0)
    assert changed == pytest.approx((180, 600), abs=40)
    page.click("#compare")
    load(page, file("two.png", picture(300, 1504, seed=2)), SECOND)
    both = Image.open(io.BytesIO(download(page, "#share")[1])).convert("RGB")
    assert both.width == 1600
    assert len(both.crop((820, 140, 1540, 270)).getcolors(10**6)) > 100


# === What goes wrong ===


def test_refused_file_is_reported_and_the_image_before_stays(opened, monkeypatch):
    monkeypatch.setattr(app, "MAX_BYTES", 20_000)
    page = opened().page
    load(page, file("good.png", picture(60, 80)))
    chosen = page.locator(f"{FIRST} input[type=file]")
    chosen.set_input_files({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"only words"})
    page.locator("#message", has_text="notes.txt is not a JPEG").wait_for()
    page.locator("#status", has_text=re.compile("^$")).wait_for(state="attached")  # nothing is waited for any more
    assert page.locator(".name:visible").inner_text() == "good.png"
    drag(page, (0.1, 0.1), (0.5, 0.5))
    assert page.locator("tbody tr").count() == 1
    page.click(".dismiss")
    assert not page.locator("#message").is_visible()
    chosen.set_input_files({"name": "huge.png", "mimeType": "image/png", "buffer": bytes(200_000)})
    page.locator("#message", has_text="huge.png is 0.2 MB").wait_for()


def test_server_that_is_gone_is_reported_and_can_be_tried_again(opened, predictor):
    with serving(predictor) as address:
        watched = opened(address)
        load(watched.page, file("one.png", picture(40, 60)))
    page = watched.page
    page.locator(f"{FIRST} input[type=file]").set_input_files(file("two.png", picture(60, 40)))
    page.locator("#message", has_text="does not respond. Start it again").wait_for()
    assert page.locator(".name:visible").inner_text() == "one.png"
    rest(page)
    assert {trouble.partition(":")[0] for trouble in watched.troubles} == {"console", "failed"}
    watched.troubles.clear()


# === Accessibility ===

CONTRAST = """() => {
  const parse = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = (top, under) => [0, 1, 2].map((part) => top[part] * top[3] + under[part] * (1 - top[3])).concat(1);
  const ground = (element) => {
    if (!element) return [255, 255, 255, 1];
    const color = parse(getComputedStyle(element).backgroundColor);
    return color[3] === 1 ? color : over(color, ground(element.parentElement));
  };
  const light = (color) => {
    const part = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(color[0]) + 0.7152 * part(color[1]) + 0.0722 * part(color[2]);
  };
  const unreadable = [];
  for (const element of document.querySelectorAll("body *")) {
    const words = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!(words || element.matches("input[type=text]")) || !element.checkVisibility()) continue;
    if (element.closest(":disabled, .slider:has(:disabled)")) continue;
    const under = ground(element);
    const [low, high] = [light(over(parse(getComputedStyle(element).color), under)), light(under)].sort();
    const ratio = (Math.max(low, high) + 0.05) / (Math.min(low, high) + 0.05);
    if (ratio < 4.5) unreadable.push(`${element.tagName} ${element.className} ${element.textContent}: ${ratio}`);
  }
  return unreadable;
}"""
NAMELESS = """() => [...document.querySelectorAll("button, input, select, [tabindex='0']")]
  .filter((element) => element.checkVisibility() && element.type !== "file")
  .filter((element) => !element.getAttribute("aria-label") && !element.innerText.trim())
  .filter((element) => !element.labels?.[0]?.innerText.trim())
  .map((element) => element.outerHTML)"""


def test_page_fits_a_phone_can_be_read_and_has_names(opened):
    page = opened(viewport={"width": 360, "height": 740}).page

    def check_page():
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate(NAMELESS) == []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(CONTRAST) == []

    check_page()
    load(page, file(f"{'a long name ' * 9}.png", picture(500, 300)))
    drag(page, (0.1, 0.2), (0.4, 0.4))
    drag(page, (0.5, 0.5), (0.9, 0.9))
    page.locator("tbody input").first.fill("A name that is longer than the page is wide, much longer")
    check_page()
    page.click("#compare")
    check_page()
    load(page, file("b.png", picture(300, 500)), SECOND)
    check_page()
    page.evaluate("document.querySelector('#message').hidden = false")
    check_page()
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    assert page.evaluate(CONTRAST) == []
