"""The project of tests/vertex.py: its APIs, accounts, policies, quota, buckets, repositories and custom jobs.

Paths, requests and replies are those of Google's discovery documents: serviceusage v1, v1beta1,
cloudresourcemanager v3, iam, storage, artifactregistry and aiplatform v1. The permissions of the roles are from
Google's index of roles, as far as tests ask for them.
"""

import dataclasses
import json
import re

from tests.vertex import NAMES, NOW, PARENT, PROJECT, PROJECT_NUMBER, SERVICE_ACCOUNT, ApiError, page, route

CALLER = "ann@example.org"
SERVICES = (
    *("aiplatform", "artifactregistry", "cloudbuild", "cloudresourcemanager", "compute", "iam"),
    *("iamcredentials", "logging", "storage"),
)
PROJECT_RESOURCE = f"projects/{PROJECT}"
AIPLATFORM = """
artifacts.create contexts.create customJobs.cancel customJobs.create customJobs.get executions.create
metadataStores.get modelEvaluations.import models.get models.list models.update models.upload pipelineJobs.cancel
pipelineJobs.create pipelineJobs.get pipelineJobs.list schedules.create schedules.delete schedules.get
schedules.list schedules.update tensorboardExperiments.create tensorboardRuns.create tensorboardTimeSeries.create
tensorboards.get endpoints.create endpoints.delete endpoints.deploy endpoints.get endpoints.list endpoints.predict
endpoints.undeploy endpoints.update
"""
OBJECTS = ["storage.objects.get", "storage.objects.list"]
PULL = ["artifactregistry.repositories.downloadArtifacts", "artifactregistry.repositories.get"]
PUSH = [f"artifactregistry.{name}" for name in ("repositories.uploadArtifacts", "tags.create", "tags.update")]
ROLES = {
    "roles/aiplatform.user": [f"aiplatform.{name}" for name in AIPLATFORM.split()],
    "roles/cloudbuild.builds.editor": ["cloudbuild.builds.create", "cloudbuild.builds.get"],
    "roles/logging.logWriter": ["logging.logEntries.create"],
    "roles/logging.viewer": ["logging.logEntries.list"],
    "roles/serviceusage.serviceUsageConsumer": [
        f"serviceusage.{name}" for name in ("services.use", "services.get", "services.list", "quotas.get")
    ],
    "roles/iam.serviceAccountUser": ["iam.serviceAccounts.actAs", "iam.serviceAccounts.get"],
    "roles/storage.bucketViewer": ["storage.buckets.get", "storage.buckets.list"],
    "roles/storage.objectViewer": OBJECTS,
    "roles/storage.objectUser": [*OBJECTS, "storage.objects.create", "storage.objects.delete"],
    "roles/artifactregistry.reader": PULL,
    "roles/artifactregistry.writer": [*PULL, *PUSH],
}
METRICS = [
    f"custom_model_training_{kind}{name}"
    for kind in ("", "preemptible_")
    for name in (
        "cpus",
        *(f"nvidia_{gpu}_gpus" for gpu in ["t4", "l4", "v100", "a100", "a100_80gb", "h100"]),
        "tpu_v5e",
    )
]
PIPELINE_ON_PROJECT = ("roles/aiplatform.user", "roles/logging.logWriter")
DEPLOYER_ON_PROJECT = (
    *PIPELINE_ON_PROJECT,
    *("roles/cloudbuild.builds.editor", "roles/logging.viewer", "roles/serviceusage.serviceUsageConsumer"),
)


@dataclasses.dataclass
class Project:
    """What is in the project."""

    state: str = "ACTIVE"
    apis: set = dataclasses.field(default_factory=set)
    buckets: dict = dataclasses.field(default_factory=dict)
    """Name -> its location and the names of its objects."""
    accounts: dict = dataclasses.field(default_factory=dict)
    """Address -> its fields."""
    repositories: dict = dataclasses.field(default_factory=dict)
    """Name -> its format and the tags of its packages, as PACKAGE/TAG."""
    policies: dict = dataclasses.field(default_factory=dict)
    """Resource -> bindings."""
    quotas: dict = dataclasses.field(default_factory=dict)
    """Metric -> limits of regions; "" stands for all others. The rest of METRICS is 0, as in a new project."""
    denied: set = dataclasses.field(default_factory=set)
    """(member, permission) pairs that no role gives."""
    may_read_policies: bool = False
    """Whether the caller may read policies."""

    def bind(self, resource, member, *roles):
        for role in roles:
            self.policies.setdefault(resource, []).append({"role": role, "members": [member]})


def project_of(server):
    return server.state.setdefault("project", Project())


def furnish(server):
    """Everything that a run of `server.environment` needs, as infra/ makes it; returns the project."""
    environment = server.environment
    bucket = environment.bucket.removeprefix("gs://").partition("/")[0]
    project = server.state["project"] = Project(
        apis=set(SERVICES),
        buckets={
            bucket: {"location": "US-CENTRAL1", "objects": ["salicon/images.zip"]},
            "hmm-ml-models": {"location": "US", "objects": ["fixation/add1000.tar.gz"]},
        },
        accounts={environment.service_account: {}},
        repositories={
            "msinet": {
                "format": "DOCKER",
                "tags": {f"msinet-{kind}/v1" for kind in ("cpu", "gpu", "tpu", "serving")},
            },
            "templates": {"format": "KFP", "tags": {"msinet/v1"}},
        },
        quotas={each: {"": 64} for each in METRICS},
        may_read_policies=True,
    )
    grant(project, f"user:{CALLER}", bucket, DEPLOYER_ON_PROJECT, "roles/artifactregistry.writer")
    grant(
        project, f"serviceAccount:{SERVICE_ACCOUNT}", bucket, PIPELINE_ON_PROJECT, "roles/artifactregistry.reader"
    )
    return project


def grant(project, member, bucket, on_project, on_repositories):
    project.bind(PROJECT_RESOURCE, member, *on_project)
    project.bind(f"b/{bucket}", member, "roles/storage.bucketViewer", "roles/storage.objectUser")
    project.bind(f"serviceAccounts/{SERVICE_ACCOUNT}", member, "roles/iam.serviceAccountUser")
    for name in ("msinet", "templates"):
        project.bind(f"repositories/{name}", member, on_repositories)


# === Who asks, and what they may ===


def held(project, member, resource):
    roles = {
        binding["role"]
        for place in (PROJECT_RESOURCE, resource)
        for binding in project.policies.get(place, ())
        if member in binding["members"]
    }
    granted = {permission for role in roles for permission in ROLES[role]}
    return {permission for permission in granted if (member, permission) not in project.denied}


def tested(server, request, resource, permissions):
    project, member = project_of(server), f"user:{CALLER}"
    found = [each for each in permissions if each in held(project, member, resource)]
    return {"permissions": found} if found else {}


def policy(server, request, resource):
    project = project_of(server)
    if not project.may_read_policies:
        raise ApiError(403, f"Permission 'getIamPolicy' denied on resource {resource}")
    return {"version": 1, "etag": "BwX=", "bindings": project.policies.get(resource, [])}


def needs(server, service):
    """Refuse what asks a service that is off, as the services do."""
    if service not in project_of(server).apis:
        page = f"https://console.developers.google.com/apis/api/{service}.googleapis.com/overview"
        unused = f"{service.title()} API has not been used in project {PROJECT_NUMBER} before or it is disabled."
        raise ApiError(403, f"{unused} Enable it by visiting {page}?project={PROJECT_NUMBER} then retry.")


def looked_up(kind, name):
    if name not in kind:
        raise ApiError(404, f"{name} was not found")
    return kind[name]


@route("GET", "/v1/userinfo")
def user_info(server, request):
    return {"sub": "10769150350006150715113082367", "email": CALLER, "email_verified": True}


@route("GET", r"/v1/(roles/[\w.]+)")
def get_role(server, request, name):
    needs(server, "iam")
    return {"name": name, "includedPermissions": looked_up(ROLES, name), "stage": "GA"}


# === The project ===


@route("GET", f"/v3/projects/{PROJECT}")
def get_project(server, request):
    needs(server, "cloudresourcemanager")
    return {"name": f"projects/{PROJECT_NUMBER}", "projectId": PROJECT, "state": project_of(server).state}


@route("POST", f"/v3/projects/{PROJECT}:testIamPermissions")
def test_project(server, request):
    needs(server, "cloudresourcemanager")
    return tested(server, request, PROJECT_RESOURCE, request.body["permissions"])


@route("POST", f"/v3/projects/{PROJECT}:getIamPolicy")
def project_policy(server, request):
    needs(server, "cloudresourcemanager")
    return policy(server, request, PROJECT_RESOURCE)


@route("GET", f"/v1/projects/{PROJECT}/services:batchGet")
def services(server, request):
    names = request.query["names"].split(",")
    assert len(names) <= 30, "a single request can get a maximum of 30 services"
    on = project_of(server).apis
    return {
        "services": [
            {
                "name": f"projects/{PROJECT_NUMBER}/services/{name.rpartition('/')[2]}",
                "parent": f"projects/{PROJECT_NUMBER}",
                "state": "ENABLED" if name.rpartition("/")[2].partition(".")[0] in on else "DISABLED",
            }
            for name in names
        ]
    }


@route("GET", rf"/v1beta1/projects/{PROJECT}/services/aiplatform\.googleapis\.com/consumerQuotaMetrics/(.+)")
def quota(server, request, metric):
    needs(server, "aiplatform")
    service, _, name = metric.partition("/")
    limits = looked_up({**{each: {"": 0} for each in METRICS}, **project_of(server).quotas}, name)
    buckets = [
        # Numbers are text, and those that are 0 are left out, as in all JSON of protocol buffers.
        {
            **({"effectiveLimit": str(limit), "defaultLimit": str(limit)} if limit else {}),
            **({"dimensions": {"region": region}} if region else {}),
        }
        for region, limit in sorted(limits.items())
    ]
    full = f"projects/{PROJECT_NUMBER}/services/{service}/consumerQuotaMetrics/{service}%2F{name}"
    limit = {"name": f"{full}/limits/%2Fproject%2Fregion", "metric": metric, "unit": "1/{project}/{region}"}
    return {"name": full, "metric": metric, "consumerQuotaLimits": [{**limit, "quotaBuckets": buckets}]}


# === Accounts ===


@route("POST", r"/v1/projects/-/serviceAccounts/([^/:]+):testIamPermissions")
def test_account(server, request, email):
    needs(server, "iam")
    looked_up(project_of(server).accounts, email)
    return tested(server, request, f"serviceAccounts/{email}", request.body["permissions"])


@route("POST", r"/v1/projects/-/serviceAccounts/([^/:]+):getIamPolicy")
def account_policy(server, request, email):
    needs(server, "iam")
    return policy(server, request, f"serviceAccounts/{email}")


# === Cloud Storage ===


@route("GET", r"/storage/v1/b/([^/]+)")
def get_bucket(server, request, name):
    found = looked_up(project_of(server).buckets, name)
    return {"kind": "storage#bucket", "name": name, "location": found["location"]}


@route("GET", r"/storage/v1/b/([^/]+)/iam/testPermissions")
def test_bucket(server, request, name):
    looked_up(project_of(server).buckets, name)
    answer = tested(server, request, f"b/{name}", request.query["permissions"].split(","))
    return {"kind": "storage#testIamPermissionsResponse", **answer}


@route("GET", r"/storage/v1/b/([^/]+)/iam")
def bucket_policy(server, request, name):
    looked_up(project_of(server).buckets, name)
    return {"kind": "storage#policy", **policy(server, request, f"b/{name}")}


@route("GET", r"/storage/v1/b/([^/]+)/o")
def list_objects(server, request, name):
    found = looked_up(project_of(server).buckets, name)
    names = [each for each in found["objects"] if each.startswith(request.query.get("prefix", ""))]
    items = [{"name": each} for each in names[: int(request.query["maxResults"])]]
    return {"items": items} if items else {}


@route("GET", r"/storage/v1/b/([^/]+)/o/(.+)")
def get_object(server, request, name, path):
    found = looked_up(project_of(server).buckets, name)
    if path not in found["objects"]:
        raise ApiError(404, f"No such object: {name}/{path}")
    return {"name": path}


# === Artifact Registry ===


@route("GET", r"repositories/([^/]+)/packages/(.+)/tags/([^/]+)")
def get_tag(server, request, name, package, tag):
    needs(server, "artifactregistry")
    if f"{package}/{tag}" not in looked_up(project_of(server).repositories, name)["tags"]:
        raise ApiError(404, f"tag {tag} was not found")
    full = f"{PARENT}/repositories/{name}/packages/{package}"
    return {"name": f"{full}/tags/{tag}", "version": f"{full}/versions/sha256:{'0' * 64}"}


@route("POST", r"repositories/([^/:]+):testIamPermissions")
def test_repository(server, request, name):
    needs(server, "artifactregistry")
    looked_up(project_of(server).repositories, name)
    return tested(server, request, f"repositories/{name}", request.body["permissions"])


@route("GET", r"repositories/([^/:]+):getIamPolicy")
def repository_policy(server, request, name):
    needs(server, "artifactregistry")
    looked_up(project_of(server).repositories, name)
    return policy(server, request, f"repositories/{name}")


# === Jobs ===


@route("POST", "customJobs")
def create_job(server, request):
    """`server.state["job"]` is called with the command of the container; it returns the job's states in turn."""
    needs(server, "aiplatform")
    container = request.body["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    states = list(server.state["job"](container["command"] + container["args"]))
    job = {**request.body, "name": f"{NAMES}/customJobs/{len(server.kept('jobs')) + 1}"}
    server.kept("jobs")[job["name"].rpartition("/")[2]] = {"job": job, "states": states}
    return {**job, "state": "JOB_STATE_QUEUED"}


@route("GET", "customJobs")
def list_jobs(server, request):
    return page("customJobs", [kept["job"] for kept in server.kept("jobs").values()], request.query)


@route("GET", r"customJobs/(\d+)")
def get_job(server, request, number):
    kept = looked_up(server.kept("jobs"), number)
    state = kept["states"].pop(0) if len(kept["states"]) > 1 else kept["states"][0]
    times = {"createTime": NOW, "startTime": NOW} if state in ("RUNNING", "SUCCEEDED", "FAILED") else {}
    reason = server.kept("errors").get(number)
    error = {"error": {"code": 8, "message": reason}} if state == "FAILED" and reason else {}
    return {**kept["job"], **times, **error, "state": f"JOB_STATE_{state}"}


@route("POST", "hyperparameterTuningJobs")
def create_tuning_job(server, request):
    """`server.state["tuning"]` is called with the job; it returns what changes in the job at each look at it."""
    needs(server, "aiplatform")
    job = {**request.body, "name": f"{NAMES}/hyperparameterTuningJobs/{len(server.kept('tunings')) + 1}"}
    kept = {"job": job, "changes": list(server.state["tuning"](job))}
    server.kept("tunings")[job["name"].rpartition("/")[2]] = kept
    return {**job, "state": "JOB_STATE_PENDING"}


@route("GET", "hyperparameterTuningJobs")
def list_tuning_jobs(server, request):
    jobs = [kept["job"] for kept in server.kept("tunings").values()]
    return page("hyperparameterTuningJobs", jobs, request.query)


@route("GET", r"hyperparameterTuningJobs/(\d+)")
def get_tuning_job(server, request, number):
    kept = looked_up(server.kept("tunings"), number)
    change = kept["changes"].pop(0) if len(kept["changes"]) > 1 else kept["changes"][0]
    return {**kept["job"], **change}


@route("POST", "/v2/entries:list")
def list_entries(server, request):
    """`server.state["log"]` has the lines that each job printed, by its number."""
    needs(server, "logging")
    if (f"user:{CALLER}", "logging.logEntries.list") in project_of(server).denied:
        raise ApiError(403, "Permission denied for all log views")
    assert request.body["resourceNames"] == [PROJECT_RESOURCE]
    kind, number, words = re.fullmatch(
        r'resource\.type="(\w+)" AND resource\.labels\.job_id="(\d+)"(?: AND "(.*)")?', request.body["filter"]
    ).groups()
    assert kind == "ml_job"
    entries = server.kept("log").get(number, ())
    found = [each for each in entries if (words or "") in json.dumps(each)]
    return {"entries": found[::-1][: request.body["pageSize"]]} if found else {}
