"""The registry of templates of tests/vertex.py."""

import email.parser
import email.policy
import hashlib

import yaml

from tests.vertex import ApiError, route


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
