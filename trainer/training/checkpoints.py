"""The state of a training run on disk or on Cloud Storage, so that a run that was cut off goes on where it was.

A checkpoint is one zip file: `state.json`, and the arrays of all variables in order as `.npy` members (NumPy's
`.npz`, which `numpy.load` reads). It depends on no device, strategy or version of TensorFlow. Each member carries
a CRC-32 of its bytes, and all are compared when it is read.
"""

import dataclasses
import io
import json
import os
import re
import sys
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import IO, Any, Self

import keras
import numpy as np

from trainer.errors import UserError
from trainer.folder import Folder

KEEP = 2
"""Checkpoints kept: the latest, and one to fall back to should that be damaged."""
NAME = re.compile(r"after-epoch-(\d+)-step-(\d+)\.npz")
STATE = "state.json"
FORMAT = 1

Arrays = dict[str, list[np.ndarray]]
"""By `model`, `optimizer` and `best`: the arrays of the variables, in order."""


@dataclasses.dataclass
class Progress:
    """How far a run has come."""

    epoch: int = 0
    """Epochs finished."""
    step: int = 0
    """Steps taken in the present epoch."""
    loss_sum: float = 0.0
    """Sum of the training loss over these steps."""
    seconds: float = 0.0
    """Time spent on these steps."""
    best_epoch: int = 0
    """The epoch, counted from 1, with the lowest validation loss so far."""
    best_loss: float = float("inf")
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """One row for each epoch finished."""


class Damaged(Exception):  # noqa: N818 - a state of a file, handled where it is read
    """A file that is not, or is no longer, a checkpoint."""


class Checkpoints:
    """Checkpoints of weights, optimizer and progress in one folder, for one run; a context manager.

    Saving copies the variables on the calling thread and writes them in another one, a checkpoint at a time. What
    goes wrong there is raised by the next call of `save`, `wait` or `close`.

    Args:
        folder: a path or a `gs://` address; made if it is not there.
        model: its variables are saved and restored; they may be spread over replicas by `tf.distribute`.
        optimizer: built, likewise.
        identity: what the run's result depends on; a checkpoint of other values is refused.
        writable: False for the workers of a job that must only read.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        model: keras.Model,
        optimizer: Any,
        identity: dict[str, Any],
        writable: bool = True,
    ) -> None:
        self.folder = Folder(folder)
        self._identity = json.loads(json.dumps(identity))
        self._writable = writable
        self._variables = {"model": list(model.variables), "optimizer": list(optimizer.variables)}
        # One copy for all saves: memory that has been touched once is copied into several times faster.
        self._copies = {group: [_like(each) for each in self._variables[group]] for group in self._variables}
        self._best: list[np.ndarray] = []
        self._kept: list[str] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    # === Saving ===

    def keep_best(self) -> None:
        """Copy the present weights as the best; the checkpoints from now on hold them."""
        if self._writable:
            self._best = [np.array(_view(variable)) for variable in self._variables["model"]]

    def best_weights(self) -> list[np.ndarray]:
        """The arrays of the model's variables, in order, as they were at the last `keep_best`."""
        assert self._best, "no weights were kept as the best"
        return self._best

    def save(self, progress: Progress) -> None:
        """Begin to write a checkpoint, once the one before is written.

        Raises:
            UserError: if that one could not be written.
        """
        if not self._writable:
            return
        self.wait()
        for group, variables in self._variables.items():
            for copy, variable in zip(self._copies[group], variables, strict=True):
                np.copyto(copy, _view(variable))
        arrays = {**self._copies, "best": self._best}
        state = json.dumps(
            {
                "format": FORMAT,
                "identity": self._identity,
                "progress": dataclasses.asdict(progress),
                "counts": {group: len(arrays[group]) for group in arrays},
            }
        )
        name = f"after-epoch-{progress.epoch:04d}-step-{progress.step:06d}.npz"
        self._writing = self._thread.submit(self._write, name, state, arrays)

    def _write(self, name: str, state: str, arrays: Arrays) -> None:
        self.folder.write(name, lambda file: _encode(file, state, arrays))
        self._kept = [*(each for each in self._kept if each != name), name][-KEEP:]
        for other in _checkpoints(self.folder.names()):
            if other not in self._kept:  # older, or damaged
                self.folder.remove(other)

    def wait(self) -> None:
        """Return when the checkpoint being written is complete.

        Raises:
            UserError: if it could not be written; no part of it is left, and the ones before are.
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            try:
                writing.result()
            except UserError as error:
                total_mb = sum(each.nbytes for group in self._copies.values() for each in group) / 1e6
                total_mb += sum(each.nbytes for each in self._best) / 1e6
                raise UserError(
                    f"{error} (a checkpoint takes {total_mb:.0f} MB, and there are {KEEP + 1} for a moment)"
                ) from None

    def close(self) -> None:
        """Wait as `wait` does, and end the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()

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
            print(f"besides: {failure}", file=sys.stderr, flush=True)

    # === Restoring ===

    def restore(self) -> Progress:
        """Take up the newest checkpoint that is whole; a fresh `Progress` where there is none.

        What is passed over, and what of the run is lost by that, is printed. All is read and checked before any
        variable is changed.

        Raises:
            UserError: if it is of a run with other data or settings, or of another network; if no checkpoint is
                whole; if the folder cannot be read or, by a writer, written.
        """
        if self._writable:
            self.folder.prepare()
        found = _checkpoints(self.folder.names())
        for name in reversed(found):
            path = self.folder.path(name)
            try:
                state, arrays = self._read(name)
            except (Damaged, FileNotFoundError) as error:
                print(f"checkpoint {path} is passed over: {error}", flush=True)
                continue
            self._check_network(path, arrays)
            for group, variables in self._variables.items():
                for variable, array in zip(variables, arrays[group], strict=True):
                    variable.value.assign(array)
            self._best = arrays["best"]
            self._kept = [each for each in found if _place(each) <= _place(name)][-KEEP:]
            if name != found[-1]:
                print(f"going back from {_words(found[-1])} to {_words(name)}", flush=True)
            print(f"going on after {_words(name)} ({path})", flush=True)
            return Progress(**state["progress"])
        if found:
            raise UserError(
                f"none of the {len(found)} checkpoints in {self.folder.address} can be read; "
                "remove it to start anew"
            )
        return Progress()

    def _read(self, name: str) -> tuple[dict[str, Any], Arrays]:
        """State and arrays of a checkpoint of this run."""
        with self.folder.read(name) as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    state = json.loads(archive.read(STATE))
                    version, identity = state["format"], state["identity"]
                    arrays = {
                        group: [_array(archive, _member(group, index)) for index in range(count)]
                        for group, count in state["counts"].items()
                    }
                Progress(**state["progress"])
            except Exception as error:  # zipfile, zlib, NumPy and JSON each have their own for damaged bytes
                size = file.seek(0, os.SEEK_END)
                reason = " ".join(str(error).split()) or type(error).__name__
                raise Damaged(f"it is damaged, cut short, or no checkpoint ({size} bytes; {reason})") from None
        if version != FORMAT:
            raise UserError(f"{self.folder.path(name)} has format {version}, this version reads {FORMAT}")
        self._check_identity(identity)
        return state, arrays

    def _check_identity(self, identity: dict[str, Any]) -> None:
        keys = sorted(identity.keys() | self._identity.keys())
        differing = [
            f"{key} {_recorded(identity, key)}, now {_recorded(self._identity, key)}"
            for key in keys
            if identity.get(key) != self._identity.get(key)
        ]
        if differing:
            raise UserError(
                f"the checkpoint in {self.folder.address} is of another run ({'; '.join(differing)}); "
                "use the same values, or another folder"
            )

    def _check_network(self, path: str, arrays: Arrays) -> None:
        for group, copies in self._copies.items():
            saved = arrays[group]
            differing = [
                f"{variable.path} is {_kind(array)} there and {_kind(copy)} here"
                for variable, array, copy in zip(self._variables[group], saved, copies, strict=False)
                if _kind(array) != _kind(copy)
            ]
            if len(saved) != len(copies):
                differing.append(f"{len(saved)} variables of the {group} there and {len(copies)} here")
            if differing:
                raise UserError(
                    f"{path} is a checkpoint of another network ({differing[0]}); use another folder, or the "
                    "version that wrote it"
                )


def _recorded(identity: dict[str, Any], key: str) -> str:
    return repr(identity[key]) if key in identity else "not recorded"


def _view(variable: Any) -> memoryview:
    """The value on the host, without a copy where it is there already; of replicas that are alike, one's."""
    return memoryview(variable.value.read_value())


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype} {list(array.shape)}"


def _like(variable: Any) -> np.ndarray:
    return np.empty(variable.shape, variable.value.dtype.as_numpy_dtype)


# === Files ===


def _encode(file: IO[bytes], state: str, arrays: Arrays) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(STATE, state)
        for group, each in arrays.items():
            for index, array in enumerate(each):
                with archive.open(_member(group, index), "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)


def _member(group: str, index: int) -> str:
    return f"{group}-{index:04d}.npy"


def _array(archive: zipfile.ZipFile, member: str) -> np.ndarray:
    content = io.BytesIO(archive.read(member))  # to the end, for only then the checksum is compared
    return np.lib.format.read_array(content, allow_pickle=False)


def _checkpoints(names: list[str]) -> list[str]:
    """Those that are named as checkpoints, oldest first."""
    return sorted((name for name in names if NAME.fullmatch(name)), key=_place)


def _place(name: str) -> tuple[int, int]:
    """Epochs finished, and steps taken in the next."""
    match = NAME.fullmatch(name)
    assert match
    return int(match[1]), int(match[2])


def _words(name: str) -> str:
    epoch, step = _place(name)
    return f"epoch {epoch}, step {step}"
