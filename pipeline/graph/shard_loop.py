"""The DAG of work in shards: what its plan, its loop and its end have in common.

plan                                lists the source, cuts it into shards
  |
  |  for each shard, some at a time
shard                               on Kubeflow. On Vertex AI a CustomTrainingJobOp, which can name a machine type
  |                                 and a disk
end                                 makes one result of all shards

The plan has an output for each target: `tasks`, their numbers, for Kubeflow, and `worker_pools`, the pools of the
job of each task, for Vertex AI. Of very many shards, a task does several. One that is retried goes on where it
was.
"""

from collections.abc import Callable
from typing import Any

from kfp import dsl

from lifecycle.machines import BatchMachines, Pod
from pipeline.graph.environment import Environment

RETRIES = 6
"""How often a task is retried, as a training is."""


class ShardLoop:
    """The loop over the shards, for the target of an environment.

    How many tasks run at a time is fixed when it is compiled.

    Args:
        env: the environment.
        name: name of the jobs on Vertex AI.
        machines: what each shard has to itself, and how many at a time.
        shard_task: makes the task of a pod, of the folder of the results and the shard's number.
    """

    def __init__(
        self,
        env: Environment,
        name: str,
        machines: BatchMachines,
        shard_task: Callable[[Any, Any], dsl.PipelineTask],
    ) -> None:
        self.env, self.name, self.machines, self.shard_task = env, name, machines, shard_task
        self._loop = self._compiled()  # kfp makes no pipeline while it makes another

    def connect(self, plan: dsl.PipelineTask, end: dsl.PipelineTask, output_dir: Any) -> None:
        """Add the loop to a pipeline: after the task that plans, and before the one that ends."""
        items = plan.outputs["worker_pools" if self.env.target == "vertex" else "tasks"]
        done = self._loop(output_dir=output_dir, items=items).set_display_name("Shards")
        self._configure(plan).set_display_name("Listing")
        self._configure(end).set_display_name("Summary").after(done)

    def _compiled(self) -> Any:
        """The loop, as a pipeline of its own: kfp lets no task follow a loop itself."""

        def shards(output_dir: str, items: list) -> None:  # type: ignore[type-arg]
            with dsl.ParallelFor(items, name="Shard", parallelism=self.machines.machines) as item:
                if self.env.target == "vertex":
                    self._custom_job(item)
                else:
                    self._pod(self.shard_task(output_dir, item))

        # kfp takes the type of an item from this.
        shards.__annotations__["items"] = list[list[Any]] if self.env.target == "vertex" else list[int]
        return dsl.pipeline(shards, name="shards")

    def _custom_job(self, pools: Any) -> None:
        from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp

        job = CustomTrainingJobOp(
            display_name=self.name,
            location=self.env.location,
            worker_pool_specs=pools,
            strategy=self.machines.provisioning.upper(),
            restart_job_on_worker_restart=True,
            service_account=self.env.service_account,
            network=self.env.network,
            labels=dict(self.env.labels),
        )
        job.set_caching_options(False).set_display_name("Shard")
        job.set_retry(3, backoff_duration="60s", backoff_factor=2)

    def _pod(self, task: dsl.PipelineTask) -> None:
        from kfp import kubernetes

        pod = Pod.on(self.machines.row, self.machines.provisioning)
        task.set_cpu_request(pod.cpu).set_memory_request(pod.memory).set_memory_limit(pod.memory)
        for label, value in pod.node_selector.items():
            kubernetes.add_node_selector(task, label, value)
        for toleration in pod.tolerations:
            kubernetes.add_toleration(task, **toleration)
        self._configure(task).set_display_name("Shard")

    def _configure(self, task: dsl.PipelineTask) -> dsl.PipelineTask:
        """Set the image of a task, its volume and its retries. Nothing comes from a cache: the folder knows it."""
        task.set_caching_options(False).set_container_image(self.env.image)
        if self.env.volume_claim:
            from kfp import kubernetes

            kubernetes.mount_pvc(task, pvc_name=self.env.volume_claim, mount_path=self.env.bucket)
        limit = {"kubeflow": "7d"}.get(self.env.target)
        return task.set_retry(RETRIES, backoff_duration="60s", backoff_factor=2, backoff_max_duration=limit)
