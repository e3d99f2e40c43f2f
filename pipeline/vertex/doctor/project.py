"""The project: whether it exists, who pays for it, and which of its APIs are on."""

from collections.abc import Iterable, Sequence

from pipeline.vertex.doctor.api import Api, UnansweredError
from pipeline.vertex.doctor.findings import Finding, missing, ok, unknown

APIS = (
    *("aiplatform", "artifactregistry", "cloudbuild", "cloudresourcemanager", "compute", "iam"),
    *("iamcredentials", "logging", "storage"),
)
"""What infra/apis.tf enables."""
WITH_NETWORK = ("servicenetworking",)
"""What the peering with a VPC network needs besides."""


def check_project(api: Api) -> Iterable[Finding]:
    """Whether the project exists and is active."""
    name = api.environment.project
    try:
        state = api.get("cloudresourcemanager", f"v3/projects/{name}").get("state")
    except UnansweredError as error:
        # The API answers 403 for a project that does not exist, so that nobody can find out which ones do.
        if error.status == 403 and not error.disabled:
            text = f"project {name} does not exist, or you may not see it"
            yield missing(
                f"{text}; its id is `project` of environment {api.environment.name}", "gcloud projects list"
            )
            return
        raise
    if state == "ACTIVE":
        yield ok(f"project {name} exists")
    else:
        yield missing(f"project {name} is in state {state}", f"gcloud projects undelete {name}")


def check_billing(api: Api) -> Iterable[Finding]:
    """Whether a billing account pays for the project."""
    name = api.environment.project
    link = f"https://console.cloud.google.com/billing/linkedaccount?project={name}"
    try:
        info = api.get("cloudbilling", f"v1/projects/{name}/billingInfo")
    except UnansweredError as error:
        yield unknown("billing", link, reason=str(error))
        return
    if info.get("billingEnabled"):
        yield ok(f"{info.get('billingAccountName', 'a billing account')} pays for project {name}")
    else:
        yield missing(f"project {name} has no open billing account, and nothing runs without one", link)


def check_apis(api: Api, names: Sequence[str]) -> Iterable[Finding]:
    """Whether the APIs are on, by one request."""
    name = api.environment.project
    services = [f"{each}.googleapis.com" for each in names]
    parent = f"projects/{name}"
    asked = [f"{parent}/services/{each}" for each in services]
    try:
        answer = api.get("serviceusage", f"v1/{parent}/services:batchGet", names=asked)
    except UnansweredError as error:
        command = f"gcloud services enable {error.disabled} --project={name}" if error.disabled else ""
        yield unknown(f"APIs: {error}", command)
        return
    on = {each["name"].rpartition("/")[2] for each in answer.get("services", ()) if each["state"] == "ENABLED"}
    off = [each for each in services if each not in on]
    if on:
        yield ok(f"APIs that are on: {', '.join(each for each in services if each in on)}")
    if off:
        yield missing(
            f"APIs that are off: {', '.join(off)}", f"gcloud services enable {' '.join(off)} --project={name}"
        )
