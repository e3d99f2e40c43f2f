"""The address of a Vertex AI Model Registry: the value of the pipeline's parameter `registry`."""

import dataclasses
import re
import urllib.parse
from typing import Self

from pipeline.cloud import check_endpoint
from pipeline.registry import container
from trainer.errors import check

VERTEX = "vertex://"
"""Prefix of such an address; an address without it is a folder."""
FORM = "vertex://PROJECT/LOCATION, if necessary followed by ?serving=IMAGE&staging=gs://BUCKET/FOLDER"


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
        serving: Container that serves the versions: the full name of an image built from images/serving, or `cpu`
            or `gpu` for Google's, until `container.ENDS`.
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
            container.is_googles(self.serving) or "/" in self.serving,
            f"serving is {self.serving!r}; choose an image as HOST/PATH:TAG, or "
            f"{' or '.join(container.GOOGLES)} for Google's",
        )
        check_endpoint(self.endpoint)
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
