"""The address of a Vertex AI Model Registry, and the container that serves its versions.

The address is the value of the pipeline's parameter `registry`. The container is built from images/serving.
"""

import dataclasses
import re
import urllib.parse
from typing import Any, ClassVar, Self

from lifecycle.vertex import check_api_address
from trainer.errors import SettingError, check
from trainer.places import BucketPlace, stored_at

IMAGE = "an image built from images/serving, as HOST/PATH:TAG"
NUMBERED = "tensorflow.serving"
"""Last part of the address of artifacts that an earlier commit has registered for TensorFlow Serving."""
GOOGLES = "/vertex-ai/prediction/"
"""Part of the name of Google's images, which an earlier commit has registered too."""
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
        serving: Full name of the image that serves new versions, built from images/serving. Empty only to look at
            the versions and to change the default: `check_serving`.
        staging: `gs://` folder of the versions. `models` in the bucket of the trained model if empty.

    Raises `UserError` for a malformed field.
    """

    SYNTAX: ClassVar[str] = (
        "vertex://PROJECT/LOCATION, if necessary followed by ?serving=IMAGE&staging=gs://BUCKET/FOLDER"
    )
    project: str
    location: str
    endpoint: str = ""
    serving: str = ""
    staging: str = ""

    def __post_init__(self) -> None:
        for field in ("project", "location"):
            value = getattr(self, field)
            is_valid = re.fullmatch(r"[a-z0-9][a-z0-9.:-]*", value) is not None
            check(is_valid, f"the registry's {field} is {value!r}. Write {self.SYNTAX}", SettingError)
        check(
            not self.serving or "/" in self.serving,
            f"serving is {self.serving!r}. Name {IMAGE}",
            SettingError,
        )
        check_api_address(self.endpoint)
        if self.staging:
            BucketPlace.at(self.staging, "staging")

    @classmethod
    def at(cls, address: str) -> Self:
        """Parse `vertex://PROJECT/LOCATION`. The other fields may follow as a query, such as `?serving=IMAGE`.

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
    def container_spec(self) -> dict[str, Any]:
        """The API's description of the serving container, a `ModelContainerSpec`.

        The routes are those of the V1 protocol of KServe and of TensorFlow Serving's REST API.
        """
        return {
            "image_uri": self.serving,
            "predict_route": f"/v1/models/{SERVED_MODEL}:predict",
            "health_route": f"/v1/models/{SERVED_MODEL}",
            "ports": [{"container_port": SERVING_PORT}],
        }

    def check_serving(self) -> None:
        """Raise `UserError` without a serving image: no version can be registered."""
        check(
            bool(self.serving),
            f"the registry vertex://{self.project}/{self.location} names no image that serves new versions. "
            f"Add ?serving=IMAGE to its address, {IMAGE}",
            SettingError,
        )


def folder_of(artifacts: str) -> str:
    """The address of the version's folder in the artifacts at an address.

    Example: `gs://runs/m/r/tensorflow.serving/1` for `gs://runs/m/r/tensorflow.serving`.
    """
    return f"{artifacts}/1" if artifacts.endswith(f"/{NUMBERED}") else artifacts


def is_for_tensorflow(entry: Any) -> bool:
    """Whether a version, as the API describes it, has a container of an earlier commit, with TensorFlow."""
    return entry.artifact_uri.endswith(f"/{NUMBERED}") or GOOGLES in entry.container_spec.image_uri
