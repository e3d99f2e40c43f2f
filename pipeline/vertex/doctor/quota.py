"""Quota: whether the region has as much of each accelerator as the plans take."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from pipeline.plan.plan import TrainingPlan
from pipeline.vertex.doctor.api import Api, UnansweredError
from pipeline.vertex.doctor.asking import Ask
from pipeline.vertex.doctor.findings import Finding, missing, ok, unknown

SERVICE = "aiplatform.googleapis.com"
METRIC = "custom_model_training_"
"""How the names of the metrics of training begin, after the service and a slash."""
UNLIMITED = -1


def needed(plans: Mapping[str, TrainingPlan]) -> dict[str, int]:
    """Metric, without the service -> the most that one step takes; the steps run one after another."""
    most: dict[str, int] = {}
    for plan in plans.values():
        for name, count in plan.accelerator.quotas(plan.machines.provisioning).items():
            most[METRIC + name] = max(most.get(METRIC + name, 0), count * plan.machines.workers)
    return most


def questions(api: Api, plans: Mapping[str, TrainingPlan]) -> Iterator[Ask]:
    """A question for each metric that the plans take."""
    for metric, count in needed(plans).items():
        yield f"quota {metric}", partial(check_quota, api, metric, count)


def check_quota(api: Api, metric: str, count: int) -> Iterable[Finding]:
    """Whether the project's limit of a metric in the region is `count` at least."""
    location, project = api.environment.location, api.environment.project
    link = f"https://console.cloud.google.com/iam-admin/quotas?project={project}&metric={SERVICE}/{metric}"
    subject = f"quota {metric} in {location}"
    path = f"v1beta1/projects/{project}/services/{SERVICE}/consumerQuotaMetrics/{SERVICE}%2F{metric}"
    try:
        found = api.find("serviceusage", path, view="FULL")
    except UnansweredError as error:
        yield unknown(subject, link, reason=str(error))
        return
    limit = _limit(found, location) if found else None
    if limit is None:
        yield unknown(f"{subject}: Google names no limit; the plan takes {count}", link)
    elif limit == UNLIMITED or limit >= count:
        yield ok(f"{subject} is {'unlimited' if limit == UNLIMITED else limit}, and the plan takes {count}")
    else:
        yield missing(
            f"{subject} is {limit}, but the plan takes {count}; ask for more, which takes hours or days", link
        )


def _limit(metric: Mapping[str, Any], location: str) -> int | None:
    """The effective limit in a region: of its own bucket, or else of the bucket for all regions.

    Service Usage API v1beta1: ConsumerQuotaMetric, ConsumerQuotaLimit, QuotaBucket. Replies leave out numbers that
    are 0. Of several limits, the least counts.
    """
    limits = []
    for limit in metric.get("consumerQuotaLimits", ()):
        buckets = {each.get("dimensions", {}).get("region", ""): each for each in limit.get("quotaBuckets", ())}
        if buckets:
            bucket = buckets.get(location, buckets.get("", {}))
            limits.append(int(bucket.get("effectiveLimit", 0)))
    finite = [limit for limit in limits if limit != UNLIMITED]
    return min(finite) if finite else UNLIMITED if limits else None
