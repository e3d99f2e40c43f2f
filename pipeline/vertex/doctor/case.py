"""The run that is examined: its environment, parameters and plans, and the cloud resources that it names."""

import dataclasses
import functools
import re
from collections.abc import Mapping

from pipeline import grants
from pipeline.graph.environment import Environment
from pipeline.graph.parameters import Value, data_settings, fetched_steps
from pipeline.plan.plan import TrainingPlan
from pipeline.registry.address import VERTEX, Address
from pipeline.vertex.doctor.api import quoted
from trainer import datasets, storage
from trainer.config import FetchConfig
from trainer.downloads.addresses import addresses_in

IMAGES = r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)(/(?P<folder>.+))?"
TEMPLATES = r"https://(?P<location>[a-z0-9-]+)-kfp\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)"


@dataclasses.dataclass(frozen=True)
class Resource:
    """A cloud resource on which roles are granted."""

    kind: str
    """One of the kinds of pipeline/grants.py."""
    title: str
    service: str
    path: str
    """After the address of the service, with the version."""
    bind: str
    """The command that grants a role on it, without member and role."""

    def command(self, member: str, role: str) -> str:
        """The command that grants `role` to `member`."""
        return f"{self.bind} --member={member} --role={role}"


@dataclasses.dataclass(frozen=True)
class Repository:
    """A repository of Artifact Registry."""

    location: str
    project: str
    name: str
    folder: str = ""
    """The first part of the names of its packages; may be empty."""

    @property
    def path(self) -> str:
        """The path of the repository in Artifact Registry's API."""
        return f"v1/projects/{self.project}/locations/{self.location}/repositories/{self.name}"

    def tag_path(self, package: str, tag: str) -> str:
        """The path of a tag."""
        name = quoted("/".join(filter(None, (self.folder, package))))
        return f"{self.path}/packages/{name}/tags/{quoted(tag)}"


@dataclasses.dataclass(frozen=True)
class Case:
    """What `doctor` examines."""

    environment: Environment
    values: Mapping[str, Value]
    """Every parameter."""
    plans: Mapping[str, TrainingPlan]
    """Of the training steps that fit their machines."""

    @property
    def images(self) -> Repository | None:
        """The repository of images; None if it is not in Artifact Registry."""
        return repository_of(self.environment.image_repository)

    @property
    def templates(self) -> Repository | None:
        """The repository of templates; None if the environment has none."""
        address = self.environment.template_repository
        if self.environment.endpoint and address.startswith(self.environment.endpoint):  # as in tests
            return Repository(self.environment.location, self.environment.project, address.rpartition("/")[2])
        return repository_of(address, TEMPLATES)

    @functools.cached_property
    def sources(self) -> list[tuple[str, str]]:
        """What the run reads from Cloud Storage: parameters and addresses."""
        addresses = []
        for step in fetched_steps(self.values):
            config = FetchConfig(**data_settings(step, self.values))
            public = [place.address for place in datasets.DATASETS[config.dataset].places]
            given = (addresses_in(config.source) or [config.source]) if config.source else public
            addresses += [(f"{step}_source", address) for address in given]
        addresses += [(name, str(self.values.get(name, ""))) for name in ("base_model_uri", "initial_weights")]
        return [(name, remote) for name, address in addresses if (remote := _remote(address))]

    @property
    def written(self) -> list[str]:
        """The buckets that the run writes to, that of the environment first."""
        places = [
            self.environment.bucket,
            *(str(self.values.get(key, "")) for key in ("checkpoint_dir", "registry")),
            self.staging,
        ]
        return list(dict.fromkeys(storage.split(remote)[0] for place in places if (remote := _remote(place))))

    @property
    def staging(self) -> str:
        """The folder of versions in the Vertex AI Model Registry; empty for one in the environment's bucket."""
        registry = str(self.values.get("registry", ""))
        return Address.at(registry).staging if registry.startswith(VERTEX) else ""

    @property
    def read(self) -> list[str]:
        """The buckets that the run only reads from, without the public ones of the table of datasets."""
        public = {place.address for row in datasets.DATASETS.values() for place in row.places}
        names = [storage.split(address)[0] for _, address in self.sources if address not in public]
        return [name for name in dict.fromkeys(names) if name not in self.written]

    def resources(self, kind: str, account: str, itself: str) -> list[Resource]:
        """The resources of a kind; `account` runs the pipeline, and `itself` is the account that is examined."""
        if kind == grants.PROJECT:
            return [project(self.environment.project)]
        if kind in (grants.BUCKET, grants.DATA):
            return [bucket(kind, name) for name in (self.written if kind == grants.BUCKET else self.read)]
        if kind in (grants.IMAGES, grants.TEMPLATES):
            found = self.images if kind == grants.IMAGES else self.templates
            return [repository(kind, found)] if found else []
        email = account if kind == grants.ACCOUNT else itself
        return [service_account(kind, email, self.environment.project)] if email else []


def project(name: str) -> Resource:
    """A project as a resource."""
    path = f"v3/projects/{name}"
    return Resource(
        *(grants.PROJECT, f"project {name}", "cloudresourcemanager", path),
        f"gcloud projects add-iam-policy-binding {name}",
    )


def bucket(kind: str, name: str) -> Resource:
    """A bucket as a resource."""
    return Resource(
        *(kind, f"bucket gs://{name}", "storage", f"storage/v1/b/{quoted(name)}"),
        f"gcloud storage buckets add-iam-policy-binding gs://{name}",
    )


def repository(kind: str, found: Repository) -> Resource:
    """A repository as a resource."""
    where = f"--location={found.location} --project={found.project}"
    return Resource(
        *(kind, f"repository {found.name}", "artifactregistry", found.path),
        f"gcloud artifacts repositories add-iam-policy-binding {found.name} {where}",
    )


def service_account(kind: str, email: str, project_name: str) -> Resource:
    """A service account as a resource."""
    return Resource(
        *(kind, f"account {email}", "iam", f"v1/projects/-/serviceAccounts/{quoted(email)}"),
        f"gcloud iam service-accounts add-iam-policy-binding {email} --project={project_name}",
    )


def repository_of(address: str, form: str = IMAGES) -> Repository | None:
    """The repository of images, or of templates, at an address; None if it is not in Artifact Registry."""
    parts = re.fullmatch(form, address)
    if parts is None:
        return None
    named = parts.groupdict()
    return Repository(named["location"], named["project"], named["repository"], named.get("folder") or "")


def _remote(address: str) -> str:
    """A gs:// address, also of a path below the mount of Cloud Storage; empty for anything else."""
    mount = f"{storage.MOUNT}/"
    if address.startswith(mount):
        return storage.REMOTE + address.removeprefix(mount)
    return address if address.startswith(storage.REMOTE) else ""
