"""Buckets and what a run reads from them, repositories of images and templates, TensorBoard and network."""

from collections.abc import Iterable

from pipeline.graph.titles import NAME
from pipeline.vertex import checks
from pipeline.vertex.doctor.api import Api, UnansweredError, quoted
from pipeline.vertex.doctor.case import Case, Repository, repository_of
from pipeline.vertex.doctor.findings import Finding, missing, ok, unknown
from trainer import storage
from trainer.names import is_archive

PEERING = "servicenetworking"
"""In the name of the peering through which Vertex AI reaches a VPC network."""
LISTED = 100
"""Objects whose names begin with a source's: enough to find one of its own among others."""


def check_bucket(api: Api, name: str, is_written: bool) -> Iterable[Finding]:
    """Whether a bucket exists, and is in the region of the runs if they write to it."""
    location, project = api.environment.location, api.environment.project
    found = api.find("storage", f"storage/v1/b/{quoted(name)}")
    if found is None:
        command = f"gcloud storage buckets create gs://{name} --location={location} --project={project}"
        yield missing(f"bucket gs://{name} does not exist", f"{command} --uniform-bucket-level-access")
        return
    place = str(found["location"])
    regions = found.get("customPlacementConfig", {}).get("dataLocations", ())
    if checks.bucket_fits(place, regions, location):
        yield ok(f"bucket gs://{name} is in {place.lower()}")
    elif not is_written:
        yield ok(f"bucket gs://{name} is in {place.lower()}; reading it from {location} costs more")
    else:
        text = f"bucket gs://{name} is in {place.lower()}, but runs are in {location}"
        yield missing(text, f"set bucket to one in {location}, or location to the bucket's region")


def check_source(api: Api, parameter: str, address: str) -> Iterable[Finding]:
    """Whether there is something at an address that a run reads; `parameter` names it."""
    bucket, path = storage.split(address)
    subject = f"{parameter} {address}"
    try:
        found = _is_there(api, bucket, path)
    except UnansweredError as error:
        if error.status != 403:
            raise
        yield unknown(f"{subject}: you may not read it; the account that runs the pipeline must")
        return
    if found:
        yield ok(f"{subject} is there")
    else:
        options = "ARCHIVE {}" if is_archive(path) else "FOLDER {} --recursive"
        yield missing(f"{subject}: there is nothing", f"gcloud storage cp {options.format(address)}")


def _is_there(api: Api, bucket: str, path: str) -> bool:
    objects = f"storage/v1/b/{quoted(bucket)}/o"
    if is_archive(path):
        # Reading one object takes fewer rights than listing a bucket, and the public dataset is one object.
        return api.find("storage", f"{objects}/{quoted(path)}", fields="name") is not None
    listing = api.find("storage", objects, prefix=path, maxResults=LISTED, fields="items(name)") or {}
    names = [item["name"] for item in listing.get("items", ())]
    return any(not path or name == path or name.startswith(f"{path}/") for name in names)


def check_image(api: Api, name: str) -> Iterable[Finding]:
    """Whether the image of a full name, with its tag, exists."""
    address, _, last = name.rpartition("/")
    package, _, tag = last.partition(":")
    repository = repository_of(address)
    if repository is None:
        yield unknown(f"image {name} is not in Artifact Registry, so this cannot ask for it")
        return
    command = f"make images ENV={api.environment.name}"
    yield from _check_tag(api, repository, package, tag, f"image {name}", command)


def check_template(api: Api, case: Case) -> Iterable[Finding]:
    """Whether the template has the tag of the images."""
    environment = case.environment
    if case.templates is None:
        yield unknown(f"environment {environment.name} has no template_repository; only the console needs one")
        return
    command = f"python -m pipeline publish --env {environment.name} --tag {environment.image_tag}"
    subject = f"template {NAME} with tag {environment.image_tag}"
    yield from _check_tag(api, case.templates, NAME, environment.image_tag, subject, command)


def check_repository(api: Api, repository: Repository, form: str) -> Iterable[Finding]:
    """Whether a repository exists and has the format `form`, DOCKER or KFP."""
    found = api.find("artifactregistry", repository.path)
    if found is None:
        options = f"--repository-format={form.lower()} --location={repository.location}"
        command = (
            f"gcloud artifacts repositories create {repository.name} {options} --project={repository.project}"
        )
        yield missing(f"repository {repository.name} does not exist in {repository.location}", command)
        return
    if found.get("format") == form:
        yield ok(f"repository {repository.name} exists")
    else:
        text = f"repository {repository.name} has format {found.get('format')}, not {form}"
        yield missing(text, "name another repository in the environment")


def _check_tag(
    api: Api, repository: Repository, package: str, tag: str, subject: str, command: str
) -> Iterable[Finding]:
    if api.find("artifactregistry", repository.tag_path(package, tag)) is None:
        yield missing(f"{subject} does not exist", command)
    else:
        yield ok(f"{subject} exists")


def check_tensorboard(api: Api, name: str) -> Iterable[Finding]:
    """Whether the TensorBoard instance exists; `name` is its full resource name."""
    location = name.split("/")[3]
    if api.find("aiplatform", f"v1/{name}", location) is None:
        command = f"gcloud ai tensorboards create --display-name=msinet --region={location}"
        yield missing(f"TensorBoard {name} does not exist", f"{command} --project={name.split('/')[1]}")
    else:
        yield ok(f"TensorBoard {name} exists")


def check_network(api: Api, name: str) -> Iterable[Finding]:
    """Whether the VPC network exists and is peered with Google's services; `name` is its full resource name."""
    _, number, _, _, network = name.split("/")
    found = api.find("compute", f"compute/v1/{name}")
    if found is None:
        yield missing(f"network {name} does not exist", f"gcloud compute networks list --project={number}")
        return
    if any(PEERING in peering.get("name", "") for peering in found.get("peerings", ())):
        yield ok(f"network {name} exists and is peered with Google's services")
    else:
        text = f"network {name} is not peered with Google's services"
        command = f"gcloud services vpc-peerings connect --service={PEERING}.googleapis.com --network={network}"
        yield missing(text, f"{command} --ranges=RANGE --project={number}")


def check_persistent_resource(api: Api, name: str) -> Iterable[Finding]:
    """Whether the persistent resource runs; `name` is its id."""
    location, project = api.environment.location, api.environment.project
    command = f"gcloud ai persistent-resources list --region={location} --project={project}"
    found = api.find("aiplatform", f"v1/projects/{project}/locations/{location}/persistentResources/{name}")
    if found is None:
        yield missing(f"persistent resource {name} does not exist", command)
        return
    if found.get("state") == "RUNNING":
        yield ok(f"persistent resource {name} is running")
    else:
        yield missing(f"persistent resource {name} is in state {found.get('state')}", command)
