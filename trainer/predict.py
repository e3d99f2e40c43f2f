"""Saliency maps of images on disk."""

import functools
import os
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from trainer import preprocess
from trainer.artifacts import MODEL_CONFIG, VERSION_EXTRA, read_json, replacing
from trainer.decode import decode_stimulus
from trainer.errors import UserError
from trainer.export import load_model
from trainer.progress import Tracker
from trainer.sources import Member


def predict(
    model: str | os.PathLike[str], images: Sequence[str], output_dir: str | os.PathLike[str]
) -> list[pathlib.Path]:
    """Write an 8-bit grey PNG saliency map, at the image's own size, for each image.

    Args:
        model: a model folder, or a version of the local registry.
        images: image files; maps are named by their stems.
        output_dir: made if it is not there.

    Returns:
        The files written, in the order of the images.

    Raises:
        UserError: if two images have one stem, if a map would replace its image, or if an image cannot be read.
    """
    stems = [pathlib.Path(image).stem for image in images]
    twice = sorted({stem for stem in stems if stems.count(stem) > 1})
    if twice:
        raise UserError(f"several images are called {', '.join(twice)}; their maps would have one name")
    written = [pathlib.Path(output_dir) / f"{stem}.png" for stem in stems]
    kept = {pathlib.Path(image).resolve() for image in images}
    for path in written:
        if path.resolve() in kept:
            raise UserError(f"the map of {path} would take the place of the image; give another --output-dir")
    if pathlib.Path(output_dir).exists() and not pathlib.Path(output_dir).is_dir():
        raise UserError(f"{output_dir} is a file; --output-dir names a folder")
    folder = pathlib.Path(model)
    if (folder / VERSION_EXTRA).is_dir():
        folder = folder / VERSION_EXTRA
    size = read_json(folder / MODEL_CONFIG, "give the folder of a model that `train` wrote")["image_size"]
    network = tf.function(load_model(folder), reduce_retracing=True)
    with Tracker("predicting", len(images), "images") as tracker:
        for image, path in zip(images, written, strict=True):
            stimulus = decode_stimulus(Member(image, image, functools.partial(_read, image)))
            prediction = network(preprocess.prepare_stimulus(stimulus, tuple(size))[None]).numpy()[0]
            with replacing(path) as partial:
                levels = preprocess.restore_map(prediction, stimulus.shape[:2])
                partial.write_bytes(tf.io.encode_png(levels.astype(np.uint8)).numpy())
            tracker.advance()
    return written


def _read(image: str) -> bytes:
    try:
        return pathlib.Path(image).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {image}: {error.strerror}") from None
