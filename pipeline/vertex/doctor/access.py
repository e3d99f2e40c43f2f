"""Whether two accounts have the permissions that a run needs: yours, and the one that runs the pipeline."""

import dataclasses
import functools
import re
from collections.abc import Iterator

from pipeline import grants
from pipeline.grants import Grant
from pipeline.vertex.doctor.needs import REPOSITORY
from pipeline.vertex.doctor.questions import MISSING, OK, UNKNOWN, Api, Finding, UnansweredError, quoted

SOMEBODY = "user:YOUR_ADDRESS"
"""Stands for the caller in commands if their address is unknown."""
AGENT = "serviceAccount:service-{}@gcp-sa-aiplatform.iam.gserviceaccount.com"
"""Vertex AI's own account in the project of a number (its page "Access control with IAM", "Service agents")."""
READER = Grant("roles/storage.objectViewer", grants.BUCKET, ("storage.objects.get",))
"""The role that Vertex AI's own account needs on a bucket of another project."""


@dataclasses.dataclass(frozen=True)
class Resource:
    """A cloud resource on which roles are granted.

    Attributes:
        title: Its kind and name.
        service: The API that knows it, such as `storage`.
        path: What follows the address of the service, with the version of the API.
        bind: The command of gcloud that grants a role on it, without member and role.
    """

    title: str
    service: str
    path: str
    bind: str


def project(name: str) -> Resource:
    """A project as a resource."""
    bind = f"projects add-iam-policy-binding {name}"
    return Resource(f"project {name}", "cloudresourcemanager", f"v3/projects/{name}", bind)


def bucket(name: str) -> Resource:
    """A bucket as a resource."""
    bind = f"storage buckets add-iam-policy-binding gs://{name}"
    return Resource(f"bucket gs://{name}", "storage", f"storage/v1/b/{quoted(name)}", bind)


def service_account(email: str, project_name: str) -> Resource:
    """A service account as a resource."""
    bind = f"iam service-accounts add-iam-policy-binding {email} --project={project_name}"
    return Resource(f"account {email}", "iam", f"v1/projects/-/serviceAccounts/{quoted(email)}", bind)


def repositories(address: str) -> Iterator[Resource]:
    """The repository at an address as a resource; none if it is not in Artifact Registry."""
    if parts := re.fullmatch(REPOSITORY, address):
        location, owner, name, _ = parts.groups()
        path = f"v1/projects/{owner}/locations/{location}/repositories/{name}"
        bind = f"artifacts repositories add-iam-policy-binding {name} --location={location} --project={owner}"
        yield Resource(f"repository {name}", "artifactregistry", path, bind)


class Caller:
    """The account that asks; the services say which permissions it has."""

    def __init__(self, api: Api, member: str) -> None:
        self.api, self.member = api, member

    def held(self, resource: Resource, grant: Grant) -> set[str]:
        """The grant's permissions that the account has on a resource. Raises `UnansweredError`."""
        wanted = list(grant.permissions)
        if resource.service == "storage":
            answer = self.api.get("storage", f"{resource.path}/iam/testPermissions", permissions=wanted)
        else:
            path = f"{resource.path}:testIamPermissions"
            answer = self.api.post(resource.service, path, {"permissions": wanted})
        return set(answer.get("permissions", ()))


class Other(Caller):
    """Another account, as the policies of the resource and of its project show it.

    Grants of folders and organisations, by groups and on conditions are not seen.
    """

    def held(self, resource: Resource, grant: Grant) -> set[str]:
        """The grant's permissions that are in the account's roles. Raises `UnansweredError`."""
        roles = self._roles(resource) | self._roles(project(self.api.environment.project))
        return {each for role in roles for each in self._permissions(role)} & set(grant.permissions)

    @functools.cache  # noqa: B019  lives as long as the command
    def _roles(self, resource: Resource) -> frozenset[str]:
        if resource.service == "storage":
            policy = self.api.get(resource.service, f"{resource.path}/iam")
        elif resource.service == "artifactregistry":
            policy = self.api.get(resource.service, f"{resource.path}:getIamPolicy")
        else:
            policy = self.api.post(resource.service, f"{resource.path}:getIamPolicy", {})
        bindings = [binding for binding in policy.get("bindings", ()) if "condition" not in binding]
        return frozenset(each["role"] for each in bindings if self.member in each.get("members", ()))

    @functools.cache  # noqa: B019
    def _permissions(self, role: str) -> frozenset[str]:
        return frozenset(self.api.get("iam", f"v1/{role}").get("includedPermissions", ()))


def caller_of(api: Api) -> str:
    """The member of policies that the credentials stand for; `SOMEBODY` if that cannot be found out."""
    email = getattr(api.credentials, "service_account_email", "")
    if not email or email == "default":
        try:
            # Google's OpenID configuration names this address; logins by gcloud include the e-mail address.
            email = str(api.get("openidconnect", "v1/userinfo").get("email", ""))
        except UnansweredError:
            return SOMEBODY
    kind = "serviceAccount" if email.endswith(".gserviceaccount.com") else "user"
    return f"{kind}:{email}" if email else SOMEBODY


def check_grant(account: Caller, resource: Resource, grant: Grant) -> Finding:
    """Whether an account has the permissions on a resource that are used of a role."""
    command = f"gcloud {resource.bind} --member={account.member} --role={grant.role}"
    try:
        absent = sorted(set(grant.permissions) - account.held(resource, grant))
    except UnansweredError as error:
        if error.status != 403 or error.remedy:
            raise
        return Finding(UNKNOWN, f"{grant.role} on {resource.title}: you may not see it; this grants it", command)
    if absent:
        return Finding(MISSING, f"lacks {', '.join(absent)} on {resource.title}", command)
    return Finding(OK, f"{grant.role} on {resource.title}")


def check_service_agent(api: Api, name: str) -> Finding:
    """Whether Vertex AI itself may read a bucket with registered versions, as it does when a version is uploaded.

    It may in its own project. Without the right in another one a run fails after its trainings.
    """
    number = project_number(api)
    if str(api.get("storage", bucket(name).path)["projectNumber"]) == number:
        return Finding(OK, f"Vertex AI may read bucket gs://{name}, which is in its project")
    found = check_grant(Other(api, AGENT.format(number)), bucket(name), READER)
    return dataclasses.replace(found, text=f"Vertex AI's service agent {found.text}")


def project_number(api: Api) -> str:
    """The number of the environment's project. Raises `UnansweredError`."""
    answer = api.get("cloudresourcemanager", f"v3/projects/{api.environment.project}")
    return str(answer["name"]).rpartition("/")[2]
