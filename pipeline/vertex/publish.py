"""Puts the compiled pipeline into Artifact Registry, from where the console and `submit` take it."""

import pathlib
import re
import tempfile
from collections.abc import Sequence
from typing import Any

from pipeline import cloud
from pipeline.graph import compile as compiling
from pipeline.graph.environment import Environment
from trainer.errors import check

REPOSITORY = r"https://[a-z0-9-]+-kfp\.pkg\.dev/[^/]+/[^/]+"
LOOPBACK = r"http://127\.0\.0\.1:\d+/.+"
TAG = r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}"
DEFAULT_TAGS = ("latest",)


def check_repository(address: str) -> None:
    """Raise `UserError` unless `address` is a repository of templates."""
    check(bool(address), "the environment names no template_repository; add it to its TOML file")
    check(
        bool(re.fullmatch(f"{REPOSITORY}|{LOOPBACK}", address)),
        f"template_repository is {address!r}; write https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY",
    )


def registry_client(repository: str) -> Any:
    """A client of the repository of templates, with the machine's credentials; without any on loopback."""
    from google.auth.transport import requests as _  # noqa: F401  the client uses it, and does not import it
    from kfp.registry import ApiAuth, RegistryClient

    return RegistryClient(repository, ApiAuth("") if re.fullmatch(LOOPBACK, repository) else None)


def publish(environment: Environment, tags: Sequence[str] = DEFAULT_TAGS) -> str:
    """Compile the pipeline for `environment` and upload it; returns the address of the version.

    The same pipeline is the same version, whose tags are then added to. A tag moves to it from any other.
    """
    check_repository(environment.template_repository)
    check(environment.target == "vertex", f"environment {environment.name} is for target {environment.target}")
    for tag in tags:
        check(bool(re.fullmatch(TAG, tag)), f"tag {tag!r} is not one; use letters, digits, and . _ - within")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "pipeline.yaml"
        compiling.write_pipeline(environment, path)
        with cloud.reported_errors():
            client = registry_client(environment.template_repository)
            name, version = client.upload_pipeline(str(path), tags=list(tags))
    return f"{environment.template_repository}/{name}/{version}"
