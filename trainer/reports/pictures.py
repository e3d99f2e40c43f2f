"""Images for the HTML pages, as data URIs: photographs, maps, and maps over their images."""

import base64
import io
import pathlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from PIL import Image

from trainer.heat import blend, colored
from trainer.picture import Pixels, open_header

QUALITY = 72
"""Quality of the WebP images, at which a page of thirty stays near a megabyte."""
PANELS = {"stimulus": "Stimulus", "density": "Ground truth"}
"""Picture that no model made -> label."""


def load_panels(files: Mapping[str, pathlib.Path], labels: Mapping[str, str]) -> dict[str, Pixels]:
    """Read the stimulus of one image and its maps over the darkened stimulus: label -> (h, w, 3) RGB.

    Args:
        files: `stimulus`, and names of maps -> PNG file; may be empty.
        labels: Name -> label, if it is not the name itself.
    """
    images = {name: np.asarray(open_header(file.read_bytes())) for name, file in files.items()}
    return {
        labels.get(name, name): pixels if name == "stimulus" else blend(images["stimulus"], pixels / 255)
        for name, pixels in images.items()
    }


def heat(density: npt.NDArray[np.floating], width: int = 640) -> str:
    """Draw a map (h, w) in heat colours, its maximum the brightest, `width` pixels wide, as a data URI."""
    scaled = np.asarray(density, float) / max(float(density.max()), 1e-12)
    image = Image.fromarray(colored(scaled))
    return image_uri(np.asarray(image.resize((width, round(width * image.height / image.width)))))


def image_uri(image: npt.NDArray[np.uint8]) -> str:
    """Encode an image (h, w, 3) as a data URI."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "WEBP", quality=QUALITY)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
