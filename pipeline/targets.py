"""How a training step becomes tasks on each target. Everything else of the DAG is the same on all of them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from components.train_model import train_model
from pipeline.parameters import STEPS
from pipeline.settings import TARGET_NAMES

Channel = Any
"""What kfp passes between tasks: a pipeline parameter or a task's output."""

TrainingStep = Callable[[str, Mapping[str, Channel], Channel, Channel | None], Channel]
"""(step, settings, prepared data set, base model or None) -> the trained model."""


@dataclasses.dataclass(frozen=True)
class Target:
    """What is particular to one target."""

    training_step: TrainingStep


def _train_here(
    step: str, settings: Mapping[str, Channel], dataset: Channel, base_model: Channel | None
) -> Channel:
    """A plain task, never cached: a working copy's code changes while the name of its image stays."""
    return _train(step, settings, dataset, base_model).set_caching_options(False).outputs["model"]


def _train_on_vertex(
    step: str, settings: Mapping[str, Channel], dataset: Channel, base_model: Channel | None
) -> Channel:
    """A plain task, cached: the same image, data and settings make the same model, and training is dear."""
    return _train(step, settings, dataset, base_model).set_caching_options(True).outputs["model"]


def _train(step: str, settings: Mapping[str, Channel], dataset: Channel, base_model: Channel | None) -> Any:
    optional = {} if base_model is None else {"base_model": base_model}
    return train_model(step=step, dataset=dataset, **settings, **optional).set_display_name(STEPS[step])


TARGETS: dict[str, Target] = {"local": Target(_train_here), "vertex": Target(_train_on_vertex)}
assert tuple(TARGETS) == TARGET_NAMES
