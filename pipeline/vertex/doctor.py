"""Checks what a first run on Vertex AI needs: what is there, what is missing, and how to get it.

The groups are the settings, the APIs, the rights of two accounts (yours, and the one that runs the pipeline), then
buckets, data, images and quota. On demand, one cheap custom job runs `python -m trainer.training.doctor_probe` on
the accelerator.
"""

import dataclasses
import datetime
import functools
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from lifecycle.machines.plan import TrainingPlan
from lifecycle.registry.address import VERTEX, Address
from lifecycle.registry.versions import OWNER
from lifecycle.runs import parameters
from lifecycle.runs.parameters import PARAMETERS
from lifecycle.runs.settled import data_config, settle
from lifecycle.vertex import api as vertex_api
from lifecycle.vertex.api import Api, UnansweredError
from pipeline.graph.environment import COMMON_IMAGES, Environment, layered
from pipeline.vertex import doctor_questions, single_job, submit
from pipeline.vertex.doctor_questions import MISSING, OK, UNKNOWN, Finding, Question, ask
from trainer.data import datasets
from trainer.data.downloads.servers import addresses_in
from trainer.errors import UserError, check
from trainer.io import buckets
from trainer.settings.fields import Value
from trainer.training import accelerators
from trainer.training.doctor_probe import BAD, REPORT, Fact

DEFAULT_ACCOUNT = "{}-compute@developer.gserviceaccount.com"
"""Account of a run that names none, by the number of the project (Vertex AI: "Use a custom service account")."""
AGENT = "serviceAccount:service-{}@gcp-sa-aiplatform.iam.gserviceaccount.com"
"""Vertex AI's agent in a project, by the project's number. It pulls the images of all runs, whichever account they
have ("Use a custom service account"); it needs no role for those of its own project."""
SOMEBODY = "user:YOUR_ADDRESS"
"""Stands for the caller in commands if their address is unknown."""
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
PROBE = ["python", "-m", "trainer.training.doctor_probe"]
"""Command of the job of `--live`."""
RUN_S = 120.0
"""Time of the job itself; an estimate: 40 s on two CPU cores."""
TIMEOUT_S = 900
"""Vertex AI ends the job after this time."""
POLL_S = 10.0
"""Pause between two requests for the state of that job."""
ENDED = ("succeeded", "failed", "cancelled", "expired")
Group = tuple[str, list[Finding]]
"""A subject, and the findings about it."""


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

    infra/accounts.tf grants the same roles; a test compares the two. Which role contains which permission is from
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


# === The run ===


@dataclasses.dataclass(frozen=True)
class ExaminedRun:
    """The run that is examined: its environment, all its parameters, and the plans of its training steps."""

    environment: Environment
    values: Mapping[str, Value]
    plans: Mapping[str, TrainingPlan]

    @property
    def written(self) -> list[str]:
        """The buckets that the run writes to."""
        registry = str(self.values["registry"])
        models = Address.at(registry).staging if registry.startswith(VERTEX) else registry
        return _buckets([self.environment.bucket, str(self.values["checkpoint_dir"]), models])

    @property
    def sources(self) -> list[tuple[str, str]]:
        """The parameters and addresses of all data that the run reads from Cloud Storage."""
        found = [(name, str(self.values[name])) for name in ("base_model_uri", "initial_weights")]
        for dataset in parameters.needed_datasets(self.values):
            config = data_config(dataset, self.values)
            public = [archive.address for archive in datasets.get(config.dataset).archives]
            given = (addresses_in(config.source) or [config.source]) if config.source else public
            found += [(f"{dataset}_source", address) for address in given]
        return [(name, buckets.unmounted(address)) for name, address in found if _buckets([address])]


def _buckets(addresses: Iterable[str]) -> list[str]:
    remote = [address for address in map(buckets.unmounted, addresses) if buckets.is_remote(address)]
    return list(dict.fromkeys(buckets.split(address)[0] for address in remote))


def run_to_examine(environment: Environment, passed: Mapping[str, Value]) -> tuple[ExaminedRun, Group]:
    """The run with these parameters, and what is wrong with the parameters.

    Raises `UserError` if the environment is not for Vertex AI, or not valid.
    """
    environment.require_target("vertex")
    defaults = {name: parameter.default for name, parameter in PARAMETERS.items()}
    values = layered(defaults, environment.derived, environment.parameters, passed)
    plans: dict[str, TrainingPlan] = {}
    run = ExaminedRun(environment, values, plans)
    try:
        settled = settle(values, "vertex", environment.location, typed=passed)
        chosen, passed_over = doctor_questions.choose_accelerators(environment, values)
        values |= chosen
        plans |= settle(values, "vertex", environment.location).plans if chosen else settled.plans
    except UserError as error:
        remedy = f"correct environment {environment.name}, or the parameters of this command"
        return run, ("Settings", [Finding(MISSING, str(error), remedy)])
    lines = (*passed_over, *submit.plan_lines(plans))
    return run, ("Settings", [Finding(OK, line) for line in lines])


def examine(run: ExaminedRun, api: Api) -> Iterator[Group]:
    """The groups, each as soon as all its questions are answered."""
    member = caller_of(api)
    number = "PROJECT_NUMBER"
    with suppress(UnansweredError, KeyError):
        number = project_number(api)
    account = run.environment.service_account or DEFAULT_ACCOUNT.format(number)
    caller, other = Account(api, member, is_caller=True), Account(api, f"serviceAccount:{account}")
    needed = (*PIPELINE, *([TENSORBOARD] if run.values.get("tensorboard") else []))
    yield "Project", ask([("APIs", partial(doctor_questions.ask_for_apis, api))])
    yield f"Your account ({member})", ask(_rights(run, caller, DEPLOYER, account))
    yield f"Account that runs the pipeline ({account})", ask(_rights(run, other, needed, account))
    images = re.fullmatch(vertex_api.REPOSITORY, run.environment.image_repository)
    if images and images[2] != run.environment.project:
        agent = Account(api, AGENT.format(number))
        yield (
            f"Vertex AI's agent, which pulls images ({agent.member})",
            ask(_rights(run, agent, [READS_IMAGES], account)),
        )
    yield "Buckets, data, images", ask(_about_addresses(run, api))
    yield "Quota", ask(doctor_questions.about_quota(api, run.plans))


def _about_addresses(run: ExaminedRun, api: Api) -> Iterator[Question]:
    """A question for each bucket, source and image."""
    for bucket in dict.fromkeys((*run.written, *_buckets(address for _, address in run.sources))):
        yield f"bucket gs://{bucket}", partial(doctor_questions.ask_for_bucket, api, bucket, bucket in run.written)
    for name, address in run.sources:
        yield f"{name} {address}", partial(doctor_questions.ask_for_source, api, name, address)
    for kind in dict.fromkeys((*COMMON_IMAGES, *(plan.accelerator.image for plan in run.plans.values()))):
        yield (
            f"image {kind}",
            partial(doctor_questions.ask_for_image, api, run.environment.name, run.environment.image_of(kind)),
        )


# === Rights ===


@dataclasses.dataclass(frozen=True)
class Resource:
    """A cloud resource on which roles are granted; its kind is one of `KINDS`."""

    kind: str
    name: str
    project: str = ""
    location: str = ""

    @property
    def title(self) -> str:
        """Kind and name, for messages."""
        return f"{self.kind} gs://{self.name}" if self.kind == "bucket" else f"{self.kind} {self.name}"

    def filled(self, template: str) -> str:
        """A path or command of `KINDS` with the fields of this resource."""
        return template.format(**vars(self), bind="add-iam-policy-binding")


class Account:
    """An account whose permissions are asked for.

    The services say which ones the caller has. Those of any other account are in the policies of the resource and
    of its project: grants of folders and organisations, by groups and on conditions are not seen.
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


def _rights(run: ExaminedRun, who: Account, needed: Iterable[Grant], account: str) -> Iterator[Question]:
    """A question for each role on each resource; `account` is the one that runs the pipeline."""
    environment, written = run.environment, run.written
    public = _buckets(archive.address for row in datasets.DATASETS.values() for archive in row.archives)
    read = [name for name in _buckets(address for _, address in run.sources) if name not in (*written, *public)]
    accounts = {ACCOUNT: account, ITSELF: who.member.partition("serviceAccount:")[2]}
    repositories = {IMAGES: environment.image_repository, TEMPLATES: environment.template_repository}
    found = {name: re.fullmatch(vertex_api.REPOSITORY, address) for name, address in repositories.items()}
    resources = {
        PROJECT: [Resource("project", environment.project)],
        BUCKET: [Resource("bucket", name) for name in written],
        DATA: [Resource("bucket", name) for name in read],
        **{name: [Resource("repository", at[3], at[2], at[1])] if at else [] for name, at in found.items()},
        **{
            name: [Resource("account", each, environment.project)] if each else []
            for name, each in accounts.items()
        },
    }
    for grant in needed:
        for resource in resources[grant.resource]:
            yield f"{grant.role} on {resource.title}", partial(ask_for_grant, who, resource, grant)


def ask_for_grant(account: Account, resource: Resource, grant: Grant) -> Finding:
    """Whether an account has the permissions on a resource that are used of a role."""
    command = f"gcloud {resource.filled(KINDS[resource.kind][3])} --member={account.member} --role={grant.role}"
    try:
        absent = sorted(set(grant.permissions) - account.held(resource, grant))
    except UnansweredError as error:
        if error.status != 403:
            raise
        return Finding(UNKNOWN, f"{grant.role} on {resource.title}: you may not see it; this grants it", command)
    if absent:
        return Finding(MISSING, f"lacks {', '.join(absent)} on {resource.title}", command)
    return Finding(OK, f"{grant.role} on {resource.title}")


def project_number(api: Api) -> str:
    """The number of the environment's project. Raises `UnansweredError`."""
    answer = api.get("cloudresourcemanager", f"v3/projects/{api.region.project}")
    return str(answer["name"]).rpartition("/")[2]


def caller_of(api: Api) -> str:
    """The member of policies that the credentials stand for; `SOMEBODY` if that cannot be found out."""
    email = getattr(api.session.credentials, "service_account_email", "")
    if not email or email == "default":
        try:
            # Google's OpenID configuration names this address; logins by gcloud include the e-mail address.
            email = str(api.get("openidconnect", "v1/userinfo").get("email", ""))
        except UnansweredError:
            return SOMEBODY
    kind = "serviceAccount" if email.endswith(".gserviceaccount.com") else "user"
    return f"{kind}:{email}" if email else SOMEBODY


# === The job on the accelerator ===


def choose_plan(run: ExaminedRun) -> TrainingPlan:
    """The plan whose machine is tried: the dearest one. Raises `UserError` if no step fits its machines."""
    check(bool(run.plans), "no training step fits its machines, so there is none to try; see the settings above")
    return max(run.plans.values(), key=lambda plan: plan.accelerator.compute_engine_usd)


def offer(plan: TrainingPlan) -> str:
    """A sentence with the machine, the time and the price of the job."""
    seconds = accelerators.START_SECONDS + RUN_S
    hourly = plan.accelerator.usd_per_hour(plan.machines.provisioning)
    price = "a price that is not known here" if hourly is None else f"about {hourly * seconds / 3600:.2f} USD"
    machine = f"{plan.accelerator.machine_type}, {plan.machines.provisioning}"
    return (
        f"One custom job on 1 x {plan.accelerator.name} ({machine}) takes about {seconds / 60:.0f} minutes, most "
        f"of them for the start, and costs {price}"
    )


def try_job(run: ExaminedRun) -> Iterator[Finding]:
    """Start the job, follow it to its end, and say what it found. Raises `UserError` if Vertex AI refuses it.

    Ctrl-C ends the watching, not the job.
    """
    from google.cloud.aiplatform_v1 import JobServiceClient

    environment, service = run.environment, vertex_api.service_client(JobServiceClient, run.environment)
    folder = f"{environment.bucket}/doctor/{datetime.datetime.now(datetime.UTC):%Y%m%d%H%M%S}"
    parent = vertex_api.parent_of(environment)
    with vertex_api.reported_errors("the job"):
        job = service.create_custom_job(parent=parent, custom_job=_job(run, folder), timeout=vertex_api.TIMEOUT_S)
    number = job.name.rpartition("/")[2]
    link = f"{vertex_api.CONSOLE}/locations/{environment.location}/training/{number}?project={environment.project}"
    print(f"Job: {link}", flush=True)
    state = ""
    try:
        while state not in ENDED:
            with vertex_api.reported_errors(f"the job continues, see {link}"):
                shown = vertex_api.retried(
                    lambda: service.get_custom_job(name=job.name, timeout=vertex_api.TIMEOUT_S)
                )
            if state != (state := shown.state.name.removeprefix("JOB_STATE_").lower()):
                print(f"Job {state}", flush=True)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        raise UserError(f"no longer watching; the job continues and ends by itself: {link}") from None
    try:
        report = buckets.read_object(f"{folder}/{REPORT}").decode()
    except UserError as error:
        yield Finding(MISSING, f"the job ended as {state}, without a report ({error}); see its log", link)
        return
    for fact in (Fact(**json.loads(line)) for line in report.splitlines()):
        yield Finding(MISSING, str(fact), link) if fact.state == BAD else Finding(OK, str(fact))


def _job(run: ExaminedRun, folder: str) -> dict[str, Any]:
    """The custom job, with the machine, the account and the network of a training."""
    plan = choose_plan(run)
    arguments = [f"--folder={folder}", f"--accelerator={plan.accelerator.name}"]
    image = run.environment.image_of(plan.accelerator.image)
    return single_job.single_job(
        "msinet-doctor",
        plan,
        image,
        PROBE,
        arguments,
        timeout_s=TIMEOUT_S,
        account=str(run.values["training_service_account"]),
        network=str(run.values["training_network"]),
        labels={**OWNER, **run.environment.labels},
    )
