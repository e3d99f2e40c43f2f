"""What a run needs besides rights: APIs, buckets, data, images and quota."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pipeline.plan.plan import TrainingPlan
from pipeline.vertex import checks
from pipeline.vertex.doctor.questions import MISSING, OK, UNKNOWN, Api, Finding, Question, quoted
from trainer import storage
from trainer.storage import is_archive

APIS = (
    *("aiplatform", "artifactregistry", "cloudbuild", "cloudresourcemanager", "compute", "iam"),
    *("iamcredentials", "logging", "storage"),
)
"""The APIs that infra/apis.tf enables."""
REPOSITORY = r"(?:https://)?([a-z0-9-]+)-(?:docker|kfp)\.pkg\.dev/([^/]+)/([^/]+)(?:/(.+))?"
"""Location, project and name of a repository of Artifact Registry, and what follows them in an address."""
LISTED = 100
"""Objects whose names begin with a source's: enough to find one of its own among others."""
VERTEX = "aiplatform.googleapis.com"
METRIC = "custom_model_training_"
"""Prefix of the names of the quotas of training, after the service and a slash."""


def check_apis(api: Api) -> Finding:
    """Whether the APIs are on, by one request."""
    project = api.environment.project
    services = [f"{each}.googleapis.com" for each in APIS]
    names = [f"projects/{project}/services/{each}" for each in services]
    answer = api.get("serviceusage", f"v1/projects/{project}/services:batchGet", names=names)
    on = {each["name"].rpartition("/")[2] for each in answer["services"] if each["state"] == "ENABLED"}
    if off := [each for each in services if each not in on]:
        command = f"gcloud services enable {' '.join(off)} --project={project}"
        return Finding(MISSING, f"APIs that are off: {', '.join(off)}", command)
    return Finding(OK, f"all {len(services)} APIs are on")


def check_bucket(api: Api, name: str, is_written: bool) -> Finding:
    """Whether a bucket exists, and is in the region of the runs if they write to it."""
    location, project = api.environment.location, api.environment.project
    found = api.find("storage", f"storage/v1/b/{quoted(name)}")
    if found is None:
        command = f"gcloud storage buckets create gs://{name} --location={location} --project={project}"
        return Finding(MISSING, f"bucket gs://{name} does not exist", f"{command} --uniform-bucket-level-access")
    place = str(found["location"])
    regions = found.get("customPlacementConfig", {}).get("dataLocations", ())
    text = f"bucket gs://{name} is in {place.lower()}"
    if not is_written or checks.bucket_fits(place, regions, location):
        return Finding(OK, text)
    remedy = f"set bucket to one in {location}, or location to the bucket's region"
    return Finding(MISSING, f"{text}, but runs are in {location}", remedy)


def check_source(api: Api, parameter: str, address: str) -> Finding:
    """Whether there is something at a `gs://` address that a run reads; `parameter` names it."""
    bucket, path = storage.split(address)
    objects = f"storage/v1/b/{quoted(bucket)}/o"
    if is_archive(path):
        # Reading one object takes fewer rights than listing a bucket, and the public dataset is one object.
        is_there = api.find("storage", f"{objects}/{quoted(path)}", fields="name") is not None
    else:
        listing = api.find("storage", objects, prefix=path, maxResults=LISTED, fields="items(name)") or {}
        names = [item["name"] for item in listing.get("items", ())]
        is_there = any(not path or name == path or name.startswith(f"{path}/") for name in names)
    if is_there:
        return Finding(OK, f"{parameter} {address} is there")
    command = (
        f"gcloud storage cp ARCHIVE {address}" if is_archive(path) else f"gcloud storage cp FOLDER {address} -r"
    )
    return Finding(MISSING, f"{parameter} {address}: there is nothing", command)


def check_image(api: Api, image: str) -> Finding:
    """Whether the image of a full name, with its tag, exists."""
    address, _, tag = image.rpartition(":")
    parts = re.fullmatch(REPOSITORY, address)
    if parts is None:
        return Finding(UNKNOWN, f"image {image} is not in Artifact Registry, so this cannot ask for it")
    location, project, repository, package = parts.groups()
    path = f"v1/projects/{project}/locations/{location}/repositories/{repository}/packages/{quoted(package)}"
    if api.find("artifactregistry", f"{path}/tags/{quoted(tag)}") is None:
        return Finding(MISSING, f"image {image} does not exist", f"make images ENV={api.environment.name}")
    return Finding(OK, f"image {image} exists")


def about_quota(api: Api, plans: Mapping[str, TrainingPlan]) -> Iterator[Question]:
    """A question for each quota that the plans take: the most of one step, since steps run one after another."""
    most: dict[str, int] = {}
    for plan in plans.values():
        for name, count in plan.accelerator.quotas(plan.machines.provisioning).items():
            most[METRIC + name] = max(most.get(METRIC + name, 0), count * plan.machines.workers)
    for metric, count in most.items():
        yield f"quota {metric}", partial(check_quota, api, metric, count)


def check_quota(api: Api, metric: str, count: int) -> Finding:
    """Whether the project's limit of a metric in the region is `count` at least."""
    location, project = api.environment.location, api.environment.project
    link = f"https://console.cloud.google.com/iam-admin/quotas?project={project}&metric={VERTEX}/{metric}"
    subject = f"quota {metric} in {location}"
    path = f"v1beta1/projects/{project}/services/{VERTEX}/consumerQuotaMetrics/{VERTEX}%2F{metric}"
    found = api.find("serviceusage", path, view="FULL")
    limit = _limit(found, location) if found else None
    if limit is None:
        return Finding(UNKNOWN, f"{subject}: Google names no limit; the plan takes {count}", link)
    if limit >= count:
        return Finding(
            OK, f"{subject} is {'unlimited' if limit == math.inf else f'{limit:g}'}, the plan takes {count}"
        )
    text = f"{subject} is {limit:g}, but the plan takes {count}; ask for more, which takes hours or days"
    return Finding(MISSING, text, link)


def _limit(metric: Mapping[str, Any], location: str) -> float | None:
    """The least effective limit in a region, from its own bucket, or else from the bucket for all regions.

    Service Usage API v1beta1: ConsumerQuotaMetric. Replies leave out numbers that are 0; -1 is infinite.
    """
    limits = []
    for limit in metric.get("consumerQuotaLimits", ()):
        buckets = {each.get("dimensions", {}).get("region", ""): each for each in limit.get("quotaBuckets", ())}
        if buckets:
            limits.append(int(buckets.get(location, buckets.get("", {})).get("effectiveLimit", 0)))
    return min((math.inf if limit < 0 else limit for limit in limits), default=None)
