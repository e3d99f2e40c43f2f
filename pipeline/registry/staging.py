"""The folder of a version on Cloud Storage, for both registries there. It is laid out as in a local registry:

<artifacts>/1/                 a SavedModel
<artifacts>/1/assets.extra/    the same model as the trainer reads it, and `version.json`

In the Vertex AI Model Registry, the artifacts are what the container that serves the version is given:
<root>/<name>/<run>/tensorflow.serving. TensorFlow Serving reads it from Cloud Storage by itself, and takes nothing
but a folder of numbered ones. Google's container wants the SavedModel itself: for it, the artifacts are
<root>/<name>/<run>, and there is no folder `1`.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from pipeline.registry.versions import dated
from trainer import artifacts, storage
from trainer.errors import check
from trainer.files import parse_json
from trainer.models.find import VERSION, model_at, model_in
from trainer.storage import MOUNT, REMOTE

GRAPH = "saved_model.pb"
"""The file of a SavedModel that makes it one."""
STAGING = "models"
"""Default folder of the versions, in the bucket of the trained model."""
NUMBERED = "tensorflow.serving"
"""Last part of the address of artifacts with a numbered folder; no run's label is like it, since it has a dot."""


def root_of(model: pathlib.Path, configured: str, form: str) -> str:
    """The `gs://` folder of all versions: `configured`, or `STAGING` in the bucket of `model` if that is empty.

    Raises `UserError`, which names the address `form` to write, if `model` is not on a mounted bucket either.
    """
    folder = model.absolute()
    check(
        bool(configured) or folder.is_relative_to(MOUNT),
        f"{model} is not on Cloud Storage, so the registry has no folder for its models; write {form}",
    )
    return configured.rstrip("/") or f"{REMOTE}{folder.relative_to(MOUNT).parts[0]}/{STAGING}"


def artifacts_of(folder: str, is_numbered: bool) -> str:
    """The address of a version's artifacts below the folder of its run."""
    return f"{folder}/{NUMBERED}" if is_numbered else folder


def place_of(uri: str) -> str:
    """The address of the SavedModel in the artifacts at `uri`."""
    return f"{uri}/1" if uri.endswith(f"/{NUMBERED}") else uri


def mounted(place: str) -> pathlib.Path:
    """The folder where a task on Vertex AI finds the version at `place` as the trainer reads it."""
    return model_in(MOUNT / place.removeprefix(REMOTE))


def write_version(
    place: str, saved_model: pathlib.Path, extras: Mapping[str, pathlib.Path], record: Mapping[str, Any]
) -> None:
    """Copy a SavedModel, and the files of VERSION_EXTRA by name, to `place`; `version.json` is written last."""
    client = storage.client(write=True)
    copy_version(place, saved_model, extras, client)
    storage.write_object(f"{model_at(place)}/{VERSION}", record_bytes(record), client)


def copy_version(place: str, saved_model: pathlib.Path, extras: Mapping[str, pathlib.Path], client: Any) -> None:
    """Copy a SavedModel, and the files of VERSION_EXTRA by name, to `place`, by a `storage.client(write=True)`.

    The graph is written last: until then a server that watches the folder finds nothing that it could load.
    """
    paths = [path for path in sorted(saved_model.rglob("*")) if path.is_file()]
    files = {path.relative_to(saved_model).as_posix(): path for path in paths}
    files |= {f"{artifacts.VERSION_EXTRA}/{name}": path for name, path in extras.items()}
    for name in sorted(files, key=lambda name: name == GRAPH):
        storage.write_object(f"{place}/{name}", files[name], client)


def record_bytes(record: Mapping[str, Any]) -> bytes:
    """The content of `version.json`."""
    return (json.dumps(dated(record), indent=2) + "\n").encode()


def read_record(place: str, client: Any) -> dict[str, Any] | None:
    """The content of `version.json` at `place`, read by a `storage.client()`; None if there is none."""
    if not place.startswith(REMOTE):
        return None
    address = f"{model_at(place)}/{VERSION}"
    try:
        content = storage.read_object(address, client)
    except storage.MissingError:
        return None
    return dict(parse_json(content, address, f"restore it, or remove {place}", artifacts.Version))


def fetch(place: str) -> pathlib.Path:
    """Download the version at `place` as the trainer reads it; the folder is removed when this process ends."""
    source = model_at(place)
    return storage.download_for_now(source, storage.list_objects(source))
