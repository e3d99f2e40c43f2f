"""The Vertex Model Registry of tests/vertex.py: models, their versions and aliases, and evaluations.

A model is kept as `{"versions": {"1": resource, ...}}`; a version's resource is what the API returns of it.
"""

import re

from tests.vertex import NAMES, NOW, ApiError, check_labels, operation, page, route

ALIAS = r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]"
NAMED = r"models/([^/:@]+)(?:@([^/:]+))?"
"""A model, or one of its versions by number or alias."""


@route("POST", "models:upload")
def upload(server, request):
    given = request.body["model"]
    check_labels(given.get("labels", {}))
    parent = request.body.get("parentModel", "")
    models = server.kept("models")
    if parent:
        name = parent.rpartition("/")[2].partition("@")[0]
        _model(server, name)
    else:
        name = str(4000 + len(models))
        models[name] = {"versions": {}}
    versions = models[name]["versions"]
    number = str(max(map(int, versions), default=0) + 1)
    aliases = [*given.get("versionAliases", ()), *(["default"] if not versions else [])]
    versions[number] = {
        **given,
        "name": f"{NAMES}/models/{name}",
        "versionId": number,
        "versionAliases": [],
        "createTime": NOW,
        "versionCreateTime": NOW,
        "updateTime": NOW,
        "versionUpdateTime": NOW,
    }
    for alias in dict.fromkeys(aliases):
        _move(server, name, alias, number)
    return operation(server, "UploadModelResponse", {"model": versions[number]["name"], "modelVersionId": number})


@route("GET", NAMED)
def get(server, request, name, version):
    return _version(server, name, version)


@route("GET", "models")
def list_models(server, request):
    """The default version of each model."""
    return page("models", [_version(server, name, None) for name in server.kept("models")], request.query)


@route("GET", NAMED + ":listVersions")
def list_versions(server, request, name, version):
    return page("models", list(_model(server, name)["versions"].values()), request.query)


@route("POST", NAMED + ":mergeVersionAliases")
def merge_aliases(server, request, name, version):
    found = _version(server, name, version)
    for alias in request.body["versionAliases"]:
        _move(server, name, alias, found["versionId"])
    return found


@route("POST", NAMED + "/evaluations:import")
def import_evaluation(server, request, name, version):
    found = _version(server, name, version)
    kept = server.kept("evaluations").setdefault((name, found["versionId"]), [])
    number = f"evaluations/{len(kept) + 1}"
    evaluation = {**request.body["modelEvaluation"], "name": f"{found['name']}@{found['versionId']}/{number}"}
    kept.append({**evaluation, "createTime": NOW})
    return kept[-1]


@route("GET", NAMED + "/evaluations")
def list_evaluations(server, request, name, version):
    number = _version(server, name, version)["versionId"]
    return page("modelEvaluations", server.kept("evaluations").get((name, number), []), request.query)


def _model(server, name):
    try:
        return server.kept("models")[name]
    except KeyError:
        raise ApiError(404, f"The Model does not exist: {NAMES}/models/{name}") from None


def _version(server, name, version):
    versions = _model(server, name)["versions"]
    for each in versions.values():
        if (version or "default") in (each["versionId"], *each["versionAliases"]):
            return each
    raise ApiError(404, f"The Model does not exist: {NAMES}/models/{name}@{version}")


def _move(server, name, alias, number):
    if not re.fullmatch(ALIAS, alias):
        raise ApiError(400, f"version alias {alias!r} does not match {ALIAS}")
    for each in _model(server, name)["versions"].values():
        kept = [other for other in each["versionAliases"] if other != alias]
        each["versionAliases"] = [*kept, alias] if each["versionId"] == number else kept
