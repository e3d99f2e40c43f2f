"""The address of a Vertex Model Registry, as the pipeline's parameter `registry` gives it."""

import dataclasses
import re
import urllib.parse
from typing import Self

from trainer.errors import check

VERTEX = "vertex://"
"""Begins such an address; any other is a folder."""
FORM = "vertex://PROJECT/LOCATION, and behind it, where needed, ?serving=gpu&staging=gs://BUCKET/FOLDER"
SERVING = {"cpu": "tf2-cpu.2-15", "gpu": "tf2-gpu.2-15"}
"""Google's images that serve a SavedModel; those of TensorFlow 2.15 load ours."""
IMAGE_HOSTS = {"europe": "europe", "asia": "asia", "australia": "asia"}
"""Host of Google's images near a location, by its continent; `us` for all others."""


@dataclasses.dataclass(frozen=True)
class Address:
    """A project in a location, and how versions are kept there.

    Attributes:
        endpoint: Address of the API, where it is not the location's public one.
        serving: Container that serves the versions: `cpu`, `gpu` (Google's), or the name of an image.
        staging: `gs://` folder that keeps the versions; `models` in the bucket of the trained model if empty.
    """

    project: str
    location: str
    endpoint: str = ""
    serving: str = "cpu"
    staging: str = ""

    def __post_init__(self) -> None:
        for field in ("project", "location"):
            value = getattr(self, field)
            plain = re.fullmatch(r"[a-z0-9][a-z0-9.:-]*", value)
            check(plain is not None, f"the registry's {field} is {value!r}; write {FORM}")
        check(
            self.serving in SERVING or "/" in self.serving,
            f"serving is {self.serving!r}; choose {' or '.join(SERVING)}, or give an image as HOST/PATH:TAG",
        )
        check(
            not self.staging or re.fullmatch(r"gs://[a-z0-9][a-z0-9._-]+(/.*)?", self.staging) is not None,
            f"staging is {self.staging!r}; write it as gs://BUCKET or gs://BUCKET/FOLDER",
        )

    @classmethod
    def at(cls, address: str) -> Self:
        """What is said by vertex://PROJECT/LOCATION; its other fields may follow as a query."""
        parts = urllib.parse.urlsplit(address)
        options = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        known = {"endpoint", "serving", "staging"}
        check(set(options) <= known, f"registry is {address!r}; unknown: {', '.join(set(options) - known)}")
        return cls(parts.netloc, parts.path.removeprefix("/"), **options)

    @property
    def image(self) -> str:
        """Full name of the container that serves a version."""
        if self.serving not in SERVING:
            return self.serving
        host = IMAGE_HOSTS.get(re.split(r"[^a-z]", self.location)[0], "us")
        return f"{host}-docker.pkg.dev/vertex-ai/prediction/{SERVING[self.serving]}:latest"
