"""Examines what a run on Vertex AI needs, one group of questions after the other."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from pipeline import grants
from pipeline.graph import parameters
from pipeline.graph.environment import Environment, layered
from pipeline.graph.parameters import PARAMETERS, Value
from pipeline.plan.plan import TrainingPlan
from pipeline.registry.address import VERTEX, Address
from pipeline.vertex import checks, images, submit
from pipeline.vertex.doctor import access, needs
from pipeline.vertex.doctor.access import Caller, Other, Resource
from pipeline.vertex.doctor.questions import MISSING, OK, UNKNOWN, Api, Finding, Question, UnansweredError, ask
from trainer import datasets, storage
from trainer.config import FetchConfig
from trainer.downloads.servers import addresses_in
from trainer.errors import UserError

DEFAULT_ACCOUNT = "{}-compute@developer.gserviceaccount.com"
"""Account of a run that names none, by the number of the project (Vertex AI: "Use a custom service account")."""
Group = tuple[str, list[Finding]]
"""A subject, and the findings about it."""


@dataclasses.dataclass(frozen=True)
class Case:
    """The run that is examined: its environment, all its parameters, and the plans of its training steps."""

    environment: Environment
    values: Mapping[str, Value]
    plans: Mapping[str, TrainingPlan]

    @property
    def staging(self) -> str:
        """The bucket or folder with the versions that Vertex AI reads."""
        registry = str(self.values["registry"])
        return (registry.startswith(VERTEX) and Address.at(registry).staging) or self.environment.bucket

    @property
    def written(self) -> list[str]:
        """The buckets that the run writes to."""
        places = (self.environment.bucket, *map(str, map(self.values.get, ("checkpoint_dir", "registry"))))
        return _buckets([*places, self.staging])

    @property
    def sources(self) -> list[tuple[str, str]]:
        """What the run reads from Cloud Storage: parameters and addresses."""
        found = [(name, str(self.values[name])) for name in ("base_model_uri", "initial_weights")]
        for step in parameters.fetched_steps(self.values):
            config = FetchConfig(**parameters.data_settings(step, self.values))
            public = [place.address for place in datasets.get(config.dataset).archives]
            given = (addresses_in(config.source) or [config.source]) if config.source else public
            found += [(f"{step}_source", address) for address in given]
        return [(name, storage.unmounted(address)) for name, address in found if _buckets([address])]


def _buckets(addresses: Iterable[str]) -> list[str]:
    remote = [address for address in map(storage.unmounted, addresses) if storage.is_remote(address)]
    return list(dict.fromkeys(storage.split(address)[0] for address in remote))


def make_case(environment: Environment, passed: Mapping[str, Value]) -> tuple[Case, Group]:
    """The case of a run with these parameters, and what is wrong with the parameters.

    Raises `UserError` if the environment is not for Vertex AI, or not valid.
    """
    checks.check_environment(environment)
    defaults = {name: parameter.default for name, parameter in PARAMETERS.items()}
    values = layered(defaults, environment.derived, environment.parameters, passed)
    plans: dict[str, TrainingPlan] = {}
    case = Case(environment, values, plans)
    try:
        parameters.validate(values)
        parameters.require_sources(values)
        submit.check_locations(environment, values)
        plans |= checks.plans(environment, values)
    except UserError as error:
        remedy = f"correct environment {environment.name}, or the parameters of this command"
        return case, ("Settings", [Finding(MISSING, str(error), remedy)])
    return case, ("Settings", [Finding(OK, line) for line in submit.plan_lines(plans)])


def examine(case: Case, api: Api) -> Iterator[Group]:
    """The groups, each as soon as all its questions are answered."""
    caller = Caller(api, access.caller_of(api))
    _, _, itself = caller.member.partition("serviceAccount:")
    yield "Project", ask([("APIs", partial(needs.check_apis, api))])
    try:
        account = case.environment.service_account or DEFAULT_ACCOUNT.format(access.project_number(api))
    except (UnansweredError, KeyError):
        account = ""
    yield f"Your account ({caller.member})", ask(_rights(case, caller, grants.DEPLOYER, account, itself))
    needed = (*grants.PIPELINE, *([grants.TENSORBOARD] if case.values.get("tensorboard") else []))
    if account:
        other = Other(api, f"serviceAccount:{account}")
        yield f"Account that runs the pipeline ({account})", ask(_rights(case, other, needed, account, account))
    else:
        remedy = "set service_account in the environment"
        yield "Account that runs the pipeline", [Finding(UNKNOWN, "its name could not be found out", remedy)]
    yield "Buckets, data, images", ask(_places(case, api))
    yield "Quota", ask(needs.about_quota(api, case.plans))


def _rights(
    case: Case, who: Caller, needed: Iterable[grants.Grant], account: str, itself: str
) -> Iterator[Question]:
    """A question for each role on each resource; `account` runs the pipeline, and `itself` is that of `who`."""
    environment = case.environment
    written = case.written
    public = _buckets(place.address for row in datasets.DATASETS.values() for place in row.archives)
    read = _buckets(address for _, address in case.sources)
    resources: dict[str, Iterable[Resource]] = {
        grants.PROJECT: [access.project(environment.project)],
        grants.BUCKET: [access.bucket(name) for name in written],
        grants.DATA: [access.bucket(name) for name in read if name not in (*written, *public)],
        grants.IMAGES: list(access.repositories(environment.image_repository)),
        grants.TEMPLATES: list(access.repositories(environment.template_repository)),
        grants.ACCOUNT: [access.service_account(account, environment.project)] if account else [],
        grants.ITSELF: [access.service_account(itself, environment.project)] if itself else [],
    }
    for grant in needed:
        for resource in resources[grant.resource]:
            yield f"{grant.role} on {resource.title}", partial(access.check_grant, who, resource, grant)


def _places(case: Case, api: Api) -> Iterator[Question]:
    """A question for each bucket, source and image."""
    for bucket in dict.fromkeys((*case.written, *_buckets(address for _, address in case.sources))):
        yield f"bucket gs://{bucket}", partial(needs.check_bucket, api, bucket, bucket in case.written)
    for bucket in _buckets([case.staging]):
        yield f"Vertex AI's access to gs://{bucket}", partial(access.check_service_agent, api, bucket)
    for name, address in case.sources:
        yield f"{name} {address}", partial(needs.check_source, api, name, address)
    for kind in images.KINDS:
        yield f"image {kind}", partial(needs.check_image, api, case.environment.image_of(kind))
