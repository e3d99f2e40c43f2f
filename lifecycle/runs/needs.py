"""What a run needs on Google Cloud: one list, and the question whether each thing is there.

`PlannedRun.needs` makes the list from the settings of a run. Everybody asks the same list for their part of it:

- `doctor` asks for everything.
- `submit`, `schedule apply` and `sweep` ask for what a run must have before it starts (`Need.before_start`).
- The first task of a run asks for the images. Its account may see no quota.

No question changes anything.
"""

import dataclasses
import enum
import math
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from lifecycle.machines import TrainingPlan
from lifecycle.registry import Address
from lifecycle.runs.parameters import Values
from lifecycle.vertex import REPOSITORY, Api, UnansweredError, VertexRegion, brief_error
from trainer.datasets import DATASETS, Dataset
from trainer.errors import NotFoundError, check
from trainer.places import BucketPlace, Place, Stored, stored_at

THREADS = 8
"""Number of questions at the same time."""
TASKS = "cpu"
"""Kind of the image that runs the tasks."""
LISTED = 100
"""Objects that are listed below a source. Others may begin with its name, such as `data-old` with `data`."""
SERVICE = "aiplatform.googleapis.com"
METRIC = "custom_model_training_"
"""Beginning of the names of the quotas of training, such as `custom_model_training_nvidia_l4_gpus`."""


class State(enum.StrEnum):
    """The answer to a question, as the sign that `doctor` prints."""

    OK = "✓"
    MISSING = "✗"
    UNKNOWN = "?"
    """The question could not be asked."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """The answer to one question."""

    state: State
    text: str
    remedy: str = ""
    """A command or a link that provides what is missing, or that shows what is unknown."""


class Need(Protocol):
    """One thing that a run needs, such as a bucket, a role or a quota."""

    @property
    def subject(self) -> str:
        """What is asked for, such as `bucket gs://mine`."""

    @property
    def before_start(self) -> bool:
        """Whether no run starts without it: what is missing would else cost time or money."""

    def ask(self, api: Api) -> Finding:
        """Whether it is there. Raises `UnansweredError` if nobody says so."""


def ask_all(needs: Iterable[Need], api: Api) -> list[Finding]:
    """The findings about all needs, in their order. One that has no answer is unknown."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(partial(_answer, api), needs))


def _answer(api: Api, need: Need) -> Finding:
    try:
        return need.ask(api)
    except UnansweredError as error:
        return Finding(State.UNKNOWN, f"{need.subject}: {error}")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reply = f"the reply is not as Google documents it ({brief_error(error)})"
        return Finding(State.UNKNOWN, f"{need.subject}: {reply}")


# === The list ===


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """What is known of a run, or of jobs, before they start."""

    image_pattern: str
    """Name of its images with `{}` for the kind, such as `host/msinet-{}:v1`. Empty if they are not known."""
    plans: Mapping[str, TrainingPlan]
    """The plan of each training step. Steps run one after another."""
    values: Values = dataclasses.field(default_factory=Values)
    """All parameters of our pipeline. Empty for anything else, which then has no data and no registry."""
    bucket: str = ""
    """`gs://` address of the outputs. Empty inside a run, where it is known to exist."""
    environment: str = ""
    """Name of the environment. Empty inside a run."""
    jobs: int = 1
    """Number of jobs of a step that run at the same time."""

    @property
    def written(self) -> list[str]:
        """The buckets that the run writes to, such as `runs` for `gs://runs/msinet`."""
        registry = str(self.values.get("registry", ""))
        address = Address.found(registry)
        models = address.staging if address else registry
        return buckets_in(map(stored_at, (self.bucket, str(self.values.get("checkpoint_dir", "")), models)))

    @property
    def read(self) -> list[str]:
        """The buckets that the run only reads from, without the buckets of published datasets."""
        public = buckets_in(archive.place for row in DATASETS.values() for archive in row.archives)
        read = buckets_in(place for _, place in self.sources)
        return [name for name in read if name not in (*self.written, *public)]

    @property
    def sources(self) -> list[tuple[str, BucketPlace]]:
        """The parameters and places of all data that the run reads from Cloud Storage.

        Example: `("finetune_source", "gs://data/osie.zip")`, also for `/gcs/data/osie.zip`.
        """
        if not self.values:
            return []
        found: list[tuple[str, Place]] = [
            (name, stored_at(str(self.values[name]))) for name in ("base_model_uri", "initial_weights")
        ]
        for dataset in self.values.datasets:
            config = self.values.data(dataset)
            public = [archive.place for archive in Dataset.named(config.dataset).archives]
            found += [(f"{dataset}_source", place) for place in config.places or public]
        stored = [(name, place.unmounted) for name, place in found if isinstance(place, Stored)]
        return [(name, place) for name, place in stored if isinstance(place, BucketPlace)]

    @property
    def images(self) -> list[str]:
        """Full names of the images of the tasks, of the training jobs, and of the container that serves models."""
        kinds = dict.fromkeys((TASKS, *(plan.accelerator.image for plan in self.plans.values())))
        own = [self.image_pattern.format(kind) for kind in kinds] if self.image_pattern else []
        registry = str(self.values.get("registry", ""))
        served = Address.found(registry)
        serving = [served.serving] if served and served.serving else []
        return list(dict.fromkeys((*own, *serving)))

    @property
    def quotas(self) -> "list[Quota]":
        """The quotas that the plans take: the most of one step, since steps run one after another.

        Example: two jobs on `l4-4` at the same time take 8 of `nvidia_l4_gpus`.
        """
        most: dict[str, int] = {}
        for plan in self.plans.values():
            for name, count in plan.accelerator.quotas(plan.machines.provisioning).items():
                taken = count * plan.machines.workers * self.jobs
                most[METRIC + name] = max(most.get(METRIC + name, 0), taken)
        return [Quota(metric, count) for metric, count in most.items()]

    @property
    def needs(self) -> list[Need]:
        """Everything that the run needs besides rights and APIs: buckets, data, images and quota."""
        written, outputs = self.written, buckets_in([stored_at(self.bucket)])
        address = Address.found(str(self.values.get("registry", "")))
        versions = buckets_in([stored_at(address.staging)]) if address and address.staging else []
        regions = {name: address.location for name in versions if address and name not in outputs}
        named = dict.fromkeys((*written, *buckets_in(place for _, place in self.sources)))
        return [
            *(Bucket(name, name in written, name in outputs, regions.get(name, "")) for name in named),
            *(Source(name, place) for name, place in self.sources),
            *(Image(name, self.environment) for name in self.images),
            *self.quotas,
        ]

    def check_before_start(self, region: VertexRegion) -> None:
        """Raise `UserError` if something is missing without which no run starts: bucket, images or quota.

        Without an image or quota a run fails only after its data is prepared, when Vertex AI refuses the training
        job. What cannot be asked for passes.
        """
        for finding in ask_all([need for need in self.needs if need.before_start], Api(region)):
            check(finding.state != State.MISSING, f"{finding.text}: {finding.remedy}", NotFoundError)


def buckets_in(places: Iterable[Place]) -> list[str]:
    """The buckets of the places on Cloud Storage, also by the mount, each once.

    Example: `gs://b/x` and `/gcs/b/y` are in `b`.
    """
    names = [place.unmounted.bucket for place in places if isinstance(place, Stored)]
    return list(dict.fromkeys(filter(None, names)))


# === The questions ===


def _quoted(name: str) -> str:
    """A name as one segment of a path."""
    return urllib.parse.quote(name, safe="")


@dataclasses.dataclass(frozen=True)
class Bucket:
    """A bucket, in the region of the runs if they write to it."""

    name: str
    is_written: bool
    before_start: bool
    region: str = ""
    """Where it must be instead, such as the region of the registry that reads versions in it."""

    @property
    def subject(self) -> str:
        """The bucket with its prefix."""
        return f"bucket gs://{self.name}"

    def ask(self, api: Api) -> Finding:
        """Whether it exists, and is where it must be."""
        location, project = self.region or api.region.location, api.region.project
        found = api.find("storage", f"storage/v1/b/{_quoted(self.name)}")
        if found is None:
            command = f"gcloud storage buckets create gs://{self.name} --location={location} --project={project}"
            missing = f"{self.subject} does not exist"
            return Finding(State.MISSING, missing, f"{command} --uniform-bucket-level-access")
        found_in = str(found["location"]).lower()
        # Larger areas, such as us, eu and nam4, have several regions.
        is_area = re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", found_in) is None
        if not self.is_written or found_in == location or is_area:
            return Finding(State.OK, f"{self.subject} is in {found_in}")
        remedy = f"set bucket to one in {location}, or location to the bucket's region"
        what = "the registry is" if self.region else "runs are"
        return Finding(State.MISSING, f"{self.subject} is in {found_in}, but {what} in {location}", remedy)


@dataclasses.dataclass(frozen=True)
class Source:
    """Data or weights on Cloud Storage, which a parameter names."""

    parameter: str
    place: BucketPlace
    before_start: bool = False

    @property
    def subject(self) -> str:
        """The parameter and the place."""
        return f"{self.parameter} {self.place}"

    def ask(self, api: Api) -> Finding:
        """Whether there is something.

        Nobody can copy what its publisher does not let them read: the remedy for a published dataset is another
        one.
        """
        archives = (archive.address for row in DATASETS.values() for archive in row.archives)
        is_published, name = str(self.place) in archives, self.parameter
        others = (
            f"take other data: {name.replace('_source', '_dataset')}=osie, {name}=sample, or "
            f"{name}=gs://... with recordings of your own"
        )
        try:
            found, upload = self._look(api)
        except UnansweredError as error:
            return Finding(State.UNKNOWN, f"{self.subject}: {error}", others if is_published else "")
        if found:
            return Finding(State.OK, f"{self.subject} is there")
        return Finding(State.MISSING, f"{self.subject}: there is nothing", others if is_published else upload)

    def _look(self, api: Api) -> tuple[bool, str]:
        """Whether there is an archive or a folder, and the command that uploads one."""
        path = self.place.object_path
        objects = f"storage/v1/b/{_quoted(self.place.bucket)}/o"
        if self.place.is_download:
            # Reading one object takes fewer rights than listing a bucket, and the public dataset is one object.
            found = api.find("storage", f"{objects}/{_quoted(path)}", fields="name")
            return found is not None, f"gcloud storage cp ARCHIVE {self.place}"
        listing = api.find("storage", objects, prefix=path, maxResults=LISTED, fields="items(name)") or {}
        names = [str(item["name"]) for item in listing.get("items", ())]
        is_there = any(not path or name == path or name.startswith(f"{path}/") for name in names)
        return is_there, f"gcloud storage cp FOLDER {self.place} -r"


@dataclasses.dataclass(frozen=True)
class Image:
    """An image with its tag."""

    name: str
    """Full name, such as `us-central1-docker.pkg.dev/my-project/msinet/msinet-gpu:v1`."""
    environment: str
    """Name of the environment that builds it. Empty if that is not known."""
    before_start: bool = True

    @property
    def subject(self) -> str:
        """The full name."""
        return f"image {self.name}"

    def ask(self, api: Api) -> Finding:
        """Whether Artifact Registry has it."""
        path = self._tag_path
        if not path:
            return Finding(State.UNKNOWN, f"{self.subject} is not in Artifact Registry, so this cannot ask for it")
        if api.find("artifactregistry", path) is None:
            return Finding(State.MISSING, f"{self.subject} does not exist", f"make images ENV={self.environment}")
        return Finding(State.OK, f"{self.subject} exists")

    @property
    def _tag_path(self) -> str:
        """Path of the image's tag in Artifact Registry's API. Empty if the image is elsewhere."""
        name, _, tag = self.name.rpartition(":")
        parts = re.fullmatch(REPOSITORY, name)
        if parts is None or not parts[4]:
            return ""
        location, project, repository, package = parts.groups()
        path = f"v1/projects/{project}/locations/{location}/repositories/{repository}"
        return f"{path}/packages/{_quoted(package)}/tags/{_quoted(tag)}"


@dataclasses.dataclass(frozen=True)
class Quota:
    """A quota of training that is large enough in the region."""

    metric: str
    count: int
    """What the plan takes of it."""
    before_start: bool = True

    @property
    def subject(self) -> str:
        """The name of the quota."""
        return f"quota {self.metric}"

    def ask(self, api: Api) -> Finding:
        """Whether the project's limit in the region is `count` at least."""
        location, project = api.region.location, api.region.project
        page = "https://console.cloud.google.com/iam-admin/quotas"
        link = f"{page}?project={project}&metric={SERVICE}/{self.metric}"
        subject = f"{self.subject} in {location}"
        path = f"v1beta1/projects/{project}/services/{SERVICE}/consumerQuotaMetrics/{SERVICE}%2F{self.metric}"
        limit = _limit(api.find("serviceusage", path, view="FULL") or {}, location)
        if limit is None:
            unknown = f"{subject}: Google names no limit. The plan takes {self.count}"
            return Finding(State.UNKNOWN, unknown, link)
        if limit < self.count:
            less = f"{subject} is {limit:g}, but the plan takes {self.count}"
            return Finding(State.MISSING, f"{less}. Ask for more, which takes hours or days", link)
        shown = "unlimited" if limit == math.inf else f"{limit:g}"
        return Finding(State.OK, f"{subject} is {shown}, the plan takes {self.count}")


def _limit(metric: Mapping[str, Any], location: str) -> float | None:
    """The least effective limit in a region, from its own bucket, or else from the bucket for all regions.

    Service Usage API v1beta1: ConsumerQuotaMetric. Replies leave out numbers that are 0. -1 is infinite.
    """
    limits = []
    for limit in metric.get("consumerQuotaLimits", ()):
        quotas = {each.get("dimensions", {}).get("region", ""): each for each in limit.get("quotaBuckets", ())}
        if quotas:
            limits.append(int(quotas.get(location, quotas.get("", {})).get("effectiveLimit", 0)))
    return min((math.inf if limit < 0 else limit for limit in limits), default=None)
