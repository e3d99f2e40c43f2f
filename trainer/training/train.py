"""Train MSI-Net on a prepared data set, and write the best model."""

import dataclasses
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer import accelerators, footprint
from trainer.artifacts import HISTORY, Manifest
from trainer.config import TrainConfig, with_batch
from trainer.data import memory
from trainer.data.batches import Split
from trainer.errors import UserError, first_line
from trainer.files import replacing
from trainer.model import build_model
from trainer.models.saved_model import write_model
from trainer.training import initial, precision, schedule, strategy
from trainer.training.checkpoints import Checkpoints, Progress
from trainer.training.checks import check_output, check_training
from trainer.training.lineage import lineage
from trainer.training.loop import Data, Loop
from trainer.training.preemption import watched
from trainer.training.strategy import Devices
from trainer.training.tensorboard import Board

ADAM_EPSILON = 1e-8
"""TensorFlow 1's default, which the reference trained with; Keras' is 1e-7."""
MACHINE_LOST = 75
"""Exit status when another machine of the job is gone; EX_TEMPFAIL: the same command later may well succeed."""
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.InternalError)
"""What TensorFlow raises then."""

Path = str | os.PathLike[str]


def train(
    config: TrainConfig,
    dataset: Path,
    output: Path,
    checkpoints: Path,
    base_model: Path | None = None,
    *,
    accelerator: str = "",
    logs: str = "",
    cache: str = "auto",
    initial_weights_fingerprint: str = "",
) -> dict[str, Any]:
    """Train on a prepared data set, or go on with a training that was cut off, and write the best model.

    Args:
        config: the settings.
        dataset: folder of a prepared data set.
        output: folder of the model to write (see `trainer.artifacts`).
        checkpoints: folder, or gs:// address of one, that keeps the state of the run; the same call with the same
            folder goes on there.
        base_model: folder of a model whose weights to start from.
        accelerator: name in `trainer.accelerators` of what to train on; what is here without one.
        logs: folder for TensorBoard; where Vertex AI wants it, or none, without one.
        cache: where the decoded images are kept: memory, disk, or auto.
        initial_weights_fingerprint: digest that the file of initial weights must have; empty for any.

    Returns:
        What MODEL_CONFIG holds: settings, data, and `best_epoch` with its `valid_loss`.

    Raises:
        UserError: if settings, data, weights and devices do not fit together, or if the loss is not finite.
        SystemExit: if the run is told to stop (128 + the signal), or if another machine is lost (MACHINE_LOST);
            the same call goes on.
    """
    manifest = check_training(config, dataset, output, base_model, accelerator)
    if config.deterministic and strategy.kind_of(accelerator) != "tpu":  # whose programs are, all of them
        make_deterministic()
    keras.utils.clear_session()
    devices = strategy.connect(accelerator)
    keras.utils.set_random_seed(config.seed)
    resolved = precision.resolve(config.precision, devices)
    config = _with_batch(config, manifest, devices, resolved, accelerator)
    digest = initial.fingerprint(config, base_model, initial_weights_fingerprint)
    rests_on = lineage(config, manifest, resolved, base_model, digest)
    check_output(output, rests_on["identity"])
    _check_agreement(devices, rests_on["identity"])
    with devices.strategy.scope():
        model, optimizer = make_network(config, manifest, resolved, base_model)
    print(_first_words(config, manifest, devices, resolved), flush=True)
    with (
        watched() as stop,
        Checkpoints(checkpoints, model, optimizer, rests_on["identity"], writable=devices.is_chief) as kept,
        Board(logs, config.profile_steps, writable=devices.is_chief) as board,
        _explained(config, manifest, devices, resolved),
    ):
        progress = kept.restore()
        _check_place(devices, progress)
        if progress.epoch < config.epochs:
            splits = (Split.load(dataset, manifest, name, cache) for name in ("train", "valid"))
            data = Data(str(dataset), manifest, *splits)
            loop = Loop(config, data, devices, model, optimizer, kept, progress, board, stop)
            loop.run()
            progress = loop.progress
        kept.wait()
        summary = {**rests_on, "best_epoch": progress.best_epoch, "valid_loss": progress.best_loss}
        if devices.is_chief:
            _write(output, manifest.image_size, kept.best_weights(), progress, summary)
        _leave(devices)
    return summary


def make_network(
    config: TrainConfig, manifest: Manifest, resolved: str, base_model: Path | None
) -> tuple[keras.Model, Any]:
    """The network with its first weights, and its optimizer; within the strategy's scope."""
    model = initial.initial_model(config, manifest.image_size, precision.POLICIES[resolved], base_model)
    rate = schedule.learning_rate(config, manifest.counts["train"] // config.batch_size)
    optimizer = precision.scaled(keras.optimizers.Adam(rate, epsilon=ADAM_EPSILON), resolved)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def make_deterministic() -> None:
    """Ask TensorFlow for the same bits in every run.

    Its own switch is not enough on a CPU. oneDNN's convolutions split their sums by how many threads are free, so
    that gradients of operations that run side by side differ in the last bits; one operation at a time, on all
    threads, does not, and costs nothing in a network that is a chain. And sums of more than two tensors start with
    whichever's memory may be taken over: the network adds two at a time, which TensorFlow's rewriting of
    arithmetic would undo.
    """
    tf.config.experimental.enable_op_determinism()
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
    try:
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow has started, as in a notebook
        if os.environ.get("TF_NUM_INTEROP_THREADS") != "1":
            print(
                "TensorFlow runs already: set TF_NUM_INTEROP_THREADS=1 before it does for the same bits each run"
            )


def _with_batch(
    config: TrainConfig, manifest: Manifest, devices: Devices, resolved: str, accelerator: str
) -> TrainConfig:
    """The settings with the batch size that is used, checked against data and devices."""
    images, replicas = manifest.counts["train"], devices.replicas
    chip = devices.chip or accelerators.UNNAMED[devices.kind]
    batch_size = config.batch_size or footprint.default_batch(
        chip, replicas, config.accumulation, images, manifest.image_size, resolved
    )
    config = with_batch(config, batch_size)
    footprint.check_shares(config.batch_size, replicas, config.accumulation, images, accelerator)
    if devices.kind == "cpu":  # a process that takes more than there is gets killed, and can say nothing any more
        here = dataclasses.replace(accelerators.CPU, memory_bytes=memory.available_bytes() / replicas)
        batch = (config.batch_size, replicas, config.accumulation)
        footprint.check_memory("this machine", here, *batch, manifest.image_size, resolved)
    return config


def _first_words(config: TrainConfig, manifest: Manifest, devices: Devices, resolved: str) -> str:
    counts, (height, width) = manifest.counts, manifest.image_size
    machines = f" on {devices.cluster.size} machines" if devices.cluster.size > 1 else ""
    spread = f" over {devices.replicas} {devices.kind}s{machines}" if devices.replicas > 1 else ""
    return (
        f"{manifest.dataset}: {counts['train']} training and {counts['valid']} validation images at "
        f"{height}x{width}, batch {config.batch_size}{spread}, {counts['train'] // config.batch_size} steps an "
        f"epoch, {resolved}"
    )


def _check_agreement(devices: Devices, identity: dict[str, Any]) -> None:
    """Raise `UserError` unless all machines were started with the same settings and data."""
    names = sorted(identity)
    told = devices.gather([float(zlib.crc32(repr(identity[name]).encode())) for name in names])
    differing = [name for name, column in zip(names, told.T, strict=True) if len(set(column)) > 1]
    if differing:
        ours = ", ".join(f"{name} {identity[name]!r}" for name in differing)
        raise UserError(
            f"the machines of this job were started with different {', '.join(differing)} (here: {ours}); "
            "give all of them the same command and data"
        )


def _check_place(devices: Devices, progress: Progress) -> None:
    """Raise `UserError` unless all machines go on from the same checkpoint."""
    places = devices.gather([progress.epoch, progress.step]).astype(int).tolist()
    if any(place != places[0] for place in places):
        told = ", ".join(f"machine {rank} epoch {epoch} step {step}" for rank, (epoch, step) in enumerate(places))
        raise UserError(
            f"the machines of this job found different checkpoints ({told}); give all of them one folder that all "
            "can read"
        )


def _leave(devices: Devices) -> None:
    """Wait until the chief has written the model: it serves the others until then.

    The first machine to end closes its connections, and the others may not have heard from it yet. Nothing is left
    to do then, so none of them is lost.
    """
    with suppress(*LOST):
        devices.gather([0.0])


@contextmanager
def _explained(config: TrainConfig, manifest: Manifest, devices: Devices, resolved: str) -> Iterator[None]:
    """What TensorFlow raises when memory or a machine is gone, in the user's words."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise UserError(_out_of_memory(config, manifest, devices, resolved, error)) from None
    except LOST as error:
        if devices.cluster.size == 1:
            raise
        gone = sorted(set(re.findall(r"/job:\w+/replica:\d+/task:\d+", str(error)))) or [first_line(error)]
        print(
            f"another machine of this job is gone ({', '.join(gone)}); start them all again, and the training "
            "goes on from its last checkpoint",
            flush=True,
        )
        raise SystemExit(MACHINE_LOST) from None


def _out_of_memory(
    config: TrainConfig, manifest: Manifest, devices: Devices, resolved: str, error: tf.errors.OpError
) -> str:
    share = config.batch_size // devices.replicas
    each = share // config.accumulation
    most = footprint.largest_batch(devices.chip, manifest.image_size, resolved) if devices.chip else each
    fits = min(most, each // 2)  # the estimate may be too high, and then half is a guess
    remedy = (
        f"{fits} may fit: set batch_size to {fits * devices.replicas * config.accumulation}, or accumulation to "
        f"{footprint.parts(share, fits)} for the same batch"
        if fits
        else "prepare smaller images, or take a device with more memory"
    )
    size = f"{manifest.image_size[0]}x{manifest.image_size[1]}"
    return f"out of memory with {each} images of {size} at a time ({first_line(error)}); {remedy}"


def _write(
    output: Path,
    image_size: tuple[int, int],
    weights: list[np.ndarray],
    progress: Progress,
    summary: dict[str, Any],
) -> None:
    """Write the model folder: best weights, their SavedModel, the history and the configuration."""
    model = build_model((None, None), "float32")  # outside of any strategy
    for variable, array in zip(model.variables, weights, strict=True):
        variable.assign(array)
    with replacing(output) as folder:
        folder.mkdir()
        (folder / HISTORY).write_text("".join(json.dumps(row) + "\n" for row in progress.history))
        write_model(model, folder, image_size, summary)
        shutil.rmtree(output, ignore_errors=True)  # an earlier end of this run
    print(
        f"wrote the weights of epoch {summary['best_epoch']} (validation {summary['valid_loss']:.4f}) to {output}",
        flush=True,
    )
