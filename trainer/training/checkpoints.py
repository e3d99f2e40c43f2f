"""Checkpoints of a training on disk or on Cloud Storage, from which an interrupted run resumes.

Example: `after-epoch-0002-step-000150.npz` is the state after 150 steps of the third epoch.

A checkpoint is one zip file: `state.json`, and the arrays of all variables in order as `.npy` members (NumPy's
`.npz` format, which `numpy.load` reads). It does not depend on device, strategy or TensorFlow version. Each member
has a CRC-32 of its bytes. Reading verifies all of them.

A marker in the folder names the training that writes there, so that no two write there unnoticed.
"""

import dataclasses
import datetime
import hashlib
import io
import json
import os
import re
import socket
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from pydantic import TypeAdapter

from trainer.errors import (
    ConflictError,
    ContentError,
    MismatchError,
    PlaceError,
    UnreachableError,
    UserError,
    check,
)
from trainer.io import StrPath
from trainer.machine import ProcessId
from trainer.places import Stored, stored_at
from trainer.training.exits import JOB
from trainer.training.step import Network

KEEP = 2
"""Checkpoints kept: the latest, and one before it in case the latest is damaged."""
NAME = re.compile(r"after-epoch-(\d+)-step-(\d+)\.npz")
STATE = "state.json"
FORMAT = 1
MARKER = "owner.json"
"""File that names the training that writes to the folder."""
PATIENCE_S = 600.0
"""How long a training tries again to write a checkpoint to Cloud Storage, when that does not answer."""

Arrays = dict[str, list[np.ndarray]]
"""Arrays of the variables, in order, by group: `model`, `optimizer` and `best`."""


@dataclasses.dataclass
class Progress:
    """How far a run has come: finished epochs, steps of the current epoch, and the best epoch so far."""

    epoch: int = 0
    """Epochs finished."""
    step: int = 0
    """Steps taken in the current epoch."""
    loss_sum: float = 0.0
    """Sum of the training loss over these steps."""
    seconds: float = 0.0
    """Time spent on these steps."""
    best_epoch: int = 0
    """The epoch, counted from 1, with the lowest validation loss so far."""
    best_loss: float = float("inf")
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """One row for each finished epoch."""

    def is_over(self, epochs: int, patience: int) -> bool:
        """Whether all epochs are taken, or `patience` epochs (0: any number) brought no better validation loss."""
        return self.epoch >= epochs or 0 < patience <= self.epoch - self.best_epoch

    def after_epoch(self, row: dict[str, Any]) -> "Progress":
        """Return the progress at the start of the next epoch.

        `row` is the line of the finished epoch in the history.
        """
        best_epoch, best_loss = self.best_epoch, self.best_loss
        if row["best"]:
            best_epoch, best_loss = row["epoch"], row["valid_loss"]
        history = [*self.history, row]
        return Progress(self.epoch + 1, best_epoch=best_epoch, best_loss=best_loss, history=history)


@dataclasses.dataclass(frozen=True)
class _State:
    """Content of `STATE`."""

    format: int
    identity: dict[str, Any]
    progress: Progress
    counts: dict[str, int]


class DamagedCheckpointError(Exception):
    """A file is damaged, or not a checkpoint."""


class Checkpoints:
    """Checkpoints of weights, optimizer and progress of one run in one folder, as a context manager.

    From `restore` to `close`, a writer's `Marker` is in the folder.

    Saving copies the variables on the calling thread and writes the copy in another thread, one checkpoint at a
    time. The next call of `save`, `wait` or `close` raises the errors of that thread.

    Args:
        folder: a path or a `gs://` address. Created if it does not exist.
        network: the variables of its model and of its built optimizer are saved and restored. `tf.distribute`
            may mirror them over replicas.
        identity: values that the run's result depends on. A checkpoint with other values is refused.
        writable: False for the machines of a job that only read.
    """

    def __init__(
        self,
        folder: StrPath,
        network: Network,
        identity: dict[str, Any],
        writable: bool = True,
    ) -> None:
        self.folder = stored_at(os.fspath(folder).rstrip("/"))
        self._identity = json.loads(json.dumps(identity))
        self._marker = Marker(self.folder.unmounted, self._identity)
        self._writable = writable
        model, optimizer = network.model, network.optimizer
        self._variables = {"model": list(model.variables), "optimizer": list(optimizer.variables)}
        # Reused by all saves: copying into memory that has been touched before is several times faster.
        self._copies = {
            group: [_like(variable) for variable in self._variables[group]] for group in self._variables
        }
        self._best: list[np.ndarray] = []
        self._kept: list[str] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    # === Saving ===

    def keep_best(self) -> None:
        """Copy the current weights as the best. Later checkpoints contain them."""
        if self._writable:
            self._best = [np.array(_view(variable)) for variable in self._variables["model"]]

    def best_weights(self) -> list[np.ndarray]:
        """Return the arrays of the model's variables, in order, at the last `keep_best`."""
        assert self._best, "no weights were kept as the best"
        return self._best

    def save(self, progress: Progress) -> None:
        """Start writing a checkpoint, after the previous one is complete.

        Raises:
            UserError: if the previous checkpoint could not be written, or if another training writes there.
        """
        if not self._writable:
            return
        self.wait()
        _patiently(self._marker.check)
        for group, variables in self._variables.items():
            for copy, variable in zip(self._copies[group], variables, strict=True):
                np.copyto(copy, _view(variable))
        arrays = {**self._copies, "best": self._best}
        state = _State(FORMAT, self._identity, progress, {group: len(arrays[group]) for group in arrays})
        name = f"after-epoch-{progress.epoch:04d}-step-{progress.step:06d}.npz"
        self._writing = self._thread.submit(
            _patiently, self._write, name, json.dumps(dataclasses.asdict(state)), arrays
        )

    def _write(self, name: str, state: str, arrays: Arrays) -> None:
        self._marker.check()  # again, because minutes may have passed since `save`
        self.folder.write(name, lambda file: _write_zip(file, state, arrays))
        self._kept = [*(other for other in self._kept if other != name), name][-KEEP:]
        for other in _checkpoints(self.folder.names()):
            if other not in self._kept:  # older, or damaged
                self.folder.remove(other)

    def wait(self) -> None:
        """Wait until the current checkpoint is complete.

        Raises:
            UserError: if it could not be written. The earlier checkpoints remain, and no part of this one.
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            try:
                writing.result()
            except UserError as error:
                size = f"a checkpoint takes {self._n_bytes() / 1e6:.0f} MB, and up to {KEEP + 1} exist at a time"
                raise UserError(f"{error} ({size})") from None

    def close(self) -> None:
        """Wait as `wait` does, and stop the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
            self._marker.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except UserError as failure:
            if error is None:
                raise
            print(f"in addition: {failure}", file=sys.stderr, flush=True)

    # === Restoring ===

    def restore(self) -> Progress:
        """Restore the newest intact checkpoint. Return its progress, or a new `Progress` if none exists.

        Prints which checkpoints it skips, and where the training goes on. Reads and checks the whole checkpoint
        before it changes any variable.

        Raises:
            UserError: the checkpoint belongs to a run with other data or settings, or to another network, all
                checkpoints are damaged, the folder cannot be read or, by a writer, written, or another
                training writes there.
        """
        if self._writable:
            self.folder.check_writable()
            self._marker.write()
            self.folder.remove_leftovers()
        names = _checkpoints(self.folder.names())
        for name in reversed(names):
            path = self.folder.path(name)
            try:
                progress, arrays = self._read(name)
            except (DamagedCheckpointError, FileNotFoundError) as error:
                print(f"skipping checkpoint {path}: {error}", flush=True)
                continue
            self._check_network(path, arrays)
            for group, variables in self._variables.items():
                for variable, array in zip(variables, arrays[group], strict=True):
                    variable.value.assign(array)
            self._best = arrays["best"]
            self._kept = [older for older in names if _position(older) <= _position(name)][-KEEP:]
            if name != names[-1]:
                print(f"falling back from {_words(names[-1])} to {_words(name)}", flush=True)
            print(f"resuming after {_words(name)} ({path})", flush=True)
            return progress
        if names:
            raise ContentError(
                f"none of the {len(names)} checkpoints in {self.folder} can be read: remove the folder to "
                "start again from the beginning"
            )
        print("no checkpoint yet: training starts at step 1", flush=True)
        return Progress()

    def check_room(self) -> None:
        """Raise `UserError` unless a writer's disk has room for all checkpoints that exist at a time.

        Call it after `restore` in a training that goes on. A finished training writes no more.
        """
        if not self._writable:
            return
        n_bytes = self._n_bytes()
        missing = (KEEP + 1 - len(self._kept)) * n_bytes
        room = self.folder.room_bytes()
        check(
            missing <= room,
            f"the disk of {self.folder} has room for {room / 1e9:,.3g} GB, and the training writes "
            f"{missing / 1e9:,.3g} GB of checkpoints there: {KEEP + 1} of {n_bytes / 1e6:,.0f} MB exist at once. "
            "Free some, or choose another folder for them",
            PlaceError,
        )

    def _n_bytes(self) -> int:
        """Size of a checkpoint: the weights, the weights of the best epoch, and the optimizer."""
        sizes = {group: sum(array.nbytes for array in copies) for group, copies in self._copies.items()}
        return sum(sizes.values()) + sizes["model"]

    def _read(self, name: str) -> tuple[Progress, Arrays]:
        """Read the progress and the arrays of a checkpoint of this run."""
        with self.folder.open(name) as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    content = json.loads(archive.read(STATE))
                    version = content["format"]
                    if version == FORMAT:
                        state: _State = TypeAdapter(_State).validate_python(content)
                        arrays = {
                            group: [_array(archive, _member(group, index)) for index in range(state.counts[group])]
                            for group in (*self._copies, "best")
                        }
            except Exception as error:  # zipfile, zlib, NumPy and JSON raise different errors for damaged bytes
                size = file.seek(0, os.SEEK_END)
                reason = " ".join(str(error).split()) or type(error).__name__
                raise DamagedCheckpointError(
                    f"it is damaged, truncated or not a checkpoint ({size} bytes: {reason})"
                ) from None
        if version != FORMAT:
            raise MismatchError(
                f"{self.folder.path(name)} has format {version}, this version reads {FORMAT}: use the "
                "version that wrote it, or another folder"
            )
        self._check_identity(state.identity)
        return state.progress, arrays

    def _check_identity(self, identity: dict[str, Any]) -> None:
        keys = sorted(identity.keys() | self._identity.keys())
        differing = [
            f"{key} {_recorded(identity, key)}, now {_recorded(self._identity, key)}"
            for key in keys
            if identity.get(key) != self._identity.get(key)
        ]
        if differing:
            raise MismatchError(
                f"the checkpoint in {self.folder} belongs to another run ({', '.join(differing)}): "
                "use the same values, or another folder"
            )

    def _check_network(self, path: str, arrays: Arrays) -> None:
        for group, copies in self._copies.items():
            saved = [(array.dtype, array.shape) for array in arrays[group]]
            if saved != [(copy.dtype, copy.shape) for copy in copies]:
                raise MismatchError(
                    f"{path} is a checkpoint of another network (the variables of its {group} differ): use "
                    "another folder, or the version of the program that wrote it"
                )


def _recorded(identity: dict[str, Any], key: str) -> str:
    """What is compared, for a message: of each fingerprint its first 12 digits."""
    return re.sub(r"([0-9a-f]{12})[0-9a-f]{52}", r"\1", repr(identity[key])) if key in identity else "not recorded"


def _view(variable: Any) -> memoryview:
    """The value on the host, without a copy if it is there already. It is one replica's if there are several."""
    return memoryview(variable.value.read_value())


def _like(variable: Any) -> np.ndarray:
    return np.empty(variable.shape, variable.value.dtype.as_numpy_dtype)


# === Whose folder it is ===


class Marker:
    """The file MARKER in a folder, which names the training that writes there.

    A training refuses a folder that another process of this machine writes to, or a run with other data or
    settings. It takes the folder over from an earlier start of the same run, such as one on a preempted machine:
    whether that one still runs cannot be known, so each training looks before each checkpoint whether the marker
    still is its own, and ends if it is not.

    Args:
        folder: the checkpoints' folder, at the address where all machines see the same content at the same time.
        identity: of the run, as in `Checkpoints`.
    """

    def __init__(self, folder: Stored, identity: dict[str, Any]) -> None:
        self._folder = folder
        self._own = {
            "run": hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest(),
            "job": os.environ.get(JOB, ""),
            "host": socket.gethostname(),
            **ProcessId.own()._asdict(),
            "since": datetime.datetime.now(datetime.UTC).isoformat(" "),
        }
        self._is_written = False

    def write(self) -> None:
        """Make this process the one that writes to the folder.

        Raises:
            UserError: if another training writes there, or if the folder cannot be read or written.
        """
        if other := self._read():
            if not self._follows(other):
                raise ConflictError(
                    f"another training writes its checkpoints to {self._folder}: {_who(other)}. Wait "
                    "until it ends or stop it, or name another checkpoint folder. If it has ended, remove "
                    f"{self._folder.path(MARKER)}"
                )
            print(f"taking {self._folder} over from {_who(other)}", flush=True)
        self._folder.write(MARKER, lambda file: file.write(json.dumps(self._own, indent=2).encode()))
        self._is_written = True

    def check(self) -> None:
        """Raise `UserError` if another training has taken the folder over since `write`."""
        if self._is_written and (found := self._read()) != self._own:
            other = _who(found) if found else "one that has ended"
            raise ConflictError(
                f"another training took over {self._folder}: {other}. This one ends and does not change "
                "the checkpoints"
            )

    def remove(self) -> None:
        """Remove the marker that `write` wrote, unless another training has taken the folder over."""
        with suppress(UserError):  # the next start of this run takes the folder over
            if self._is_written and self._read() == self._own:
                self._folder.remove(MARKER)
        self._is_written = False

    def _follows(self, other: dict[str, Any]) -> bool:
        """Whether another training has ended, or is an earlier start of the same run on another machine."""
        if other["machine"] == self._own["machine"]:
            # The next container on a machine may get the namespace, and so the ids, of one that has ended.
            is_running = ProcessId(other["machine"], other["process"], other["started"]).is_running
            return other["process"] == self._own["process"] or not is_running
        return bool(other["run"] == self._own["run"])

    def _read(self) -> dict[str, Any]:
        """The content of the marker in the folder. Empty if there is none, or if it is not a marker."""
        try:
            found = json.loads(self._folder.content(MARKER) or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) and found.keys() >= self._own.keys() else {}


def _patiently(action: Callable[..., None], *arguments: Any) -> None:
    """Call `action(*arguments)`, again while Cloud Storage cannot be reached, for `PATIENCE_S` seconds."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return action(*arguments)
        except UnreachableError as error:
            if time.monotonic() > end:
                raise
            print(f"{error}. The training tries again", flush=True)


def _who(marker: dict[str, Any]) -> str:
    job = f"custom job {marker['job']}, " if marker["job"] else ""
    return f"{job}process {marker['process']} on {marker['host']}, since {marker['since']}"


# === Files ===


def _write_zip(file: IO[bytes], state: str, arrays: Arrays) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(STATE, state)
        for group, members in arrays.items():
            for index, array in enumerate(members):
                with archive.open(_member(group, index), "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)


def _member(group: str, index: int) -> str:
    return f"{group}-{index:04d}.npy"


def _array(archive: zipfile.ZipFile, member: str) -> np.ndarray:
    content = io.BytesIO(archive.read(member))  # the whole member: the checksum is verified at its end
    return np.lib.format.read_array(content, allow_pickle=False)


def _checkpoints(names: list[str]) -> list[str]:
    """The names of checkpoints among `names`, oldest first."""
    return sorted((name for name in names if NAME.fullmatch(name)), key=_position)


def _position(name: str) -> tuple[int, int]:
    """Finished epochs, and steps taken in the next epoch, such as (2, 150)."""
    match = NAME.fullmatch(name)
    assert match
    return int(match[1]), int(match[2])


def _words(name: str) -> str:
    epoch, step = _position(name)
    return f"epoch {epoch}, step {step}"
