"""The seeded weights behind msinet_reference.npz (see README.md beside this file)."""

import ast

import keras
import numpy as np


def set_golden_weights(model: keras.Model, variables: np.ndarray) -> None:
    """Give each layer of `model` the reference's seeded kernel and bias, found by its name."""
    for row in variables:
        index, name, shape = str(row).split("\t")
        rng = np.random.default_rng(1000 + int(index))
        shape = ast.literal_eval(shape)
        layer, variable = name.removesuffix(":0").replace("/", "_").rsplit("_", 1)
        values = rng.standard_normal(shape)
        values = values * np.sqrt(2 / np.prod(shape[:3])) if variable == "kernel" else values * 0.1
        getattr(model.get_layer(layer), variable).assign(values.astype(np.float32))
