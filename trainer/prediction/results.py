"""Names and writes the files that `predict` makes of an image: its map as grey levels or numbers, and drawings."""

import os
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from PIL import Image

from trainer.config import BESIDE_FORMATS, PREDICT_DEFAULTS, PREDICT_FORMATS, PredictConfig
from trainer.errors import UserError, check
from trainer.files import replacing, write_array
from trainer.heat import tint
from trainer.picture import Pixels
from trainer.prediction.inputs import Input
from trainer.prediction.render import Map, draw_grey
from trainer.storage import is_remote
from trainer.text import printable

MAX_LEVEL = {"png": 255, "png16": 65535}
"""Format with grey levels -> largest level."""


def name_results(
    inputs: Sequence[Input], output_dir: str | os.PathLike[str], formats: Sequence[str]
) -> list[dict[str, pathlib.Path]]:
    """Name the results of each image: format -> the file to write.

    The results keep the layout of the input folders below `output_dir`; if that is empty, they lie next to the
    images. Each is named after its image without the suffix, or with it if several images would share the name. An
    input that is not an image has no results.

    Raises:
        UserError: two results would be the same file, one would overwrite an image, or an image on Cloud Storage
            has no folder for its results.
    """
    if formats and not output_dir:
        for image in inputs:
            check(not is_remote(image.name), f"{image.label} is on Cloud Storage; name a local --output-dir")
    endings = PREDICT_FORMATS if output_dir else BESIDE_FORMATS
    names = [(image.key if output_dir else image.name) if image.key else "" for image in inputs]
    stems = [str(pathlib.PurePosixPath(name).with_suffix("")) if name else "" for name in names]
    counts = Counter(stems)
    unique = [name if counts[stem] > 1 else stem for name, stem in zip(names, stems, strict=True)]
    paths = [{name: pathlib.Path(output_dir, stem + endings[name]) for name in formats if stem} for stem in unique]
    owners: dict[pathlib.Path, Input] = {}
    for image, files in zip(inputs, paths, strict=True):
        for path in files.values():
            other = owners.setdefault(path, image)
            if other is not image:
                raise UserError(
                    f"{other.label} and {image.label} would both write {printable(str(path))}; give the folder "
                    "that contains both, or another --output-dir for each"
                )
    protect(inputs, {"--output-dir": owners})
    return paths


def protect(inputs: Sequence[Input], written: Mapping[str, Iterable[str | os.PathLike[str]]]) -> None:
    """Raise `UserError` if an output would overwrite an image.

    Args:
        inputs: the images.
        written: flag of the command line -> the files that it has written.
    """
    outputs = [(flag, path) for flag, paths in written.items() for path in paths]
    images = {os.path.realpath(image.name) for image in inputs} if outputs else set()
    for flag, path in outputs:
        if os.path.realpath(path) in images:
            raise UserError(f"{printable(str(path))} is an image and would be overwritten; give another {flag}")


def write_result(
    path: pathlib.Path, format: str, map: Map, image: Pixels | None, config: PredictConfig = PREDICT_DEFAULTS
) -> None:
    """Write a map (h, w), 0..1, in one of PREDICT_FORMATS; an overlay needs the image (h, w, 3)."""
    with replacing(path, flushed=False) as partial:
        if format == "npy":
            write_array(partial, map)
        elif format in MAX_LEVEL:
            draw_grey(map, MAX_LEVEL[format]).save(partial, "PNG", compress_level=1)
        else:
            assert image is not None
            Image.fromarray(tint(image, map, config.opacity)).save(partial, "PNG", compress_level=2)
