"""Who asks, and whether accounts have the permissions that a run needs."""

import functools
from collections.abc import Iterable, Sequence
from typing import Protocol

from pipeline import cloud
from pipeline.grants import BUCKET, Grant
from pipeline.vertex.doctor.api import Api, UnansweredError, quoted
from pipeline.vertex.doctor.case import Case, Resource, bucket, project
from pipeline.vertex.doctor.findings import Finding, missing, ok, unknown

SHOWN = 3
"""At most so many permissions are named."""
SOMEBODY = "user:YOUR_ADDRESS"
"""Stands for the caller in commands if their address is unknown."""
TOKEN_LIFETIME = "300s"  # noqa: S105  a duration
AGENT = "service-{}@gcp-sa-aiplatform.iam.gserviceaccount.com"
"""Vertex AI's own account in the project of a number (its page "Access control with IAM", "Service agents")."""
READ = "storage.objects.get"


class Access(Protocol):
    """Tells which permissions an account has."""

    member: str
    """The account as policies write it."""

    def held(self, resource: Resource, permissions: Sequence[str]) -> set[str]:
        """Those of `permissions` that the account has on a resource."""


class Asked:
    """The access of the identity of `api`: the services are asked as this identity."""

    def __init__(self, api: Api, member: str) -> None:
        self.member, self._api = member, api

    def held(self, resource: Resource, permissions: Sequence[str]) -> set[str]:
        """Those of `permissions` that the identity has."""
        if resource.service == "storage":
            path = f"{resource.path}/iam/testPermissions"
            answer = self._api.get(resource.service, path, permissions=list(permissions))
        else:
            body = {"permissions": list(permissions)}
            answer = self._api.post(resource.service, f"{resource.path}:testIamPermissions", body)
        return set(answer.get("permissions", ()))


class Read:
    """The access of an account according to the policies of the resource and of its project.

    Grants of folders and organisations, by groups and on conditions are not seen.
    """

    def __init__(self, api: Api, email: str) -> None:
        self.member, self._api = f"serviceAccount:{email}", api
        self._project = project(api.environment.project)

    def held(self, resource: Resource, permissions: Sequence[str]) -> set[str]:
        """Those of `permissions` that the roles of the account have."""
        roles = {*self._roles(resource), *self._roles(self._project)}
        return {each for role in sorted(roles) for each in self._permissions(role)} & set(permissions)

    @functools.cache  # noqa: B019  lives as long as the command
    def _roles(self, resource: Resource) -> frozenset[str]:
        if resource.service == "storage":
            policy = self._api.get(resource.service, f"{resource.path}/iam")
        elif resource.service == "artifactregistry":
            policy = self._api.get(resource.service, f"{resource.path}:getIamPolicy")
        else:
            policy = self._api.post(resource.service, f"{resource.path}:getIamPolicy", {})
        bindings = [binding for binding in policy.get("bindings", ()) if "condition" not in binding]
        return frozenset(each["role"] for each in bindings if self.member in each.get("members", ()))

    @functools.cache  # noqa: B019
    def _permissions(self, role: str) -> frozenset[str]:
        return frozenset(self._api.get("iam", f"v1/{role}").get("includedPermissions", ()))


def caller_of(api: Api) -> str:
    """The member of policies that the credentials stand for; `SOMEBODY` if that cannot be found out."""
    email = getattr(api.credentials, "service_account_email", "")
    if not email or email == "default":
        try:
            # Google's OpenID configuration names this address; logins by gcloud include the e-mail address.
            email = str(api.get("openidconnect", "v1/userinfo").get("email", ""))
        except UnansweredError:
            return SOMEBODY
    if not email:
        return SOMEBODY
    return f"{'serviceAccount' if email.endswith('.gserviceaccount.com') else 'user'}:{email}"


def account_of(case: Case, api: Api) -> str:
    """The account that runs the pipeline: that of the environment, or else Vertex AI's default one."""
    if case.environment.service_account:
        return case.environment.service_account
    answer = api.get("cloudresourcemanager", f"v3/projects/{case.environment.project}")
    # Vertex AI: "Use a custom service account"; a run without one has the default account of Compute Engine.
    return f"{answer['name'].rpartition('/')[2]}-compute@developer.gserviceaccount.com"


def access_of(account: str, api: Api) -> Access:
    """The access of a service account: by impersonation if the caller may, else by reading policies."""
    path = f"v1/projects/-/serviceAccounts/{quoted(account)}:generateAccessToken"
    try:
        answer = api.post("iamcredentials", path, {"scope": [cloud.SCOPE], "lifetime": TOKEN_LIFETIME})
        token = str(answer["accessToken"])
    except (UnansweredError, KeyError):
        return Read(api, account)
    return Asked(Api(api.environment, token), f"serviceAccount:{account}")


def check_access(access: Access, resource: Resource, needed: Sequence[Grant]) -> Iterable[Finding]:
    """A finding if the account has all permissions on a resource, or else one for each role that it lacks."""
    wanted = list(dict.fromkeys(permission for grant in needed for permission in grant.permissions))
    try:
        held = access.held(resource, wanted)
    except UnansweredError as error:
        yield from _not_asked(access, resource, needed, error)
        return
    for grant in needed:
        if absent := [each for each in grant.permissions if each not in held]:
            text = f"lacks {_listed(absent)} on {resource.title}"
            yield missing(text, resource.command(access.member, grant.role))
    if held >= set(wanted):
        what = f"all {len(wanted)} permissions" if len(wanted) > SHOWN else _listed(wanted)
        yield ok(f"has {what} on {resource.title}")


def _listed(permissions: Sequence[str]) -> str:
    more = f" and {len(permissions) - SHOWN} more" if len(permissions) > SHOWN else ""
    return ", ".join(permissions[:SHOWN]) + more


def _not_asked(
    access: Access, resource: Resource, needed: Sequence[Grant], error: UnansweredError
) -> Iterable[Finding]:
    reason = str(error)
    is_hidden = error.status == 403 and isinstance(access, Read) and not error.disabled
    if error.status == 404:
        reason = "to be asked once these exist"
    if is_hidden:
        reason = "you may not see whether it has these; their owner can grant them, or run this"
    for role in dict.fromkeys(grant.role for grant in needed):
        command = resource.command(access.member, role) if is_hidden else ""
        yield unknown(f"{role} on {resource.title}", command, reason)


def check_service_agent(api: Api, name: str) -> Iterable[Finding]:
    """Whether Vertex AI itself may read a bucket with registered versions, as it does when a version is uploaded.

    It may in its own project. Without the right in another one a run fails after its trainings.
    """
    found = api.find("storage", bucket(BUCKET, name).path)
    own = str(api.get("cloudresourcemanager", f"v3/projects/{api.environment.project}")["name"]).rpartition("/")[2]
    if found is None or str(found.get("projectNumber", own)) == own:
        return
    agent = Read(api, AGENT.format(own))
    if READ in agent.held(bucket(BUCKET, name), [READ]):
        yield ok(f"Vertex AI's service agent may read bucket gs://{name} of another project")
    else:
        text = f"Vertex AI's service agent lacks {READ} on bucket gs://{name}, which is in another project"
        yield missing(text, bucket(BUCKET, name).command(agent.member, "roles/storage.objectViewer"))


def check_account(api: Api, email: str) -> Iterable[Finding]:
    """Whether a service account exists and is enabled."""
    project_name = api.environment.project
    account = api.find("iam", f"v1/projects/-/serviceAccounts/{quoted(email)}")
    if account is None:
        # "terraform apply" makes it too, but not for an account of another name.
        name = email.partition("@")[0]
        command = f"gcloud iam service-accounts create {name} --project={project_name}"
        yield missing(f"account {email} does not exist", command)
        return
    if account.get("disabled"):
        command = f"gcloud iam service-accounts enable {email} --project={project_name}"
        yield missing(f"account {email} is disabled", command)
    else:
        yield ok(f"account {email} exists")
