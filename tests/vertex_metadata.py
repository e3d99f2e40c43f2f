"""What surrounds runs in tests/vertex.py: the metadata store of experiments, and the registry of templates."""

import email.parser
import email.policy
import hashlib

import yaml

from tests.vertex import NAMES, NOW, ApiError, route

STORE = "metadataStores/default"


@route("GET", STORE)
def get_store(server, request):
    return {"name": f"{NAMES}/{STORE}", "createTime": NOW}


@route("GET", f"{STORE}/contexts/([^/:]+)")
def get_context(server, request, name):
    try:
        return server.kept("contexts")[name]
    except KeyError:
        raise ApiError(404, f"The Context {NAMES}/{STORE}/contexts/{name} was not found") from None


@route("POST", f"{STORE}/contexts")
def create_context(server, request):
    name = request.query["contextId"]
    server.kept("contexts")[name] = {**request.body, "name": f"{NAMES}/{STORE}/contexts/{name}"}
    return server.kept("contexts")[name]


@route("POST", f"{STORE}/contexts/([^/:]+):addContextChildren")
def add_children(server, request, name):
    get_context(server, request, name)
    server.kept("children").setdefault(name, []).extend(request.body["childContexts"])
    return {}


@route("POST", "/templates")
def upload_template(server, request):
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.raw)
    parts = {
        part.get_param("name", header="content-disposition"): part.get_content() for part in form.iter_parts()
    }
    content = parts["content"] if isinstance(parts["content"], bytes) else parts["content"].encode()
    name = yaml.safe_load(content)["pipelineInfo"]["name"]
    version = f"sha256:{hashlib.sha256(content).hexdigest()}"
    server.kept("templates")[version] = content.decode()
    for tag in filter(None, parts.get("tags", "").strip().split(",")):
        server.kept("tags")[tag] = version
    return f"{name}/{version}"


@route("GET", r"/templates/msinet/(.+)")
def download_template(server, request, version):
    if not version.startswith("sha256:"):
        raise ApiError(500, "Internal error encountered.")  # what the real one has answered for tags
    if version not in server.kept("templates"):
        raise ApiError(404, f"version {version} was not found")
    return server.kept("templates")[version]
