"""Environments: where a pipeline runs and with which parameters. Each is one TOML file in configs/.

The images' names are here and nowhere else.
"""

import dataclasses
import pathlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from components import IMAGE
from pipeline.graph.parameters import Value, convert
from pipeline.registry.labels import OWNER
from trainer.errors import UserError, check, check_choice, nearest

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"
TARGET_NAMES = ("local", "vertex", "kubeflow")
NEEDED = {
    "local": (),
    "vertex": ("project", "location", "bucket", "image_repository", "image_tag"),
    "kubeflow": ("image_repository", "image_tag"),
}
"""The keys that an environment of each target cannot do without."""
ADDRESS = r"[^@\s,;<>]+@[^@\s,;<>.]+(\.[^@\s,;<>.]+)+"
MOST_ADDRESSES = 3
"""What Vertex's notification by e-mail takes, by its documentation."""
KINDS: dict[str, tuple[type, str]] = {"notify": (list, "a list of texts"), "labels": (dict, "a table of texts")}
"""The keys of a TOML file whose values are not texts."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """Where a pipeline runs; the fields are the keys of its TOML file."""

    name: str
    target: str = "local"
    project: str = ""
    location: str = ""
    bucket: str = ""
    """`gs://` prefix of everything the pipeline writes."""
    service_account: str = ""
    """Account that runs the pipeline; the project's default one if empty."""
    network: str = ""
    """VPC network to peer with, as projects/NUMBER/global/networks/NAME; none if empty."""
    image_repository: str = ""
    image_tag: str = "latest"
    template_repository: str = ""
    """Artifact Registry repository of compiled pipelines, as https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY."""
    endpoint: str = ""
    """Address of the API, where it is not the location's public one."""
    notify: Sequence[str] = ()
    """E-mail addresses that are told how a run ended (Vertex sends to three at most)."""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Labels of runs, schedules and models."""
    parameters: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("target", self.target, TARGET_NAMES)
        for name in NEEDED[self.target]:
            check(bool(getattr(self, name)), f"{name} is empty; target {self.target} needs one")
        if self.bucket:
            check(
                self.bucket.startswith("gs://") and len(self.bucket) > len("gs://"),
                f"bucket is {self.bucket!r}; write it as gs://NAME or gs://NAME/FOLDER",
            )
        check_addresses(self.notify)

    @property
    def derived(self) -> dict[str, Value]:
        """Parameters that say again what the other keys say, where the environment's parameters do not."""
        if self.target != "vertex":
            return {}
        labels = ",".join(f"{key}={value}" for key, value in {**OWNER, **self.labels}.items())
        values = {
            "registry": f"vertex://{self.project}/{self.location}",
            "training_service_account": self.service_account,
            "training_network": self.network,
            "training_labels": labels,
        }
        return {name: value for name, value in values.items() if value}

    @property
    def image(self) -> str:
        """Full name of the image that runs the tasks."""
        return self.image_of("cpu")

    def image_of(self, kind: str) -> str:
        """Full name of the image for cpu, gpu or tpu."""
        name = f"{IMAGE.removesuffix('cpu')}{kind}:{self.image_tag}"
        return "/".join(filter(None, (self.image_repository, name)))


def check_addresses(addresses: Sequence[str]) -> None:
    """Raise `UserError` unless Vertex can send to these e-mail addresses."""
    check(
        len(addresses) <= MOST_ADDRESSES,
        f"notify has {len(addresses)} addresses, Vertex sends to {MOST_ADDRESSES} at most; name a mailing list",
    )
    for each in addresses:
        check(
            re.fullmatch(ADDRESS, each) is not None,
            f"notify has {each!r}, which is no e-mail address; write it as NAME@DOMAIN",
        )


def load_environment(name: str) -> Environment:
    """The environment `name` of configs/, or the one in the file `name` where that ends with `.toml`."""
    path = pathlib.Path(name) if name.endswith(".toml") else CONFIGS / f"{name}.toml"
    if not path.is_file():
        known = sorted(each.stem for each in CONFIGS.glob("*.toml"))
        raise UserError(f"unknown environment {name!r}{nearest(name, known)} (known: {', '.join(known)})")
    try:
        content = tomllib.loads(path.read_text())
        return _environment(path.stem, content)
    except (tomllib.TOMLDecodeError, UserError) as error:
        raise UserError(f"{path}: {error}") from None


def _environment(name: str, content: dict[str, Any]) -> Environment:
    parameters = content.pop("parameters", {})
    fields = {field.name for field in dataclasses.fields(Environment)} - {"name", "parameters"}
    for key, value in content.items():
        check(key in fields, f"unknown key {key!r}{nearest(key, fields)}; parameters go below [parameters]")
        kind, title = KINDS.get(key, (str, "text (str)"))
        check(isinstance(value, kind), f"{key} is {value!r}; it must be {title}")
        for each in value.values() if kind is dict else value if kind is list else ():
            check(isinstance(each, str), f"{key} has {each!r}; it must be {title}")
    converted = {key: convert(key, value) for key, value in parameters.items()}
    return Environment(name=name, parameters=converted, **content)
