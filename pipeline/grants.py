"""The roles that a run needs, on which resource, and the permissions in them, for `doctor`.

infra/accounts.tf grants the same roles; a test compares the two. Which role contains which permission is from
Google's index of roles and permissions (cloud.google.com/iam/docs/roles-permissions).
"""

import dataclasses

PROJECT, BUCKET, DATA, IMAGES, TEMPLATES, ACCOUNT, ITSELF = (
    *("the project", "the bucket", "the bucket of the data"),
    *("the repository", "the repository of templates"),
    *("the service account that runs the pipeline", "the service account itself"),
)
"""Resources on which a role is granted."""


@dataclasses.dataclass(frozen=True)
class Grant:
    """A role on a resource, for the permissions that this project uses of it."""

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
    _grant("serviceusage.serviceUsageConsumer", PROJECT, "serviceusage", "services.use services.get quotas.get"),
    _grant("iam.serviceAccountUser", ACCOUNT, "iam.serviceAccounts", "actAs"),
    _grant("iam.serviceAccountUser", ITSELF, "iam.serviceAccounts", "actAs"),
    _grant("storage.bucketViewer", BUCKET, "storage.buckets", "get"),
    _grant("storage.objectUser", BUCKET, "storage", _OBJECTS),
    _grant("artifactregistry.writer", IMAGES, "artifactregistry", _PUSH),
    _grant("artifactregistry.writer", TEMPLATES, "artifactregistry", _PUSH),
)
"""Roles of the account that submits, schedules, builds and publishes."""

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
    _grant("artifactregistry.reader", IMAGES, "artifactregistry", _PULL),
    _grant("artifactregistry.reader", TEMPLATES, "artifactregistry", _PULL),
)
"""Roles of the account that runs the pipeline's tasks and training jobs."""

TENSORBOARD = _grant(
    *("aiplatform.user", PROJECT, "aiplatform"),
    "tensorboardExperiments.create tensorboardRuns.create tensorboardTimeSeries.create tensorboards.get",
)
"""Role of this account if it writes logs to Vertex AI TensorBoard."""
