"""The settings of the server, and what Vertex AI's containers are told by variables of the environment."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Self

from trainer.io import MOST_MEGAPIXELS
from trainer.models import MODEL_NAME
from trainer.settings import check_ranges, setting

MODEL = f"/v1/models/{MODEL_NAME}"
"""Path of the model in the V1 protocol of KServe."""
PREDICT, HEALTH = f"{MODEL}:predict", "/healthz"


@dataclasses.dataclass(frozen=True)
class ServerConfig:
    """Settings of the server."""

    TITLE: ClassVar[str] = "server"
    host: str = setting("0.0.0.0", "Address to listen on.")  # noqa: S104 - others reach a container so
    port: int = setting(8080, "Port to listen on. 0 chooses a free one. Vertex AI names another.", ge=0, le=65535)
    parallel: int = setting(0, "Images whose maps are computed at once. 0 for one on each CPU, at most 8.", ge=0)
    most_megapixels: float = setting(
        MOST_MEGAPIXELS,
        "Largest image, and of all images that are decoded at a time. Each megapixel takes 15 MB of memory.",
        gt=0,
    )
    most_megabytes: float = setting(64, "Largest request.", gt=0)
    most_instances: int = setting(64, "Images of a request.", gt=0)
    most_waiting: int = setting(128, "Images of all requests that wait or are computed.", gt=0)
    most_waiting_megabytes: float = setting(512, "All requests that are read, wait or are computed.", gt=0)

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def most_bytes(self) -> int:
        """Of the largest request. A larger one could never be taken."""
        return int(min(self.most_megabytes, self.most_waiting_megabytes) * 10**6)

    @property
    def most_images(self) -> int:
        """Of the largest request. One with more could never be taken."""
        return min(self.most_instances, self.most_waiting)


@dataclasses.dataclass(frozen=True)
class Contract:
    """Where a container on Vertex AI is asked, and where its model is. Empty elsewhere.

    Source: https://docs.cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements
    """

    port: int | None = None
    health: str = ""
    predict: str = ""
    model: str = ""
    """`gs://` address of the model's folder."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """The contract that the variables of an environment name."""
        port = environment.get("AIP_HTTP_PORT", "")
        return cls(
            int(port) if port.isdecimal() else None,
            environment.get("AIP_HEALTH_ROUTE", ""),
            environment.get("AIP_PREDICT_ROUTE", ""),
            environment.get("AIP_STORAGE_URI", ""),
        )
