"""Take screenshots of the demo's page for the README and the docs: docs/images/demo-*.jpg.

    python -m docs.images.demo pretrained      # a model as for `demo --model`; half a minute

The images are the examples of the page (docs/images/examples.py), and the two designs of examples/.
"""

import io
import pathlib
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import launch
from trainer.demo.app import PAGE, build_app
from trainer.demo.listen import LOOPBACK_NAMES, listen
from trainer.demo.serve import build_server
from trainer.models.answering import choose
from trainer.prediction.predictor import Predictor

FOLDER = pathlib.Path(__file__).parent
DESIGNS = FOLDER.parents[1] / "examples"
WIDE, NARROW = {"width": 1280, "height": 832}, {"width": 360, "height": 740}
QUALITY = 88
A, B = "#images > :nth-child(1)", "#images > :nth-child(2)"


@contextmanager
def serving(model: str) -> Iterator[str]:
    """Serve the page for a model; yields the address."""
    with listen("127.0.0.1", 0) as bound:
        found = choose(model)
        app = build_app(Predictor(found.folder), found.description, LOOPBACK_NAMES, hint=found.hint)
        server = build_server(app)
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def load(page: Page, path: pathlib.Path, panel: str = A) -> None:
    """Load an image and wait for its map."""
    page.locator(f"{panel} input[type=file]").set_input_files(path)
    page.locator(f"{panel} .name", has_text=path.name).wait_for(timeout=300_000)  # on a busy machine


def mark(page: Page, name: str, left: float, top: float, right: float, bottom: float) -> None:
    """Drag a region over image A, sides in 0..1, and name it."""
    box = page.locator(f"{A} .boxes").bounding_box()
    assert box
    page.mouse.move(box["x"] + left * box["width"], box["y"] + top * box["height"])
    page.mouse.down()
    for part in (0.5, 1):
        x, y = left + part * (right - left), top + part * (bottom - top)
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.mouse.up()
    page.locator("tbody input").last.fill(name)


def shoot(page: Page, name: str) -> None:
    """Save a screenshot of the whole page."""
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(400)  # the map fades in
    screenshot = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    screenshot.save(FOLDER / f"demo-{name}.jpg", quality=QUALITY, optimize=True, subsampling=0)


def open_page(browser: Browser, address: str, scheme: str, narrow: bool = False) -> Page:
    """Open the page in a colour scheme, light or dark."""
    context = browser.new_context(
        viewport=NARROW if narrow else WIDE, color_scheme=scheme, device_scale_factor=1.5 if narrow else 1
    )
    page = context.new_page()
    page.goto(address)
    page.locator(f"{A} .choose").wait_for()
    return page


def main(model: str) -> None:
    """Serve `model`, use the page, and save the screenshots."""
    with serving(model) as address, sync_playwright() as playwright:
        examples = PAGE / "examples"
        browser = launch(playwright)
        page = open_page(browser, address, "light")
        load(page, examples / "landing.jpg")
        page.locator(f"{A} .frame").evaluate("frame => (frame.scrollTop = 0)")
        mark(page, "Headline", 0.05, 0.08, 0.45, 0.17)
        mark(page, "Button", 0.05, 0.235, 0.25, 0.285)
        mark(page, "Vegetables", 0.55, 0.07, 0.91, 0.3)
        shoot(page, "regions")
        page = open_page(browser, address, "light")
        load(page, DESIGNS / "landing-a.png")
        mark(page, "Headline", 0.04, 0.17, 0.37, 0.47)
        mark(page, "Button", 0.04, 0.59, 0.32, 0.71)
        mark(page, "Photo", 0.5, 0.15, 0.96, 0.73)
        page.click("#compare")
        load(page, DESIGNS / "landing-b.png", B)
        shoot(page, "compare")
        page = open_page(browser, address, "dark", narrow=True)
        load(page, examples / "astronaut.jpg")
        mark(page, "Face", 0.34, 0.06, 0.56, 0.34)
        mark(page, "Shuttle", 0.62, 0.02, 0.98, 0.6)
        shoot(page, "phone")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
