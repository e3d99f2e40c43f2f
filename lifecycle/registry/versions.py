"""Versions of a model: the interface of a registry, and the files of a version on Cloud Storage."""

import dataclasses
import datetime
import functools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from lifecycle.registry.state_files import MoveEntry
from trainer.errors import ContentError, check
from trainer.evaluation import Ending, Evaluation, VersionRecord
from trainer.io import parse_json
from trainer.models import PRETRAINED, PRETRAINED_VERSION, VERSION
from trainer.network import ASSETS_EXTRA, ModelFolder
from trainer.places import BucketPlace, stored_at

READERS = 8
"""Threads that read the records of several versions."""
GATE: Final = "gate"
PERSON: Final = "person"
"""Who moved the default."""
RECORD = f"{ASSETS_EXTRA}/{VERSION}"
"""The record of a version, in the version's folder."""
GRAPH = "saved_model.pb"
"""The file of a SavedModel that makes it one."""
OWNER = {"managed_by": "msinet-pipelines"}
"""The label of all that this project makes on Vertex AI."""
MAX_LABEL = 63
"""Characters of a key or value of a label: lower-case letters, digits, _ and -. A key begins with a letter."""


@dataclasses.dataclass(frozen=True)
class DefaultMove:
    """The default of a model became a version. Example: `DefaultMove(since, 3, by_person=True)`."""

    since: datetime.datetime
    version: int
    """Its number. PRETRAINED_VERSION for `pretrained`."""
    by_person: bool = False
    """Whether a person chose it. Otherwise the gate promoted it."""


@dataclasses.dataclass(frozen=True)
class Version:
    """One registered version of a model."""

    number: int
    model: pathlib.Path
    """Folder of the model as the trainer reads it, to evaluate it again or to train from it."""
    address: str
    """Folder or `gs://` address of the model for `predict` and `compare`."""
    record: dict[str, Any]
    """The content of `version.json`, also what another program has written into it."""

    @functools.cached_property
    def facts(self) -> VersionRecord:
        """What the record says: time of creation, metrics, decision and lineage."""
        return VersionRecord.of(self.record)

    @property
    def created(self) -> datetime.datetime:
        """When it was registered. Long ago if its record does not say it."""
        try:
            created = datetime.datetime.fromisoformat(self.facts.created)
        except ValueError:
            return datetime.datetime.min.replace(tzinfo=datetime.UTC)
        return created if created.tzinfo else created.replace(tzinfo=datetime.UTC)

    @property
    def run(self) -> str:
        """Name of the run that added it, such as `msinet-20260302`. Empty if its record does not say it."""
        return self.facts.lineage.run

    @property
    def end(self) -> str:
        """What the gate decided about it, such as `promoted` or `held`.

        Empty for a version that another program registered.
        """
        facts = self.facts
        if facts.end or facts.promote is None:
            return facts.end
        if facts.promote:
            return Ending.PROMOTED
        return Ending.CHALLENGER if facts.decided else Ending.UNDECIDED

    @property
    def model_config(self) -> dict[str, Any] | None:
        """MODEL_CONFIG of the model. None for a version that another program registered."""
        return self.facts.lineage.model

    def what_followed(self, moves: Sequence[DefaultMove]) -> str:
        """What happened with it as the default, a sentence. Empty if the gate's decision still stands.

        Example: `Version 4 replaced it on 2026-03-02.` The `moves` are all of the default, oldest first.
        """
        place, followed = self._last_as_default(moves)
        if place is None:
            if self.facts.promote and moves and moves[0].since <= self.created:
                return "It did not become the default: that had moved since it was compared with it."
            return ""
        if followed is None:
            return f"A person made it the default on {place.since:%Y-%m-%d}." if place.by_person else ""
        day = f"{followed.since:%Y-%m-%d}"
        if self.is_rolled_back(moves):
            return f"A person rolled it back to version {followed.version} on {day}."
        if followed.by_person:
            return f"A person made version {followed.version} the default on {day}."
        return f"Version {followed.version} replaced it on {day}."

    def is_rolled_back(self, moves: Sequence[DefaultMove]) -> bool:
        """Whether a person has replaced it by an earlier version when it was the default last.

        Example: version 4, after a person has made version 3 the default again.
        """
        _, followed = self._last_as_default(moves)
        return followed is not None and followed.by_person and followed.version < self.number

    def _last_as_default(self, moves: Sequence[DefaultMove]) -> tuple[DefaultMove | None, DefaultMove | None]:
        """The last move to it, and the move after that."""
        places = [place for place, move in enumerate(moves) if move.version == self.number]
        if not places:
            return None, None
        return moves[places[-1]], (*moves[places[-1] + 1 :], None)[0]


@dataclasses.dataclass(frozen=True)
class Look:
    """A comparison of a candidate with the default of a model."""

    run: str
    """Name of the run that made the candidate."""
    model: pathlib.Path
    """Folder of the candidate, as a task sees it."""
    compared_with: int
    """Number of the default."""
    made_of: str = ""
    """Digest of all that the comparison depends on beside the default. Empty if that is not known."""


class Registry(Protocol):
    """The interface of a registry. Its methods raise `UserError` if the registry cannot be read or written."""

    def versions(self, name: str) -> list[Version]:
        """All versions of model `name`, oldest first. Empty if the model is unknown."""

    def aliases(self, name: str) -> dict[str, int]:
        """Alias -> number of the version that it names. Example: `{"default": 3, "challenger": 4}`."""

    def default(self, name: str) -> Version | None:
        """The version that the alias `default` names. None as long as `pretrained` is the default."""

    def default_moves(self, name: str) -> list[DefaultMove]:
        """The moves of the default, oldest first.

        Before the first one that the registry has written down, only those by the gate are known.
        """

    def resource_of(self, name: str, number: int) -> tuple[str, str]:
        """The address of a version and its resource name, by which Vertex AI's console links a run with it.

        In other registries, both are the folder or `gs://` address of the version.
        """

    def add(
        self,
        name: str,
        model: pathlib.Path,
        record: Mapping[str, Any],
        promote: bool,
        compared_with: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """Register a model folder and the folder of its evaluation. Returns the version's number and its alias.

        The model becomes the default if `promote` is true and the default still is the version that it was
        compared with, `PRETRAINED_VERSION` without one. Otherwise its alias is `challenger`. A model that the same
        run has registered already gets its alias, but no second version. Example: `(4, "challenger")`.
        """

    def decide(self, name: str, look: Look) -> int:
        """Write down that a candidate is compared with the default. Returns the number of this decision, from 1.

        To be called before the evaluation. Two looks at once have two numbers, and the same look has the same one
        again. See `lifecycle.registry.decisions`.
        """

    def undecided(self, name: str, look: Look) -> None:
        """Take a look out again that has decided nothing: its number is free."""

    def next_decision(self, name: str) -> int:
        """The number that the next decision would have. Nothing is written."""

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let `alias` name `version`, as a person wants it. What serves the default follows it.

        The default may be PRETRAINED_VERSION too. Raises `UserError` if there is no such version.
        """

    def serve_default(self, name: str) -> None:
        """Let the default version, and no other, answer at what serves the model: endpoints, or `serving/`.

        Raises `UserError` if nothing serves it.
        """

    def check_writable(self, name: str) -> None:
        """Raise `UserError` if a version of model `name` could not be added, or its default not be read.

        To be called before hours of training. It writes where a version would be, and removes what it wrote.
        """


def numbered(versions: Iterable[Version]) -> dict[int, Version]:
    """Number -> version, and PRETRAINED_VERSION -> `pretrained`, which no registry holds. Empty without others."""
    found = {version.number: version for version in versions}
    folder = ModelFolder.pretrained()
    if found:
        shipped = Version(PRETRAINED_VERSION, folder.path, PRETRAINED, {"lineage": {"model": folder.config()}})
        found = {PRETRAINED_VERSION: shipped, **found}
    return found


def promoted(versions: Iterable[Version], default: int | None) -> list[DefaultMove]:
    """The moves of the default that the versions' records tell: to promoted versions, and to the default.

    They count from a version's registration.
    """
    chosen = [each for each in versions if each.facts.promote or each.number == default]
    return [DefaultMove(each.created, each.number, each.facts.promote is False) for each in chosen]


def recorded_moves(content: Iterable[MoveEntry]) -> list[DefaultMove]:
    """The moves in the content of `state_layout.DEFAULTS`.

    An entry that does not say who moved it was written by the gate, unless an earlier version became the default:
    the gate promotes the newest alone.
    """
    moves: list[DefaultMove] = []
    for each in content:
        newest = max((move.version for move in moves), default=PRETRAINED_VERSION)
        by_person = each.by == PERSON if each.by else each.version <= newest
        moves.append(DefaultMove(datetime.datetime.fromisoformat(each.since), each.version, by_person))
    return moves


def with_move(
    content: list[MoveEntry], earlier: Iterable[DefaultMove], version: int, by_person: bool
) -> list[MoveEntry]:
    """The content of `state_layout.DEFAULTS` after the default has become `version` now, if it is another one.

    `earlier` are the moves before the first that was written down.
    """
    moves = content or [_entry(move) for move in earlier]
    if version == (moves[-1].version if moves else PRETRAINED_VERSION):
        return moves
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return [*moves, _entry(DefaultMove(now, version, by_person))]


def _entry(move: DefaultMove) -> MoveEntry:
    since = move.since.isoformat(timespec="seconds")
    return MoveEntry(move.version, since, PERSON if move.by_person else GATE)


def dated(record: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `version.json`, such as `{"created": "2026-03-02T10:00:00+00:00", "version": 3, ...}`."""
    return {"created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), **record}


def record_bytes(record: Mapping[str, Any]) -> bytes:
    """The content of `version.json`, as JSON."""
    return (json.dumps(dated(record), indent=2) + "\n").encode()


def remedy_of(version_dir: str) -> str:
    """What to do about the folder of a version with a damaged record, such as `restore it, or remove ...`."""
    return f"restore it, or remove {version_dir}"


def parse_record(content: bytes, origin: str, version_dir: str) -> dict[str, Any]:
    """Parse `version.json`, also the keys of other programs. Raises `ContentError` if it is damaged."""
    record: dict[str, Any] = parse_json(content, origin, remedy_of(version_dir), dict[str, Any])
    VersionRecord.of(record, origin, remedy_of(version_dir))
    return record


def label(text: str) -> str:
    """`text` as the value of a label, such as `0-1-0-5f2a` for `0.1.0+5F2A`. A long one is shortened."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:MAX_LABEL]


def check_model(model: pathlib.Path) -> None:
    """Raise `UserError` unless a model's folder has the SavedModel to register."""
    saved_model = ModelFolder(model).saved_model
    check((saved_model / GRAPH).is_file(), f"{model} has no {saved_model.name}. Train it again", ContentError)


def files_of(model: pathlib.Path, evaluation: pathlib.Path | None) -> dict[str, pathlib.Path]:
    """The files in a version's `assets.extra/`, other than `version.json`: name -> path.

    With the evaluation's scores of each image, two versions can be compared without their data.
    """
    files = {path.name: path for path in ModelFolder(model).files_to_register()}
    return files | (Evaluation.kept_files(evaluation) if evaluation else {})


# === On Cloud Storage ===


def copy_version(
    version: BucketPlace, saved_model: pathlib.Path | None, extras: Mapping[str, pathlib.Path]
) -> None:
    """Copy a SavedModel, if any, and the files of `assets.extra/` by name, to the folder of a version.

    The graph is written last: until then a server that watches the folder finds nothing that it could load.
    """
    files = {}
    if saved_model:
        paths = [path for path in sorted(saved_model.rglob("*")) if path.is_file()]
        files = {path.relative_to(saved_model).as_posix(): path for path in paths}
    files |= {f"{ASSETS_EXTRA}/{name}": path for name, path in extras.items()}
    for name in sorted(files, key=lambda name: name == GRAPH):
        version.upload(name, files[name])


def mounted(address: str) -> pathlib.Path:
    """The folder where a task on Vertex AI finds the version at an address as the trainer reads it.

    Example: `/gcs/runs/models/msinet/3/assets.extra` for `gs://runs/models/msinet/3`.
    """
    return BucketPlace(address).mounted / ASSETS_EXTRA


def download_version(address: str) -> pathlib.Path:
    """Download the version at `address` as the trainer reads it. The folder is removed when this process ends."""
    source = stored_at(f"{address.rstrip('/')}/{ASSETS_EXTRA}")
    return source.local_for_now(source.objects())
