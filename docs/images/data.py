"""Take screenshots of a preview for docs/data.md: docs/images/data-*.jpg.

    python -m docs.images.data      # half a minute

The photos come with scikit-image and are in the public domain: a cat and a cup of coffee (CC0, Stefan van der Walt
and Rachel Michetti), an astronaut and the Hubble deep field (NASA), a rocket (SpaceX). The fixations are invented.
"""

import io
import pathlib
import tempfile

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from skimage import data

from tests.browser import launch
from trainer.__main__ import main as trainer

FOLDER = pathlib.Path(__file__).parent
VIEWPORT = {"width": 1100, "height": 800}
QUALITY = 82
SPOTS = {
    "chelsea": [(150, 120), (265, 115), (215, 165)],
    "coffee": [(320, 170), (300, 130), (500, 300)],
    "astronaut": [(225, 110), (225, 130), (400, 130)],
    "rocket": [(320, 180), (320, 230), (320, 330)],
    "hubble_deep_field": [(430, 300), (640, 560), (220, 640)],
}
"""Photo -> (x, y) of what people might look at, pixels."""


def write_lab(folder: pathlib.Path, scale: float) -> None:
    """Write the photos, and a table of invented fixations times `scale` with two rows that cannot be used."""
    random, rows = np.random.default_rng(1), ["participant,stimulus,x,y,duration_ms"]
    folder.mkdir()
    for name, spots in SPOTS.items():
        Image.fromarray(getattr(data, name)()).save(folder / f"{name}.png")
        for observer in range(8):
            for x, y in (scale * random.normal(random.permutation(spots), 9)).round(1).tolist():
                rows.append(f"P{observer + 1},{name}.png,{x},{y},{random.integers(120, 420)}")
    rows += ["P3,chelsea.png,812,77,190", "P3,teapot.png,120,88,240"]
    (folder / "fixations.csv").write_text("\n".join([*rows, ""]))


def write_preview(folder: pathlib.Path, scale: float) -> str:
    """Fetch the dataset of such a table; returns the address of its preview."""
    folder.mkdir()
    write_lab(folder / "lab", scale)
    flags = {"source": folder / "lab", "output-dir": folder / "data", "preview": folder / "lab.html"}
    flags |= {"dataset": "custom", "pixels-per-degree": 20, "image-size": "240x320"}
    trainer(["fetch", *(f"--{name}={value}" for name, value in flags.items())])
    return (folder / "lab.html").as_uri()


def shoot(page: Page, name: str, first: str, last: str) -> None:
    """Save a screenshot of the page from the element `first` to the element `last`."""
    top, end = page.locator(first).first.bounding_box(), page.locator(last).first.bounding_box()
    assert top
    assert end
    box = {"x": 0, "y": top["y"] - 24, "width": VIEWPORT["width"]}
    box["height"] = end["y"] + end["height"] + 24 - box["y"]
    screenshot = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=box))).convert("RGB")
    screenshot.save(FOLDER / f"data-{name}.jpg", quality=QUALITY, optimize=True)


def main() -> None:
    """Save screenshots of the preview of a table, and of one at half of its scale."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport=VIEWPORT)
        for name, scale in (("maps", 1.0), ("wrong", 0.5)):
            page.goto(write_preview(pathlib.Path(scratch, name), scale))
            shoot(page, name, *["section:has(.tiled)"] * 2)
            if name == "maps":
                shoot(page, "understood", "header", "section:has(ul)")
        browser.close()


if __name__ == "__main__":
    main()
