"""Task that lists the images of a batch prediction, and cuts them into shards."""

from typing import NamedTuple

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def plan_predictions(
    source: str,
    output_dir: str,
    model: str,
    registry: str,
    model_name: str,
    regions: list,  # type: ignore[type-arg]
    settings: dict,  # type: ignore[type-arg]
) -> NamedTuple("Outputs", [("tasks", list[int]), ("worker_pools", list[list])]):  # type: ignore[valid-type]
    """List the images at `source`, write the shards into `output_dir`, and return the numbers of the tasks.

    An empty `model` is the default of `registry`, or `pretrained` if it has none. `worker_pools` has the worker
    pools of a custom job for each task.
    """
    from lifecycle.machines import BatchMachines
    from lifecycle.registry import open_registry
    from trainer.batch import BatchConfig, plan_job
    from trainer.errors import reported
    from trainer.models import PRETRAINED
    from trainer.prediction import PredictConfig
    from trainer.settings import configs_of

    with reported():
        image = settings.pop("image")
        predict, config, machines = configs_of(settings, PredictConfig, BatchConfig, BatchMachines)
        if not model:
            default = open_registry(registry).default(model_name) if registry else None
            model = default.address if default else PRETRAINED
        job = plan_job(source, output_dir, model, predict, regions, config)
        tasks = list(job.tasks)
        words = [[output_dir, str(task), str(config.max_bad_share)] for task in tasks]
        return tasks, machines.worker_pools(image, "trainer.batch.work", words)
