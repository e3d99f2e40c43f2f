"""The Vertex AI Model Registry as a `Registry`. Needs no TensorFlow.

A model is the only Vertex AI resource with its display name, and has our label. Its versions are kept in folders
of our own, laid out as in a local registry, from which the next run evaluates the default:

<root>/<name>/<run>/                 a SavedModel
<root>/<name>/<run>/assets.extra/    the same model as the trainer reads it, and `version.json`

Beside them, `defaults.json` and `decisions.json` are as in a local registry.

The folder of a version is what the container that serves it is given. It loads the model from `assets.extra/`.
An earlier commit gave its container <root>/<name>/<run>/tensorflow.serving, where `1` is the version's folder.

`pretrained`, version 0, is no version of Vertex AI. As long as it is the default, the version with Vertex AI's own
alias `default` has the alias UNPROMOTED too. Endpoints that follow the default answer with a version that is
uploaded for them, once, and has the label SHIPPED: it is none of the registry's.
"""

import dataclasses
import datetime
import functools
import os
import pathlib
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from lifecycle.registry import decisions
from lifecycle.registry.address import NUMBERED, Address, folder_of, is_for_tensorflow
from lifecycle.registry.endpoint import Endpoints
from lifecycle.registry.state_files import LedgerEntry, read_in_bucket, update_in_bucket
from lifecycle.registry.state_layout import DECISIONS, DEFAULTS
from lifecycle.registry.trial import Maps, write_shipped_maps
from lifecycle.registry.versions import (
    OWNER,
    READERS,
    RECORD,
    DefaultMove,
    Look,
    Version,
    check_model,
    copy_version,
    download_version,
    files_of,
    label,
    mounted,
    parse_record,
    promoted,
    record_bytes,
    recorded_moves,
    with_move,
)
from lifecycle.vertex import TIMEOUT_S, brief_error, parent_of, reported_errors, retried, service_client
from trainer.errors import AmbiguousError, MismatchError, NotFoundError, SettingError, UserError, check
from trainer.evaluation import SHIPPED_MAPS, VersionRecord
from trainer.io import folder_for_now
from trainer.models import CHALLENGER, DEFAULT, PRETRAINED, PRETRAINED_VERSION, Provenance, find_model
from trainer.network import ASSETS_EXTRA, ModelFolder
from trainer.places import BucketPlace, ChangedObjectError, stored_at

METRICS_SCHEMA = "gs://google-cloud-aiplatform/schema/modelevaluation/regression_metrics_1.0.0.yaml"
"""Vertex AI has no schema for saliency. This one is the nearest, since a map is a regression of each pixel. The
others are for classes, forecasts or texts."""
LOCK = ".registering"
"""Name of the object that only one run at a time can have while it registers a version of a model."""
UPLOAD_S = 240.0
"""How long an upload is waited for. One takes a minute or two."""
ABANDONED_S = 900.0
"""How long to wait for a process that has the lock. One that works gives it back sooner, see UPLOAD_S."""
STAGING = "models"
"""Default folder of the versions, in the bucket of the trained model."""
RUN_LABEL = "run"
"""Key of the label that says which run has made a version."""
UNPROMOTED = "unpromoted"
"""Alias of a version. Its alias `default` does not count, so `pretrained` is the default. A first version has it
that the gate did not promote, since Vertex AI gives it `default` in any case. A person may also have gone back to
`pretrained`."""
SHIPPED = "pretrained"
"""Key of the label of `pretrained` as an endpoint's version. The value begins its weights' checksum."""
POLL_S = 1.0


@dataclasses.dataclass(frozen=True)
class VertexRegistry(Address):
    """The registry of a project in a location, such as `vertex://my-project/us-central1`."""

    def versions(self, name: str) -> list[Version]:
        """All versions of model `name`, oldest first. See `Registry.versions`."""
        with reported_errors():
            entries = _trained(retried(lambda: self._entries(name)))
            with ThreadPoolExecutor(READERS) as pool:
                records = list(pool.map(functools.partial(_record, near=_home(entries)), entries))
        return [
            _version(entry, mounted(_address(entry)), record)
            for entry, record in zip(entries, records, strict=True)
        ]

    def aliases(self, name: str) -> dict[str, int]:
        """The number of the version that each alias names, such as `{"default": 3}`. See `Registry.aliases`."""
        with reported_errors():
            return _aliases(retried(lambda: self._entries(name)))

    def default_moves(self, name: str) -> list[DefaultMove]:
        """The moves of the default, oldest first. See `Registry.default_moves`."""
        with reported_errors():
            home = _home(retried(lambda: self._entries(name)))
        moves = recorded_moves(read_in_bucket(home, DEFAULTS)[0]) if home else []
        return moves or promoted(self.versions(name), self.aliases(name).get(DEFAULT))

    def default(self, name: str) -> Version | None:
        """The default version, or None. Its folder is downloaded, and removed when this process ends."""
        version = self._default_version(name)
        return version and dataclasses.replace(version, model=download_version(version.address))

    def _default_version(self, name: str) -> Version | None:
        """The default version, or None. Nothing is downloaded."""
        with reported_errors():
            entries = retried(lambda: self._entries(name))
            entry = _default_of(entries)
            if entry is None:
                return None
            record = _record(entry)
        check(
            "lineage" in record,
            f"version {entry.version_id}, the default of model {name!r}, was not registered by this pipeline "
            f"({_address(entry)} has no version.json of ours). Select another with "
            "`python -m pipeline registry set-default VERSION`",
            MismatchError,
        )
        return _version(entry, mounted(_address(entry)), record)

    def add(
        self,
        name: str,
        model: pathlib.Path,
        record: Mapping[str, Any],
        promote: bool,
        compared_with: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """Register a model folder. Returns the version's number and alias. See `Registry.add`.

        An upload is never repeated here: a task that failed is, and then finds what its run has registered.
        """
        check_model(model)
        facts = VersionRecord.of(record)
        run = label(facts.lineage.run)
        root = root_of(model, self.staging).join(name)
        version_dir = root.join(run)
        with reported_errors():
            entries = retried(lambda: self._entries(name))
            entry = next((entry for entry in entries if entry.labels.get(RUN_LABEL) == run), None)
            moves = self._unrecorded_moves(name, entries)
            if entry is None:
                copy_version(version_dir, ModelFolder(model).saved_model, files_of(model, evaluation))
                version_dir.upload(RECORD, record_bytes(record))
                # Two runs that end together would each find no model and make one, or no new default and be it.
                with locked_object(root, LOCK):
                    entry = self._upload(name, str(version_dir), facts, promote, compared_with)
            self._attach(entry, facts)
        number, alias = int(entry.version_id), DEFAULT if DEFAULT in _aliases([entry]) else CHALLENGER
        if alias == DEFAULT:
            _record_move(_home([*entries, entry]), moves, number, by_person=False)
        return number, alias

    def decide(self, name: str, look: Look) -> int:
        """The number of a decision. See `Registry.decide`."""
        number, versions, now = 0, self.versions(name), datetime.datetime.now(datetime.UTC)

        def change(ledger: list[LedgerEntry]) -> list[LedgerEntry]:
            nonlocal number
            ledger, number = decisions.take(ledger, versions, look, now)
            return ledger

        self._update_ledger(name, look, change)
        return number

    def undecided(self, name: str, look: Look) -> None:
        """Give the number of a decision back. See `Registry.undecided`."""
        self._update_ledger(name, look, lambda ledger: decisions.give_back(ledger, look))

    def _update_ledger(
        self, name: str, look: Look, change: Callable[[list[LedgerEntry]], list[LedgerEntry]]
    ) -> None:
        with reported_errors():
            home = _home(retried(lambda: self._entries(name)))
        home = home or root_of(look.model, self.staging).join(name)  # where the first version will be
        update_in_bucket(home, DECISIONS, change)

    def next_decision(self, name: str) -> int:
        """The number that the next decision would have. See `Registry.next_decision`.

        Before the first version, decisions are known only if the registry's address has a folder for versions.
        """
        with reported_errors():
            home = _home(retried(lambda: self._entries(name)))
        home = home or (BucketPlace.at(self.staging, "staging").join(name) if self.staging else None)
        ledger = read_in_bucket(home, DECISIONS)[0] if home else []
        return decisions.free_number(ledger, self.versions(name), datetime.datetime.now(datetime.UTC))

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let `alias` name `version`. See `Registry.set_alias`."""
        with reported_errors():
            entries = retried(lambda: self._entries(name))
            numbers = [int(entry.version_id) for entry in _trained(entries)]
            if numbers and alias == DEFAULT:
                numbers.insert(0, PRETRAINED_VERSION)
            check(
                version in numbers,
                f"model {name!r} has no version {version} in {self.project}, {self.location} "
                f"(versions: {', '.join(map(str, numbers)) or 'none'})",
                NotFoundError,
            )
            if alias != DEFAULT:
                self._change_aliases(_numbered(entries, version), [alias])
                return
            moves = self._unrecorded_moves(name, entries)
            # First the endpoint: if the version does not answer as it should, nothing has changed.
            self._move_endpoints(name, entries, version)
            if version == PRETRAINED_VERSION:
                while default := _default_of(retried(lambda: self._entries(name))):
                    self._change_aliases(default, [UNPROMOTED])  # another run may have promoted one meanwhile
            else:
                entry = _numbered(entries, version)
                removed = [f"-{UNPROMOTED}"] if UNPROMOTED in entry.version_aliases else []
                self._change_aliases(entry, [DEFAULT, *removed])
        try:
            _record_move(_home(entries), moves, version, by_person=True)
        except UserError as error:  # the default has moved nevertheless
            print(f"warning: when the default moved is not written down: {error}", file=sys.stderr)

    def _change_aliases(self, entry: Any, changes: list[str]) -> None:
        """Give a version aliases, which others lose, or take them with a `-` before their names. Idempotent.

        Example: `["default", "-challenger"]`.
        """
        resource = f"{_parent([entry])}@{entry.version_id}"
        retried(lambda: self._client().merge_version_aliases(name=resource, version_aliases=changes))

    def _unrecorded_moves(self, name: str, entries: list[Any]) -> list[DefaultMove]:
        """The moves of the default before the first that is written down. None if one is."""
        home = _home(entries)
        if not home or read_in_bucket(home, DEFAULTS)[1]:
            return []
        return promoted(self.versions(name), _aliases(entries).get(DEFAULT))

    def serve_default(self, name: str) -> None:
        """Give the default all traffic of the endpoints that follow it. See `Registry.serve_default`."""
        with reported_errors():
            entries = retried(lambda: self._entries(name))
            default = _aliases(entries).get(DEFAULT, PRETRAINED_VERSION)
            check(
                bool(entries) and self._move_endpoints(name, entries, default),
                f"no endpoint in {self.project}, {self.location} follows the default of model {name!r}. Name one "
                "with --endpoint",
                NotFoundError,
            )

    def _move_endpoints(self, name: str, entries: list[Any], version: int) -> bool:
        """Let this version alone answer where the default is followed. Returns whether it is anywhere."""
        endpoints = Endpoints(self, name)
        following = endpoints.following()
        if following:
            entry = _numbered(entries, version) if version else self._shipped(name, entries)
            for endpoint in following:
                endpoints.move(endpoint.name, entry, _expected_maps(entry))
        return bool(following)

    def _shipped(self, name: str, entries: list[Any]) -> Any:
        """The entry of `pretrained` for endpoints. It is uploaded if it is not there.

        Its files and its SHIPPED_MAPS are kept beside the folders of the other versions.
        """
        source = find_model(PRETRAINED)
        weights = label(ModelFolder(source).config()["weights_sha256"][:12])
        for entry in entries:
            if entry.labels.get(SHIPPED) == weights and not is_for_tensorflow(entry):
                return entry
        self.check_serving()
        files = {name: source / name for name in ModelFolder.among([path.name for path in source.iterdir()])}
        maps = write_shipped_maps(str(source), folder_for_now())
        uri = f"{_home(entries)}/{PRETRAINED}-{weights}"
        copy_version(BucketPlace(uri).connected(), None, files | maps)
        about = f"{PRETRAINED}, the model that comes with the package: version 0, for endpoints."
        fields = {"version_description": about, "labels": {SHIPPED: weights, **OWNER}}
        return self._send(name, uri, entries, fields)

    def check_endpoint(self, name: str, endpoint: str) -> Any:
        """The endpoint of this name or ID. Raises `UserError` unless it exists and has no model but `name`."""
        with reported_errors():
            return Endpoints(self, name).find(endpoint, retried(lambda: self._entries(name)))

    def follow(self, name: str, endpoint: str) -> str:
        """Let an endpoint, such as `demo`, follow the model's default from now on. Returns its resource name."""
        found = self.check_endpoint(name, endpoint)
        with reported_errors():
            Endpoints(self, name).follow(found)
        return str(found.name)

    def deploy(self, name: str, version: int, endpoint: str, traffic: int) -> None:
        """Let an endpoint `follow` the default, and deploy a version there for `traffic` percent of the requests.

        Raises `UserError` if the version does not answer as in its evaluation. The endpoint is then as before.
        """
        followed = self.follow(name, endpoint)
        with reported_errors():
            entries = retried(lambda: self._entries(name))
            entry = _numbered(entries, version)
            Endpoints(self, name).deploy(followed, entry, _expected_maps(entry), traffic)

    def resource_of(self, name: str, number: int) -> tuple[str, str]:
        """The address and the resource name of a version. See `Registry.resource_of`.

        Example of a resource name: `projects/my-project/locations/us-central1/models/123@4`.
        """
        with reported_errors():
            resource = f"{_parent(retried(lambda: self._entries(name)))}@{number}"
        return f"https://{self.location}-aiplatform.googleapis.com/v1/{resource}", resource

    def check_writable(self, name: str) -> None:
        """Raise `UserError` if the versions' folder cannot be written, or the default not be read.

        Whether a model may be uploaded shows only when one is.
        """
        self.check_serving()
        if self.staging:
            BucketPlace.at(self.staging, "staging").join(name).check_writable()
        self._default_version(name)

    # === Vertex AI ===

    def _client(self) -> Any:
        from google.cloud.aiplatform_v1 import ModelServiceClient

        return service_client(ModelServiceClient, self)

    def _entries(self, name: str) -> list[Any]:
        """The versions of the only model with this display name, as the API describes them, oldest first."""
        client = self._client()
        request = {"parent": parent_of(self), "filter": f'display_name="{name}"'}
        models = list(client.list_models(request, timeout=TIMEOUT_S))
        names = ", ".join(sorted(model.name.partition("@")[0] for model in models))
        check(
            len(models) < 2,
            f"{len(models)} models in {self.project}, {self.location} are called {name!r}: {names}. Delete or "
            "rename all but one, or choose another model_name",
            AmbiguousError,
        )
        if not models:
            return []
        check(
            OWNER.items() <= dict(models[0].labels).items(),
            f"the model {name!r} ({names}) was not made by this pipeline: its default version lacks the label "
            f"{'='.join(*OWNER.items())}. Choose another model_name",
            MismatchError,
        )
        versions = client.list_model_versions(name=names, timeout=TIMEOUT_S)
        return sorted(versions, key=lambda entry: int(entry.version_id))

    def _upload(self, name: str, uri: str, record: VersionRecord, promote: bool, compared_with: int) -> Any:
        entries = retried(lambda: self._entries(name))
        # Another run may have moved the default after this model was compared with it.
        is_better = promote and _aliases(entries).get(DEFAULT, PRETRAINED_VERSION) == compared_with
        challenger = [CHALLENGER] if entries else [CHALLENGER, UNPROMOTED]
        fields = {
            "version_aliases": [DEFAULT] if is_better else challenger,
            "version_description": description_of(record),
            "labels": labels_of(record),
        }
        if job := record.lineage.pipeline_job:
            fields |= {"pipeline_job": job}
        return self._send(name, uri, entries, fields)

    def _send(self, name: str, uri: str, entries: list[Any], fields: Mapping[str, Any]) -> Any:
        """Upload the artifacts at `uri`, to the model that has `entries` if there are any. Returns the entry."""
        model = {"display_name": name, "artifact_uri": uri, "container_spec": self.container_spec, **fields}
        request = {"parent": parent_of(self), "model": model}
        if entries:
            request["parent_model"] = _parent(entries)
        client = self._client()
        uploaded = client.upload_model(request, timeout=TIMEOUT_S).result(UPLOAD_S)
        version = f"{uploaded.model}@{uploaded.model_version_id}"
        return retried(lambda: client.get_model(name=version, timeout=TIMEOUT_S))

    def _attach(self, entry: Any, record: VersionRecord) -> None:
        """Add one evaluation for each dataset to the version, unless it has that evaluation already.

        A failure is not worth a failed run: the description and `version.json` have the metrics too.
        """
        from google.api_core.exceptions import GoogleAPIError
        from google.cloud.aiplatform_v1 import ModelEvaluation

        client, version = self._client(), f"{_parent([entry])}@{entry.version_id}"
        try:
            existing = {evaluation.display_name for evaluation in client.list_model_evaluations(parent=version)}
            for dataset in sorted(record.metrics.keys() - existing):
                evaluation = ModelEvaluation(
                    display_name=dataset,
                    metrics_schema_uri=METRICS_SCHEMA,
                    metrics=record.metrics[dataset],
                    metadata={"pipeline_job_id": record.lineage.run, "evaluation_dataset_type": dataset},
                )
                client.import_model_evaluation(parent=version, model_evaluation=evaluation)
        except GoogleAPIError as error:
            print(f"warning: Vertex AI has not all evaluations of this version ({brief_error(error)})")


@contextmanager
def locked_object(folder: BucketPlace, name: str) -> Iterator[None]:
    """Let one process at a time enter the `with` block: it could create the object `name` in a folder.

    The object is removed at the end. One that a killed process left is taken over when this process has waited
    ABANDONED_S for it. A process that is merely slow then continues beside this one.
    """
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    seen, since, replaced = 0, time.monotonic(), 0
    while True:
        try:
            own = folder.replace_state(name, holder.encode(), replaced)
            break
        except ChangedObjectError:
            content, generation = folder.read_state(name)
        if generation != seen:
            print(f"waiting until {content.decode(errors='replace')} releases {folder.path(name)}", flush=True)
            seen, since = generation, time.monotonic()
        replaced = generation if time.monotonic() - since > ABANDONED_S else 0
        time.sleep(POLL_S)
    try:
        yield
    finally:
        with suppress(UserError):  # taken over, or out of reach
            folder.remove_state(name, own)


def _aliases(entries: list[Any]) -> dict[str, int]:
    """The number of the version that each alias names. `default` is absent if it names the UNPROMOTED version."""
    aliases = {alias: int(entry.version_id) for entry in _trained(entries) for alias in entry.version_aliases}
    unpromoted = aliases.pop(UNPROMOTED, None)
    return {alias: number for alias, number in aliases.items() if alias != DEFAULT or number != unpromoted}


def _trained(entries: list[Any]) -> list[Any]:
    """The entries of the registry's own versions: without `pretrained` for endpoints."""
    return [entry for entry in entries if SHIPPED not in entry.labels]


def _numbered(entries: list[Any], version: int) -> Any:
    return next(entry for entry in entries if entry.version_id == str(version))


def _default_of(entries: list[Any]) -> Any:
    """The entry of the default version. None if no version is."""
    number = _aliases(entries).get(DEFAULT)
    return next((entry for entry in entries if int(entry.version_id) == number), None)


def _version(entry: Any, model: pathlib.Path, record: dict[str, Any]) -> Version:
    return Version(int(entry.version_id), model, _address(entry), record)


def _parent(entries: list[Any]) -> str:
    """Resource name of the model of these versions, such as `projects/p/locations/us-central1/models/123`."""
    return str(entries[0].name).partition("@")[0]


# === Folders ===


def _home(entries: list[Any]) -> BucketPlace | None:
    """The folder of the model: the one with its oldest version. None if it has none on Cloud Storage."""
    found = (stored_at(entry.artifact_uri.removesuffix(f"/{NUMBERED}")) for entry in entries)
    return next((place.parent.connected() for place in found if isinstance(place, BucketPlace)), None)


def _record_move(home: BucketPlace | None, earlier: list[DefaultMove], version: int, by_person: bool) -> None:
    """Write down that the default became this version, after `earlier` moves if none is written down yet."""
    if home:
        update_in_bucket(home, DEFAULTS, lambda moves: with_move(moves, earlier, version, by_person))


def root_of(model: pathlib.Path, configured: str) -> BucketPlace:
    """The folder of all versions: `configured`, or `STAGING` in the bucket of `model` if that is empty.

    Example: `gs://runs/models` for a model below `/gcs/runs`.

    Raises `UserError` if `model` is not on a mounted bucket either.
    """
    place = stored_at(model.absolute()).unmounted
    check(
        bool(configured or place.bucket),
        f"{model} is not on Cloud Storage, so the registry has no folder for its models. Write {Address.SYNTAX}",
        SettingError,
    )
    return BucketPlace.at(configured.rstrip("/") or f"gs://{place.bucket}/{STAGING}", "staging").connected()


def _address(entry: Any) -> str:
    """Address of the version's folder."""
    return folder_of(entry.artifact_uri)


def _record(entry: Any, near: BucketPlace | None = None) -> dict[str, Any]:
    """The record in a version's folder, or what the API says about a version that is not ours."""
    created = entry.version_create_time.isoformat(timespec="seconds")
    record = {"version": int(entry.version_id), "created": created, "description": entry.version_description}
    version_dir = _folder(entry, near)
    if version_dir and (content := version_dir.content(RECORD)) is not None:
        return record | parse_record(content, version_dir.path(RECORD), str(version_dir))
    return record


def _folder(entry: Any, near: BucketPlace | None = None) -> BucketPlace | None:
    """The folder of the version's SavedModel. None if it is not on Cloud Storage. `near` has a connection."""
    place = stored_at(_address(entry))
    if not isinstance(place, BucketPlace):
        return None
    return near.with_text(str(place)) if near else place


def _expected_maps(entry: Any) -> Maps:
    """The version's SHIPPED_MAPS. One with which it was not registered is absent."""
    if not (version_dir := _folder(entry)):
        return {}
    found = {name: version_dir.content(f"{ASSETS_EXTRA}/{name}") for name in SHIPPED_MAPS}
    return {name: content for name, content in found.items() if content}


# === Labels and description ===


def labels_of(record: VersionRecord) -> dict[str, str]:
    """The labels of a version: its run, code and data. Example: `{"run": "msinet-20260302", ...}`."""
    lineage = record.lineage
    data = {f"data_{step}": f"{each.dataset}-{each.fingerprint}" for step, each in lineage.data.items()}
    values = {RUN_LABEL: lineage.run, "code": lineage.code_version, **data}
    return {**{key: label(value) for key, value in values.items()}, **OWNER}


def description_of(record: VersionRecord) -> str:
    """The text that people read next to a version in the console: its decision, its origin, and its metrics."""
    lineage = record.lineage
    data = [f"{step}: {each.dataset} from {each.source}" for step, each in lineage.data.items()]
    metrics = [
        f"{dataset}: " + ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
        for dataset, scores in record.metrics.items()
    ]
    origin = f"Run {lineage.run}, code {lineage.code_version}."
    notice = Provenance(lineage.model).notice()
    return "\n".join([*([notice] if notice else []), record.reason, origin, *data, *metrics])
