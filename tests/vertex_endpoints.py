"""Endpoints of tests/vertex.py: deployed models, shares of the traffic, and their answers.

`server.state["answer"]` is called with a version's resource and the body of a request; it returns what the
container of the version does: a status and JSON.
"""

import datetime
import itertools
import json
import re

from tests.vertex import NAMES, ApiError, check_labels, operation, page, route
from tests.vertex_models import _version

ENDPOINT = r"endpoints/(\d+)"


def add(server, title, **fields):
    """Keep a new endpoint, as the API describes it."""
    number = str(next(server.state.setdefault("numbers", itertools.count(8000))))
    created = datetime.datetime.now(datetime.UTC).isoformat()
    endpoint = {"name": f"{NAMES}/endpoints/{number}", "displayName": title, "createTime": created, **fields}
    server.kept("endpoints")[number] = endpoint
    return endpoint


def find(server, number):
    if number not in server.kept("endpoints"):
        raise ApiError(404, f"Endpoint {NAMES}/endpoints/{number} is not found.")
    return server.kept("endpoints")[number]


def set_split(endpoint, split):
    known = {deployed["id"] for deployed in endpoint.get("deployedModels", ())}
    if unknown := set(split) - known:
        raise ApiError(400, f"traffic_split contains IDs that are not deployed: {unknown}")
    if split and (sum(split.values()) != 100 or min(split.values()) < 0):
        raise ApiError(400, f"the percentages of traffic_split must add up to 100: {split}")
    endpoint["trafficSplit"] = split


@route("POST", "endpoints")
def create(server, request):
    check_labels(request.body.get("labels", {}))
    assert not request.body.get("trafficSplit"), "nothing is deployed yet"
    endpoint = add(server, request.body["displayName"], labels=request.body.get("labels", {}))
    return operation(server, "Endpoint", endpoint)


@route("GET", "endpoints")
def list_endpoints(server, request):
    return page("endpoints", list(server.kept("endpoints").values()), request.query)


@route("GET", ENDPOINT)
def get(server, request, number):
    return find(server, number)


@route("PATCH", ENDPOINT)
def update(server, request, number):
    endpoint = find(server, number)
    fields = request.query["updateMask"].split(",")
    assert set(fields) <= {"labels", "trafficSplit"}
    if "trafficSplit" in fields:
        set_split(endpoint, request.body.get("trafficSplit", {}))
    if "labels" in fields:
        check_labels(request.body["labels"])
        endpoint["labels"] = request.body["labels"]
    return endpoint


@route("DELETE", ENDPOINT)
def delete(server, request, number):
    if find(server, number).get("deployedModels"):
        raise ApiError(400, "The Endpoint has deployed or being-deployed DeployedModel(s), undeploy them first")
    del server.kept("endpoints")[number]
    return operation(server, "google.protobuf.Empty", {})


@route("POST", ENDPOINT + ":deployModel")
def deploy(server, request, number):
    endpoint, deployed = find(server, number), request.body["deployedModel"]
    name, _, version = deployed["model"].rpartition("/")[2].partition("@")
    resource = _version(server, name, version)
    resources = deployed.get("dedicatedResources", {})
    if not resources.get("machineSpec", {}).get("machineType") or resources.get("minReplicaCount", 0) < 1:
        raise ApiError(400, "dedicated_resources needs a machine_type and a min_replica_count of at least 1")
    identifier = str(next(server.state.setdefault("numbers", itertools.count(8000))))
    made = {**deployed, "id": identifier, "modelVersionId": resource["versionId"]}
    before = list(endpoint.get("deployedModels", ()))
    endpoint["deployedModels"] = [*before, made]
    split = request.body.get("trafficSplit", {})
    try:
        if split:
            set_split(endpoint, {identifier if key == "0" else key: share for key, share in split.items()})
    except ApiError:
        endpoint["deployedModels"] = before
        raise
    return operation(server, "DeployModelResponse", {"deployedModel": made})


@route("POST", ENDPOINT + ":undeployModel")
def undeploy(server, request, number):
    endpoint, identifier = find(server, number), request.body["deployedModelId"]
    left = [each for each in endpoint["deployedModels"] if each["id"] != identifier]
    if len(left) == len(endpoint["deployedModels"]):
        raise ApiError(404, f"DeployedModel {identifier} is not found.")
    split = request.body.get("trafficSplit") or endpoint["trafficSplit"]
    if left and split.get(identifier):
        raise ApiError(400, f"DeployedModel {identifier} has traffic")
    endpoint["deployedModels"] = left
    set_split(endpoint, {key: share for key, share in split.items() if left and key != identifier})
    return operation(server, "UndeployModelResponse", {})


@route("POST", ENDPOINT + ":predict")
def predict(server, request, number):
    """The answer of a deployed model, which are taken in turn: of 100 requests each gets its share."""
    endpoint = find(server, number)
    turn = next(server.kept("turns").setdefault(number, itertools.count())) % 100
    for deployed in endpoint.get("deployedModels", ()):
        share = endpoint["trafficSplit"].get(deployed["id"], 0)
        if 0 <= turn < share:
            name = re.search(r"models/(\w+)", deployed["model"])[1]
            version = _version(server, name, deployed["modelVersionId"])
            status, content = server.state["answer"](version, request.body)
            if status != 200:
                raise ApiError(status, json.dumps(content))
            return content
        turn -= share
    raise ApiError(400, "no deployed model has traffic")
