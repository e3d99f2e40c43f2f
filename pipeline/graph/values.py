"""Values of a run's parameters: those of its environment, then those that a user passes.

The source `sample` brings the settings of configs/sample.toml: those of real data are for thousands of images.
"""

from collections.abc import Mapping

from pipeline.graph.environment import CONFIGS, load_environment
from pipeline.graph.parameters import PARAMETERS, STEPS, Value
from trainer.config import SAMPLE

SAMPLE_FILE = str(CONFIGS / f"{SAMPLE}.toml")


def layered(*layers: Mapping[str, Value]) -> dict[str, Value]:
    """The values of all layers; a later layer overrides those before it.

    A layer that chooses the sample dataset as the source of a step also sets the sample's other settings of this
    step, except those that the layer sets itself.
    """
    values: dict[str, Value] = {}
    for layer in layers:
        for step in STEPS:
            source = f"{step}_source"
            if layer.get(source) == SAMPLE != values.get(source):
                values |= sample_settings(step)
        values |= layer
    return values


def sample_settings(step: str) -> dict[str, Value]:
    """The parameters with which `step` trains on the sample dataset; base training has those of both steps too."""
    values = load_environment(SAMPLE_FILE).parameters
    return {name: value for name, value in values.items() if (PARAMETERS[name].step or "base") == step}
