"""Endpoints of Vertex AI that answer with versions of a model.

An endpoint draws the version that answers a request by the shares of the traffic: no request can name one. So a
version is first deployed to a trial, an endpoint of its own, where it has to return the maps that it had in its
evaluation (`trial.py`). Only then it is deployed where users ask (docs/adr/0020-deployed-after-a-trial.md).

An endpoint to which a run has deployed a version follows the model's default: it has the label `FOLLOWS`.
"""

import dataclasses
import datetime
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lifecycle.registry import trial
from lifecycle.registry.address import Address, folder_of, is_for_tensorflow
from lifecycle.registry.versions import OWNER, label
from lifecycle.vertex import (
    TIMEOUT_S,
    api_session,
    brief_error,
    parent_of,
    retried,
    service_address,
    service_client,
)
from trainer.errors import AmbiguousError, GateError, MismatchError, NotFoundError, check

FOLLOWS, TRIAL = "default_of", "trial_of"
"""Keys of labels of endpoints. The value is the model's name."""
MACHINE = {
    "machine_spec": {"machine_type": "n1-standard-4"},
    "min_replica_count": 1,
    "max_replica_count": 1,
}
"""What the first version on an endpoint runs on. A later one takes the machines of the version before."""
NEW = "0"
"""Stands in a request for the deployed model that it makes."""
DEPLOY_S = 3600.0
"""How long a deployment is waited for, which starts a machine."""
ABANDONED = datetime.timedelta(hours=3)
"""A trial of this age belongs to a process that was killed."""


def shares(split: Mapping[str, int], deployed: str, traffic: int) -> dict[str, int]:
    """Percent of the requests by ID of a deployed model, if `deployed` gets `traffic` and the others the rest.

    The others keep their proportions in `split`. If they have no traffic, `deployed` gets all.
    Example: of `{"a": 60, "b": 40}`, `b` with 10 percent leaves `{"a": 90, "b": 10}`.
    """
    others = {name: share for name, share in split.items() if share and name != deployed}
    if not others:
        return {deployed: 100}
    total, rest = sum(others.values()), 100 - traffic
    kept = {name: share * rest // total for name, share in others.items()}
    kept[max(others, key=lambda name: others[name])] += rest - sum(kept.values())
    return {name: share for name, share in {**kept, deployed: traffic}.items() if share}


@dataclasses.dataclass(frozen=True)
class Endpoints:
    """The endpoints of a project in a region, for the versions of the model called `name`."""

    region: Address
    name: str

    def find(self, endpoint: str, entries: Sequence[Any]) -> Any:
        """The endpoint of a name or ID, such as `demo` or `4711`.

        The `entries` are the model's versions, as the API describes them.

        Raises `UserError` if there is none, if there are several, or if another model is deployed there.
        """
        known = self._list()
        found = [each for each in known if endpoint in (each.display_name, _id(each.name))]
        check(
            len(found) == 1,
            f"endpoint is {endpoint!r}, which {len(found) or 'none'} of the endpoints in "
            f"{self.region.project}, {self.region.location} are called "
            f"({', '.join(_shown(each) for each in known) or 'there are none'}). "
            "Name one of them, by its ID if need be, or create one with `gcloud ai endpoints create`",
            AmbiguousError if found else NotFoundError,
        )
        others = {_id(each.model) for each in found[0].deployed_models} - {_id(entry.name) for entry in entries}
        check(
            not others,
            f"the endpoint {_shown(found[0])} has another model than {self.name!r}: {', '.join(sorted(others))}. "
            "Name another endpoint, or undeploy that model",
            MismatchError,
        )
        return found[0]

    def following(self) -> list[Any]:
        """The endpoints that follow the default of the model."""
        return [each for each in self._list() if each.labels.get(FOLLOWS) == label(self.name)]

    def follow(self, endpoint: Any) -> None:
        """Let an endpoint, as the API describes it, follow the default of the model."""
        self._update(endpoint.name, "labels", {**endpoint.labels, **OWNER, FOLLOWS: label(self.name)})

    def move(self, endpoint: str, entry: Any, expected: trial.Maps) -> None:
        """Give a version all requests to an endpoint, and undeploy the others.

        Raises `UserError` if the version does not return the `expected` maps when it is tried. The endpoint then
        answers as before.
        """
        self.deploy(endpoint, entry, expected, traffic=100)
        for other in self._get(endpoint).deployed_models:
            if other.model_version_id != entry.version_id:
                self._client.undeploy_model(endpoint=endpoint, deployed_model_id=other.id).result(DEPLOY_S)

    def deploy(self, endpoint: str, entry: Any, expected: trial.Maps, traffic: int) -> None:
        """Let a version answer `traffic` percent of the requests to an endpoint, and the others there the rest.

        Args:
            endpoint: Resource name of the endpoint.
            entry: The version, as the API describes it.
            expected: Maps that the version must return before it is deployed here. A map that is absent must have
                the size of its image.
            traffic: 1 to 100. If no other version has traffic, this one gets all.

        Raises `UserError` if it returns other maps, or cannot be tried. The endpoint then answers as before.
        """
        found = self._get(endpoint)
        deployed = _deployed(found, entry)
        if deployed:
            split = shares(found.traffic_split, deployed, traffic)
            self._update(endpoint, "traffic_split", split)
        else:
            machines = _like(found)
            self._try(entry, machines, expected)
            split = shares(self._get(endpoint).traffic_split, NEW, traffic)  # as it is after the trial
            self._deploy(endpoint, entry, machines, split)
        share = split[deployed or NEW]
        _tell(f"version {entry.version_id} of {self.name} answers {share}% of the requests to {_shown(found)}")

    # === The trial ===

    def _try(self, entry: Any, machines: Mapping[str, Any], expected: trial.Maps) -> None:
        """Raise `UserError` unless the version returns the expected maps at an endpoint of its own."""
        check(
            not is_for_tensorflow(entry),
            f"version {entry.version_id} of model {self.name!r} was registered by an earlier commit for "
            f"TensorFlow ({entry.container_spec.image_uri}), so it cannot be asked. Choose another one, or upload "
            f"{folder_of(entry.artifact_uri)} as a version with an image built from images/serving",
            MismatchError,
        )
        for abandoned in self._list():
            if abandoned.labels.get(TRIAL) == label(self.name) and _age(abandoned) > ABANDONED:
                self._remove(abandoned.name)
        title = f"{self.name}-{entry.version_id}-trial"
        described = {"display_name": title, "labels": {**OWNER, TRIAL: label(self.name)}}
        _tell(f"trying version {entry.version_id} at an endpoint of its own, {title}, which takes minutes")
        parent = parent_of(self.region)
        created = self._client.create_endpoint(parent=parent, endpoint=described).result(DEPLOY_S)
        try:
            one = {"min_replica_count": 1, "max_replica_count": 1}
            resources = {"machine_spec": machines["dedicated_resources"]["machine_spec"], **one}
            self._deploy(created.name, entry, {**machines, "dedicated_resources": resources}, {NEW: 100})
            answer = retried(lambda: self._ask(created.name))
        finally:
            self._remove(created.name)
        if complaint := trial.complaint(answer, expected):
            raise GateError(
                f"version {entry.version_id} of model {self.name!r} does not answer as in its evaluation: "
                f"{complaint}. It was not deployed, and the endpoint is as before"
            )

    def _ask(self, endpoint: str) -> trial.Maps:
        """The maps that an endpoint returns of the images of the trial. Empty if it returns something else."""
        from google.api_core import exceptions

        host = service_address(self.region, f"{self.region.location}-aiplatform")
        url = f"{host}/v1/{endpoint}:predict"
        reply = api_session(self.region).post(url, json=trial.request(), timeout=TIMEOUT_S)
        if not reply.ok:
            raise exceptions.from_http_response(reply)  # type: ignore[no-untyped-call]
        return trial.maps_of(reply.json())

    def _remove(self, endpoint: str) -> None:
        """Remove a trial. A failure is not worth a failed deployment. The next one tries again."""
        from google.api_core.exceptions import GoogleAPIError

        try:
            for deployed in self._get(endpoint).deployed_models:
                self._client.undeploy_model(endpoint=endpoint, deployed_model_id=deployed.id).result(DEPLOY_S)
            self._client.delete_endpoint(name=endpoint).result(DEPLOY_S)
        except GoogleAPIError as error:
            _tell(f"warning: delete the endpoint {endpoint}, which costs money ({brief_error(error)})")

    # === Requests ===

    @property
    def _client(self) -> Any:
        from google.cloud.aiplatform_v1 import EndpointServiceClient

        return service_client(EndpointServiceClient, self.region)

    def _list(self) -> list[Any]:
        parent = parent_of(self.region)
        return retried(lambda: list(self._client.list_endpoints(parent=parent, timeout=TIMEOUT_S)))

    def _get(self, endpoint: str) -> Any:
        return retried(lambda: self._client.get_endpoint(name=endpoint, timeout=TIMEOUT_S))

    def _update(self, endpoint: str, field: str, value: Mapping[str, Any]) -> None:
        request = {"endpoint": {"name": endpoint, field: value}, "update_mask": {"paths": [field]}}
        retried(lambda: self._client.update_endpoint(request, timeout=TIMEOUT_S))

    def _deploy(self, endpoint: str, entry: Any, machines: Mapping[str, Any], split: Mapping[str, int]) -> None:
        """Deploy a version. Either it gets its share of the traffic, or nothing changes."""
        version = f"{entry.name.partition('@')[0]}@{entry.version_id}"
        deployed = {"model": version, "display_name": f"{self.name}-{entry.version_id}", **machines}
        self._client.deploy_model(endpoint=endpoint, deployed_model=deployed, traffic_split=split).result(DEPLOY_S)


def _like(endpoint: Any) -> dict[str, Any]:
    """Machines and account of the version with the most traffic on an endpoint, or else `MACHINE`."""
    deployed = sorted(endpoint.deployed_models, key=lambda each: endpoint.traffic_split.get(each.id, 0))
    if not (deployed and deployed[-1].dedicated_resources):
        return {"dedicated_resources": MACHINE}
    fields = type(deployed[-1]).to_dict(deployed[-1])
    return {name: fields[name] for name in ("dedicated_resources", "service_account")}


def _deployed(endpoint: Any, entry: Any) -> str:
    """The ID under which a version is deployed on an endpoint, such as `4711`. Empty if it is not."""
    versions = {each.model_version_id: each.id for each in endpoint.deployed_models}
    return str(versions.get(entry.version_id, ""))


def _id(resource: str) -> str:
    """The ID of an endpoint or a model, without a version. Example: `123` of `projects/p/models/123@4`."""
    return resource.rpartition("/")[2].partition("@")[0]


def _shown(endpoint: Any) -> str:
    return f"{endpoint.display_name} ({_id(endpoint.name)})"


def _age(endpoint: Any) -> datetime.timedelta:
    age: datetime.timedelta = datetime.datetime.now(datetime.UTC) - endpoint.create_time
    return age


def _tell(line: str) -> None:
    """Print a line of progress. The standard output is for results."""
    print(line, file=sys.stderr, flush=True)
