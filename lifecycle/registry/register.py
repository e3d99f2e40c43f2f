"""Use of a registry by the pipeline: connect to it, compare a model with its default, register the model."""

import dataclasses
import hashlib
import json
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from lifecycle.registry.address import Address
from lifecycle.registry.decisions import folder_of
from lifecycle.registry.folder_registry import BucketRegistry, LocalRegistry
from lifecycle.registry.trial import write_shipped_maps
from lifecycle.registry.versions import Look, Registry, Version, numbered
from lifecycle.registry.vertex_registry import VertexRegistry
from lifecycle.vertex import VertexRegion, parent_of
from trainer.data import Manifest, PreparedData
from trainer.errors import NotFoundError, SettingError, check
from trainer.evaluation import EvaluateConfig, Evaluation, Lineage
from trainer.machine import code_version
from trainer.models import DEFAULT, PRETRAINED, PRETRAINED_VERSION, REGISTRY, Provenance, find_model, number_of
from trainer.network import ModelFolder
from trainer.places import stored_at

DATA_FACTS = ("dataset", "source", "fingerprint", "image_size", "counts")
"""Fields of a dataset's manifest that go into the lineage of a model."""
REGISTERED_NAME = re.compile(r"([A-Za-z0-9_-]+)@([A-Za-z0-9_-]+)")
"""A base model by its name in the run's registry, such as msinet@default or msinet@3."""
Key = TypeVar("Key")


def open_registry(location: str = "") -> Registry:
    """The registry at `location`, such as `vertex://my-project/us-central1`, `gs://runs/models`, or a folder.

    An empty one is `models` in the working directory.

    A folder of the mount of Vertex AI is taken by its `gs://` address.
    """
    if Address.found(location):
        return VertexRegistry.at(location)
    place = stored_at(location).unmounted
    return LocalRegistry.at(str(place)) if place.is_local else BucketRegistry.at(str(place))


def resolve_base_model(uri: str, location: str) -> tuple[str, str]:
    """Where the model is that `base_model_uri` names, and which version of the registry it is, as NAME@NUMBER.

    NAME@VERSION and NAME@ALIAS are looked up in the registry. Any other `uri` is returned unchanged, with an empty
    version. Example: `("gs://runs/models/msinet/3", "msinet@3")` for `msinet@default`.

    Raises `UserError` if the registry has no such version.
    """
    match = REGISTERED_NAME.fullmatch(uri)
    if not match:
        return uri, ""
    name, version = match.groups()
    registry = open_registry(location)
    versions = numbered(registry.versions(name))
    shown = f"{location or REGISTRY}/{name}"
    check(
        bool(versions),
        f"base_model_uri is {uri}, but {shown} has no version yet. Make the first with base_model_uri=pretrained",
        NotFoundError,
    )
    number = number_of(shown, version, sorted(versions), registry.aliases(name))
    return versions[number].address, f"{name}@{number}"


def check_shared(location: str, name: str, endpoint: str = "") -> None:
    """Check, before anything is trained, that tasks in other containers could register a version of model `name`.

    Raises `UserError` if the registry is inside a container, if nothing can be written to it, if its default
    cannot be read, or if the endpoint does not exist or has another model.
    """
    check(
        location.startswith("/") or Address.found(location) is not None or not stored_at(location).is_local,
        f"registry is {location or REGISTRY!r}, a folder that only one container has, and that is "
        "lost with it. Set registry to gs://BUCKET/FOLDER, or to the absolute path of a mounted folder",
        SettingError,
    )
    open_registry(location).check_writable(name)
    if endpoint:
        VertexRegistry.at(location).check_endpoint(name, endpoint)
    print(f"a version of model {name!r} can be added to {location}")


def fetched_of(data: Mapping[str, str]) -> dict[str, str]:
    """The folders, by name such as `base`, that have a prepared dataset. A run may not need all."""
    return {name: folder for name, folder in data.items() if PreparedData(folder).is_there}


def digest_of_inputs(*inputs: str) -> str:
    """SHA-256 of the code's version and of a run's settings, data and start, which are `inputs`.

    Runs with an equal digest make the same model, if a start that is a name in the registry was the same version.
    Lineage.UNKNOWN if the commit of the code is not known.
    """
    code = code_version()
    if "+" not in code or code.endswith("-dirty"):
        return Lineage.UNKNOWN
    return hashlib.sha256(json.dumps([code, *inputs]).encode()).hexdigest()


def version_made_of(inputs: str, base_version: str, registry: Registry, name: str) -> Version | None:
    """The version of model `name` that a run of these inputs would only make and judge again. None without one.

    It was made of inputs with this `digest_of_inputs`, whatever its alias is now, and
    - the comparison with the default is known: it is the default, was compared with it, or is a version that the
      default replaced, directly or through others.
    - `base_version`, the version that the run would start from (`resolve_base_model`), is the one that it started
      from, itself, or one made from it. So its own promotion is nothing new to a start named by an alias, but a
      version that was made of other data, or that a person made the default, is.
    """
    versions = registry.versions(name)
    default = registry.aliases(name).get(DEFAULT, PRETRAINED_VERSION)
    compared = {each.number: each.facts.compared_with for each in versions}
    opponents = {number: opponent for number, opponent in compared.items() if opponent is not None}
    lineages = {f"{name}@{each.number}": each.facts.lineage for each in versions}
    starts = {own: lineage.base_version for own, lineage in lineages.items()}
    replaced, ancestors = _line_of(default, opponents), _line_of(base_version, starts)
    for version in versions:
        own = f"{name}@{version.number}"
        is_made_of = lineages[own].inputs == inputs != Lineage.UNKNOWN
        is_judged = version.number in replaced or opponents.get(version.number) == default
        if is_made_of and is_judged and (own in ancestors or starts[own] == base_version):
            return version
    return None


def _line_of(key: Key, before: Mapping[Key, Key]) -> set[Key]:
    """`key`, the one before it, the one before that, and so on. Example: 4, 3 and 1 for `{4: 3, 3: 1}`."""
    line: set[Key] = set()
    while key not in line:
        line.add(key)
        key = before.get(key, key)
    return line


def lineage_of(
    run: str,
    data: Mapping[str, str],
    model: str,
    inputs: str = Lineage.UNKNOWN,
    base_version: str = "",
    region: VertexRegion | None = None,
) -> dict[str, Any]:
    """The origin of a model: the run, the code, the prepared data of each step and of the test, and the settings.

    Args:
        run: Name of the run.
        data: Folder of prepared data by step or `test`.
        model: Folder of the trained model.
        inputs: The `digest_of_inputs` of the run.
        base_version: The version that it started from, such as `msinet@3`.
        region: Of a run on Vertex AI with a registry there, so that the console links a version with the run.
    """
    job = {"pipeline_job": f"{parent_of(region)}/pipelineJobs/{run}"} if region else {}
    manifests = {step: Manifest.load(folder) for step, folder in data.items()}
    return {
        "run": run,
        "folder": folder_of(run, model),
        "code_version": code_version(),
        "inputs": inputs,
        "base_version": base_version,
        "data": {
            step: {name: getattr(manifest, name) for name in DATA_FACTS}
            | {"statistics": PreparedData(data[step]).statistics()}
            for step, manifest in manifests.items()
        },
        "model": ModelFolder(model).config("train the model again"),
        **job,
    }


def judge_of(default: Version | None) -> pathlib.Path:
    """The folder of the model that a candidate is compared with: the default's, if that was trained on real data.

    Until a version is better, it is `pretrained`, which also takes the place of a default that was trained on
    generated shapes.
    """
    is_useful = default and not Provenance(default.model_config).is_sample
    return default.model if default and is_useful else find_model(PRETRAINED)


def evaluate_candidate(
    config: EvaluateConfig,
    location: str,
    name: str,
    model: str,
    data: Sequence[str],
    output: str,
    trained_on: Iterable[str] = (),
    run: str = "",
    data_warnings: Sequence[str] = (),
    questions: Sequence[str] = (),
) -> tuple[Evaluation, int]:
    """Evaluate a candidate and the current default of model `name` (`judge_of`) on the same images.

    Args:
        config: Settings of the evaluation.
        location: The registry, as in `open_registry`.
        name: Name of the model in the registry.
        model: Folder of the candidate.
        data: Folders of prepared datasets. The first one decides, or the test set.
        output: Folder for the evaluation.
        trained_on: Folders of the data of all training steps.
        run: Name of the run. Without one, the evaluation decides nothing and has no number of its own.
        data_warnings: Sentences about the data, for the report.
        questions: Those among them that hold a promotion.

    Returns the evaluation, and the number of the default version.
    """
    from trainer.evaluation import evaluate_models

    registry = open_registry(location)
    default, folders = registry.default(name), PreparedData.by_name(data)
    compared_with = default.number if default else PRETRAINED_VERSION
    champion = judge_of(default)
    n_known = default.facts.n_known if default and champion == default.model else 0
    look = Look(run, pathlib.Path(model), compared_with, _made_of(config, model, folders))
    # Before the evaluation: a run that is killed after it has looked.
    decision = registry.decide(name, look) if run else registry.next_decision(name)
    evaluation = evaluate_models(
        config,
        model,
        folders,
        output,
        champion,
        trained_on,
        run,
        decision,
        data_warnings=data_warnings,
        questions=questions,
        n_known=n_known,
    )
    if run and not evaluation.decided:
        registry.undecided(name, look)
    if Address.found(location):
        write_shipped_maps(model, pathlib.Path(output))
    return evaluation, compared_with


def _made_of(config: EvaluateConfig, model: str, folders: Mapping[str, pathlib.Path]) -> str:
    """The digest of what the comparison of a model depends on. Empty if what the model is made of is not known."""
    trained = ModelFolder(model).config("train the model again")
    data = [Manifest.load(folder).fingerprint for folder in folders.values()]
    digest = digest_of_inputs(
        json.dumps([dataclasses.asdict(config), trained.get("identity"), data], sort_keys=True)
    )
    return digest if trained.get("identity") and digest != Lineage.UNKNOWN else ""


def _decision_facts(evaluation: Evaluation) -> dict[str, Any]:
    """What a version's record says of its decision, beside whether it was promoted and why."""
    deciding, known = evaluation.deciding, evaluation.known
    told = {
        "end": evaluation.end,
        "known": dataclasses.asdict(known) if known else None,
        "n_known": evaluation.n_known,
        "decision": evaluation.decision,
        "held": evaluation.is_held,
        "could_find": deciding.could_find,
    }
    facts: dict[str, Any] = {
        "decided": evaluation.decided,
        **{name: value for name, value in told.items() if value},
    }
    if evaluation.questions is not None:
        facts["findings"] = evaluation.questions
    if gain := deciding.decisive_gain:
        facts["gain"] = {"metric": evaluation.metric, "spread": deciding.spread, **dataclasses.asdict(gain)}
    return facts


def register_model(
    registry: Registry, name: str, model: str, evaluation: str, compared_with: int, facts: Mapping[str, Any]
) -> tuple[int, str]:
    """Register an evaluated model. Returns the number of its version and its alias, such as `(4, "default")`.

    `model` and `evaluation` are folders, `compared_with` is the version that `evaluate_candidate` returned, and
    `facts` is the model's `lineage_of`.
    """
    folder = pathlib.Path(evaluation)
    results = Evaluation.read(folder, "evaluate the model first")
    record = {
        "metrics": {dataset: result.models["candidate"] for dataset, result in results.datasets.items()},
        "decided_on": results.decides,
        "compared_with": compared_with,
        "reason": results.reason,
        "promote": results.promote,
        **_decision_facts(results),
        "lineage": facts,
    }
    number, alias = registry.add(name, pathlib.Path(model), record, results.promote, compared_with, folder)
    if results.promote and alias != DEFAULT:
        current = registry.aliases(name).get(DEFAULT, PRETRAINED_VERSION)
        print(
            f"warning: another run has moved the default of model {name!r} from version {compared_with} to "
            f"{current} since this model was evaluated. Compare both, and if this one is better, run "
            f"`python -m pipeline registry set-default {number}`"
        )
    return number, alias
