"""How a training step becomes tasks on each target. Everything else of the DAG is the same on all of them."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from components.train_model import train_model
from pipeline.parameters import STEPS
from pipeline.settings import TARGET_NAMES

Channel = Any
"""What kfp passes between tasks: a pipeline parameter or a task's output."""


class TrainingStep(Protocol):
    """Makes the tasks of one training step; the trained model is what it returns."""

    def __call__(
        self,
        step: str,
        settings: Mapping[str, Channel],
        dataset: Channel,
        base_model: Channel | None,
        after: Iterable[Channel],
    ) -> Channel: ...


@dataclasses.dataclass(frozen=True)
class Target:
    """What is particular to one target."""

    training_step: TrainingStep


def plain_task(cached: bool) -> TrainingStep:
    """A training step that is one task, run as the others are."""

    def make(
        step: str,
        settings: Mapping[str, Channel],
        dataset: Channel,
        base_model: Channel | None,
        after: Iterable[Channel],
    ) -> Channel:
        optional = {} if base_model is None else {"base_model": base_model}
        task = train_model(step=step, dataset=dataset, **settings, **optional)
        task.after(*after).set_caching_options(cached).set_display_name(STEPS[step])
        return task.outputs["model"]

    return make


TARGETS: dict[str, Target] = {
    # A working copy's code changes while the name of its image stays: a cached model could be an old one's.
    "local": Target(plain_task(cached=False)),
    # The same image, data and settings make the same model, and training is dear.
    "vertex": Target(plain_task(cached=True)),
}
assert tuple(TARGETS) == TARGET_NAMES
