"""The images of a page, as data URIs: why they are shown, and their scores in every metric, to sort them by."""

import base64
import dataclasses
import io
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from trainer.evaluation import PerImage
from trainer.metrics import METRICS
from trainer.pictures import Pixels, open_header
from trainer.prediction import HEAT, blend

QUALITY = 72
"""Quality of the WebP images, at which a page of thirty stays near a megabyte."""
PANELS = {"stimulus": "Stimulus", "density": "Ground truth"}
"""Picture that no model made -> label."""
DASH = "\N{EN DASH}"
"""Text for a score that an image does not have."""
BEST, WORST, DIFFERENCE = "best", "worst", "difference"
ORDERS = {BEST: "best first", WORST: "worst first", DIFFERENCE: "largest difference first"}
"""Order of the images -> its name."""


@dataclasses.dataclass(frozen=True)
class GalleryImage:
    """One image of a gallery."""

    image: str
    files: Mapping[str, pathlib.Path]
    """Name of a picture (`stimulus`, or a map's name) -> PNG file, for `load_panels`."""
    why: Sequence[str] = ()
    """Reasons why the image is shown, in a few words each."""


def describe_gallery(
    examples: Sequence[GalleryImage],
    table: PerImage,
    models: Mapping[str, str],
    metric: str,
    order: str,
    divided: Sequence[str],
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """Return the values of the macro `gallery`.

    Args:
        examples: The images.
        table: The scores.
        models: Name in the table -> label, of the models with the scores that are shown. The first one sorts
            the images.
        metric: The metric by which they are sorted until a reader chooses another.
        order: One of ORDERS, also until then.
        divided: Labels of the two pictures that an enlarged image shows on both sides of the divider.
        labels: Name of a picture -> label.
    """
    scores = {example.image: _scores(table, models, example.image) for example in examples}
    examples = sorted(examples, key=lambda example: _rank(scores[example.image].get(metric), metric, order))
    measured = [name for name in METRICS if any(name in of for of in scores.values())]
    panels = {example.image: load_panels(example.files, labels) for example in examples}
    return {
        "metrics": [
            {"name": name, "label": METRICS[name].label, "higher": METRICS[name].higher_is_better}
            for name in measured
        ],
        "metric": metric,
        "orders": {name: title for name, title in ORDERS.items() if name != DIFFERENCE or len(models) > 1},
        "order": order,
        "models": list(models.values()),
        "divided": divided,
        "examples": [
            {
                "image": example.image,
                "why": example.why,
                "scores": scores[example.image],
                "text": text(scores[example.image], metric, list(models.values())),
                "panels": {label: image_uri(pixels) for label, pixels in panels[example.image].items()},
                "ratio": _ratio(panels[example.image]),
            }
            for example in examples
        ],
    }


def load_panels(files: Mapping[str, pathlib.Path], labels: Mapping[str, str]) -> dict[str, Pixels]:
    """Read the stimulus of one image and its maps over the grey stimulus: label -> (h, w, 3) RGB.

    Args:
        files: `stimulus`, and names of maps -> PNG file. May be empty.
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
    image = Image.fromarray(HEAT(scaled))
    return image_uri(np.asarray(image.resize((width, round(width * image.height / image.width)))))


def image_uri(image: npt.NDArray[np.uint8], longest: int = 0) -> str:
    """Encode an image (h, w, 3) as a data URI, its longer side at most `longest` pixels unless that is 0."""
    buffer, picture = io.BytesIO(), Image.fromarray(image)
    if longest:
        picture.thumbnail((longest, longest))
    picture.save(buffer, "WEBP", quality=QUALITY)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def text(scores: Mapping[str, Sequence[float | None]], metric: str, models: Sequence[str]) -> str:
    """Format the scores of one image in one metric, as `gallery.js` does too."""
    values = [DASH if score is None else f"{score:.3f}" for score in scores.get(metric, [None] * len(models))]
    label = METRICS[metric].label
    if len(models) == 1:
        return f"{label} {values[0]}"
    return f"{label}: {', '.join(map(' '.join, zip(models, values, strict=True)))}"


def _scores(table: PerImage, models: Mapping[str, str], image: str) -> dict[str, list[float | None]]:
    """Return, for each metric, the rounded score of each model. None where it has none."""
    of = [table.of_image(model, image) for model in models]
    return {
        metric: [round(scores[metric], 4) if metric in scores else None for scores in of]
        for metric in METRICS
        if any(metric in scores for scores in of)
    }


def _rank(scores: Sequence[float | None] | None, metric: str, order: str) -> float:
    """Return the key by which images are sorted. One without a score comes last. `gallery.js` does the same."""
    known = [score for score in scores or () if score is not None]
    if not known:
        return math.inf
    if order == DIFFERENCE:
        return min(known) - max(known)
    return -known[0] if METRICS[metric].higher_is_better == (order == BEST) else known[0]


def _ratio(panels: Mapping[str, Pixels]) -> float:
    """Return width divided by height of the pictures of one image. 1 without pictures."""
    sizes = (pixels.shape for pixels in panels.values())
    return next((round(width / height, 4) for height, width, _ in sizes), 1.0)
