"""Environments: where a pipeline runs and with which parameters. Each is one TOML file in configs/.

The images' names are here and nowhere else.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

from pipeline.parameters import Value, convert
from trainer.config import check, check_choice, nearest
from trainer.errors import UserError

CONFIGS = pathlib.Path(__file__).parent.parent / "configs"
IMAGE = "msinet-cpu"
"""Name of the image that runs the tasks; an environment puts its repository before it and a tag behind it."""
TARGET_NAMES = ("local", "vertex")


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
    image_repository: str = ""
    image_tag: str = "latest"
    parameters: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("target", self.target, TARGET_NAMES)
        if self.target != "local":
            for name in ("project", "location", "bucket", "image_repository"):
                check(bool(getattr(self, name)), f"{name} is empty; target {self.target} needs one")

    @property
    def image(self) -> str:
        """Full name of the image that runs the tasks."""
        return "/".join(filter(None, (self.image_repository, f"{IMAGE}:{self.image_tag}")))


def load(name: str) -> Environment:
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
        check(isinstance(value, str), f"{key} is {value!r}; it must be text (str)")
    converted = {key: convert(key, value) for key, value in parameters.items()}
    return Environment(name=name, parameters=converted, **content)
