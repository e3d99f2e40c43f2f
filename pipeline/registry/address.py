"""The address of a Vertex AI Model Registry: the value of the pipeline's parameter `registry`."""

import dataclasses
import re
import urllib.parse
from typing import Self

from trainer.errors import check

VERTEX = "vertex://"
"""Prefix of such an address; an address without it is a folder."""
FORM = "vertex://PROJECT/LOCATION, if necessary followed by ?serving=gpu&staging=gs://BUCKET/FOLDER"
SERVING = {"cpu": "tf2-cpu.2-15", "gpu": "tf2-gpu.2-15"}
"""Google's images that serve a SavedModel; those of TensorFlow 2.15 can load ours."""
IMAGE_HOSTS = {"europe": "europe", "asia": "asia", "australia": "asia"}
"""First word of a location -> the nearest host of Google's images; `us` for all other locations."""


def check_bucket(what: str, address: str) -> None:
    """Raise `UserError` unless `address` has the form of a bucket or of a folder in one."""
    is_valid = re.fullmatch(r"gs://[a-z0-9][a-z0-9._-]+(/.*)?", address) is not None
    check(is_valid, f"{what} is {address!r}; write it as gs://BUCKET or gs://BUCKET/FOLDER")


def check_registry(address: str) -> None:
    """Raise `UserError` unless `address` has the form of a registry's: a folder, gs:// or vertex://."""
    if address.startswith(VERTEX):
        Address.at(address)
    elif address.startswith("gs://"):
        check_bucket("registry", address)
    else:
        check("://" not in address, f"registry is {address!r}; give a folder, gs://BUCKET/FOLDER, or {FORM}")


@dataclasses.dataclass(frozen=True)
class Address:
    """A project in a location, and how it stores and serves versions.

    Attributes:
        endpoint: Address of the API; the location's public one if empty.
        serving: Container that serves the versions: `cpu` or `gpu` for Google's, or the name of an image.
        staging: `gs://` folder of the versions; `models` in the bucket of the trained model if empty.

    Raises `UserError` for a malformed field.
    """

    project: str
    location: str
    endpoint: str = ""
    serving: str = "cpu"
    staging: str = ""

    def __post_init__(self) -> None:
        for field in ("project", "location"):
            value = getattr(self, field)
            is_valid = re.fullmatch(r"[a-z0-9][a-z0-9.:-]*", value) is not None
            check(is_valid, f"the registry's {field} is {value!r}; write {FORM}")
        check(
            self.serving in SERVING or "/" in self.serving,
            f"serving is {self.serving!r}; choose {' or '.join(SERVING)}, or an image as HOST/PATH:TAG",
        )
        if self.staging:
            check_bucket("staging", self.staging)

    @classmethod
    def at(cls, address: str) -> Self:
        """Parse vertex://PROJECT/LOCATION; the other fields may follow as a query. Raises `UserError`."""
        parts = urllib.parse.urlsplit(address)
        options = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        unknown = options.keys() - {"endpoint", "serving", "staging"}
        check(not unknown, f"registry is {address!r}; unknown: {', '.join(sorted(unknown))}")
        return cls(parts.netloc, parts.path.removeprefix("/"), **options)

    @property
    def image(self) -> str:
        """Full name of the image that serves a version."""
        if self.serving not in SERVING:
            return self.serving
        host = IMAGE_HOSTS.get(re.split(r"[^a-z]", self.location)[0], "us")
        return f"{host}-docker.pkg.dev/vertex-ai/prediction/{SERVING[self.serving]}:latest"
