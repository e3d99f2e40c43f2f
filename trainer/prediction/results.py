"""What `predict` writes for an image: its map as grey levels or numbers, and pictures of it."""

import os
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from PIL import Image

from trainer.config import PREDICT_DEFAULTS, PREDICT_FORMATS, PredictConfig
from trainer.errors import UserError
from trainer.files import replacing
from trainer.heat import blend
from trainer.picture import Pixels
from trainer.prediction import render
from trainer.prediction.inputs import Input, shown
from trainer.prediction.render import Map

GREY = {"png": 255, "png16": 65535}
"""Format of grey levels -> the largest one."""
OVER_IMAGE = ("overlay", "contour")
"""Formats that show the image itself."""


def name_results(
    inputs: Sequence[Input], output_dir: str | os.PathLike[str], formats: Sequence[str]
) -> list[dict[str, pathlib.Path]]:
    """For each image: format -> the file to write.

    Results lie below `output_dir` as the images do below the folder that was given, and are named by the image
    without its suffix, but with it where several images would share the name. What is no image has none.

    Raises:
        UserError: two results would be one file, or one would take the place of an image.
    """
    stems = [str(pathlib.PurePosixPath(each.key).with_suffix("")) if each.key else "" for each in inputs]
    shared = Counter(stems)
    named = [each.key if shared[stem] > 1 else stem for each, stem in zip(inputs, stems, strict=True)]
    paths = [
        {each: pathlib.Path(output_dir, name + PREDICT_FORMATS[each]) for each in formats if name}
        for name in named
    ]
    owners: dict[pathlib.Path, Input] = {}
    for image, path in (
        (image, path) for image, each in zip(inputs, paths, strict=True) for path in each.values()
    ):
        other = owners.setdefault(path, image)
        if other is not image:
            raise UserError(
                f"{other.shown} and {image.shown} would share the result {shown(str(path))}; give the folder that "
                "both are in, or another --output-dir for each"
            )
    protect(inputs, {"--output-dir": owners})
    return paths


def protect(inputs: Sequence[Input], written: Mapping[str, Iterable[str | os.PathLike[str]]]) -> None:
    """Raise `UserError` if a file would take the place of an image; `written` gives the files of each flag."""
    files = [(flag, path) for flag, paths in written.items() for path in paths]
    images = {os.path.realpath(each.name) for each in inputs} if files else set()
    for flag, path in files:
        if os.path.realpath(path) in images:
            raise UserError(f"the result {shown(str(path))} would take the place of an image; give another {flag}")


def write_result(
    path: pathlib.Path, format: str, map: Map, image: Pixels | None, config: PredictConfig = PREDICT_DEFAULTS
) -> None:
    """Write a map (h, w), 0..1, in one of PREDICT_FORMATS; those OVER_IMAGE need the image (h, w, 3)."""
    with replacing(path) as partial:
        if format == "npy":
            np.save(partial, map)
        elif format in GREY:
            render.draw_grey(map, GREY[format]).save(partial, "PNG", compress_level=1)
        else:
            assert image is not None
            Image.fromarray(_over_image(format, image, map, config)).save(partial, "PNG", compress_level=2)


def _over_image(format: str, image: Pixels, map: Map, config: PredictConfig) -> Pixels:
    if format == "overlay":
        return blend(image, map, config.opacity)
    return render.draw_contours(image, map, config.levels)
