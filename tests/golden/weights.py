"""The seeded weights behind msinet_reference.npz (see README.md beside this file)."""

import ast
import functools
import pathlib

import keras
import numpy as np


@functools.cache
def golden_weights() -> dict[str, np.ndarray]:
    """The reference's name of each variable, without `:0` -> its seeded values, float32."""
    weights = {}
    for row in np.load(pathlib.Path(__file__).with_name("msinet_reference.npz"))["variables"]:
        index, name, text = str(row).split("\t")
        rng = np.random.default_rng(1000 + int(index))
        shape = ast.literal_eval(text)
        values = rng.standard_normal(shape)
        values = values * np.sqrt(2 / np.prod(shape[:3])) if "kernel" in name else values * 0.1
        weights[name.removesuffix(":0")] = values.astype(np.float32)
    return weights


def set_golden_weights(model: keras.Model) -> None:
    """Give each layer of `model` the reference's seeded kernel and bias, found by its name."""
    for name, values in golden_weights().items():
        layer, variable = name.replace("/", "_").rsplit("_", 1)
        getattr(model.get_layer(layer), variable).assign(values)
