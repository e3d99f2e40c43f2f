"""The machines of a training plan, in the form that Vertex AI custom jobs and Kubeflow pods request them."""

from collections.abc import Sequence
from typing import Any

from pipeline.plan.plan import TrainingPlan
from trainer.accelerators import FLEX_START, SPOT

NODE_LABELS = {SPOT: "cloud.google.com/gke-spot", FLEX_START: "cloud.google.com/gke-flex-start"}
"""Label of the GKE nodes of each provisioning other than standard."""


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


def accelerator_type(plan: TrainingPlan) -> str:
    """Name of the resource that the pod requests; empty for a CPU."""
    return plan.accelerator.resource_name


def accelerator_limit(plan: TrainingPlan) -> str:
    """How many of this resource, as text for kfp; `0` for a CPU."""
    return str(plan.accelerator.chips if plan.accelerator.resource_name else 0)


def node_selector(plan: TrainingPlan) -> dict[str, str]:
    """Labels that the GKE node of the pod must have."""
    label = NODE_LABELS.get(plan.machines.provisioning)
    return {**plan.accelerator.node_selector, **({label: "true"} if label else {})}
