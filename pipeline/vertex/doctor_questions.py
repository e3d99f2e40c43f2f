"""Questions to Google's REST APIs: which APIs, buckets, data, images and quota a run lacks.

Many questions are asked at the same time, and none of them changes anything.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from lifecycle.machines.plan import TrainingPlan
from lifecycle.runs.parameters import effective
from lifecycle.runs.settled import settle
from lifecycle.vertex import api as vertex_api
from lifecycle.vertex.api import Api, UnansweredError
from pipeline.graph.environment import Environment
from trainer.data import datasets
from trainer.errors import UserError, check
from trainer.io import buckets
from trainer.io.file_names import is_archive
from trainer.settings.fields import Value

OK, MISSING, UNKNOWN = "✓", "✗", "?"
THREADS = 8
"""Number of questions at the same time."""
APIS = (
    *("aiplatform", "artifactregistry", "cloudbuild", "cloudresourcemanager", "compute", "iam"),
    *("iamcredentials", "logging", "storage"),
)
"""The APIs that infra/apis.tf enables."""
LISTED = 100
"""Objects whose names begin with a source's: enough to find one of its own among others."""
VERTEX = "aiplatform.googleapis.com"
METRIC = "custom_model_training_"
"""Prefix of the names of the quotas of training, after the service and a slash."""


# === Questions to Google's APIs ===


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that a run needs."""

    state: str
    """OK, MISSING, or UNKNOWN if it could not be asked."""
    text: str
    remedy: str = ""
    """A command or a link that provides what is missing, or that shows what is unknown."""


Question = tuple[str, Callable[[], Finding]]
"""A subject, and the function that asks for it."""


def ask(questions: Iterable[Question]) -> list[Finding]:
    """The findings of all questions in their order; a subject whose question has no answer is unknown."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_answer, questions))


def _answer(question: Question) -> Finding:
    subject, asked = question
    try:
        return asked()
    except UnansweredError as error:
        return Finding(UNKNOWN, f"{subject}: {error}")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return Finding(UNKNOWN, f"{subject}: the reply is not as Google documents it ({vertex_api.brief(error)})")


# === What a run needs on Google Cloud ===


def ask_for_apis(api: Api) -> Finding:
    """Whether the APIs are on, by one request."""
    project = api.region.project
    services = [f"{each}.googleapis.com" for each in APIS]
    names = [f"projects/{project}/services/{each}" for each in services]
    answer = api.get("serviceusage", f"v1/projects/{project}/services:batchGet", names=names)
    on = {each["name"].rpartition("/")[2] for each in answer["services"] if each["state"] == "ENABLED"}
    if off := [each for each in services if each not in on]:
        command = f"gcloud services enable {' '.join(off)} --project={project}"
        return Finding(MISSING, f"APIs that are off: {', '.join(off)}", command)
    return Finding(OK, f"all {len(services)} APIs are on")


def ask_for_bucket(api: Api, name: str, is_written: bool) -> Finding:
    """Whether a bucket exists, and is in the region of the runs if they write to it."""
    location, project = api.region.location, api.region.project
    found = api.find("storage", f"storage/v1/b/{vertex_api.quoted(name)}")
    if found is None:
        command = f"gcloud storage buckets create gs://{name} --location={location} --project={project}"
        return Finding(MISSING, f"bucket gs://{name} does not exist", f"{command} --uniform-bucket-level-access")
    found_in = str(found["location"]).lower()
    # Larger areas, such as us, eu and nam4, have several regions.
    fits = not is_written or found_in == location or re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", found_in) is None
    remedy = f"set bucket to one in {location}, or location to the bucket's region"
    return (
        Finding(OK, f"bucket gs://{name} is in {found_in}")
        if fits
        else Finding(MISSING, f"bucket gs://{name} is in {found_in}, but runs are in {location}", remedy)
    )


def ask_for_source(api: Api, parameter: str, address: str) -> Finding:
    """Whether there is something at a `gs://` address that a run reads; `parameter` names it.

    Nobody can copy what its publisher does not let them read: the remedy for a published dataset is another one.
    """
    published = any(address == archive.address for row in datasets.DATASETS.values() for archive in row.archives)
    others = (
        f"take other data: {parameter.replace('_source', '_dataset')}=osie, {parameter}=sample, or "
        f"{parameter}=gs://... with recordings of your own"
    )
    try:
        found, upload = _is_there(api, address)
    except UnansweredError as error:
        return Finding(UNKNOWN, f"{parameter} {address}: {error}", others if published else "")
    if found:
        return Finding(OK, f"{parameter} {address} is there")
    return Finding(MISSING, f"{parameter} {address}: there is nothing", others if published else upload)


def _is_there(api: Api, address: str) -> tuple[bool, str]:
    """Whether there is an archive or a folder at an address, and the command that uploads one."""
    bucket, path = buckets.split(address)
    objects = f"storage/v1/b/{vertex_api.quoted(bucket)}/o"
    if is_archive(path):
        # Reading one object takes fewer rights than listing a bucket, and the public dataset is one object.
        names = (
            [path]
            if api.find("storage", f"{objects}/{vertex_api.quoted(path)}", fields="name") is not None
            else []
        )
        upload = f"gcloud storage cp ARCHIVE {address}"
    else:
        listing = api.find("storage", objects, prefix=path, maxResults=LISTED, fields="items(name)") or {}
        names = [item["name"] for item in listing.get("items", ())]
        upload = f"gcloud storage cp FOLDER {address} -r"
    return any(not path or name == path or name.startswith(f"{path}/") for name in names), upload


def ask_for_image(api: Api, environment: str, image: str) -> Finding:
    """Whether the image of a full name, with its tag, exists; `environment` has its name."""
    path = vertex_api.tag_path(image)
    if not path:
        return Finding(UNKNOWN, f"image {image} is not in Artifact Registry, so this cannot ask for it")
    if api.find("artifactregistry", path) is None:
        return Finding(MISSING, f"image {image} does not exist", f"make images ENV={environment}")
    return Finding(OK, f"image {image} exists")


def about_quota(api: Api, plans: Mapping[str, TrainingPlan], at_once: int = 1) -> Iterator[Question]:
    """A question for each quota that the plans take: the most of one step, since steps run one after another.

    `at_once` is the number of jobs of a step that run at the same time.
    """
    most: dict[str, int] = {}
    for plan in plans.values():
        for name, count in plan.accelerator.quotas(plan.machines.provisioning).items():
            most[METRIC + name] = max(most.get(METRIC + name, 0), count * plan.machines.workers * at_once)
    for metric, count in most.items():
        yield f"quota {metric}", partial(ask_for_quota, api, metric, count)


def choose_accelerators(environment: Environment, values: Mapping[str, Value]) -> tuple[dict[str, str], list[str]]:
    """For each parameter with several accelerators, the first that the region has and whose quota suffices.

    Also returns a sentence about those that were passed over. Quota that cannot be asked for suffices. Raises
    `UserError` if none is left.
    """
    chosen: dict[str, str] = {}
    sentences = []
    lists = {
        name: str(value).split(",") for name, value in effective(values).items() if name.endswith("accelerator")
    }
    for parameter, names in lists.items():
        reasons: dict[str, str] = {}
        for name in map(str.strip, names if len(names) > 1 else ()):
            if not (reason := _why_not(environment, {**values, **chosen, parameter: name}, name)):
                chosen[parameter] = name
                break
            reasons[name] = reason
        why = "; ".join(f"not {name}: {reason}" for name, reason in reasons.items())
        check(
            parameter in chosen or not reasons,
            f"{parameter} is {','.join(names)}, of which none can be used; {why}",
        )
        if reasons:
            sentences.append(f"{parameter} is {chosen[parameter]}, {why}")
    return chosen, sentences


def _why_not(environment: Environment, values: Mapping[str, Value], name: str) -> str:
    """Why the training steps on the accelerator `name` cannot be run; empty if they can."""
    try:
        made = settle(values, "vertex", environment.location, given={}).plans
    except UserError as error:
        return str(error)
    questions = about_quota(
        Api(environment), {step: plan for step, plan in made.items() if plan.accelerator.name == name}
    )
    return "; ".join(finding.text for finding in ask(questions) if finding.state == MISSING)


def ask_for_quota(api: Api, metric: str, count: int) -> Finding:
    """Whether the project's limit of a metric in the region is `count` at least."""
    location, project = api.region.location, api.region.project
    link = f"https://console.cloud.google.com/iam-admin/quotas?project={project}&metric={VERTEX}/{metric}"
    subject = f"quota {metric} in {location}"
    path = f"v1beta1/projects/{project}/services/{VERTEX}/consumerQuotaMetrics/{VERTEX}%2F{metric}"
    limit = _limit(api.find("serviceusage", path, view="FULL") or {}, location)
    if limit is None:
        return Finding(UNKNOWN, f"{subject}: Google names no limit; the plan takes {count}", link)
    if limit < count:
        text = f"{subject} is {limit:g}, but the plan takes {count}; ask for more, which takes hours or days"
        return Finding(MISSING, text, link)
    return Finding(
        OK, f"{subject} is {'unlimited' if limit == math.inf else f'{limit:g}'}, the plan takes {count}"
    )


def _limit(metric: Mapping[str, Any], location: str) -> float | None:
    """The least effective limit in a region, from its own bucket, or else from the bucket for all regions.

    Service Usage API v1beta1: ConsumerQuotaMetric. Replies leave out numbers that are 0; -1 is infinite.
    """
    limits = []
    for limit in metric.get("consumerQuotaLimits", ()):
        quotas = {each.get("dimensions", {}).get("region", ""): each for each in limit.get("quotaBuckets", ())}
        if quotas:
            limits.append(int(quotas.get(location, quotas.get("", {})).get("effectiveLimit", 0)))
    return min((math.inf if limit < 0 else limit for limit in limits), default=None)
