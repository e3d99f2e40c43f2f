"""The machines of a training as Vertex AI's custom jobs request them."""

from collections.abc import Sequence
from typing import Any

from lifecycle.machines.plan import TrainingPlan


def worker_pool_specs(
    plan: TrainingPlan, image: str, command: Sequence[str], args: Sequence[str]
) -> list[dict[str, Any]]:
    """The worker pools of the custom job, for `CustomTrainingJobOp`.

    Pool 0 is the leader alone, and pool 1 all other machines. No pool is empty: the launcher would drop it. There
    is no pool of Reduction Servers: an image needs Google's plugin for NCCL to use them (Vertex AI's page on
    distributed training).
    """
    container = {"image_uri": image, "command": list(command), "args": list(args)}
    others = plan.machines.workers - 1
    return [
        {"machine_spec": plan.accelerator.machine_spec, "replica_count": replicas, "container_spec": container}
        for replicas in ([1, others] if others else [1])
    ]


def scheduling_strategy(plan: TrainingPlan) -> str:
    """The custom job's `scheduling.strategy`: STANDARD, SPOT or FLEX_START."""
    return plan.machines.provisioning.upper().replace("-", "_")
