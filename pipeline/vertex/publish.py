"""Uploads the compiled pipeline to Artifact Registry, for the console and `submit`."""

import pathlib
import re
import tempfile
from collections.abc import Sequence
from typing import Any

from pipeline import cloud
from pipeline.graph import compile as compiling
from pipeline.graph.environment import Environment
from pipeline.vertex import checks
from trainer.errors import check

REPOSITORY = r"https://[a-z0-9-]+-kfp\.pkg\.dev/[^/]+/[^/]+"
LOOPBACK = r"http://127\.0\.0\.1:\d+/.+"
TAG = r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}"
DEFAULT_TAGS = ("latest",)


def check_repository(address: str) -> None:
    """Raise `UserError` unless `address` has the form of a repository of templates."""
    check(bool(address), "template_repository is empty; add it to the TOML file of the environment")
    check(
        is_repository(address),
        f"template_repository is {address!r}; write https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY",
    )


def is_repository(address: str) -> bool:
    """Whether `address` is that of a repository of Artifact Registry, or of this machine, as in tests."""
    return re.fullmatch(f"{REPOSITORY}|{LOOPBACK}", address) is not None


def registry_client(repository: str) -> Any:
    """A client of the repository of templates, with this machine's credentials; with none on loopback."""
    from google.auth.transport import requests as _  # noqa: F401  the client uses it but does not import it
    from kfp.registry import ApiAuth, RegistryClient

    return RegistryClient(repository, ApiAuth("") if re.fullmatch(LOOPBACK, repository) else None)


def publish(environment: Environment, tags: Sequence[str] = DEFAULT_TAGS) -> str:
    """Compile the pipeline for `environment` and upload it; returns the address of the version.

    Uploading the same pipeline again adds tags to the same version. A tag of another version moves to this one.
    Raises `UserError` for a malformed repository or tag, and if the upload is refused.
    """
    checks.check_environment(environment)
    check_repository(environment.template_repository)
    for tag in tags:
        check(
            bool(re.fullmatch(TAG, tag)),
            f"tag is {tag!r}; use letters, digits and . _ -, and begin with a letter or a digit",
        )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "pipeline.yaml"
        compiling.write_pipeline(environment, path)
        with cloud.reported_errors():
            client = registry_client(environment.template_repository)
            name, version = client.upload_pipeline(str(path), tags=list(tags))
    return f"{environment.template_repository}/{name}/{version}"
