"""Every setting is held to the range beside its default."""

import dataclasses
import math

import pytest

from pipeline.graph.parameters import PipelineConfig
from pipeline.plan.settings import AcceleratorConfig, JobConfig
from trainer.config import EvaluateConfig, FetchConfig, PageConfig, PredictConfig, TrainConfig
from trainer.errors import UserError

CONFIGS = (
    *(FetchConfig, TrainConfig, EvaluateConfig, PredictConfig, PageConfig),
    *(AcceleratorConfig, JobConfig, PipelineConfig),
)


def outside(field):
    """Values out of the range of a field, at its bounds."""
    limits, kind = field.metadata["range"], field.type
    near = {"gt": 0, "ge": -1, "lt": 0, "le": 1}
    yield from (kind(limits[name] + step) for name, step in near.items() if name in limits)
    if near.keys() & limits.keys() and kind is float:
        yield from (math.nan, math.inf)
    if limits.keys() & {"choices", "pattern"}:
        yield "\n"


LIMITED = [
    (config, field.name) for config in CONFIGS for field in dataclasses.fields(config) if any(outside(field))
]


@pytest.mark.parametrize(("config", "name"), LIMITED)
def test_value_out_of_its_range_is_refused_with_name_value_and_range(config, name):
    (field,) = (field for field in dataclasses.fields(config) if field.name == name)
    for value in outside(field):
        shown = f"{value:g}" if isinstance(value, float) else ascii(value).replace("\\", r"\\")
        with pytest.raises(UserError, match=rf"^{name} is {shown}; (it must be|choose one of|write) \S"):
            config(**{name: value})


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (FetchConfig, {"test_share": 1.0}, "test_share is 1; it must be at least 0 and below 1$"),
        (PredictConfig, {"most_megapixels": math.inf}, "most_megapixels is inf; it must be above 0, and finite$"),
        (TrainConfig, {"recipe": "bset"}, "recipe is 'bset'; choose one of .*; did you mean 'best'"),
        (TrainConfig, {"warmup_epochs": 10.0}, "warmup_epochs is 10"),
        (TrainConfig, {"profile_steps": "-3-5"}, "profile_steps is '-3-5'; write the first and the last step"),
        (PipelineConfig, {"model_name": "../mine"}, "model_name is '../mine'; write"),
    ],
)
def test_message_shows_the_whole_range(config, settings, message):
    with pytest.raises(UserError, match=f"^{message}"):
        config(**settings)


def test_any_finite_limit_is_a_number_of_pixels():
    assert PredictConfig(most_megapixels=1e308).most_pixels == 10**18
