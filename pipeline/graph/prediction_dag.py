"""The DAG of a batch prediction.

plan_predictions                    lists the source, cuts it into shards
     |
     |  for each shard, some at a time. Of very many shards, a task predicts several
predict_shard                       on Kubeflow. On Vertex AI a CustomTrainingJobOp, which can name a machine type
     |
collect_predictions                 checks that all is there

A task that is retried goes on where its shard was.
"""

import dataclasses
from typing import Any

from kfp import dsl

from components.collect_predictions import collect_predictions
from components.plan_predictions import plan_predictions
from components.predict_shard import predict_shard
from lifecycle.machines import Pod
from pipeline.graph.environment import Environment
from pipeline.graph.prediction import Prediction

PREDICTION_NAME = "msinet-predict"
RETRIES = 6
"""How often a task is retried, as a training is."""


def build_prediction(env: Environment, asked: Prediction) -> Any:
    """The pipeline of a batch prediction for the target of `env`. What is asked for are its defaults.

    How many tasks run at a time is fixed when it is compiled.
    """
    parts = (asked.predict, asked.batch, asked.machines)
    settings = {name: value for part in parts for name, value in dataclasses.asdict(part).items()}
    registry = str({**env.derived, **env.parameters}.get("registry", ""))
    model_name = str(env.parameters.get("model_name", "msinet"))

    shards = _shards(env, asked)

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
        _configure(plan, env).set_display_name("Listing")
        items = plan.outputs["worker_pools" if env.target == "vertex" else "tasks"]
        done = shards(output_dir=output_dir, items=items).set_display_name("Shards")
        collect = collect_predictions(output_dir=output_dir).after(done)
        _configure(collect, env).set_display_name("Summary")

    pipeline.__doc__ = "Predict the maps of any number of images."
    return dsl.pipeline(pipeline, name=PREDICTION_NAME)


def _shards(env: Environment, asked: Prediction) -> Any:
    """The loop, as a pipeline of its own: kfp lets no task follow a loop itself."""

    def shards(output_dir: str, items: list) -> None:  # type: ignore[type-arg]
        with dsl.ParallelFor(items, name="Shard", parallelism=asked.machines.machines) as item:
            if env.target == "vertex":
                _custom_job(env, asked, item)
            else:
                _pod(env, asked, output_dir, item)

    # kfp takes the type of an item from this.
    shards.__annotations__["items"] = list[list[Any]] if env.target == "vertex" else list[int]
    return dsl.pipeline(shards, name="shards")


def _custom_job(env: Environment, asked: Prediction, pools: Any) -> None:
    from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp

    job = CustomTrainingJobOp(
        display_name=PREDICTION_NAME,
        location=env.location,
        worker_pool_specs=pools,
        strategy=asked.machines.provisioning.upper(),
        restart_job_on_worker_restart=True,
        service_account=env.service_account,
        network=env.network,
        labels=dict(env.labels),
    )
    job.set_caching_options(False).set_display_name("Shard").set_retry(3, backoff_duration="60s", backoff_factor=2)


def _pod(env: Environment, asked: Prediction, output_dir: str, item: Any) -> None:
    from kfp import kubernetes

    task = predict_shard(output_dir=output_dir, task=item, max_bad_share=asked.batch.max_bad_share)
    pod = Pod.on(asked.machines.row, asked.machines.provisioning)
    task.set_cpu_request(pod.cpu).set_memory_request(pod.memory).set_memory_limit(pod.memory)
    for label, value in pod.node_selector.items():
        kubernetes.add_node_selector(task, label, value)
    for toleration in pod.tolerations:
        kubernetes.add_toleration(task, **toleration)
    _configure(task, env).set_display_name("Shard")


def _configure(task: dsl.PipelineTask, env: Environment) -> dsl.PipelineTask:
    """Set the image of a task, its volume and its retries. Nothing comes from a cache: the folder knows it."""
    task.set_caching_options(False).set_container_image(env.image)
    if env.volume_claim:
        from kfp import kubernetes

        kubernetes.mount_pvc(task, pvc_name=env.volume_claim, mount_path=env.bucket)
    limit = {"kubeflow": "7d"}.get(env.target)
    return task.set_retry(RETRIES, backoff_duration="60s", backoff_factor=2, backoff_max_duration=limit)
