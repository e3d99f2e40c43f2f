"""Compiled pipelines: publish one to Artifact Registry, load one to submit, its parameters, and its caching."""

import copy
import dataclasses
import pathlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from components import NEVER_CACHED
from pipeline import cloud
from pipeline.graph import compiled
from pipeline.graph.environment import PIPELINE_NAME, Environment
from pipeline.graph.parameters import PARAMETERS, TYPE_NAMES, Value
from pipeline.vertex import checks
from trainer.errors import UserError, check, nearest

REPOSITORY = r"https://[a-z0-9-]+-kfp\.pkg\.dev/[^/]+/[^/]+"
"""Address of a repository of templates in Artifact Registry."""
LOOPBACK = r"http://127\.0\.0\.1:\d+/.+"
"""Address of one on this machine, as in tests; it gets no credentials."""
TAG = r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}"
DEFAULT_TAGS = ("latest",)
TYPES: dict[str, type] = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float, "BOOLEAN": bool}
"""Types of a compiled pipeline's parameters, by their names there."""
CACHING = ("as-compiled", "on", "off")
UNCACHED = re.compile(rf"comp-({'|'.join(NEVER_CACHED)})(-\d+)?")
"""Names of components whose results must never come from the cache."""
VERSION = r"https?://.+/(?P<package>[^/]+)/(?P<version>sha256:[0-9a-f]{64})"
SCHEMAS = ("2.0.0", "2.1.0")
"""Versions of the schema of compiled pipelines. kfp 2 writes the second one (pipeline_spec_builder.py:2074), and
google-cloud-aiplatform distinguishes the two (utils/pipeline_utils.py:132)."""
WRITE_VERSION = "write it as https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/sha256:DIGEST"


@dataclasses.dataclass(frozen=True)
class Template:
    """A compiled pipeline: its specification, and its address in Artifact Registry if it comes from there."""

    spec: dict[str, Any]
    uri: str = ""

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        return str(self.spec["pipelineInfo"]["name"])

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        """The definition of each parameter: `parameterType`, `isOptional`, `defaultValue`."""
        return dict(self.spec["root"].get("inputDefinitions", {}).get("parameters", {}))

    def defaults(self) -> dict[str, Any]:
        """The defaults of the parameters, converted to their types."""
        values = {}
        for name, definition in self.parameters.items():
            if "defaultValue" in definition:
                kind = TYPES.get(definition["parameterType"])
                values[name] = kind(definition["defaultValue"]) if kind else definition["defaultValue"]
        return values

    def check_values(self, values: Mapping[str, Value]) -> None:
        """Raise `UserError` for an unknown name, a value of the wrong type, or a missing value."""
        for name, value in values.items():
            check(
                name in self.parameters,
                f"the template has no parameter {name!r}{nearest(name, self.parameters)}{self._age(name)}",
            )
            kind = TYPES.get(self.parameters[name]["parameterType"])
            # bool is a subclass of int, so types are compared exactly; an int is accepted as a float.
            fits = type(value) is kind or (kind is float and type(value) is int)
            title = TYPE_NAMES[kind] if kind else self.parameters[name]["parameterType"]
            check(fits, f"{name} is {value!r}; the template wants {title}")
        for name, definition in self.parameters.items():
            is_required = "defaultValue" not in definition and not definition.get("isOptional")
            check(
                name in values or not is_required, f"the template needs a value for {name}, which has no default"
            )

    def _age(self, name: str) -> str:
        """The reason why our own pipeline lacks a parameter that it has now."""
        if self.name != PIPELINE_NAME or name not in PARAMETERS:
            return ""
        return "; another version of this project compiled it: compile or publish the pipeline again"

    def cached(self, how: str) -> "Template":
        """A copy with caching as compiled, on (except for NEVER_CACHED), or off; see `CACHING`."""
        if how == "as-compiled":
            return self
        spec = copy.deepcopy(self.spec)
        for component in (spec["root"], *spec.get("components", {}).values()):
            for task in component.get("dag", {}).get("tasks", {}).values():
                is_cacheable = UNCACHED.fullmatch(task["componentRef"]["name"]) is None
                task["cachingOptions"] = {"enableCache": True} if how == "on" and is_cacheable else {}
        return Template(spec, self.uri)


# === Artifact Registry and files ===


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
        compiled.write_pipeline(environment, path)
        with cloud.reported_errors():
            client = registry_client(environment.template_repository)
            name, version = client.upload_pipeline(str(path), tags=list(tags))
    return f"{environment.template_repository}/{name}/{version}"


def load(environment: Environment, source: str = "") -> Template:
    """The template at `source`: a file, or an address in Artifact Registry; compiled for `environment` if empty.

    Raises `UserError` if it cannot be read or is not a pipeline compiled for Vertex AI.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "pipeline.yaml"
        if not source:
            compiled.write_pipeline(environment, path)
        elif re.match("https?://", source):
            _download(environment, source, path)
        else:
            path = pathlib.Path(source)
        return Template(_read(path, source), source if re.match("https?://", source) else "")


def _download(environment: Environment, address: str, path: pathlib.Path) -> None:
    parts = re.fullmatch(VERSION, address)
    if parts is None:
        # A tag may have moved since you looked, and Vertex AI has returned error 500 for tags.
        raise UserError(f"template {address} does not name one version; {WRITE_VERSION}")
    repository = address.removesuffix(f"/{parts['package']}/{parts['version']}")
    check(is_repository(repository), f"template {address} is not in Artifact Registry; {WRITE_VERSION}")
    with cloud.reported_errors():
        client = registry_client(repository)
        client.download_pipeline(parts["package"], version=parts["version"], file_name=str(path))


def _read(path: pathlib.Path, source: str) -> dict[str, Any]:
    import yaml
    from google.protobuf import json_format  # type: ignore[import-untyped]
    from kfp.pipeline_spec import pipeline_spec_pb2

    remedy = f"{source} is not a pipeline compiled for Vertex AI; `python -m pipeline compile` writes one"
    try:
        with path.open() as file:
            spec = yaml.safe_load(file)
        json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
        assert isinstance(spec, dict)
        check(bool(spec["root"] and spec["pipelineInfo"]["name"]), remedy)
        schema = str(spec["schemaVersion"])
        check(
            schema in SCHEMAS,
            f"{source} has the schema version {schema} ({spec.get('sdkVersion')}), but Vertex AI reads "
            f"{' and '.join(SCHEMAS)}; compile it with the kfp that this project pins",
        )
    except OSError as error:
        raise UserError(f"template {source}: {error.strerror}; {remedy}") from None
    except (yaml.YAMLError, json_format.ParseError, UnicodeDecodeError, AttributeError, TypeError, KeyError):
        raise UserError(remedy) from None
    return spec
