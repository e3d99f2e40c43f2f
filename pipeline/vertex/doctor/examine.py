"""Examines what a run on Vertex AI needs: asks for everything at the same time and prints it in groups."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pipeline import grants
from pipeline.grants import Grant
from pipeline.graph import parameters
from pipeline.graph.environment import Environment
from pipeline.graph.parameters import PARAMETERS, Value
from pipeline.graph.values import layered
from pipeline.plan.plan import TrainingPlan
from pipeline.vertex import checks, images, submit
from pipeline.vertex.doctor import access, places, project, quota
from pipeline.vertex.doctor.access import Access
from pipeline.vertex.doctor.api import Api, UnansweredError
from pipeline.vertex.doctor.asking import THREADS, Ask, answers, ask
from pipeline.vertex.doctor.case import Case
from pipeline.vertex.doctor.findings import Finding, missing, ok, unknown
from trainer import storage
from trainer.duration import format_duration
from trainer.errors import UserError


@dataclasses.dataclass(frozen=True)
class Group:
    """Findings about one subject."""

    title: str
    findings: list[Finding]


def make_case(environment: Environment, passed: Mapping[str, Value]) -> tuple[Case, Group]:
    """The case of a run with these parameters, and what is wrong with the parameters.

    Raises `UserError` if the environment is not for Vertex AI, or not valid.
    """
    checks.check_environment(environment)
    defaults = {name: parameter.default for name, parameter in PARAMETERS.items()}
    values = layered(defaults, environment.derived, environment.parameters, passed)
    plans: dict[str, TrainingPlan] = {}
    looks = (
        *(parameters.validate, parameters.require_sources),
        partial(submit.check_locations, environment),
        lambda values: plans.update(checks.plans(environment, values)),
    )
    errors = dict.fromkeys(error for look in looks if (error := _refusal(look, values)))
    edit = f"correct environment {environment.name}, or the parameters of this command"
    findings = [missing(error, edit) for error in errors]
    for step, plan in plans.items():
        cost = "" if plan.cost_usd is None else f", about {plan.cost_usd:.2f} USD"
        machines = f"{plan.machines.workers} x {plan.accelerator.name}, {plan.machines.provisioning}"
        title = parameters.STEPS[step]
        findings.append(ok(f"{title}: {machines}, about {format_duration(3600 * plan.hours)}{cost}"))
    return Case(environment, values, plans), Group("Settings", findings)


def _refusal(look: Callable[[Mapping[str, Value]], object], values: Mapping[str, Value]) -> str:
    """What `look` refuses in the values; empty if nothing."""
    try:
        look(values)
    except UserError as error:
        return str(error)
    return ""


def examine(case: Case, api: Api) -> Iterator[Group]:
    """The groups, each as soon as all its questions and those of earlier groups are answered."""
    with ThreadPoolExecutor(THREADS) as pool:
        caller = pool.submit(access.caller_of, api)
        account = pool.submit(_account, case, api)
        asked = {
            "Project": ask(pool, _about_project(case, api)),
            "Places": ask(pool, _about_places(case, api)),
            "Quota": ask(pool, quota.questions(api, case.plans)),
        }
        member, (email, theirs) = caller.result(), account.result()
        you = access.Asked(api, member)
        itself = member.partition(":")[2] if member.startswith("serviceAccount:") else ""
        rights = ask(pool, _about_rights(case, you, grants.DEPLOYER, email, itself))
        accounts = []
        if email and theirs:
            needed = (*grants.PIPELINE, *([grants.TENSORBOARD] if case.values.get("tensorboard") else []))
            questions = [("the account itself", partial(access.check_account, api, email))]
            accounts = ask(pool, [*questions, *_about_rights(case, theirs, needed, email, email)])
        yield Group("Project", answers(asked["Project"]))
        yield Group(f"Your account ({member.partition(':')[2]})", answers(rights))
        yield Group(f"Account that runs the pipeline ({email})", answers(accounts) or [_no_account()])
        yield Group("Buckets, data, images, template", answers(asked["Places"]))
        yield Group("Quota", answers(asked["Quota"]))


def _account(case: Case, api: Api) -> tuple[str, Access | None]:
    """The address of the account that runs the pipeline and its access; none if it is not known."""
    try:
        email = access.account_of(case, api)
    except (UnansweredError, KeyError, AttributeError):
        return "", None
    return email, access.access_of(email, api)


def _no_account() -> Finding:
    text = "the environment names no service_account, and the project's default one could not be found out"
    return unknown(text, "set service_account in the environment")


def _about_project(case: Case, api: Api) -> Iterator[Ask]:
    names = (*project.APIS, *(project.WITH_NETWORK if _network(case) else ()))
    yield "the project", partial(project.check_project, api)
    yield "billing", partial(project.check_billing, api)
    yield "APIs", partial(project.check_apis, api, names)


def _about_rights(case: Case, who: Access, needed: Iterable[Grant], account: str, itself: str) -> Iterator[Ask]:
    by_kind: dict[str, list[Grant]] = {}
    for grant in needed:
        by_kind.setdefault(grant.resource, []).append(grant)
    for kind, group in by_kind.items():
        for resource in case.resources(kind, account, itself):
            yield f"permissions on {resource.title}", partial(access.check_access, who, resource, group)


def _about_places(case: Case, api: Api) -> Iterator[Ask]:
    for bucket in (*case.written, *case.read):
        yield f"bucket gs://{bucket}", partial(places.check_bucket, api, bucket, bucket in case.written)
    versions = storage.split(case.staging or case.environment.bucket)[0]
    yield f"Vertex AI's access to gs://{versions}", partial(access.check_service_agent, api, versions)
    for name, address in case.sources:
        yield f"{name} {address}", partial(places.check_source, api, name, address)
    for repository, form in ((case.images, "DOCKER"), (case.templates, "KFP")):
        if repository:
            question = partial(places.check_repository, api, repository, form)
            yield f"repository {repository.name}", question
    for kind in images.KINDS:
        yield f"image {kind}", partial(places.check_image, api, case.environment.image_of(kind))
    yield "template", partial(places.check_template, api, case)
    for parameter, check in (
        ("tensorboard", places.check_tensorboard),
        ("persistent_resource", places.check_persistent_resource),
    ):
        if name := str(case.values.get(parameter, "")):
            yield f"{parameter} {name}", partial(check, api, name)
    if network := _network(case):
        yield f"network {network}", partial(places.check_network, api, network)


def _network(case: Case) -> str:
    return str(case.values.get("training_network", "")) or case.environment.network
