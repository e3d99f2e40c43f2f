"""Eight files for every door: photographs, pages and one between them, in the encodings that people have."""

import io

import numpy as np
from PIL import ExifTags, Image

from tests.guide import ROOT
from tests.studio.demo import encoded, written

EXAMPLES = ROOT / "examples"


def write_files(folder):
    """Write the files to a folder; name -> path."""
    contents = {
        "photograph.jpg": (EXAMPLES / "coffee.jpg").read_bytes(),
        "turned.jpg": _turned(),
        "cmyk.jpg": _cmyk(),
        "transparent.png": _transparent(),
        "page.png": (EXAMPLES / "landing-a.png").read_bytes(),
        "long.png": encoded(written(2100, 1280)),
        "phone.png": _in_palette(written(844, 390)),
        "between.webp": encoded(_between(), "WEBP", lossless=True),
    }
    paths = {name: folder / name for name in contents}
    for name, path in paths.items():
        path.write_bytes(contents[name])
    return paths


def _example(name):
    return Image.open(EXAMPLES / name).convert("RGB")


def _turned():
    """A photograph whose camera was held upright: its EXIF orientation is 6."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    _example("cat.jpg").save(buffer := io.BytesIO(), "JPEG", quality=95, exif=exif)
    return buffer.getvalue()


def _cmyk():
    _example("astronaut.jpg").convert("CMYK").save(buffer := io.BytesIO(), "JPEG", quality=95)
    return buffer.getvalue()


def _transparent():
    """A photograph that fades to the right, so that it is seen over white."""
    pixels = np.asarray(_example("coffee.jpg"))
    alpha = np.broadcast_to(np.linspace(255, 0, pixels.shape[1]).astype(np.uint8), pixels.shape[:2])
    return encoded(np.dstack([pixels, alpha]))


def _in_palette(pixels):
    Image.fromarray(pixels).quantize(64).save(buffer := io.BytesIO(), "PNG")
    return buffer.getvalue()


def _between():
    """Lines of text above a photograph, which are neither clearly a page nor a picture."""
    pixels = np.array(_example("coffee.jpg").resize((1280, 800)))
    pixels[:350] = written(350, 1280)
    return pixels
