"""The rights that a run takes: the roles of two accounts, and the question whether an account has them."""

import dataclasses
import functools

from lifecycle.runs import Finding, State
from lifecycle.vertex import Api, UnansweredError

AGENT = "serviceAccount:service-{}@gcp-sa-aiplatform.iam.gserviceaccount.com"
"""Vertex AI's agent in a project, by the project's number. It pulls the images of all runs, whichever account they
have ("Use a custom service account"). It needs no role for images of its own project."""
KINDS = {
    "project": ("cloudresourcemanager", "POST", "v3/projects/{name}", "projects {bind} {name}"),
    "bucket": ("storage", "GET", "storage/v1/b/{name}", "storage buckets {bind} gs://{name}"),
    "account": (
        *("iam", "POST", "v1/projects/-/serviceAccounts/{name}"),
        "iam service-accounts {bind} {name} --project={project}",
    ),
    "repository": (
        *("artifactregistry", "GET", "v1/projects/{project}/locations/{location}/repositories/{name}"),
        "artifacts repositories {bind} {name} --location={location} --project={project}",
    ),
}
"""Kind of a resource -> its API, the method that reads its policy, its path, and gcloud's command for a grant."""


# === The roles that a run needs ===

PROJECT, BUCKET, DATA, IMAGES, TEMPLATES, ACCOUNT, ITSELF = (
    *("the project", "the bucket", "the bucket of the data"),
    *("the repository", "the repository of templates"),
    *("the service account that runs the pipeline", "the service account itself"),
)
"""Resources on which a role is granted."""


@dataclasses.dataclass(frozen=True)
class Grant:
    """A role on a resource, for the permissions that this project uses of it.

    infra/accounts.tf grants the same roles, and a test compares the two. The permissions of a role are from
    Google's index of roles and permissions (cloud.google.com/iam/docs/roles-permissions).
    """

    role: str
    resource: str
    permissions: tuple[str, ...]


def _grant(role: str, resource: str, prefix: str, names: str) -> Grant:
    return Grant(f"roles/{role}", resource, tuple(f"{prefix}.{name}" for name in names.split()))


_OBJECTS = "objects.create objects.delete objects.get objects.list"
_ENDPOINTS = (
    "endpoints.create endpoints.delete endpoints.deploy endpoints.get endpoints.list endpoints.predict "
    "endpoints.undeploy endpoints.update"
)
_PULL = "repositories.downloadArtifacts"
_PUSH = f"{_PULL} repositories.uploadArtifacts tags.create tags.update"

DEPLOYER = (
    _grant(
        *("aiplatform.user", PROJECT, "aiplatform"),
        "pipelineJobs.create pipelineJobs.get pipelineJobs.list pipelineJobs.cancel "
        "schedules.create schedules.get schedules.list schedules.update schedules.delete "
        f"models.get models.list models.update customJobs.create customJobs.get {_ENDPOINTS}",
    ),
    _grant("cloudbuild.builds.editor", PROJECT, "cloudbuild.builds", "create get"),
    _grant("logging.logWriter", PROJECT, "logging.logEntries", "create"),
    _grant("logging.viewer", PROJECT, "logging.logEntries", "list"),
    _grant("serviceusage.serviceUsageConsumer", PROJECT, "serviceusage", "services.use services.get quotas.get"),
    _grant("iam.serviceAccountUser", ACCOUNT, "iam.serviceAccounts", "actAs"),
    _grant("iam.serviceAccountUser", ITSELF, "iam.serviceAccounts", "actAs"),
    _grant("storage.bucketViewer", BUCKET, "storage.buckets", "get"),
    _grant("storage.objectUser", BUCKET, "storage", _OBJECTS),
    _grant("artifactregistry.writer", IMAGES, "artifactregistry", _PUSH),
    _grant("artifactregistry.writer", TEMPLATES, "artifactregistry", _PUSH),
)
"""Roles of the account that submits, schedules, builds and publishes."""

READS_IMAGES = _grant("artifactregistry.reader", IMAGES, "artifactregistry", _PULL)

PIPELINE = (
    _grant(
        *("aiplatform.user", PROJECT, "aiplatform"),
        "customJobs.create customJobs.get customJobs.cancel models.upload models.get models.list models.update "
        "modelEvaluations.import metadataStores.get artifacts.create contexts.create executions.create "
        f"{_ENDPOINTS}",
    ),
    _grant("logging.logWriter", PROJECT, "logging.logEntries", "create"),
    _grant("iam.serviceAccountUser", ITSELF, "iam.serviceAccounts", "actAs"),
    _grant("storage.objectViewer", DATA, "storage", "objects.get objects.list"),
    _grant("storage.bucketViewer", BUCKET, "storage.buckets", "get"),
    _grant("storage.objectUser", BUCKET, "storage", _OBJECTS),
    READS_IMAGES,
    _grant("artifactregistry.reader", TEMPLATES, "artifactregistry", _PULL),
)
"""Roles of the account that runs the pipeline's tasks and training jobs."""

TENSORBOARD = _grant(
    *("aiplatform.user", PROJECT, "aiplatform"),
    "tensorboardExperiments.create tensorboardRuns.create tensorboardTimeSeries.create tensorboards.get",
)
"""Role of this account if it writes logs to Vertex AI TensorBoard."""

FALLBACK = _grant(
    *("aiplatform.user", PROJECT, "aiplatform"),
    "pipelineJobs.create pipelineJobs.get pipelineJobs.list",
)
"""Role of this account if the last task of a run starts the next one."""


# === Who has them ===


@dataclasses.dataclass(frozen=True)
class Resource:
    """A cloud resource for which roles are granted, such as `Resource("bucket", "mine")`.

    Its kind is one of `KINDS`.
    """

    kind: str
    name: str
    project: str = ""
    location: str = ""

    @property
    def title(self) -> str:
        """Kind and name for messages, such as `bucket gs://mine`."""
        return f"{self.kind} gs://{self.name}" if self.kind == "bucket" else f"{self.kind} {self.name}"

    def filled(self, template: str) -> str:
        """A path or command of `KINDS` with the fields of this resource.

        Example: `storage/v1/b/{name}` becomes `storage/v1/b/mine`.
        """
        return template.format(**vars(self), bind="add-iam-policy-binding")


class Account:
    """An account whose permissions are asked for.

    The services say which permissions the caller has. For any other account, the policies of the resource and of
    its project say it. Three kinds of grants are not seen: of folders and organisations, by groups, on conditions.

    Example: a role of `group:team@example.org` does not count for a service account in this group.
    """

    def __init__(self, api: Api, member: str, is_caller: bool = False) -> None:
        self.api, self.member, self.is_caller = api, member, is_caller

    def held(self, resource: Resource, grant: Grant) -> set[str]:
        """The grant's permissions that the account has on a resource. Raises `UnansweredError`."""
        if not self.is_caller:
            roles = self._roles(resource) | self._roles(Resource("project", self.api.region.project))
            return {each for role in roles for each in self._permissions(role)} & set(grant.permissions)
        service, _, path, _ = KINDS[resource.kind]
        path, wanted = resource.filled(path), {"permissions": list(grant.permissions)}
        if resource.kind == "bucket":
            answer = self.api.send("GET", service, f"{path}/iam/testPermissions", params=wanted)
        else:
            answer = self.api.send("POST", service, f"{path}:testIamPermissions", json=wanted)
        return set(answer.get("permissions", ()))

    @functools.cache  # noqa: B019  lives as long as the command
    def _roles(self, resource: Resource) -> frozenset[str]:
        service, method, path, _ = KINDS[resource.kind]
        path = resource.filled(path) + ("/iam" if resource.kind == "bucket" else ":getIamPolicy")
        policy = self.api.send(method, service, path, json={} if method == "POST" else None)
        bindings = [binding for binding in policy.get("bindings", ()) if "condition" not in binding]
        return frozenset(each["role"] for each in bindings if self.member in each.get("members", ()))

    @functools.cache  # noqa: B019
    def _permissions(self, role: str) -> frozenset[str]:
        return frozenset(self.api.get("iam", f"v1/{role}").get("includedPermissions", ()))


@dataclasses.dataclass(frozen=True)
class Right:
    """The permissions on a resource that a run uses of a role."""

    account: Account
    resource: Resource
    grant: Grant
    before_start: bool = False

    @property
    def subject(self) -> str:
        """The role and the resource."""
        return f"{self.grant.role} on {self.resource.title}"

    def ask(self, api: Api) -> Finding:
        """Whether the account has them."""
        granted = self.resource.filled(KINDS[self.resource.kind][3])
        command = f"gcloud {granted} --member={self.account.member} --role={self.grant.role}"
        try:
            absent = sorted(set(self.grant.permissions) - self.account.held(self.resource, self.grant))
        except UnansweredError as error:
            if error.status != 403:
                raise
            return Finding(State.UNKNOWN, f"{self.subject}: you may not see it. This grants it", command)
        if absent:
            return Finding(State.MISSING, f"lacks {', '.join(absent)} on {self.resource.title}", command)
        return Finding(State.OK, self.subject)
