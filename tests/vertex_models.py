"""The Vertex Model Registry of tests/vertex.py: models, their versions and aliases, and evaluations.

A model is kept as `{"versions": {"1": resource, ...}}`; a version's resource is what the API returns for it.
"""

import re

from tests.vertex import NAMES, NOW, ApiError, check_labels, operation, page, route

ALIAS = r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]"
NAMED = r"models/([^/:@]+)(?:@([^/:]+))?"
"""A model, or one of its versions by number or alias."""


@route("POST", "models:upload")
def upload(server, request):
    model = request.body["model"]
    check_labels(model.get("labels", {}))
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
    aliases = [*model.get("versionAliases", ()), *(["default"] if not versions else [])]
    versions[number] = {
        **model,
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
    resource = _version(server, name, version)
    for alias in request.body["versionAliases"]:
        if alias.startswith("-"):
            resource["versionAliases"].remove(alias[1:])
        else:
            _move(server, name, alias, resource["versionId"])
    return resource


@route("POST", NAMED + "/evaluations:import")
def import_evaluation(server, request, name, version):
    resource = _version(server, name, version)
    evaluations = server.kept("evaluations").setdefault((name, resource["versionId"]), [])
    number = f"evaluations/{len(evaluations) + 1}"
    evaluation = {
        **request.body["modelEvaluation"],
        "name": f"{resource['name']}@{resource['versionId']}/{number}",
    }
    evaluations.append({**evaluation, "createTime": NOW})
    return evaluations[-1]


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
    for resource in versions.values():
        if (version or "default") in (resource["versionId"], *resource["versionAliases"]):
            return resource
    raise ApiError(404, f"The Model does not exist: {NAMES}/models/{name}@{version}")


def _move(server, name, alias, number):
    if not re.fullmatch(ALIAS, alias):
        raise ApiError(400, f"version alias {alias!r} does not match {ALIAS}")
    for resource in _model(server, name)["versions"].values():
        others = [existing for existing in resource["versionAliases"] if existing != alias]
        resource["versionAliases"] = [*others, alias] if resource["versionId"] == number else others
