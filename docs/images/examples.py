"""Make the examples of the demo's page: trainer/demo/page/examples/*.jpg.

    python -m docs.images.examples      # needs scikit-image and a Chromium

The photographs come with scikit-image, without restrictions: an astronaut (NASA, public domain), a cup of coffee
(CC0, Rachel Michetti) and a cat (CC0, Stefan van der Walt). The landing page, landing.html, is drawn for this
project.
"""

import io
import pathlib

from PIL import Image
from playwright.sync_api import sync_playwright
from skimage import data

from tests.browser import launch

FOLDER = pathlib.Path(__file__).parents[2] / "trainer" / "demo" / "page" / "examples"
WIDTH_PX = 1280
QUALITY = 85


def landing() -> Image.Image:
    """The whole landing page at `WIDTH_PX`."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": WIDTH_PX, "height": 800})
        page.goto((pathlib.Path(__file__).parent / "landing.html").as_uri())
        content = page.screenshot(full_page=True)
        browser.close()
    return Image.open(io.BytesIO(content)).convert("RGB")


def main() -> None:
    """Write all examples."""
    photographs = {"astronaut": data.astronaut(), "cat": data.chelsea(), "coffee": data.coffee()}
    images = {name: Image.fromarray(pixels) for name, pixels in photographs.items()} | {"landing": landing()}
    for name, image in images.items():
        image.save(FOLDER / f"{name}.jpg", quality=QUALITY, optimize=True)


if __name__ == "__main__":
    main()
