"""Environments: where a pipeline runs and with which parameters. Each is one TOML file in configs/.

A run's parameters have the values of its environment. What a user passes overrides them. Two parameters bring
others (`layered_values`):

- The source `sample` brings the settings of configs/sample.toml. Other settings are for thousands of images.
- A recipe replaces the settings that came before it.

This is the only module that knows the names of the images.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from components import IMAGE
from lifecycle.machines import check_outside_pod
from lifecycle.registry import OWNER, Address
from lifecycle.runs import PARAMETERS, REGIONAL, STEPS, WEBHOOK_VARIABLE, Place, Values
from lifecycle.vertex import check_api_address
from pipeline.graph.accelerator_table import check_region
from trainer.data import SAMPLE
from trainer.errors import (
    AmbiguousError,
    MismatchError,
    SettingError,
    UnknownNameError,
    UserError,
    check,
    check_choice,
)
from trainer.io import read_toml
from trainer.places import stored_at
from trainer.settings import Value
from trainer.texts import nearest
from trainer.training import RECIPES, TrainConfig

PIPELINE_NAME = "msinet"
IMAGE_KINDS = ("cpu", "gpu", "tpu", "serving")
COMMON_IMAGES = ("cpu", "serving")
"""Images that every run on Vertex AI needs.

Tasks run in the first. The registry copies the other with each version: `ModelContainerSpec.image_uri` of the
API.
"""
CONFIGS = pathlib.Path(__file__).parents[2] / "configs"
SAMPLE_FILE = str(CONFIGS / f"{SAMPLE}.toml")
GUIDE = "docs/vertex.md, step 2"
KUBEFLOW_GUIDE = "docs/kubeflow.md, step 4"
"""Where to read how to make an environment."""
TARGET_NAMES = ("local", "vertex", "kubeflow")
REQUIRED_KEYS = {
    "local": (),
    "vertex": ("project", "location", "bucket", "image_repository", "image_tag"),
    "kubeflow": ("bucket", "image_repository", "image_tag"),
}
"""Target -> keys that its environments must have."""
STARTS = {
    "local": "Run it with `python -m pipeline run --env {}`",
    "vertex": "Start it with `python -m pipeline submit --env {}`",
    "kubeflow": "Write its file with `python -m pipeline compile --env {0} --output {0}.yaml`, and upload it to "
    "Kubeflow (docs/kubeflow.md)",
}
"""Target -> how to run the pipeline there. The name of the environment is to be inserted."""
KUBERNETES = "kubernetes:"
"""Prefix of the name of a Kubernetes secret."""
KEY_TYPES: dict[str, tuple[type, str]] = {
    "notify": (list, "a list of strings"),
    "labels": (dict, "a table of strings"),
}
"""Keys of a TOML file with values that are no strings -> their type and its description."""
RESOURCE_PATTERN = "projects/[^/]+/secrets/[^/]+(/versions/[^/]+)?"
"""Pattern of the name of a secret of Secret Manager."""
REGIONAL_KEYS = (
    *("name", "location", "bucket", "models", "template_repository", "build_service_account", "parameters"),
    "further",
)
"""Fields that may differ between environments of which one takes over runs of the other.

The folder of versions is in the address of the registry, which must not differ.
"""
WEBHOOKS = {"vertex": RESOURCE_PATTERN, "kubeflow": f"{RESOURCE_PATTERN}|{KUBERNETES}[^/]+/[^/]+"}
"""Target -> pattern of the name of a secret. The secret has the address of a webhook."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """Where a pipeline runs. The fields are the keys of its TOML file.

    Example: `target = "vertex"` needs `project`, `location`, `bucket`, `image_repository` and `image_tag`.
    """

    name: str
    target: str = "local"
    project: str = ""
    location: str = ""
    bucket: str = ""
    """`gs://` prefix of what the pipeline writes, or on Kubeflow the folder where `volume_claim` is mounted."""
    models: str = ""
    """Vertex AI: `gs://` folder of registered versions, in a bucket that keeps what is deleted.

    If empty, it is `models` in `bucket`.
    """
    volume_claim: str = ""
    """Kubeflow: PersistentVolumeClaim that every task mounts at `bucket`. None if empty."""
    service_account: str = ""
    """Account that runs the pipeline. The project's default account if empty."""
    network: str = ""
    """VPC network to peer with, as projects/NUMBER/global/networks/NAME. None if empty."""
    image_repository: str = ""
    image_tag: str = "latest"
    build_service_account: str = ""
    """Account that builds the images. The default account of Cloud Build if empty."""
    template_repository: str = ""
    """Artifact Registry repository of compiled pipelines, as https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY."""
    endpoint: str = ""
    """Address of the API. The public one of the location if empty."""
    notify: Sequence[str] = ()
    """Vertex AI: e-mail addresses that are notified when a run ends (at most three)."""
    webhook: str = ""
    """Secret with the address of a webhook. A message is posted there when a run ends.

    Examples: projects/P/secrets/S of Secret Manager, or on Kubeflow kubernetes:SECRET/KEY.
    """
    webhook_on: str = "all"
    """Which ends are posted: `all` or `failure`."""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Labels of runs, schedules and models."""
    parameters: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    further: "Sequence[Environment]" = ()
    """Vertex AI: environments in other regions, tried in turn if a training gets no machine. No key of a file."""

    def __post_init__(self) -> None:
        check_choice("target", self.target, TARGET_NAMES)
        for name in REQUIRED_KEYS[self.target]:
            check(bool(getattr(self, name)), f"{name} is empty, and target {self.target} needs it", SettingError)
        object.__setattr__(self, "bucket", self.bucket.rstrip("/"))
        check_region(self.location)  # part of the address of the API, to which a token is sent
        check_api_address(self.endpoint)
        if self.volume_claim:
            check_outside_pod("bucket", self.bucket)
        is_folder = self.bucket.startswith("/") if self.volume_claim else not stored_at(self.bucket).is_local
        check(
            not self.bucket or is_folder,
            f"bucket is {self.bucket!r}. Write gs://NAME or gs://NAME/FOLDER, or with volume_claim the folder "
            "where the volume is mounted",
            SettingError,
        )
        # Google's task that sends them raises an error everywhere else, at the end of each run.
        check(
            not self.notify or self.target == "vertex",
            f"notify is {', '.join(self.notify)}, but only Vertex AI sends e-mails, not target {self.target}",
            SettingError,
        )

        # The value is not named: somebody may have written the address itself, a secret.
        check(
            not self.webhook or re.fullmatch(WEBHOOKS.get(self.target, ""), self.webhook) is not None,
            "webhook is not the name of a secret. Put the address of the webhook into one, and write "
            "projects/PROJECT/secrets/SECRET for Secret Manager, or kubernetes:SECRET/KEY on Kubeflow. On this "
            f"machine, the environment variable {WEBHOOK_VARIABLE} has the address",
            SettingError,
        )
        check_choice("webhook_on", self.webhook_on, ("all", "failure"))

    def require_target(self, target: str) -> None:
        """Raise `UserError` unless the environment is for `target`. It says how to run in this environment."""
        start = STARTS[self.target].format(self.name)
        check(
            self.target == target,
            f"environment {self.name} is for target {self.target}, not {target}. {start}",
            MismatchError,
        )

    @property
    def derived(self) -> dict[str, Value]:
        """Parameters that follow from the other keys. The environment's own parameters override them.

        Example: on Kubeflow, bucket `gs://b` makes the registry `gs://b/models`.
        """
        if self.target == "kubeflow":
            return {"registry": f"{self.bucket}/models", "checkpoint_dir": f"{self.bucket}/checkpoints"}
        if self.target != "vertex":
            return {}
        labels = ",".join(f"{key}={value}" for key, value in {**OWNER, **self.labels}.items())
        staging = f"&staging={self.models}" if self.models else ""
        values = {
            "registry": f"vertex://{self.project}/{self.location}?serving={self.image_of('serving')}{staging}",
            "training_service_account": self.service_account,
            "training_network": self.network,
            "training_labels": labels,
        }
        return {name: value for name, value in values.items() if value}

    @property
    def places(self) -> list[Place]:
        """The regions in which its runs try to get machines, if they fall back by themselves. Otherwise empty.

        They do with several environments, and if the environment itself names several accelerators.
        """
        accelerators = [value for name, value in self.parameters.items() if name.endswith("accelerator")]
        has_several = self.target == "vertex" and any("," in str(names) for names in accelerators)
        every = (self, *self.further) if self.further or has_several else ()
        return [Place(each.location, each.bucket) for each in every]

    @property
    def image(self) -> str:
        """Full name of the image that runs the tasks."""
        return self.image_of("cpu")

    def image_of(self, kind: str) -> str:
        """Full name of the image for cpu, gpu or tpu, or of the image that serves models (`serving`).

        Example: `us-central1-docker.pkg.dev/p/msinet/msinet-gpu:v1`.
        """
        name = f"{IMAGE.removesuffix('cpu')}{kind}:{self.image_tag}"
        return "/".join(filter(None, (self.image_repository, name)))


def load_environment(name: str) -> Environment:
    """Load the environment `name` from configs/, or from the file `name` if it ends with `.toml`.

    Raises `UserError` for an unknown environment, key or parameter, and for a value of the wrong type.
    """
    path, remedy = (
        pathlib.Path(name),
        f"To make one for your project, see {GUIDE}, or for Kubeflow {KUBEFLOW_GUIDE}",
    )
    if not name.endswith(".toml"):
        names = sorted(path.stem for path in CONFIGS.glob("*.toml"))
        known = f"(known: {', '.join(names)})"
        check(
            name in names,
            f"unknown environment {name!r}{nearest(name, names)} {known}. {remedy}",
            UnknownNameError,
        )
        path = CONFIGS / f"{name}.toml"
    content = read_toml(path, remedy)
    try:
        return _environment(path.stem, content)
    except UserError as error:
        raise error.within(str(path)) from None


def load_environments(names: str) -> Environment:
    """Load the first of several environments, such as `prod,prod-eu`, with the others as `further`.

    Raises `UserError` for an unknown one, and unless a run of the first could go on in each of the others: they
    are for Vertex AI, each in another region, and have all that makes a model in common.
    """
    first, *further = (load_environment(name) for name in names.split(","))
    if not further:
        return first
    for each in (first, *further):
        each.require_target("vertex")
    for number, each in enumerate(further, 1):
        same = next((other for other in (first, *further[: number - 1]) if other.location == each.location), None)
        check(
            same is None,
            f"environments {same.name if same else ''} and {each.name} are both in {each.location}. A run that "
            "got no machine there needs another region",
            AmbiguousError,
        )
        _check_movable(first, each)
    return dataclasses.replace(first, further=tuple(further))


def _check_movable(first: Environment, other: Environment) -> None:
    """Raise `UserError` unless a run of `first` would be the same in the region of `other`.

    What it registers must be compared with the same default, so both have one registry, and versions are in one
    bucket. Images stay where they are: they are read from another region.
    """
    before, after = (_facts_of_runs(each) for each in (first, other))
    registry = str(before["registry"])
    for name in {**before, **after}:
        was, now = before.get(name), after.get(name)
        if name == "registry":
            remedy = f"Below [parameters] of {other.name}, write registry = {json.dumps(registry)}"
        else:
            remedy = "Make them equal: a run that moves to another region keeps all but its bucket"
        check(
            was == now,
            f"{name} is {was!r} in environment {first.name}, but {now!r} in {other.name}. {remedy}",
            MismatchError,
        )
    address = Address.found(registry)
    check(
        address is None or bool(address.staging),
        f"registry of environment {first.name} is {registry!r}, without &staging=. Set models to the gs:// folder "
        "of versions: else those of another region are in the bucket of the runs there, which the registry cannot "
        "read",
        SettingError,
    )


def _facts_of_runs(environment: Environment) -> dict[str, Any]:
    """The keys and parameters of an environment that do not depend on its region."""
    keys = {name: value for name, value in vars(environment).items() if name not in REGIONAL_KEYS}
    values = layered_values(environment.derived, environment.parameters)
    return keys | {name: value for name, value in values.items() if name not in REGIONAL}


def _environment(name: str, content: dict[str, Any]) -> Environment:
    parameters = content.pop("parameters", {})
    check(
        isinstance(parameters, dict),
        "parameters are no table. Write [parameters], and below it NAME = VALUE",
        SettingError,
    )
    fields = {field.name for field in dataclasses.fields(Environment)} - {"name", "parameters", "further"}
    for key, value in content.items():
        check(
            key in fields,
            f"unknown key {key!r}. Parameters belong below [parameters]{nearest(key, fields)}",
            UnknownNameError,
        )
        kind, description = KEY_TYPES.get(key, (str, "a string"))
        check(isinstance(value, kind), f"{key} is {value!r}. It must be {description}", SettingError)
        for item in value.values() if kind is dict else value if kind is list else ():
            check(isinstance(item, str), f"{key} has {item!r}. It must be {description}", SettingError)
    return Environment(name=name, parameters=Values.converted(parameters), **content)


def layered_values(*layers: Mapping[str, Value]) -> Values:
    """The values of all layers. A later layer overrides those before it.

    Two parameters bring others:

    - The source `sample` of a step that is trained brings the sample's other settings of this step. Settings of
      the same layer and of a recipe win over them. Example: `base_source=sample base_epochs=9` trains 9 epochs.
    - A recipe takes its own settings out of earlier layers. Settings of the same layer or a later one stay, and
      `lifecycle.runs.settled.validate_values` refuses settings that contradict the recipe.
    """
    values = Values()
    for layer in layers:
        of_recipe = _recipe_settings(str({**values, **layer}.get("recipe", "")))
        if "recipe" in layer:
            values = Values({name: value for name, value in values.items() if name not in of_recipe})
        for step in Values({**values, **layer}).steps:
            source = f"{step}_source"
            if layer.get(source) == SAMPLE != values.get(source):
                sample = sample_settings(step)
                values.update({name: value for name, value in sample.items() if name not in of_recipe})
        values.update(layer)
    return values


def _recipe_settings(recipe: str) -> set[str]:
    """Names of the parameters that a recipe sets, of any training step. An unknown recipe sets none."""
    if recipe not in RECIPES:
        return set()
    return {
        name
        for step in STEPS
        for name, parameter in PARAMETERS.items()
        if parameter.config is TrainConfig
        and parameter.step in ("", step)
        and parameter.field in RECIPES[recipe].settings(fine_tuning=step == "finetune")
    }


def sample_settings(step: str) -> dict[str, Value]:
    """The parameters with which `step` trains on the sample dataset.

    Base training also has the parameters that both steps share.
    """
    values = load_environment(SAMPLE_FILE).parameters
    return {name: value for name, value in values.items() if (PARAMETERS[name].step or "base") == step}
