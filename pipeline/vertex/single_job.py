"""A command that runs once on the machine of an accelerator, as a custom job of Vertex AI."""

from collections.abc import Mapping, Sequence
from typing import Any

from lifecycle.machines.custom_jobs import scheduling_strategy, worker_pool_specs
from lifecycle.machines.plan import TrainingPlan


def single_job(
    name: str,
    plan: TrainingPlan,
    image: str,
    command: Sequence[str],
    args: Sequence[str],
    *,
    timeout_s: int,
    account: str,
    network: str,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """A custom job of Vertex AI that runs a command once, on the first machine of a plan."""
    specification = {
        "worker_pool_specs": worker_pool_specs(plan, image, command, args)[:1],
        "scheduling": {
            "timeout": f"{timeout_s}s",
            "strategy": scheduling_strategy(plan),
            "disable_retries": True,
        },
        "service_account": account,
        "network": network,
    }
    return {"display_name": name, "job_spec": specification, "labels": dict(labels)}
