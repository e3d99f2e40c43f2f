"""The state of a training run on disk, so that a killed run goes on where it was."""

import dataclasses
import json
import os
import pathlib
import shutil
from typing import Any

import keras
import tensorflow as tf

from trainer.errors import UserError

BEST_WEIGHTS = "best.weights.h5"
KEEP = 2
"""Checkpoints kept: the latest, and one to fall back to should that be damaged."""


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


class Checkpoints:
    """Checkpoints of weights, optimizer and progress in one folder, for one run.

    Args:
        folder: made if it is not there.
        model: its variables are saved and restored.
        optimizer: built, likewise.
        identity: what the run's result depends on; a checkpoint of other values is refused.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        identity: dict[str, Any],
    ) -> None:
        self.folder = pathlib.Path(folder)
        self._identity = identity
        self._state = tf.Variable("", dtype=tf.string)
        # Lists of plain variables: nothing here depends on how Keras tracks its objects.
        self._checkpoint = tf.train.Checkpoint(
            model=[variable.value for variable in model.variables],
            optimizer=[variable.value for variable in optimizer.variables],
            state=self._state,
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the folder of checkpoints {self.folder}: {error.strerror}") from None
        self._manager = tf.train.CheckpointManager(self._checkpoint, str(self.folder), max_to_keep=KEEP)

    @property
    def best_weights(self) -> pathlib.Path:
        """Where the weights with the lowest validation loss are kept."""
        return self.folder / BEST_WEIGHTS

    def save(self, progress: Progress) -> None:
        """Write a checkpoint; TensorFlow writes beside and renames, and names it as the latest only then."""
        self._state.assign(json.dumps({"identity": self._identity, "progress": dataclasses.asdict(progress)}))
        try:
            self._manager.save()
        except (tf.errors.ResourceExhaustedError, tf.errors.UnknownError, OSError) as error:
            raise UserError(
                f"cannot write a checkpoint to {self.folder}: {error}. It takes about 300 MB, {KEEP + 1} times"
            ) from None

    def restore(self) -> Progress:
        """Take up the newest checkpoint that can be read; a fresh `Progress` where there is none.

        Raises:
            UserError: if it is of a run with other data or settings, or if no checkpoint can be read.
        """
        self._remove_leftovers()
        found = list(reversed(self._manager.checkpoints))
        for path in found:
            try:
                state = json.loads(tf.train.load_variable(path, "state/.ATTRIBUTES/VARIABLE_VALUE").decode())
                self._check_identity(state["identity"])
                self._checkpoint.restore(path).assert_consumed()
            except (tf.errors.OpError, ValueError, IndexError, RuntimeError) as error:  # whatever is damaged
                reason = str(error).splitlines()[0]
                print(f"checkpoint {path} cannot be read and is passed over: {reason}", flush=True)
                continue
            progress = Progress(**state["progress"])
            print(f"going on after epoch {progress.epoch}, step {progress.step} ({path})", flush=True)
            return progress
        if found:
            raise UserError(
                f"none of the {len(found)} checkpoints in {self.folder} can be read; remove it to start anew"
            )
        return Progress()

    def _check_identity(self, identity: dict[str, Any]) -> None:
        keys = sorted(identity.keys() | self._identity.keys())
        differing = [
            f"{key} {identity.get(key)!r}, now {self._identity.get(key)!r}"
            for key in keys
            if identity.get(key) != self._identity.get(key)
        ]
        if differing:
            raise UserError(
                f"the checkpoint in {self.folder} is of another run ({'; '.join(differing)}); "
                "use the same values, or another folder"
            )

    def _remove_leftovers(self) -> None:
        """Files of a save that was cut off are of no use, and large."""
        known = {pathlib.Path(path).name for path in self._manager.checkpoints}
        for path in self.folder.glob("ckpt-*"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.stem not in known:
                path.unlink()
        for path in self.folder.glob(".partial-*"):
            path.unlink()
