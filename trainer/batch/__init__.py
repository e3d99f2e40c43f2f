"""Predictions of more images than one call handles: listed once, cut into shards, each done in pieces.

What is done is known from one manifest a shard. So a job that is killed at any moment goes on where it was.
"""

from trainer.doors import opened

__all__ = [
    "MOST_TASKS",  # the most tasks of a job on a service
    "BatchConfig",  # the settings of a job
    "Sizes",  # how many images a source has, and how large they are
    "collect_job",  # the end of a job: one list of what could not be read, and the sums
    "measure_source",  # the sizes of a source, for a plan
    "plan_job",  # list a source, and write its shards
    "predict_shard",  # the maps and the table of one shard
    "predict_task",  # the shards of a task of a service
]
__getattr__ = opened(__name__, __file__)
