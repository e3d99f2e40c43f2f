"""The DAG of a batch prediction: plan_predictions -> predict_shard, for each shard -> collect_predictions."""

import dataclasses
from typing import Any

from kfp import dsl

from components.collect_predictions import collect_predictions
from components.plan_predictions import plan_predictions
from components.predict_shard import predict_shard
from pipeline.graph.environment import Environment
from pipeline.graph.prediction import Prediction
from pipeline.graph.shard_loop import ShardLoop

PREDICTION_NAME = "msinet-predict"


def build_prediction(env: Environment, asked: Prediction) -> Any:
    """The pipeline of a batch prediction for the target of `env`. What is asked for are its defaults."""
    parts = (asked.predict, asked.batch, asked.machines)
    settings = {name: value for part in parts for name, value in dataclasses.asdict(part).items()}
    registry = str({**env.derived, **env.parameters}.get("registry", ""))
    model_name = str(env.parameters.get("model_name", "msinet"))

    def shard_task(output_dir: Any, task: Any) -> Any:
        return predict_shard(output_dir=output_dir, task=task, max_bad_share=asked.batch.max_bad_share)

    loop = ShardLoop(env, PREDICTION_NAME, asked.machines, shard_task)

    def pipeline(
        source: str = asked.source,
        output_dir: str = asked.output,
        model: str = asked.model,
        regions: list = asked.regions,  # type: ignore[type-arg]
    ) -> None:
        plan = plan_predictions(
            source=source,
            output_dir=output_dir,
            model=model,
            registry=registry,
            model_name=model_name,
            regions=regions,
            settings={**settings, "image": env.image},
        )
        loop.connect(plan, collect_predictions(output_dir=output_dir), output_dir)

    pipeline.__doc__ = "Predict the maps of any number of images."
    return dsl.pipeline(pipeline, name=PREDICTION_NAME)
