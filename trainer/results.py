"""What `predict` writes for an image: its map as grey levels or numbers, and pictures of it."""

import os
import pathlib
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from trainer import render
from trainer.artifacts import replacing
from trainer.errors import UserError
from trainer.inputs import Input, shown
from trainer.picture import Pixels
from trainer.predict_config import DEFAULTS, FORMATS, PredictConfig
from trainer.restore import Map

OVER_IMAGE = ("overlay", "contour")
"""Formats that show the image itself."""


def name_results(
    inputs: Sequence[Input], output_dir: str | os.PathLike[str], formats: Sequence[str]
) -> list[dict[str, pathlib.Path]]:
    """For each image: format -> the file to write.

    Results lie below `output_dir` as the images do below the folder that was given, and are named by the image
    without its suffix, but with it where several images would share the name.

    Raises:
        UserError: two results would be one file, or one would take the place of an image.
    """
    if pathlib.Path(output_dir).exists() and not pathlib.Path(output_dir).is_dir():
        raise UserError(f"{output_dir} is a file; --output-dir names a folder")
    stems = [str(pathlib.PurePosixPath(each.key).with_suffix("")) for each in inputs]
    shared = Counter(stems)
    named = [each.key if shared[stem] > 1 else stem for each, stem in zip(inputs, stems, strict=True)]
    paths = [{each: pathlib.Path(output_dir, name + FORMATS[each]) for each in formats} for name in named]
    images = {os.path.realpath(each.name) for each in inputs}
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
        if os.path.realpath(path) in images:
            raise UserError(
                f"the result {shown(str(path))} would take the place of the image; give another --output-dir"
            )
    return paths


def write_result(
    path: pathlib.Path, format: str, map: Map, image: Pixels | None, config: PredictConfig = DEFAULTS
) -> None:
    """Write a map (h, w), 0..1, in one of FORMATS; those OVER_IMAGE need the image (h, w, 3)."""
    with replacing(path) as partial:
        if format == "npy":
            np.save(partial, map)
        else:
            picture = Image.fromarray(_drawn(format, map, image, config))
            # Maps are smooth: runs of equal differences are what there is to pack, in a fifth of the usual time.
            picture.save(partial, "PNG", compress_type=zlib.Z_RLE)


def _drawn(format: str, map: Map, image: Pixels | None, config: PredictConfig) -> npt.NDArray[np.integer]:
    if format == "png":
        return grey_levels(map, 255).astype(np.uint8)
    if format == "png16":
        return grey_levels(map, 65535).astype(np.uint16)
    assert image is not None
    if format == "overlay":
        return render.overlay(image, map, config.opacity)
    return render.contour(image, map, config.levels)


def grey_levels(map: Map, largest: int) -> Map:
    """A map, 0..1, on 0..`largest`, rounded as `preprocess.restore_map` does."""
    scaled = map * np.float32(largest)
    return np.round(scaled, out=scaled)
