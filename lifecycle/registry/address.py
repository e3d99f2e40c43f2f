"""The address of a Vertex AI Model Registry, and the container that serves its versions.

The address is the value of the pipeline's parameter `registry`. The container is built from images/serving, or
Google's until that ends.
"""

import dataclasses
import datetime
import re
import urllib.parse
from typing import Any, ClassVar, Self

from lifecycle.vertex import check_api_address
from trainer.errors import SettingError, check
from trainer.places import BucketPlace, stored_at

GOOGLES = {"cpu": "tf2-cpu.2-15", "gpu": "tf2-gpu.2-15"}
"""Google's images that serve a SavedModel. Those of TensorFlow 2.15 can load ours."""
GOOGLES_END = datetime.date(2027, 1, 14)
"""Google withdraws them on this day, and has none of a later TensorFlow.

Source: its page "Prebuilt containers for inference and explanation".
"""
OWN_IMAGE = "Add ?serving=IMAGE to the registry's address, an image built from images/serving"
HOSTS = {"europe": "europe", "asia": "asia", "australia": "asia"}
"""First word of a location -> the nearest host of Google's images. `us` for all other locations."""
SERVED_MODEL = "msinet"
"""Name of the model within images/serving, whatever its name in the registry is."""
SERVING_PORT = 8080
"""Port of the container's requests, which Vertex AI passes to it as AIP_HTTP_PORT."""


def check_registry(address: str) -> None:
    """Raise `UserError` unless `address` has the syntax of a registry's, such as `gs://runs/models`."""
    if Address.found(address):
        return
    if not stored_at(address).is_local:
        BucketPlace.at(address, "registry")
    else:
        message = f"registry is {address!r}. Give a folder, gs://BUCKET/FOLDER, or {Address.SYNTAX}"
        check(":/" not in address and "\0" not in address, message, SettingError)


@dataclasses.dataclass(frozen=True)
class Address:
    """A project in a location, and how it stores and serves versions.

    Attributes:
        endpoint: Address of the API. The location's public one if empty.
        serving: Container that serves the versions: the full name of an image built from images/serving, or `cpu`
            or `gpu` for Google's, until `GOOGLES_END`.
        staging: `gs://` folder of the versions. `models` in the bucket of the trained model if empty.

    Raises `UserError` for a malformed field.
    """

    SYNTAX: ClassVar[str] = (
        "vertex://PROJECT/LOCATION, if necessary followed by ?serving=IMAGE&staging=gs://BUCKET/FOLDER"
    )
    project: str
    location: str
    endpoint: str = ""
    serving: str = "cpu"
    staging: str = ""

    def __post_init__(self) -> None:
        for field in ("project", "location"):
            value = getattr(self, field)
            is_valid = re.fullmatch(r"[a-z0-9][a-z0-9.:-]*", value) is not None
            check(is_valid, f"the registry's {field} is {value!r}. Write {self.SYNTAX}", SettingError)
        check(
            self.serving in GOOGLES or "/" in self.serving,
            f"serving is {self.serving!r}. Choose an image as HOST/PATH:TAG, or "
            f"{' or '.join(GOOGLES)} for Google's",
            SettingError,
        )
        check_api_address(self.endpoint)
        if self.staging:
            BucketPlace.at(self.staging, "staging")

    @classmethod
    def at(cls, address: str) -> Self:
        """Parse `vertex://PROJECT/LOCATION`. The other fields may follow as a query, such as `?serving=gpu`.

        Raises `UserError` for another syntax.
        """
        parts = urllib.parse.urlsplit(address)
        options = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        unknown = options.keys() - {"endpoint", "serving", "staging"}
        check(not unknown, f"registry is {address!r}. Unknown: {', '.join(sorted(unknown))}", SettingError)
        return cls(parts.netloc, parts.path.removeprefix("/"), **options)

    @classmethod
    def found(cls, registry: str) -> Self | None:
        """The address that a registry's name is. None for a folder or a bucket, such as `gs://runs/models`.

        Raises `UserError` for a malformed one.
        """
        return cls.at(registry) if registry.startswith("vertex://") else None

    @property
    def is_served_by_google(self) -> bool:
        """Whether `serving` names one of Google's containers, and not an image built from images/serving."""
        return self.serving in GOOGLES

    @property
    def container_spec(self) -> dict[str, Any]:
        """The API's description of the serving container, a `ModelContainerSpec`.

        Google's needs its image alone, from a host near the location. Of any other, Vertex AI has to know the
        routes and the port: these are the routes of TensorFlow Serving's REST API.
        """
        if self.is_served_by_google:
            host = HOSTS.get(re.split(r"[^a-z]", self.location)[0], "us")
            return {"image_uri": f"{host}-docker.pkg.dev/vertex-ai/prediction/{GOOGLES[self.serving]}:latest"}
        return {
            "image_uri": self.serving,
            "predict_route": f"/v1/models/{SERVED_MODEL}:predict",
            "health_route": f"/v1/models/{SERVED_MODEL}",
            "ports": [{"container_port": SERVING_PORT}],
        }

    def check_serving(self) -> None:
        """Raise `UserError` if the serving container has ended: no version can be registered with it."""
        check(
            not self.is_served_by_google or datetime.date.today() < GOOGLES_END,
            f"the registry serves its versions with Google's container {GOOGLES.get(self.serving)}, which ended "
            f"on {GOOGLES_END}. {OWN_IMAGE}",
            SettingError,
        )
