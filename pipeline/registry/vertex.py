"""The Vertex AI Model Registry behind the interface of `pipeline.registry.folder`. No TensorFlow needed.

A model is the one resource of Vertex with its display name, and has our label. Its versions lie in folders of
our own (`version_folder.py`), from which the next run evaluates the default.
"""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from pipeline import cloud
from pipeline.registry import labels, staging
from pipeline.registry.address import FORM, Address
from pipeline.registry.versions import NO_VERSION, Version, check_model, files_of
from trainer.artifacts import CHALLENGER, DEFAULT, SAVED_MODEL
from trainer.errors import check

METRICS_SCHEMA = "gs://google-cloud-aiplatform/schema/modelevaluation/regression_metrics_1.0.0.yaml"
"""Vertex has no schema for saliency. Of its schemas this one is the nearest, since a map is a regression of each
pixel; the others want classes, forecasts or texts."""
WAITS_S = (15.0, 30.0, 60.0)
"""Pauses before trying again: long enough that an upload whose answer was lost has become visible."""
READERS = 8

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class VertexRegistry(Address):
    """The registry of a project in a location."""

    def versions(self, name: str) -> list[Version]:
        with self._connected():
            entries = persistently(lambda: self._entries(name))
            with ThreadPoolExecutor(READERS) as pool:
                records = list(pool.map(_record, entries))
        return [
            _version(entry, staging.mounted(entry.artifact_uri), record)
            for entry, record in zip(entries, records, strict=True)
        ]

    def aliases(self, name: str) -> dict[str, int]:
        with self._connected():
            return _aliases(persistently(lambda: self._entries(name)))

    def default(self, name: str) -> Version | None:
        """The default version, its folder downloaded; it is removed when this process ends."""
        with self._connected():
            entries = persistently(lambda: self._entries(name))
            entry = next((each for each in entries if DEFAULT in each.version_aliases), None)
            if entry is None:
                return None
            record = _record(entry)
        check(
            "lineage" in record,
            f"version {entry.version_id}, the default of model {name!r}, was not registered by this pipeline "
            f"(nothing of ours is in {entry.artifact_uri}); `python -m pipeline registry set-default VERSION` "
            "names another",
        )
        return _version(entry, staging.fetch(entry.artifact_uri), record)

    def add(
        self,
        name: str,
        model: pathlib.Path,
        record: Mapping[str, Any],
        promote: bool,
        champion: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        check_model(model)
        run = labels.label(record["lineage"]["run"])
        place = f"{staging.staging(model, self.staging, FORM)}/{name}/{run}"

        def find() -> Any:
            """The version of this run, where an earlier try has registered it though its answer was lost."""
            mine = (each for each in self._entries(name) if each.labels.get(labels.RUN) == run)
            return next(mine, None)

        with self._connected():
            entry = persistently(find)
            if entry is None:
                kept = files_of(model, evaluation)
                staging.write(place, model / SAVED_MODEL, kept, record)
                entry = persistently(lambda: find() or self._upload(name, place, record, promote, champion))
            persistently(lambda: self._attach(entry, record))
        return int(entry.version_id), DEFAULT if DEFAULT in entry.version_aliases else CHALLENGER

    def set_alias(self, name: str, alias: str, version: int) -> None:
        with self._connected():
            entries = persistently(lambda: self._entries(name))
            known = ", ".join(each.version_id for each in entries) or "none"
            check(
                str(version) in {each.version_id for each in entries},
                f"model {name!r} has no version {version} in {self.project}, {self.location} (versions: {known})",
            )
            place = f"{_parent(entries)}@{version}"
            # Vertex moves an alias that another version has.
            persistently(lambda: self._client().merge_version_aliases(name=place, version_aliases=[alias]))

    # === Vertex ===

    @contextmanager
    def _connected(self) -> Iterator[None]:
        with cloud.reported_errors():
            cloud.connect(self)
            yield

    def _client(self) -> Any:
        from google.cloud.aiplatform_v1 import ModelServiceClient

        return cloud.client(ModelServiceClient, self)

    def _entries(self, name: str) -> list[Any]:
        """The versions of the one model with this display name, as Vertex describes them, oldest first."""
        from google.cloud import aiplatform

        found = aiplatform.Model.list(filter=f'display_name="{name}"')
        names = ", ".join(sorted(each.resource_name for each in found))
        check(
            len(found) < 2,
            f"{len(found)} models of {self.project}, {self.location} are called {name!r}: {names}; delete or "
            "rename all but one, or give another model_name",
        )
        if not found:
            return []
        check(
            labels.OWNER.items() <= dict(found[0].labels).items(),
            f"the model {name!r} ({names}) was not made by this pipeline: its default version lacks the label "
            f"{'='.join(*labels.OWNER.items())}; give another model_name",
        )
        return sorted(self._client().list_model_versions(name=names), key=lambda each: int(each.version_id))

    def _upload(self, name: str, place: str, record: Mapping[str, Any], promote: bool, champion: int) -> Any:
        from google.cloud import aiplatform

        entries = self._entries(name)
        # Another run may have moved the default after this model was compared with it.
        is_better = promote and _aliases(entries).get(DEFAULT, NO_VERSION) == champion
        # To the first version of a model Vertex gives the alias `default` whatever is asked for.
        uploaded = aiplatform.Model.upload(
            serving_container_image_uri=self.image,
            artifact_uri=place,
            display_name=name,
            parent_model=_parent(entries) if entries else None,
            is_default_version=is_better,
            version_aliases=[DEFAULT if is_better else CHALLENGER],
            version_description=labels.describe(record),
            labels=labels.of(record),
        )
        return uploaded.gca_resource

    def _attach(self, entry: Any, record: Mapping[str, Any]) -> None:
        """Give the version one evaluation for each data set, those that it has left alone."""
        from google.api_core.exceptions import BadRequest
        from google.cloud.aiplatform_v1 import ModelEvaluation

        client, version = self._client(), f"{_parent([entry])}@{entry.version_id}"
        existing = {each.display_name for each in client.list_model_evaluations(parent=version)}
        for dataset, scores in record["metrics"].items():
            if dataset in existing:
                continue
            evaluation = ModelEvaluation(
                display_name=dataset,
                metrics_schema_uri=METRICS_SCHEMA,
                metrics=scores,
                metadata={"pipeline_job_id": record["lineage"]["run"], "evaluation_dataset_type": dataset},
            )
            try:
                client.import_model_evaluation(parent=version, model_evaluation=evaluation)
            except BadRequest as error:
                # Not worth failing for: the labels and `version.json` have the figures too.
                print(f"warning: Vertex does not take the evaluation on {dataset} ({cloud.brief(error)})")


def persistently(call: Callable[[], Result]) -> Result:
    """What `call` returns, tried again where the network or the service failed; it must be safe to repeat."""
    for wait_s in WAITS_S:
        try:
            return call()
        except cloud.transient() as error:
            print(f"Vertex does not answer ({cloud.brief(error)}); trying again in {wait_s:g} s")
        time.sleep(wait_s)
    return call()


def _aliases(entries: list[Any]) -> dict[str, int]:
    return {alias: int(entry.version_id) for entry in entries for alias in entry.version_aliases}


def _version(entry: Any, model: pathlib.Path, record: dict[str, Any]) -> Version:
    return Version(int(entry.version_id), model, entry.artifact_uri, record)


def _record(entry: Any) -> dict[str, Any]:
    """What a version's folder says of it, or what Vertex knows of a version that is not ours."""
    created = entry.version_create_time.isoformat(timespec="seconds")
    known = {"created": created, "description": entry.version_description}
    return {"version": int(entry.version_id), **(staging.record(entry.artifact_uri) or known)}


def _parent(entries: list[Any]) -> str:
    """Resource name of the model that versions belong to."""
    return str(entries[0].name).partition("@")[0]
