"""The compiled pipeline: write it, publish it, load it, and read its parameters."""

import copy
import dataclasses
import pathlib
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components import NEVER_CACHED
from lifecycle.runs import Place, Values
from lifecycle.vertex import brief_error, reported_errors
from pipeline.graph.environment import Environment
from pipeline.graph.prediction import Prediction
from pipeline.graph.preparation import Preparation
from trainer.errors import ContentError, SettingError, UnknownNameError, check, check_choice
from trainer.io import read_yaml, replacing
from trainer.settings import as_type
from trainer.texts import nearest

REPOSITORY = r"https://[a-z0-9-]+-kfp\.pkg\.dev/[^/]+/[^/]+"
"""Address of a repository of templates in Artifact Registry."""
LOOPBACK = r"http://127\.0\.0\.1:\d+/.+"
"""Address of one on this machine, as in tests. It gets no credentials."""
TYPES: dict[str, type] = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float, "BOOLEAN": bool}
"""Types of a compiled pipeline's parameters, by their names there."""
CACHING = ("as-compiled", "on", "off")
"""How a run takes results of tasks from the cache.

Either as the pipeline was compiled, or of all tasks except NEVER_CACHED, or of none.
"""
UNCACHED = re.compile(rf"comp-({'|'.join(NEVER_CACHED)})(-\d+)?")
"""Names of components with results that must never come from the cache. Example: `comp-check-run`."""
VERSION = r"https?://.+/(?P<package>[^/]+)/(?P<version>sha256:[0-9a-f]{64})"
WRITE_VERSION = "Write it as https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/sha256:DIGEST"


def write_pipeline(environment: Environment, output: pathlib.Path) -> None:
    """Compile the pipeline for `environment` and write it to `output`."""
    _write(pipeline_for(environment), output)


def pipeline_for(environment: Environment) -> Any:
    """The pipeline for `environment`, as a function of its parameters. This call loads KFP, in seconds."""
    from pipeline.graph.dag import build_pipeline

    return build_pipeline(environment)


def write_prediction(environment: Environment, asked: Prediction, output: pathlib.Path) -> None:
    """Compile the pipeline of a batch prediction for `environment` and write it to `output`."""
    from pipeline.graph.prediction_dag import build_prediction

    _write(build_prediction(environment, asked), output)


def write_preparation(environment: Environment, asked: Preparation, output: pathlib.Path) -> None:
    """Compile the pipeline that prepares a dataset in shards for `environment` and write it to `output`."""
    from pipeline.graph.preparation_dag import build_preparation

    _write(build_preparation(environment, asked), output)


def _write(pipeline: Any, output: pathlib.Path) -> None:
    from kfp import compiler

    with replacing(output) as partial:
        compiler.Compiler().compile(pipeline, str(partial))


def write_components(environment: Environment, folder: pathlib.Path) -> list[pathlib.Path]:
    """Compile the tasks that other pipelines can use. Each is a file in `folder`, such as `train_msinet.yaml`."""
    from kfp import compiler, dsl

    from components import evaluate_model, fetch_dataset, train_msinet

    component = dsl.component(base_image=environment.image, install_kfp_package=False)
    written = []
    for task in (fetch_dataset.fetch_dataset, train_msinet.train_msinet, evaluate_model.evaluate_model):
        written.append(folder / f"{task.python_func.__name__}.yaml")
        with replacing(written[-1]) as partial:
            compiler.Compiler().compile(component(task.python_func), str(partial))
    return written


@dataclasses.dataclass(frozen=True)
class Template:
    """A compiled pipeline: its specification, and its address if it comes from Artifact Registry."""

    spec: dict[str, Any]
    uri: str = ""

    @classmethod
    def load(cls, environment: Environment, source: str = "", caching: str = "as-compiled") -> "Template":
        """The template at `source`, with this caching.

        Args:
            environment: What the pipeline is compiled for if `source` is empty.
            source: A file, or an address in Artifact Registry. Example:
                `https://us-central1-kfp.pkg.dev/p/pipelines/msinet/sha256:DIGEST`, with all 64 digits.
            caching: One of CACHING.

        Raises `UserError` if it cannot be read or is not a pipeline compiled for Vertex AI.
        """
        check_choice("caching", caching, CACHING)
        if not source:
            template = cls(_compiled(environment))
        elif not re.match("https?://", source):
            template = cls(_read(pathlib.Path(source), source))
        else:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "pipeline.yaml"
                _download(environment, source, path)
                template = cls(_read(path, source), source)
        return template._cached(caching)

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        return str(self.spec["pipelineInfo"]["name"])

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        """The definition of each parameter. Example: `{"seed": {"parameterType": "NUMBER_INTEGER", ...}}`."""
        return dict(self.spec["root"].get("inputDefinitions", {}).get("parameters", {}))

    def defaults(self) -> dict[str, Any]:
        """The defaults of the parameters, converted to their types."""
        values = {}
        for name, definition in self.parameters.items():
            if "defaultValue" in definition:
                kind, default = TYPES.get(definition["parameterType"]), definition["defaultValue"]
                values[name] = as_type(name, default, kind) if kind else default
        return values

    def values(self, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All parameters that a run with these arguments of the form has, as far as the template sets them."""
        return Values.flattened({**self.compiled(), **self.defaults(), **(arguments or {})})

    def compiled(self) -> dict[str, Any]:
        """The values of parameters that the environment sets."""
        return dict(self._constant("compiled", {}))

    @property
    def image_pattern(self) -> str:
        """Name of the images with `{}` for the kind, such as `host/msinet-{}:v1`; empty in others' pipelines."""
        return str(self._constant("image_pattern", ""))

    def _constant(self, name: str, default: Any, of: str = "check-run") -> Any:
        """A constant of the task `of`; `default` if there is none."""
        for component in (self.spec["root"], *self.spec.get("components", {}).values()):
            if task := component.get("dag", {}).get("tasks", {}).get(of):
                return task["inputs"]["parameters"][name]["runtimeValue"]["constant"]
        return default

    @property
    def places(self) -> list[Place]:
        """The regions in which a run tries to get machines, if it falls back by itself. Otherwise empty."""
        return [Place(**each) for each in self._constant("places", [], "fall-back")]

    def check_names(self, names: Iterable[str]) -> None:
        """Raise `UserError` for a name that is no parameter of this template."""
        for name in names:
            check(
                name in self.parameters,
                f"the template has no parameter {name!r}. If another version of this project compiled it, compile "
                f"or publish it again{nearest(name, self.parameters)}",
                UnknownNameError,
            )

    def _cached(self, how: str) -> "Template":
        """A copy with another caching, one of CACHING."""
        if how == "as-compiled":
            return self
        spec = copy.deepcopy(self.spec)
        components = spec.get("components", {})
        for component in (spec["root"], *components.values()):
            for task in component.get("dag", {}).get("tasks", {}).values():
                name = task["componentRef"]["name"]
                # A branch has tasks that are never cached.
                is_cacheable = UNCACHED.fullmatch(name) is None and "dag" not in components.get(name, {})
                task["cachingOptions"] = {"enableCache": True} if how == "on" and is_cacheable else {}
        return Template(spec, self.uri)


# === Artifact Registry and files ===


def registry_client(repository: str) -> Any:
    """A client of the repository of templates, with this machine's credentials. With none on loopback.

    Raises `UserError` for any other server, since the client would send it a token. Example: a repository of
    images, `https://us-central1-docker.pkg.dev/p/msinet`.
    """
    from google.auth.transport import requests as _  # noqa: F401  the client uses it but does not import it
    from kfp.registry import ApiAuth, RegistryClient

    is_loopback = re.fullmatch(LOOPBACK, repository) is not None
    check(
        is_loopback or re.fullmatch(REPOSITORY, repository) is not None,
        f"{repository!r} is no repository of templates. Write https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY",
        SettingError,
    )
    return RegistryClient(repository, ApiAuth("") if is_loopback else None)


def publish(environment: Environment, tags: Sequence[str] = ("latest",)) -> list[str]:
    """Compile the pipeline and the components for `environment`, upload them, and return their addresses.

    Uploading the same pipeline again adds tags to the same version. A tag of another version moves to this one.
    Raises `UserError` for a malformed repository, and if the upload is refused.
    """
    environment.require_target("vertex")
    check(
        bool(environment.template_repository),
        "template_repository is empty. Add it to the TOML file of the environment",
        SettingError,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "pipeline.yaml"
        write_pipeline(environment, path)
        with reported_errors():
            client = registry_client(environment.template_repository)
            addresses = []
            for file in (path, *write_components(environment, path.parent)):
                name, version = client.upload_pipeline(str(file), tags=list(tags))
                addresses.append(f"{environment.template_repository}/{name}/{version}")
    return addresses


def _compiled(environment: Environment) -> dict[str, Any]:
    """The content of the file that `write_pipeline` writes."""
    from google.protobuf import json_format  # type: ignore[import-untyped]

    return dict(json_format.MessageToDict(pipeline_for(environment).pipeline_spec))


def _download(environment: Environment, address: str, path: pathlib.Path) -> None:
    parts = re.fullmatch(VERSION, address)
    if parts is None:
        # A tag may have moved since you looked, and Vertex AI has returned error 500 for tags.
        raise SettingError(f"template {address} does not name one version. {WRITE_VERSION}")
    with reported_errors():
        client = registry_client(address.removesuffix(f"/{parts['package']}/{parts['version']}"))
        client.download_pipeline(parts["package"], version=parts["version"], file_name=str(path))


def _read(path: pathlib.Path, source: str) -> dict[str, Any]:
    remedy = "`python -m pipeline compile` writes one"
    spec = read_yaml(path, remedy)
    try:
        assert spec["root"]
        assert spec["pipelineInfo"]["name"]
    except (AssertionError, TypeError, KeyError) as error:
        raise ContentError(
            f"{source} is not a pipeline compiled for Vertex AI ({brief_error(error)}). {remedy}"
        ) from None
    return dict(spec)
