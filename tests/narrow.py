"""MSI-Net with a quarter of each layer's filters, for tests that are about all but the network's size.

It has the same layers with 1.6 instead of 24.9 million parameters. No layer has fewer filters than
`trainer.convolution.MIN_CHANNELS`, except the last one, so that its step is computed by the same operations.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.narrow_tasks.sitecustomize import WIDTHS
from trainer import model
from trainer.artifacts import Manifest
from trainer.config import TrainConfig
from trainer.models import saved_model
from trainer.training import loop, train

SHALLOW = {**WIDTHS, "VGG16_BLOCKS": ((16,), (32,), (64,), (128,), (128,))}
"""Less to trace; but `trainer.models.weights` knows no network of so few layers."""


@contextlib.contextmanager
def narrowed(widths: dict[str, Any] = WIDTHS) -> Iterator[None]:
    """Within it, `trainer.model.build_model` makes the narrow network."""
    with pytest.MonkeyPatch.context() as patch:
        for name, width in widths.items():
            patch.setattr(model, name, width)
        yield


class _Compiled:
    """The first network of each shape and its compiled steps: a later training gives it its own first weights."""

    def __init__(self) -> None:
        self._make_network, self._compile = train.make_network, loop.Compiled
        self._networks: dict[Any, tuple[keras.Model, Any]] = {}
        self._steps: dict[Any, loop.Compiled] = {}

    def make_network(
        self, config: TrainConfig, manifest: Manifest, resolved: str, base_model: Any
    ) -> tuple[keras.Model, Any]:
        assert (config.schedule, config.warmup_epochs) == ("constant", 0), "the rate would be that of the first"
        made = self._make_network(config, manifest, resolved, base_model)
        kept = self._networks.setdefault((manifest.image_size, resolved), made)
        for ours, its in zip(kept, made, strict=True):
            for variable, value in zip(ours.variables, its.variables, strict=True):
                variable.assign(value)
        return kept

    def compile(
        self, devices: Any, network: keras.Model, optimizer: Any, batch_size: int, accumulation: int
    ) -> loop.Compiled:
        key = id(network), batch_size, accumulation
        if key not in self._steps:
            self._steps[key] = self._compile(devices, network, optimizer, batch_size, accumulation)
        return self._steps[key]


_compiled = functools.cache(_Compiled)


@contextlib.contextmanager
def unoptimized() -> Iterator[None]:
    """Within it, graphs run as they are traced: for few steps it takes longer to optimize them."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


@contextlib.contextmanager
def unexported() -> Iterator[None]:
    """Within it, trainings write no SavedModel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "write_saved_model", lambda *_: None)
        yield


@contextlib.contextmanager
def shared_steps() -> Iterator[None]:
    """Within it, trainings are of the narrow network, and those of the same shapes share their compiled steps.

    A training with few images spends its time on tracing and optimizing the steps. For one processor. All
    seeds of a training are given to what takes them.
    """
    compiled = _compiled()
    with narrowed(), unoptimized(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "make_network", compiled.make_network)
        patch.setattr(loop, "Compiled", compiled.compile)
        for name in ("clear_session", "set_random_seed"):  # they throw away what TensorFlow has made of the steps
            patch.setattr(keras.utils, name, lambda *_: None)
        yield


@contextlib.contextmanager
def quick_trainings() -> Iterator[None]:
    """Within it, trainings share their compiled steps, and write no SavedModel."""
    with shared_steps(), unexported():
        yield
