"""The machines of a training plan, as the custom jobs of Vertex AI and the pods of Kubeflow ask for them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.plan.plan import Plan
from trainer import accelerators
from trainer.accelerators import FLEX_START, SPOT, Accelerator

REDUCTION_SERVER_IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
NODE_LABELS = {SPOT: "cloud.google.com/gke-spot", FLEX_START: "cloud.google.com/gke-flex-start"}
"""Labels of the GKE nodes that are not standard ones."""


def worker_pool_specs(
    plan: Plan, image: str, command: Sequence[str], args: Sequence[str], env: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The worker pools of the custom job, as `CustomTrainingJobOp` takes them.

    One machine alone leads in pool 0, all others are in pool 1, and pool 2 has the Reduction Servers. No pool is
    empty: the launcher would drop it, and the next would take its place.
    """
    container: dict[str, Any] = {"image_uri": image, "command": list(command), "args": list(args)}
    if env:
        container["env"] = [{"name": name, "value": value} for name, value in env.items()]

    def pool(row: Accelerator, replicas: int, container: dict[str, Any]) -> dict[str, Any]:
        return {"machine_spec": row.machine_spec, "replica_count": replicas, "container_spec": container}

    pools = [pool(plan.accelerator, 1, container)]
    if plan.workers > 1:
        pools.append(pool(plan.accelerator, plan.workers - 1, container))
    if servers := plan.config.reduction_servers:
        pools.append(pool(accelerators.REDUCTION_SERVER, servers, {"image_uri": REDUCTION_SERVER_IMAGE}))
    return pools


def scheduling_strategy(plan: Plan) -> str:
    """The custom job's `scheduling.strategy`: STANDARD, SPOT or FLEX_START."""
    return plan.config.provisioning.upper().replace("-", "_")


def accelerator_type(plan: Plan) -> str:
    """The resource that the pod asks for; empty for a CPU."""
    return plan.accelerator.resource_name


def accelerator_limit(plan: Plan) -> str:
    """How many of it, as kfp takes it; `0` for a CPU."""
    return str(plan.accelerator.chips if plan.accelerator.resource_name else 0)


def node_selector(plan: Plan) -> dict[str, str]:
    """Labels that the pod's GKE node must have."""
    label = NODE_LABELS.get(plan.config.provisioning)
    return {**plan.accelerator.node_selector, **({label: "true"} if label else {})}
