"""The container that serves a version on Vertex AI: ours (images/serving), or Google's until it ends."""

import datetime
import re
from typing import Any

from trainer.errors import check

GOOGLES = {"cpu": "tf2-cpu.2-15", "gpu": "tf2-gpu.2-15"}
"""Google's images that serve a SavedModel; those of TensorFlow 2.15 can load ours."""
ENDS = datetime.date(2027, 1, 14)
"""Google withdraws them on this day, and has none of a later TensorFlow.

Source: its page "Prebuilt containers for inference and explanation".
"""
HOSTS = {"europe": "europe", "asia": "asia", "australia": "asia"}
"""First word of a location -> the nearest host of Google's images; `us` for all other locations."""
MODEL = "msinet"
"""Name of the model within images/serving, whatever its name in the registry is."""
PORT = 8080
"""Port of the container's requests, which Vertex AI passes to it as AIP_HTTP_PORT."""


def is_googles(serving: str) -> bool:
    """Whether `serving` names one of Google's containers, and not an image that follows images/serving."""
    return serving in GOOGLES


def image_of(serving: str, location: str) -> str:
    """Full name of the image that `serving` names, near `location`."""
    if not is_googles(serving):
        return serving
    host = HOSTS.get(re.split(r"[^a-z]", location)[0], "us")
    return f"{host}-docker.pkg.dev/vertex-ai/prediction/{GOOGLES[serving]}:latest"


def specification(serving: str, location: str) -> dict[str, Any]:
    """The API's description of the container, a `ModelContainerSpec`.

    Google's needs its image alone. Of any other, Vertex AI has to know the routes and the port: these are the
    routes of TensorFlow Serving's REST API.
    """
    image = {"image_uri": image_of(serving, location)}
    if is_googles(serving):
        return image
    return {
        **image,
        "predict_route": f"/v1/models/{MODEL}:predict",
        "health_route": f"/v1/models/{MODEL}",
        "ports": [{"container_port": PORT}],
    }


def warn(serving: str) -> None:
    """Say when the container ends, if it is one of Google's."""
    if is_googles(serving):
        print(
            f"warning: this version is served by Google's container {GOOGLES[serving]}, which ends on {ENDS}; "
            "add ?serving=IMAGE to the registry's address, an image built from images/serving"
        )


def check_available(serving: str) -> None:
    """Raise `UserError` if `serving` names a container that has ended: no version can be registered with it."""
    check(
        not is_googles(serving) or datetime.date.today() < ENDS,
        f"the registry serves its versions with Google's container {GOOGLES.get(serving)}, which ended on {ENDS}; "
        "add ?serving=IMAGE to its address, an image built from images/serving",
    )
