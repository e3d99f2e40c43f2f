"""MSI-Net with a quarter of each layer's filters, for tests that do not depend on the network's size.

It has the same layers with 1.6 instead of 24.9 million parameters. No layer has fewer filters than
`trainer.network.convolution.MIN_CHANNELS`, except the last one, so that its step uses the same operations.
"""

import contextlib
import functools
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.narrow_tasks import sitecustomize
from tests.narrow_tasks.sitecustomize import SHIPPED, WIDTHS
from tests.patches import replace
from trainer.data.recordings import pictures
from trainer.io import files
from trainer.machine import untrusted
from trainer.network import compact, model_folder, saved_model
from trainer.network.arrays import Weights
from trainer.network.msinet import architecture, keras_model
from trainer.prediction import predictor
from trainer.prediction.predictor import Predictor
from trainer.training import loop, train
from trainer.training.loop import CompiledSteps, compile_steps
from trainer.training.settings import TrainConfig
from trainer.training.step import Network
from trainer.training.train import Job

PHOTOGRAPHS = {
    "name": "pretrained",
    "dataset": "osie",
    "source": "gs://data/osie",
    "fingerprint": "0517",
    "image_size": [64, 80],
}
"""MODEL_CONFIG of a `pretrained` that says that it was trained on photographs."""
SHALLOW = {**WIDTHS, "VGG16_BLOCKS": ((16,), (32,), (64,), (128,), (128,))}
"""Faster to trace; but `trainer.network.load` does not know a network with so few layers."""


set_random_seed = keras.utils.set_random_seed
"""Keras' own, which does nothing inside `shared_steps`."""
_load_predictor = functools.lru_cache(8)(Predictor)


@contextlib.contextmanager
def narrowed(widths: dict[str, Any] = WIDTHS) -> Iterator[None]:
    """MSI-Net is the narrow network inside the block, and in the worker of imports too.

    A model is loaded once, however many commands predict with it or score it. Recordings are read without asking
    `pretrained`, which is not narrow.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MOST_ASKED", "ENOUGH_ASKED"):
            replace(patch, pictures, name, 0)
        patch.setattr(predictor, "Predictor", _load_predictor)
        for name, width in widths.items():
            patch.setattr(architecture, name, width)
        patch.setenv("PYTHONPATH", str(pathlib.Path(sitecustomize.__file__).parent), prepend=os.pathsep)
        untrusted.end_untrusted()
        yield
        untrusted.end_untrusted()


def network(seed: int) -> keras.Model:
    """A narrow network in float32, the same for a seed; code that reads its weights must be `narrowed` too."""
    with narrowed():
        set_random_seed(seed)
        return keras_model.build_model((None, None), "float32")


def weights_of(model: keras.Model) -> Weights:
    """The weights of a Keras network."""
    return {
        (layer, role): getattr(model.get_layer(layer), role).numpy()
        for layer, role in architecture.weight_shapes()
    }


@functools.cache
def _shipped() -> pathlib.Path:
    """The folder of an untrained narrow model in compact form, for as long as this process lives."""
    folder = files.folder_for_now() / "pretrained"
    with narrowed():
        compact.write_compact(weights_of(network(0)), folder, PHOTOGRAPHS)
    return folder


@contextlib.contextmanager
def narrow_pretrained() -> Iterator[None]:
    """`pretrained` is a narrow model inside the block, and in the tasks of runs too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_folder, "PRETRAINED_FOLDER", _shipped())
        patch.setenv(SHIPPED, str(_shipped()))
        yield


class _Compiled:
    """One network of each shape and its compiled steps; a later training assigns its own initial weights to it."""

    def __init__(self) -> None:
        self._make_network, self._compile = train.make_network, compile_steps
        self._networks: dict[Any, Network] = {}
        self._steps: dict[Any, CompiledSteps] = {}

    def make_network(self, job: Job, base_model: Any) -> Network:
        assert (job.config.schedule, job.config.warmup_epochs) == ("constant", 0), (
            "the learning rate would be that of the first"
        )
        made = self._make_network(job, base_model)
        kept = self._networks.setdefault((job.manifest.image_size, job.precision), made)
        for shared, new in zip(filter(None, kept), filter(None, made), strict=True):
            for variable, value in zip(shared.variables, new.variables, strict=True):
                variable.assign(value)
        return kept

    def compile(self, devices: Any, its_network: Network, config: TrainConfig) -> CompiledSteps:
        key = id(its_network.model), config.batch_size, config.accumulation
        if key not in self._steps:
            self._steps[key] = self._compile(devices, its_network, config)
        return self._steps[key]


_compiled = functools.cache(_Compiled)


@contextlib.contextmanager
def unoptimized() -> Iterator[None]:
    """Graphs run as traced inside the block: for a few steps optimizing them takes longer."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


@contextlib.contextmanager
def unexported() -> Iterator[None]:
    """Trainings write no SavedModel inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "write_saved_model", lambda *_: None)
        yield


@contextlib.contextmanager
def shared_steps() -> Iterator[None]:
    """Trainings inside the block use the narrow network, and those of the same shapes share their compiled steps.

    A training with few images spends its time on tracing and optimizing the steps. Works for one CPU device. No
    operation of a training depends on the global seed.
    """
    compiled = _compiled()
    with narrowed(), unoptimized(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "make_network", compiled.make_network)
        patch.setattr(loop, "compile_steps", compiled.compile)
        for name in ("clear_session", "set_random_seed"):  # they would discard the compiled steps
            patch.setattr(keras.utils, name, lambda *_: None)
        yield


@contextlib.contextmanager
def quick_trainings() -> Iterator[None]:
    """Trainings inside the block share their compiled steps, and write no SavedModel."""
    with shared_steps(), unexported():
        yield
