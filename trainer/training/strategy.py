"""The devices of a training, and how `tf.distribute` uses them."""

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.errors import MismatchError, NotFoundError, SettingError, UnreachableError, check
from trainer.machine import has_own_users, is_for_tpu, locked_memory_is_low
from trainer.texts import first_line
from trainer.training import accelerators
from trainer.training.accelerators import Chip

Communication = tf.distribute.experimental.CommunicationImplementation
Options = tf.distribute.experimental.CommunicationOptions
WORKER_JOBS = ("chief", "worker")
"""Jobs of TF_CONFIG that train, in rank order. Others, such as parameter servers, are left out."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The machines that train together, and the place of this machine among them."""

    jobs: dict[str, list[str]]
    """Addresses, as HOST:PORT, by job of WORKER_JOBS."""
    job: str = "worker"
    index: int = 0

    @classmethod
    def from_environment(cls) -> "Cluster":
        """Read the cluster from TF_CONFIG, which Vertex AI sets on each machine of a job. Without it, there
        is one machine.

        Raises:
            UserError: if TF_CONFIG is malformed, or does not contain this machine.
        """
        text = os.environ.get("TF_CONFIG", "")
        if not text:
            return cls({"worker": ["localhost"]})
        try:
            config = json.loads(text)
            jobs = {job: list(config["cluster"][job]) for job in WORKER_JOBS if config["cluster"].get(job)}
            task = config["task"]
            job, index = str(task["type"]), int(task["index"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SettingError(
                f"TF_CONFIG is malformed ({type(error).__name__}: {error}): write "
                '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'
            ) from None
        members = ", ".join(f"{name} 0 to {len(hosts) - 1}" for name, hosts in jobs.items()) or "no machines"
        check(
            0 <= index < len(jobs.get(job, [])),
            f"in TF_CONFIG this machine is {job} {index}, but its cluster has {members}: correct TF_CONFIG",
            SettingError,
        )
        return cls(jobs, job, index)

    @property
    def size(self) -> int:
        """Number of machines that train, such as 3 for a chief and two workers."""
        return sum(len(hosts) for hosts in self.jobs.values())

    @property
    def rank(self) -> int:
        """Number of this machine, from 0 for the chief."""
        return self.index + (len(self.jobs.get("chief", [])) if self.job == "worker" else 0)


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices of a training."""

    strategy: tf.distribute.Strategy
    kind: str
    """cpu, gpu or tpu."""
    chip: Chip | None
    """Row of the table. None if no accelerator was named."""
    cluster: Cluster

    @property
    def replicas(self) -> int:
        """Number of replicas that share a batch, over all machines."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def is_chief(self) -> bool:
        """Whether this machine writes the results."""
        return self.cluster.rank == 0

    def gather(self, values: list[float]) -> np.ndarray:
        """Gather `values` of every machine, (machines, n) float64, equal on all machines. All must call it."""
        row = np.asarray(values, np.float64)[None]
        if self.cluster.size == 1:
            return row
        rows = self._gather(tf.constant(row)).numpy()
        return np.asarray(rows[:: self.replicas // self.cluster.size])

    def iterate(self, dataset: Callable[..., tf.data.Dataset], *arguments: Any, **settings: Any) -> Iterator[Any]:
        """Return the batches of a dataset for all replicas of this machine, each on its own device.

        Args:
            dataset: a method of a `Split`. It also gets `n_replicas_here`, `first_replica` and `n_replicas`.
            arguments: its arguments.
            settings: its named arguments.
        """

        def of_machine(context: tf.distribute.InputContext) -> tf.data.Dataset:
            n_replicas_here = context.num_replicas_in_sync // context.num_input_pipelines
            return dataset(
                *arguments,
                **settings,
                n_replicas_here=n_replicas_here,
                first_replica=n_replicas_here * context.input_pipeline_id,
                n_replicas=context.num_replicas_in_sync,
            )

        return iter(self.strategy.distribute_datasets_from_function(of_machine))

    @functools.cached_property
    def _gather(self) -> Any:
        @tf.function(reduce_retracing=True, autograph=False)  # type: ignore[untyped-decorator]
        def gather(row: tf.Tensor) -> tf.Tensor:
            return self.strategy.gather(self.strategy.run(tf.identity, args=(row,)), axis=0)

        return gather


def connect_devices(accelerator: str = "") -> Devices:
    """Set up the devices of `accelerator`. Call this before anything else uses TensorFlow.

    Args:
        accelerator: a name of `trainer.training.accelerators`, such as `t4-2`. This machine must have its
            chips. If it is empty: the TPU if this process is set up for one, else all GPUs, else the CPU.

    Raises:
        UserError: if this machine does not have the accelerator, or if TF_CONFIG does not fit.
    """
    cluster = Cluster.from_environment()
    row = accelerators.Accelerator.named(accelerator) if accelerator else None
    kind = kind_of_devices(accelerator)
    check(
        kind == "gpu" or not row or cluster.size == 1,
        f"TF_CONFIG has {cluster.size} machines, but {accelerator} trains on one: choose GPUs, or unset TF_CONFIG",
        SettingError,
    )
    if kind == "tpu":
        strategy = _tpu_strategy(accelerator)
    elif kind == "gpu":
        strategy = _gpu_strategy(accelerator, row.chips if row else 0, cluster)
    else:
        strategy = _cpu_strategy(cluster)
    devices = Devices(strategy, kind, row.chip if row else None, cluster)
    expected = row.chips * cluster.size if row else devices.replicas
    check(
        devices.replicas == expected,
        f"{accelerator} on {cluster.size} machines has {expected} chips, but TensorFlow uses {devices.replicas}: "
        "choose the accelerator that the machines have",
        MismatchError,
    )
    return devices


def kind_of_devices(accelerator: str = "") -> str:
    """Return the kind of devices that `connect_devices` will use: cpu, gpu or tpu.

    TensorFlow stays configurable.
    """
    if accelerator:
        return accelerators.Accelerator.named(accelerator).image
    if is_for_tpu():
        return "tpu"
    return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"


def _cpu_strategy(cluster: Cluster) -> tf.distribute.Strategy:
    tf.config.set_visible_devices([], "GPU")
    if cluster.size > 1:
        return _workers_strategy(cluster, Communication.AUTO)
    cpus = tf.config.list_logical_devices("CPU")
    # There is more than one only if a test has configured several, to simulate several chips.
    return tf.distribute.MirroredStrategy(cpus) if len(cpus) > 1 else tf.distribute.get_strategy()


def _gpu_strategy(accelerator: str, chips: int, cluster: Cluster) -> tf.distribute.Strategy:
    gpus = tf.config.list_physical_devices("GPU")
    chips = chips or len(gpus)
    check(
        len(gpus) >= chips,
        f"{accelerator} has {chips} GPUs, but TensorFlow finds {len(gpus)} on this machine: check the driver "
        "(nvidia-smi) and the image, which must be the one for gpu, or choose the accelerator of this machine",
        NotFoundError,
    )
    tf.config.set_visible_devices(gpus[:chips], "GPU")
    for device in gpus[:chips]:
        tf.config.experimental.set_memory_growth(device, True)  # other processes may need memory too
    if cluster.size > 1:
        # All of them have GPUs. By itself TensorFlow 2 takes its own ring, through the memory of the hosts.
        return _workers_strategy(cluster, Communication.NCCL)
    names = [f"/gpu:{index}" for index in range(chips)]
    return tf.distribute.MirroredStrategy(names) if chips > 1 else tf.distribute.OneDeviceStrategy(names[0])


def _workers_strategy(cluster: Cluster, communication: Any) -> tf.distribute.Strategy:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.jobs), task_type=cluster.job, task_id=cluster.index, rpc_layer="grpc"
    )
    print(
        f"waiting for all {cluster.size} machines in TF_CONFIG. This machine is number {cluster.rank}",
        flush=True,
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver, Options(implementation=communication))
    except (tf.errors.OpError, RuntimeError) as error:
        raise UnreachableError(
            f"the {cluster.size} machines in TF_CONFIG could not connect: {first_line(error)}. All machines need "
            "the same cluster in TF_CONFIG, and must reach the ports of all others"
        ) from None


def _tpu_strategy(accelerator: str) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        remedy = (
            "its root is nobody to the host. In Kubernetes, set hostUsers to true for its pod, as "
            "docs/kubernetes/tpu-locked-memory.yaml does"
            if has_own_users()
            else "run it as root, with the capability SYS_RESOURCE"
        )
        locked = f", or let its container raise the limit of locked memory, which is too low for a TPU: {remedy}"
        raise NotFoundError(
            f"cannot train on {accelerator or 'a TPU'}: this machine has none ({first_line(error)}): choose the "
            f"accelerator of this machine{locked if locked_memory_is_low() else ''}"
        ) from None
