"""The DAG that prepares a dataset in shards: decide_dataset -> prepare_shard, for each shard -> merge_shards."""

import dataclasses
from typing import Any

from kfp import dsl

from components.decide_dataset import decide_dataset
from components.merge_shards import merge_shards
from components.prepare_shard import prepare_shard
from pipeline.graph.environment import Environment
from pipeline.graph.preparation import Preparation
from pipeline.graph.shard_loop import ShardLoop

PREPARATION_NAME = "msinet-prepare"
CORES, MEMORY = "8", "16G"
"""Of the first and the last task, which look at all images, of a million of them 2 GB at a time."""


def build_preparation(env: Environment, asked: Preparation) -> Any:
    """The pipeline that prepares a dataset for the target of `env`. What is asked for are its defaults."""
    settings = {
        **dataclasses.asdict(asked.config),
        **dataclasses.asdict(asked.machines),
        "shard_gigabytes": asked.shard_gigabytes,
        "test": asked.test,
        "image": env.image,
    }

    def shard_task(output_dir: Any, shard: Any) -> Any:
        return prepare_shard(output_dir=output_dir, shard=shard)

    loop = ShardLoop(env, PREPARATION_NAME, asked.machines, shard_task)

    def pipeline(
        dataset: str = asked.config.dataset,
        source: str = asked.config.source,
        output_dir: str = asked.output,
    ) -> None:
        plan = decide_dataset(dataset=dataset, source=source, output_dir=output_dir, settings=settings)
        end = merge_shards(output_dir=output_dir)
        for task in (plan, end):
            task.set_cpu_limit(CORES).set_memory_limit(MEMORY)
        loop.connect(plan, end, output_dir)

    pipeline.__doc__ = "Prepare a dataset of any number of images."
    return dsl.pipeline(pipeline, name=PREPARATION_NAME)
