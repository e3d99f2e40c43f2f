"""What a version is asked before users ask it: two images of the package, whose maps its evaluation has.

The container is asked as users ask it. It decodes the images, tells the page from the photograph, and fits them to
the network itself, so all of this is compared, and not the network alone.
"""

import base64
import pathlib
from collections.abc import Mapping
from typing import Any

from trainer.errors import UserError
from trainer.evaluation import SHIPPED_MAPS

IMAGES = dict(
    zip(SHIPPED_MAPS, (pathlib.Path(__file__).with_name(name) for name in ("trial.jpg", "trial.png")), strict=True)
)
"""Name of a map's file -> its image: a photograph, and a web page, which a model may predict at another size."""
TOLERANCE = 3
"""Grey levels, of 255, by which a map may differ from that of the evaluation, which is computed in float32.

A container computes in bfloat16 where the processor multiplies it. That changes a map by up to .01, which is 2.55
levels (research/log.md, 2026-11-27 "Predictions without TensorFlow"). Rounding both maps to levels adds less than
one. Levels are whole, so 3 is the most. A page that is seen as a picture differs by 205.
"""
Maps = dict[str, bytes]
"""Name of SHIPPED_MAPS -> a map in 8-bit grey levels, as PNG. One that is not known is absent."""


def write_shipped_maps(model: str, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Write the maps that the model in a folder predicts for IMAGES. Returns their files by name.

    They are computed in float32 on any machine, so they do not depend on where the evaluation has run.
    """
    from trainer.pictures import read_picture
    from trainer.prediction import Predictor, draw_grey

    predictor = Predictor(model, "float32")
    for name, image in IMAGES.items():
        draw_grey(predictor.predict(read_picture(image.read_bytes(), str(image)))).save(folder / name, "PNG")
    return {name: folder / name for name in IMAGES}


def request() -> dict[str, Any]:
    """The body of a request for the maps of IMAGES, for `predict` of an endpoint."""
    encoded = (base64.b64encode(image.read_bytes()).decode() for image in IMAGES.values())
    return {"instances": [{"b64": each} for each in encoded]}


def maps_of(reply: Any) -> Maps:
    """The maps in the JSON of an answer to `request`. Empty if it has another form."""
    try:
        found = [base64.b64decode(each["b64"]) for each in reply["predictions"]]
        return dict(zip(IMAGES, found, strict=True))
    except (ValueError, LookupError, TypeError):
        return {}


def complaint(answer: Mapping[str, bytes], expected: Mapping[str, bytes]) -> str:
    """What is wrong with the maps that were returned, such as `it returned no map of trial.jpg`.

    Empty if nothing is. A map that is not among the `expected` ones must have its image's size.
    """
    from trainer.pictures import read_picture

    for name, image in IMAGES.items():
        try:
            found = read_picture(answer.get(name, b""), "the map").astype(int)
        except UserError:
            return f"it returned no map of {image.name}"
        known = read_picture(expected.get(name) or image.read_bytes(), name).astype(int)
        if found.shape != known.shape:
            return f"its map of {image.name} has {found.shape[:2]} pixels, not {known.shape[:2]}"
        difference = int(abs(found - known).max()) if name in expected else 0
        if difference > TOLERANCE:
            return f"its map of {image.name} differs by {difference} grey levels"
    return ""
