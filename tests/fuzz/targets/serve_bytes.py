"""`serve_bytes`, the signature of exported models for pictures: the function that is exported, in this process."""

import functools
import io
import pathlib
import random

import numpy as np
import tensorflow as tf
from PIL import Image

from tests.fuzz import model, pictures
from tests.fuzz.verdicts import Input, RefusedError, expect
from trainer.models import saved_model
from trainer.models.trained import Trained

TURNED = ("JPEG",)
"""Formats whose orientation tags it reads, as docs/serving.md says."""
LEVELS = 3
"""Mean difference allowed of two maps, of 0..255: TensorFlow and Pillow decode a JPEG with their own sums."""


class Target:
    def __init__(self, folder: pathlib.Path) -> None:
        self._model = model.written(folder)
        self._servable = saved_model._Servable(Trained(self._model.network), model.SIZE)
        self._answer = b""
        self._run(pictures.encoded(Image.new("RGB", (9, 9)), "PNG"))  # compiled before the clock runs

    def make(self, source: random.Random, folder: pathlib.Path) -> Input:
        made = pictures.picture(source)
        (folder / f"picture{made.suffix}").write_bytes(made.data)
        run, compare = functools.partial(self._run, made.data), functools.partial(self._compare, made)
        return Input(made.kind, run, compare)

    def _run(self, data: bytes) -> None:
        # With a sound one beside it: the picture of one caller must not fail the batch of all.
        answers = self._servable.serve_bytes(tf.constant([SOUND, data]))["saliency_bytes"].numpy()
        expect(answers[0], "the sound picture in the same batch has no map")
        self._answer = answers[1]
        if not self._answer:
            raise RefusedError("error: no map, which is how the signature refuses")

    def _compare(self, made: pictures.Picture) -> None:
        with Image.open(io.BytesIO(self._answer)) as answer:
            levels = np.asarray(answer)
        theirs = pictures.independent(made.data, TURNED)
        if theirs is None:
            theirs = pictures.independent(pictures.essential(made.data), TURNED)
        expect(theirs is not None, "Pillow does not read it, and there is a map")
        assert theirs is not None
        expect(levels.shape == theirs.shape[:2], f"the map is {levels.shape}, the picture {theirs.shape[:2]}")
        off = float(np.abs(levels - 255.0 * self._model.map(theirs)).mean())
        expect(off <= LEVELS, f"the map differs by {off:.3g} levels from that of Pillow's pixels")


SOUND = pictures.encoded(Image.new("RGB", (9, 9), "red"), "PNG")
