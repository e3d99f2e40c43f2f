"""The folder on Cloud Storage of a version in the Vertex Model Registry, laid out as in a local registry:

<staging>/<name>/<run>/                 a SavedModel, as serving containers take it
<staging>/<name>/<run>/assets.extra/    the same model as the trainer reads it, and `version.json`
"""

import datetime
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from pipeline import cloud
from pipeline.registry.versions import VERSION
from trainer import artifacts
from trainer.errors import check
from trainer.storage import MOUNT, REMOTE

STAGING = "models"
"""Folder of versions in the bucket that a trained model lies in, where no other is given."""


def staging(model: pathlib.Path, given: str, form: str) -> str:
    """The `gs://` folder for versions: the given one, or one in the bucket that `model` lies in."""
    place = model.absolute()
    check(
        bool(given) or place.is_relative_to(MOUNT),
        f"{model} is not on Cloud Storage, so it is not known where the registry keeps its models; write {form}",
    )
    return given.rstrip("/") or f"{REMOTE}{place.relative_to(MOUNT).parts[0]}/{STAGING}"


def mounted(place: str) -> pathlib.Path:
    """Where a task on Vertex finds the version at `place` as the trainer reads it."""
    return MOUNT / place.removeprefix(REMOTE) / artifacts.VERSION_EXTRA


def write(
    place: str, saved_model: pathlib.Path, extras: Mapping[str, pathlib.Path], record: Mapping[str, Any]
) -> None:
    """Copy a SavedModel, and the files of VERSION_EXTRA by name, to `place`; `version.json` comes last."""
    bucket, prefix = _bucket(place)
    extra = f"{prefix}/{artifacts.VERSION_EXTRA}"
    found = [path for path in sorted(saved_model.rglob("*")) if path.is_file()]
    files = {f"{prefix}/{path.relative_to(saved_model).as_posix()}": path for path in found}
    files |= {f"{extra}/{name}": path for name, path in extras.items()}
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    content = json.dumps({"created": created, **record}, indent=2) + "\n"
    with cloud.reported_errors(f"cannot write {place}"):
        for name, path in files.items():
            bucket.blob(name).upload_from_filename(path, checksum="crc32c")
        bucket.blob(f"{extra}/{VERSION}").upload_from_string(content, content_type="application/json")


def record(place: str) -> dict[str, Any] | None:
    """What `version.json` at `place` says; None where there is none."""
    from google.cloud.exceptions import NotFound

    if not place.startswith(REMOTE):
        return None
    bucket, prefix = _bucket(place)
    try:
        content = bucket.blob(f"{prefix}/{artifacts.VERSION_EXTRA}/{VERSION}").download_as_bytes()
    except NotFound:
        return None
    return dict(json.loads(content))


def fetch(place: str) -> pathlib.Path:
    """Download the version at `place` as the trainer reads it; the folder is removed when this process ends."""
    from trainer import storage

    source = f"{place.rstrip('/')}/{artifacts.VERSION_EXTRA}"
    return storage.download_for_now(source, storage.list_objects(source))


def _bucket(place: str) -> tuple[Any, str]:
    from google.cloud import storage

    name, _, prefix = place.removeprefix(REMOTE).rstrip("/").partition("/")
    return storage.Client().bucket(name), prefix
