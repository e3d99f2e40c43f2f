"""Checks what a first run on Vertex AI needs: what is there, what is missing, and how to get it.

The groups are the settings, the APIs, the rights of your account and of the pipeline's, then
buckets, data, images and quota. On demand, one cheap custom job runs `python -m trainer.training.doctor_probe` on
the accelerator.
"""

import dataclasses
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from lifecycle.machines import TrainingPlan
from lifecycle.registry import OWNER
from lifecycle.runs import Finding, PlannedRun, State, Values, ask_all, settle
from lifecycle.vertex import REPOSITORY, Api, UnansweredError
from pipeline.graph import Environment, layered_values
from pipeline.vertex import jobs, submit
from pipeline.vertex.accelerator_choice import choose_accelerators
from pipeline.vertex.jobs import Jobs
from pipeline.vertex.rights import (
    ACCOUNT,
    AGENT,
    BUCKET,
    DATA,
    DEPLOYER,
    FALLBACK,
    IMAGES,
    ITSELF,
    PIPELINE,
    PROJECT,
    READS_IMAGES,
    TEMPLATES,
    TENSORBOARD,
    Account,
    Grant,
    Resource,
    Right,
)
from trainer.errors import SettingError, UserError, check
from trainer.places import BucketPlace
from trainer.settings import Value
from trainer.training import read_facts

APIS = (
    *("aiplatform", "artifactregistry", "cloudbuild", "cloudresourcemanager", "compute", "iam"),
    *("iamcredentials", "logging", "storage"),
)
"""The APIs that infra/apis.tf enables."""
DEFAULT_ACCOUNT = "{}-compute@developer.gserviceaccount.com"
"""Account of a run that names none, by the number of the project (Vertex AI: "Use a custom service account")."""
SOMEBODY = "user:YOUR_ADDRESS"
"""Stands for the caller in commands if their address is unknown."""
PROBE = ["python", "-m", "trainer.training.doctor_probe"]
"""Command of the job of `--live`."""
RUN_S = 120.0
"""Time of the job itself, estimated from 40 s on two CPU cores."""
TIMEOUT_S = 900
"""Vertex AI ends the job after this time."""
POLL_S = 10.0
"""Pause between two requests for the state of that job."""
Group = tuple[str, list[Finding]]
"""A subject, and the findings about it."""


@dataclasses.dataclass(frozen=True)
class ExaminedRun:
    """The run that is examined, and its environment."""

    environment: Environment
    planned: PlannedRun
    """With the plans of the training steps that fit their machines."""
    settings: Group
    """What is said about the parameters."""

    @classmethod
    def of(cls, environment: Environment, passed: Mapping[str, Value]) -> "ExaminedRun":
        """The run with these parameters. Parameters that are wrong are a finding, and no error.

        Raises `UserError` if the environment is not for Vertex AI, or not valid.
        """
        environment.require_target("vertex")
        values = layered_values(Values().complete, environment.derived, environment.parameters, passed)
        plans: Mapping[str, TrainingPlan] = {}
        try:
            settled = settle(values, "vertex", environment.location, typed=passed)
            chosen, passed_over = choose_accelerators(environment, values)
            values.update(chosen)
            plans = settle(values, "vertex", environment.location).plans if chosen else settled.plans
            findings = [Finding(State.OK, line) for line in (*passed_over, *submit.plan_lines(plans))]
        except UserError as error:
            remedy = f"correct environment {environment.name}, or the parameters of this command"
            findings = [Finding(State.MISSING, str(error), remedy)]
        images = environment.image_of("{}")
        planned = PlannedRun(images, plans, values, environment.bucket, environment.name)
        return cls(environment, planned, ("Settings", findings))

    def examine(self) -> Iterator[Group]:
        """The groups, each as soon as its questions are answered, such as `("Quota", [...])`."""
        environment = self.environment
        api = Api(environment)
        member = caller_of(api)
        number = "PROJECT_NUMBER"
        with suppress(UnansweredError, KeyError):
            number = project_number(api)
        account = environment.service_account or DEFAULT_ACCOUNT.format(number)
        caller, other = Account(api, member, is_caller=True), Account(api, f"serviceAccount:{account}")
        writes_logs, falls_back = self.planned.values.get("tensorboard"), environment.places
        needed = (*PIPELINE, *([TENSORBOARD] if writes_logs else []), *([FALLBACK] if falls_back else []))
        yield "Project", ask_all([EnabledApis()], api)
        yield f"Your account ({member})", ask_all(self._rights(caller, DEPLOYER, account), api)
        yield (
            f"Account that runs the pipeline ({account})",
            ask_all(self._rights(other, needed, account), api),
        )
        images = re.fullmatch(REPOSITORY, environment.image_repository)
        if images and images[2] != environment.project:
            agent = Account(api, AGENT.format(number))
            yield (
                f"Vertex AI's agent, which pulls images ({agent.member})",
                ask_all(self._rights(agent, [READS_IMAGES], account), api),
            )
        quotas = self.planned.quotas
        yield "Buckets, data, images", ask_all([need for need in self.planned.needs if need not in quotas], api)
        yield "Quota", ask_all(quotas, api)

    def _rights(self, who: Account, needed: Iterable[Grant], account: str) -> Iterator[Right]:
        """Each role on each resource, such as `storage.objectUser` on each bucket. `account` runs the pipeline."""
        environment, written = self.environment, self.planned.written
        accounts = {ACCOUNT: account, ITSELF: who.member.partition("serviceAccount:")[2]}
        repositories = {IMAGES: environment.image_repository, TEMPLATES: environment.template_repository}
        found = {name: re.fullmatch(REPOSITORY, address) for name, address in repositories.items()}
        resources = {
            PROJECT: [Resource("project", environment.project)],
            BUCKET: [Resource("bucket", name) for name in written],
            DATA: [Resource("bucket", name) for name in self.planned.read],
            **{name: [Resource("repository", at[3], at[2], at[1])] if at else [] for name, at in found.items()},
            **{
                name: [Resource("account", each, environment.project)] if each else []
                for name, each in accounts.items()
            },
        }
        for grant in needed:
            for resource in resources[grant.resource]:
                yield Right(who, resource, grant)

    # === The job on the accelerator ===

    @property
    def dearest(self) -> TrainingPlan:
        """The plan with the dearest machine, which is tried. Raises `UserError` if no step fits its machines."""
        plans = self.planned.plans.values()
        check(
            bool(plans),
            "no training step fits its machines, so there is none to try. See the settings above",
            SettingError,
        )
        return max(plans, key=lambda plan: plan.accelerator.compute_engine_usd)

    @property
    def offer(self) -> str:
        """The machine, the time and the price of the job in a sentence, such as `One custom job on 1 x l4 ...`."""
        plan = self.dearest
        seconds = plan.start_s + RUN_S
        hourly = plan.accelerator.usd_per_hour(plan.machines.provisioning)
        price = "a price that is not known here" if hourly is None else f"about {hourly * seconds / 3600:.2f} USD"
        machine = f"{plan.accelerator.machine_type}, {plan.machines.provisioning}"
        return (
            f"One custom job on 1 x {plan.accelerator.name} ({machine}) takes about {seconds / 60:.0f} minutes, "
            f"most of them for the start, and costs {price}"
        )

    def try_job(self) -> Iterator[Finding]:
        """Start the job, follow it to its end, and say what it found. Ctrl-C ends the watching, not the job.

        Raises `UserError` if Vertex AI refuses the job.
        """
        service = Jobs(self.environment, POLL_S)
        folder = f"{self.environment.bucket}/doctor/{datetime.datetime.now(datetime.UTC):%Y%m%d%H%M%S}"
        name = service.start(self._job(folder), "the job")
        link = service.link(name)
        print(f"Job: {link}", flush=True)
        states = [""]

        def show(job: Any) -> None:
            if (state := jobs.state_of(job)) != states[-1]:
                states.append(state)
                print(f"Job {state}", flush=True)

        with service.watching(lambda: f" and ends by itself: {link}"):
            service.wait(name, "the job continues, see {}", show)
        try:
            facts = read_facts(BucketPlace(folder))
        except UserError as error:
            ended = f"the job ended as {states[-1]}, without a report ({error}). See its log"
            yield Finding(State.MISSING, ended, link)
            return
        for fact in facts:
            yield Finding(State.MISSING if fact.is_bad else State.OK, str(fact), link if fact.is_bad else "")

    def _job(self, folder: str) -> dict[str, Any]:
        """The custom job, with the machine, the account and the network of a training."""
        plan, values = self.dearest, self.planned.values
        return jobs.custom_job(
            "msinet-doctor",
            plan,
            self.environment.image_of(plan.accelerator.image),
            PROBE,
            [f"--folder={folder}", f"--accelerator={plan.accelerator.name}"],
            timeout_s=TIMEOUT_S,
            account=str(values["training_service_account"]),
            network=str(values["training_network"]),
            labels={**OWNER, **self.environment.labels},
        )


# === The project ===


@dataclasses.dataclass(frozen=True)
class EnabledApis:
    """The APIs of the project."""

    before_start: bool = False

    @property
    def subject(self) -> str:
        """What is asked for."""
        return "APIs"

    def ask(self, api: Api) -> Finding:
        """Whether all are on, by one request."""
        project = api.region.project
        services = [f"{each}.googleapis.com" for each in APIS]
        names = [f"projects/{project}/services/{each}" for each in services]
        answer = api.get("serviceusage", f"v1/projects/{project}/services:batchGet", names=names)
        on = {each["name"].rpartition("/")[2] for each in answer["services"] if each["state"] == "ENABLED"}
        if off := [each for each in services if each not in on]:
            command = f"gcloud services enable {' '.join(off)} --project={project}"
            return Finding(State.MISSING, f"APIs that are off: {', '.join(off)}", command)
        return Finding(State.OK, f"all {len(services)} APIs are on")


def project_number(api: Api) -> str:
    """The number of the environment's project, such as `123456789`. Raises `UnansweredError`."""
    answer = api.get("cloudresourcemanager", f"v3/projects/{api.region.project}")
    return str(answer["name"]).rpartition("/")[2]


def caller_of(api: Api) -> str:
    """The member of policies that the credentials stand for, such as `user:ann@example.org`.

    `SOMEBODY` if that cannot be found out.
    """
    email = getattr(api.session.credentials, "service_account_email", "")
    if not email or email == "default":
        try:
            # Google's OpenID configuration names this address. Logins by gcloud include the e-mail address.
            email = str(api.get("openidconnect", "v1/userinfo").get("email", ""))
        except UnansweredError:
            return SOMEBODY
    kind = "serviceAccount" if email.endswith(".gserviceaccount.com") else "user"
    return f"{kind}:{email}" if email else SOMEBODY
