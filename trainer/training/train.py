"""One training: from settings and a prepared dataset to the folder of the best model."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import keras
import tensorflow as tf

from trainer.data import Manifest, PreparedData, TrainingData
from trainer.errors import ConflictError, FailedError, MismatchError, PlaceError, check
from trainer.io import StrPath, is_taken, replacing, write_json
from trainer.machine import announce, available_bytes, code_version
from trainer.models import WeightSource
from trainer.network import (
    DEFAULT_NETWORK,
    Architecture,
    Calibration,
    LocalWeights,
    ModelConfig,
    ModelFolder,
    assign_weights,
    build_network,
    trained_network,
    write_model,
)
from trainer.texts import first_line
from trainer.training import accelerators, exits, host, hypertune, step, strategy
from trainer.training.checkpoints import Checkpoints, Progress
from trainer.training.exits import watched
from trainer.training.fit_calibration import calibrate
from trainer.training.loop import Loop
from trainer.training.settings import TrainConfig
from trainer.training.step import Network, build_optimizer
from trainer.training.strategy import Devices
from trainer.training.tensorboard import Board

CHANGEABLE = (
    "recipe",
    "epochs",
    "patience",
    "checkpoint_minutes",
    "precision",
    "accumulation",
    "profile_steps",
    "flip_prediction",
    "calibrate",
)
"""Settings that may change when a run resumes. The resolved precision may not."""
LATER = ("flip",)
"""Settings that checkpoints of earlier versions do not have. Such a run had their defaults."""
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.InternalError)
"""Errors that TensorFlow raises when a machine is lost. CUDA, cuDNN, NCCL and XLA raise the last one, too."""
NCCL = "NCCL"
"""Its errors have this name in them (`NCCL_RETURN_IF_ERROR` in TensorFlow's nccl_manager.cc)."""


@dataclasses.dataclass(frozen=True)
class Job:
    """The facts of one training: its settings and data, and the devices that it runs on."""

    config: TrainConfig
    """The settings, with the values of the recipe and the batch size in use."""
    manifest: Manifest
    devices: Devices
    precision: str
    """The number format in which the network computes, a key of `step.POLICIES`."""
    architecture: Architecture = DEFAULT_NETWORK

    @classmethod
    def resolve(
        cls,
        config: TrainConfig,
        manifest: Manifest,
        devices: Devices,
        accelerator: str = "",
        architecture: Architecture = DEFAULT_NETWORK,
    ) -> Self:
        """Choose the precision and the batch size for data and devices, where `config` leaves them open.

        Args:
            config: the settings, with the values of the recipe.
            manifest: of the data.
            devices: run the training.
            accelerator: its name, for messages. Empty if none was named.
            architecture: the network to train.

        Raises:
            UserError: if the devices cannot share the batch, or if it does not fit into this machine's memory.
        """
        precision = step.resolve_precision(config.precision, devices)
        images, replicas, image_size = manifest.counts["train"], devices.replicas, manifest.image_size
        chip = devices.chip or accelerators.UNNAMED[devices.kind]
        batch_size = config.batch_size or chip.default_batch(
            replicas, config.accumulation, images, image_size, precision, architecture
        )
        config = config.with_batch(batch_size)
        config.check_shares(replicas, images, accelerator)
        if devices.kind == "cpu":  # the system would kill a process that takes more, without an error message
            this = dataclasses.replace(accelerators.CPU, memory_bytes=available_bytes() / replicas)
            batch = (batch_size, replicas, config.accumulation)
            this.check_memory("this machine", *batch, image_size, precision, architecture)
        return cls(config, manifest, devices, precision, architecture)

    @property
    def steps_per_epoch(self) -> int:
        """Number of whole batches in the training images, such as 3 for 10 images in batches of 3."""
        return self.manifest.counts["train"] // self.config.batch_size

    def summary(self) -> str:
        """Describe the data, the batch, the devices and the precision in one line.

        Example: `osie: 500 training and 200 validation images at 240x320, batch 4, 125 steps an epoch, float32`.
        """
        devices, counts, (height, width) = self.devices, self.manifest.counts, self.manifest.image_size
        machines = f" on {devices.cluster.size} machines" if devices.cluster.size > 1 else ""
        spread = f" over {devices.replicas} {devices.kind}s{machines}" if devices.replicas > 1 else ""
        return (
            f"{self.manifest.dataset}: {counts['train']} training and {counts['valid']} validation images at "
            f"{height}x{width}, batch {self.config.batch_size}{spread}, {self.steps_per_epoch} steps an epoch, "
            f"{self.precision}"
        )

    def out_of_memory(self, error: tf.errors.OpError) -> str:
        """Say how many images at a time were too many, and which settings may fit.

        Example: "out of memory with 32 images of 240x320 at a time (...). 16 may fit: set batch_size to 16".
        """
        config, devices, (height, width) = self.config, self.devices, self.manifest.image_size
        share = config.batch_size // devices.replicas
        part = share // config.accumulation
        fits = part // 2  # a guess, since the estimate for a known chip may be too high
        if devices.chip:
            largest = devices.chip.largest_batch((height, width), self.precision, self.architecture)
            fits = min(fits, largest)
        batch = fits * devices.replicas * config.accumulation
        remedy = (
            f"{fits} may fit: set batch_size to {batch}, or accumulation to {accelerators.parts(share, fits)} for "
            "the same batch"
            if fits
            else "prepare smaller images, or use a device with more memory"
        )
        return f"out of memory with {part} images of {height}x{width} at a time ({first_line(error)}): {remedy}"

    def nccl_failed(self, error: tf.errors.OpError) -> str:
        """Say that the GPUs of this machine could not be connected, the likely cause, and what to do."""
        shared, needed = host.shared_memory_bytes(), host.NCCL_SHARED_BYTES
        has = f"shared memory ({host.SHARED_MEMORY}) has {shared / 2**20:.0f} MiB"
        cause = (
            f"{has}, and should have {needed / 2**20:.0f}: give the container more, on Kubeflow by compiling the "
            "pipeline again, with Docker by --shm-size=1g"
            if shared < needed
            else f"{has}, which is enough: run again with NCCL_DEBUG=INFO, whose lines in the log name the cause"
        )
        failed = f"NCCL, which connects the {self.devices.replicas} GPUs of this machine, failed"
        return f"{failed} ({first_line(error)}): {cause}, or train on one GPU"

    @contextmanager
    def errors_explained(self) -> Iterator[None]:
        """Translate TensorFlow's errors for exhausted memory, lost machines, GPUs that cannot be connected, and
        damaged shards.
        """
        try:
            yield
        except tf.errors.ResourceExhaustedError as error:
            raise FailedError(self.out_of_memory(error)) from None
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            if (explained := TrainingData.damage(error, self.manifest.dataset)) is None:
                raise
            raise explained from None
        except LOST as error:
            cluster = self.devices.cluster
            named = set(re.findall(r"/job:\w+/replica:\d+/task:\d+", str(error)))
            others = named - {f"/job:{cluster.job}/replica:0/task:{cluster.index}"}
            if cluster.size == 1 and NCCL in str(error):
                raise FailedError(self.nccl_failed(error)) from None
            if cluster.size == 1 or (isinstance(error, tf.errors.InternalError) and not others):
                raise
            lost = ", ".join(sorted(others)) or first_line(error)
            print(
                f"lost another machine of this job ({lost}): start all machines again to resume from "
                "the last checkpoint",
                flush=True,
            )
            raise SystemExit(exits.machine_lost()) from None


def train(
    config: TrainConfig,
    dataset: StrPath,
    output: StrPath,
    checkpoints: StrPath,
    base_model: StrPath | None = None,
    *,
    accelerator: str = "",
    logs: str = "",
    cache: str = "auto",
    initial_weights_fingerprint: str = "",
    saved_model: bool = True,
) -> dict[str, Any]:
    """Train on a prepared dataset, or resume an interrupted training, and write the best model.

    Args:
        config: the settings, with the values of the recipe (`trainer.training.settings.TrainConfig.with_recipe`).
        dataset: folder of a prepared dataset.
        output: folder of the model to write (see `trainer.network.model_folder`).
        checkpoints: folder or gs:// address for the state of the run. The same call with the same folder resumes.
        base_model: folder of a model with the weights to start from.
        accelerator: name in `trainer.training.accelerators`. Empty for the devices of this machine.
        logs: folder for TensorBoard. Empty for the folder that Vertex AI sets, if any.
        cache: where to keep the decoded images (`trainer.data.load.load_split`).
        initial_weights_fingerprint: fingerprint that the file of initial weights must have. Empty for any.
        saved_model: whether to export the model, too. A model that is only fine-tuned needs no export.

    Returns:
        The content of MODEL_CONFIG: settings, data, and `best_epoch` with its `valid_loss`.

    Raises:
        UserError: if settings, data, weights and devices do not fit together, or if the loss is not finite.
        SystemExit: if the run is told to stop, or if another machine is lost, with a status of
            `trainer.training.exits`. The same call resumes.
    """
    manifest = Manifest.load(dataset)
    devices = reset_and_connect(config, accelerator)
    base = None if base_model is None else ModelFolder(base_model).config_of_base()
    architecture = DEFAULT_NETWORK if base_model is None else ModelFolder(base_model).architecture
    job = Job.resolve(config, manifest, devices, accelerator, architecture)
    fingerprint = fingerprint_initial_model(config, base_model)
    check(
        base_model is not None or initial_weights_fingerprint in ("", fingerprint),
        f"the weights at {config.initial_weights} changed since the run was planned (their digest was "
        f"{initial_weights_fingerprint}, now it is {fingerprint or 'none'}): run the pipeline again",
        ConflictError,
    )
    prior = Calibration.of_config(base or {})
    identity = run_identity(job, base, fingerprint)
    images = _images_seen(dataset, base_model)
    check_model_output(output, identity)
    _check_same_start(devices, identity)
    announce("building the network")
    with devices.strategy.scope():
        network = make_network(job, base_model)
    print(job.summary(), flush=True)
    with (
        watched() as stop,
        Checkpoints(checkpoints, network, identity, writable=devices.is_chief) as store,
        Board(logs, job.config.profile_steps, writable=devices.is_chief) as board,
        job.errors_explained(),
    ):
        progress = store.restore()
        if devices.is_chief and progress.history:  # a new machine has none of the file that the last one wrote
            hypertune.report(progress.history)
        is_over = progress.is_over(job.config.epochs, job.config.patience)
        if not is_over:
            store.check_room()
        _check_same_progress(devices, progress)
        if not is_over:
            data = TrainingData.load(dataset, manifest, cache)
            progress = Loop(job.config, data, devices, network, store, progress, board, stop).run()
        store.wait()
        record = training_record(job, base, identity, progress)
        if devices.is_chief:
            model = build_network(job.architecture, (None, None), "float32")  # outside of any strategy
            for variable, array in zip(model.variables, store.best_weights(), strict=True):
                variable.assign(array)
            if job.config.calibrate:
                fitted = calibrate(
                    trained_network(model, record), pathlib.Path(dataset), manifest.counts["valid"], prior
                )
                record["calibration"] = fitted and dataclasses.asdict(fitted)
            announce(f"writing the model{' and its export' if saved_model else ''}")
            _write(output, manifest.image_size, model, progress, record, images, saved_model)
        _leave(devices)
    return record


def reset_and_connect(config: TrainConfig, accelerator: str) -> Devices:
    """Connect to the devices, with TensorFlow and Keras reset as in a new process and seeded by `config`."""
    if config.deterministic and strategy.kind_of_devices(accelerator) != "tpu":  # programs for a TPU always are
        make_deterministic()
    keras.utils.clear_session()
    devices = strategy.connect_devices(accelerator)
    keras.utils.set_random_seed(config.seed)
    return devices


def make_deterministic() -> None:
    """Configure TensorFlow to compute the same bits in every run.

    On a CPU `enable_op_determinism` is not enough, for two reasons. oneDNN's convolutions split their sums by the
    number of free threads, so operations that run in parallel differ in the last bits. One operation at a time,
    on all threads, is deterministic, and not slower, because the network is a chain. And a sum of more than two
    tensors starts with any tensor that can be overwritten. The network therefore adds two tensors at a time.
    TensorFlow's arithmetic optimization would merge these additions.
    """
    tf.config.experimental.enable_op_determinism()
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
    try:
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow has started, as in a notebook
        if os.environ.get("TF_NUM_INTEROP_THREADS") != "1":
            print(
                "TensorFlow has already started. For the same bits in every run, set TF_NUM_INTEROP_THREADS=1 "
                "before it starts"
            )


def make_network(job: Job, base_model: StrPath | None) -> Network:
    """Build the network with its initial weights, and its optimizer. Call it within the strategy's scope.

    Args:
        job: its settings choose the initial weights and the optimizer.
        base_model: folder of a model with the weights to start from.

    Raises:
        UserError: as `initial_model`.
    """
    policy, size = step.POLICIES[job.precision], job.manifest.image_size
    model = initial_model(job.config, size, policy, base_model, job.architecture)
    return Network(model, build_optimizer(job.config, model, job.steps_per_epoch, job.precision))


def initial_model(
    config: TrainConfig,
    image_size: tuple[int, int],
    policy: str,
    base_model: StrPath | None,
    architecture: Architecture = DEFAULT_NETWORK,
) -> keras.Model:
    """Build a network with its initial weights.

    They come from the base model if there is one, else from the setting `initial_weights`:

    - an encoder, such as VGG16. The other layers are Glorot-uniform, as in the reference.
    - a whole network
    - none: He-normal kernels in all layers, because without an encoder the network does not learn from
      Glorot-uniform kernels (research/log.md)

    Args:
        config: the settings.
        image_size: (H, W) of the input in pixels.
        policy: Keras precision policy.
        base_model: folder of a model with the weights to start from.
        architecture: the network.

    Raises:
        UserError: if weights are missing, cannot be downloaded, or belong to another network.
    """
    source = config.initial_weights
    from_scratch = source == "none" and base_model is None
    initializer = "he_normal" if from_scratch else "glorot_uniform"
    model = build_network(architecture, image_size, policy, initializer, config.seed)
    if base_model is not None:
        assign_weights(model, LocalWeights.of_model(base_model), str(base_model))
    elif source == "imagenet":
        assign_weights(model, architecture.imagenet(), f"ImageNet's {architecture.encoder_title}")
    elif not from_scratch:
        with WeightSource(source).opened() as local:
            assign_weights(model, local, source)
    return model


def fingerprint_initial_model(config: TrainConfig, base_model: StrPath | None) -> str:
    """Return the fingerprint of the weight file that `initial_model` reads. Empty if it reads none, such as
    for `imagenet`.

    Args:
        config: the settings.
        base_model: folder of a model with the weights to start from.

    Raises:
        UserError: if weights are missing.
    """
    return WeightSource(config.initial_weights).fingerprint() if base_model is None else ""


# === The identity of a run ===


def run_identity(job: Job, base: ModelConfig | None, initial_weights_fingerprint: str = "") -> dict[str, Any]:
    """Describe what a checkpoint must share with a training to be resumed by it: all that its result depends on.

    Args:
        job: the settings, the data and the precision.
        base: MODEL_CONFIG of the base model.
        initial_weights_fingerprint: `fingerprint_initial_model`.
    """
    config, manifest = job.config, job.manifest
    identity: dict[str, Any] = {
        field.name: value
        for field in dataclasses.fields(config)
        if field.name not in CHANGEABLE
        and ((value := getattr(config, field.name)) != field.default or field.name not in LATER)
    }
    if config.schedule != "constant":  # the learning rate of every step depends on the number of epochs
        identity["epochs"] = config.epochs
    if initial_weights_fingerprint:  # absent otherwise, so that older checkpoints without such a file can resume
        identity["initial_weights_fingerprint"] = initial_weights_fingerprint
    if manifest.test_share:  # likewise, since the images that choose the epoch depend on it
        identity["test_share"] = manifest.test_share
    block, n_train = TrainingData.block_images(manifest.image_size), manifest.counts["train"]
    if n_train > block:  # the order of a larger split depends on it
        identity["block_images"] = block
    return identity | {
        "precision": job.precision,
        "image_size": list(manifest.image_size),
        "n_train": n_train,
        "fingerprint": manifest.fingerprint,
        "base": base and [base["identity"], base["best_epoch"]],
    }


def training_record(
    job: Job, base: ModelConfig | None, identity: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    """Describe a training that has ended, and its best epoch: the content of its model's MODEL_CONFIG.

    Args:
        job: the settings, the data and the precision.
        base: MODEL_CONFIG of the base model.
        identity: its `run_identity`.
        progress: the state after its last epoch.
    """
    manifest = job.manifest
    return {
        "network": job.architecture.name,
        "dataset": manifest.dataset,
        "source": manifest.source,
        "fingerprint": manifest.fingerprint,
        "counts": manifest.counts,
        "test_share": manifest.test_share,
        "split": manifest.split,
        "image_size": list(manifest.image_size),
        "precision": job.precision,
        "settings": dataclasses.asdict(job.config),
        "code_version": code_version(),
        "base_model": base,
        "identity": identity,
        "best_epoch": progress.best_epoch,
        "valid_loss": progress.best_loss,
    }


def check_model_output(output: StrPath, identity: dict[str, Any]) -> None:
    """Raise `UserError` if `output` exists and is not the model of the run with this identity."""
    found = ModelFolder(output).known_config("remove the folder") or {}
    if is_taken(pathlib.Path(output)) and found.get("identity") != json.loads(json.dumps(identity)):
        raise PlaceError(
            f"{output} exists already, and is not the model of this run: remove it, or choose another folder"
        )


# === What the machines of a job agree on ===


def _check_same_start(devices: Devices, identity: dict[str, Any]) -> None:
    """Raise `UserError` unless all machines were started with the same settings and data, such as the same
    seed.
    """
    names = sorted(identity)
    checksums = devices.gather([float(zlib.crc32(repr(identity[name]).encode())) for name in names])
    differing = [name for name, column in zip(names, checksums.T, strict=True) if len(set(column)) > 1]
    if differing:
        values = ", ".join(f"{name} {identity[name]!r}" for name in differing)
        raise MismatchError(
            f"the machines of this job were started with different {', '.join(differing)} (on this machine: "
            f"{values}): start all of them with the same command and data"
        )


def _check_same_progress(devices: Devices, progress: Progress) -> None:
    """Raise `UserError` unless all machines resume from the same checkpoint.

    Example: "machine 0 epoch 1 step 20, machine 1 epoch 0 step 0" is refused.
    """
    states = devices.gather([progress.epoch, progress.step]).astype(int).tolist()
    if any(state != states[0] for state in states):
        of_machines = ", ".join(
            f"machine {rank} epoch {epoch} step {taken}" for rank, (epoch, taken) in enumerate(states)
        )
        raise MismatchError(
            f"the machines of this job found different checkpoints ({of_machines}): give all of them the same "
            "checkpoint folder, which all can read"
        )


def _leave(devices: Devices) -> None:
    """Wait until the chief has written the model: the other machines need its server until then.

    The first machine that exits closes its connections, perhaps before the others have received its last message.
    Their errors are ignored: no work is left.
    """
    with suppress(*LOST):
        devices.gather([0.0])


def _images_seen(dataset: StrPath, base_model: StrPath | None) -> dict[str, dict[str, list[str]]]:
    """The content of TRAINING_IMAGES: what the base model has seen, and the images of this training."""
    images = {} if base_model is None else ModelFolder(base_model).training_images()
    for fingerprint, splits in PreparedData(dataset).images_to_train_on().items():
        before = images.get(fingerprint, {})
        images[fingerprint] = {
            split: sorted({*digests, *before.get(split, ())}) for split, digests in splits.items()
        }
    return images


def _write(
    output: StrPath,
    image_size: tuple[int, int],
    model: keras.Model,
    progress: Progress,
    record: dict[str, Any],
    images: dict[str, dict[str, list[str]]],
    saved_model: bool,
) -> None:
    """Write the model folder: best weights, their SavedModel, the history, the images and the configuration."""
    with replacing(output, last=ModelFolder.LAST) as folder:
        folder.mkdir()
        ModelFolder(folder).history_file.write_text("".join(json.dumps(row) + "\n" for row in progress.history))
        if images:  # prepared data without IMAGES does not tell
            write_json(ModelFolder(folder).images_file, images)
        write_model(model, folder, image_size, record, saved_model)
        shutil.rmtree(output, ignore_errors=True)  # the result of an earlier end of this run
    print(
        f"wrote the weights of epoch {record['best_epoch']} (validation {record['valid_loss']:.4f}) to {output}",
        flush=True,
    )
