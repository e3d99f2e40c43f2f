"""What is in the project of tests/vertex_project.py: buckets, repositories, and custom jobs.

Paths and replies are those of Google's discovery documents: storage, artifactregistry and aiplatform v1.
"""

from tests.vertex import NAMES, PARENT, PROJECT_NUMBER, ApiError, route
from tests.vertex_project import CALLER, looked_up, needs, policy, project_of, tested

# === Cloud Storage ===


@route("GET", r"/storage/v1/b/([^/]+)")
def get_bucket(server, request, name):
    found = looked_up(project_of(server).buckets, name)
    number = found.get("projectNumber", PROJECT_NUMBER)
    return {"kind": "storage#bucket", "name": name, "location": found["location"], "projectNumber": number}


@route("GET", r"/storage/v1/b/([^/]+)/iam/testPermissions")
def test_bucket(server, request, name):
    looked_up(project_of(server).buckets, name)
    answer = tested(server, request, f"b/{name}", request.query["permissions"].split(","))
    return {"kind": "storage#testIamPermissionsResponse", **answer}


@route("GET", r"/storage/v1/b/([^/]+)/iam")
def bucket_policy(server, request, name):
    looked_up(project_of(server).buckets, name)
    return {"kind": "storage#policy", **policy(server, request, f"b/{name}")}


@route("GET", r"/storage/v1/b/([^/]+)/o")
def list_objects(server, request, name):
    found = looked_up(project_of(server).buckets, name)
    if found.get("is_secret"):
        raise ApiError(403, f"{CALLER} does not have storage.objects.list access to the bucket.")
    names = [each for each in found["objects"] if each.startswith(request.query.get("prefix", ""))]
    items = [{"name": each} for each in names[: int(request.query["maxResults"])]]
    return {"items": items} if items else {}


@route("GET", r"/storage/v1/b/([^/]+)/o/(.+)")
def get_object(server, request, name, path):
    found = looked_up(project_of(server).buckets, name)
    if path not in found["objects"]:
        raise ApiError(404, f"No such object: {name}/{path}")
    return {"name": path}


# === Artifact Registry ===


@route("GET", r"repositories/([^/]+)/packages/(.+)/tags/([^/]+)")
def get_tag(server, request, name, package, tag):
    needs(server, "artifactregistry")
    if f"{package}/{tag}" not in looked_up(project_of(server).repositories, name)["tags"]:
        raise ApiError(404, f"tag {tag} was not found")
    full = f"{PARENT}/repositories/{name}/packages/{package}"
    return {"name": f"{full}/tags/{tag}", "version": f"{full}/versions/sha256:{'0' * 64}"}


@route("POST", r"repositories/([^/:]+):testIamPermissions")
def test_repository(server, request, name):
    needs(server, "artifactregistry")
    looked_up(project_of(server).repositories, name)
    return tested(server, request, f"repositories/{name}", request.body["permissions"])


@route("GET", r"repositories/([^/:]+):getIamPolicy")
def repository_policy(server, request, name):
    needs(server, "artifactregistry")
    looked_up(project_of(server).repositories, name)
    return policy(server, request, f"repositories/{name}")


# === Jobs ===


@route("POST", "customJobs")
def create_job(server, request):
    """`server.state["job"]` is called with the command of the container; it returns the job's states in turn."""
    needs(server, "aiplatform")
    container = request.body["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    states = list(server.state["job"](container["command"] + container["args"]))
    job = {**request.body, "name": f"{NAMES}/customJobs/{len(server.kept('jobs')) + 1}"}
    server.kept("jobs")[job["name"].rpartition("/")[2]] = {"job": job, "states": states}
    return {**job, "state": "JOB_STATE_QUEUED"}


@route("GET", r"customJobs/(\d+)")
def get_job(server, request, number):
    kept = looked_up(server.kept("jobs"), number)
    state = kept["states"].pop(0) if len(kept["states"]) > 1 else kept["states"][0]
    return {**kept["job"], "state": f"JOB_STATE_{state}"}
