"""Google's default credentials, without a long search for them on machines that are not Google's."""

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ON_GOOGLE = ("KUBERNETES_SERVICE_HOST", "CLOUD_ML_JOB_ID", "AIP_", "K_SERVICE", "CLOUD_RUN_JOB")
"""Prefixes of environment variables in the containers of GKE, Vertex AI and Cloud Run."""
PRODUCT_NAME = pathlib.Path("/sys/class/dmi/id/product_name")
"""File whose content begins with `Google` on a machine of Compute Engine."""
BRIEF = {"GCE_METADATA_TIMEOUT": "1", "GCE_METADATA_DETECT_RETRIES": "1"}
"""google-auth's limits for the search for a metadata server: one try of one second."""


def find(scope: str) -> tuple[Any, str | None]:
    """The default credentials and their project.

    Raises `google.auth.exceptions.DefaultCredentialsError` if there are none.
    """
    import google.auth

    with brief_search():
        import google.auth.compute_engine  # reads the limits (its module _metadata)

        credentials, project = google.auth.default(scopes=[scope])
    return credentials, project


@contextmanager
def brief_search() -> Iterator[None]:
    """Set the limits of BRIEF that the user has not set, but not on Google's machines.

    There the metadata server is needed, and can be slow when a container starts.
    """
    limits = {} if _is_on_google() else {name: BRIEF[name] for name in BRIEF.keys() - os.environ.keys()}
    os.environ.update(limits)
    try:
        yield
    finally:
        for name in limits:
            os.environ.pop(name, None)


def _is_on_google() -> bool:
    if any(name.startswith(ON_GOOGLE) for name in os.environ):
        return True
    try:
        return PRODUCT_NAME.read_text().startswith("Google")
    except OSError:
        return False
