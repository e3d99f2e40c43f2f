"""The devices that a training runs on, and how `tf.distribute` spreads it over them."""

import dataclasses
import functools
import json
import os
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import accelerators
from trainer.accelerators import Chip
from trainer.errors import UserError, check, first_line

WORKER_JOBS = ("chief", "worker")
"""Jobs of TF_CONFIG that train, in the order of their ranks. Vertex AI names a Reduction Server as well."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The machines that train together, and which of them this one is."""

    jobs: dict[str, list[str]]
    """Addresses, as HOST:PORT, by job; of WORKER_JOBS alone."""
    job: str = "worker"
    index: int = 0

    @classmethod
    def from_environment(cls) -> "Cluster":
        """What TF_CONFIG says, which Vertex AI sets in each machine of a job; a cluster of one without it.

        Raises:
            UserError: if it is malformed, or if this machine is not in it.
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
            raise UserError(
                f"TF_CONFIG is malformed ({type(error).__name__}: {error}); write "
                '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'
            ) from None
        known = ", ".join(f"{name} 0 to {len(hosts) - 1}" for name, hosts in jobs.items()) or "nobody"
        check(
            0 <= index < len(jobs.get(job, [])),
            f"TF_CONFIG says that this machine is {job} {index}, but in its cluster are {known}",
        )
        check(len(jobs.get("chief", [])) <= 1, f"TF_CONFIG has {len(jobs.get('chief', []))} chiefs; give one")
        hosts = [host for each in jobs.values() for host in each]
        twice = sorted({host for host in hosts if hosts.count(host) > 1})
        check(not twice, f"TF_CONFIG names {', '.join(twice)} twice; each machine has an address of its own")
        return cls(jobs, job, index)

    @property
    def size(self) -> int:
        """How many machines train."""
        return sum(len(hosts) for hosts in self.jobs.values())

    @property
    def rank(self) -> int:
        """Number of this machine, from 0; 0 is the chief."""
        return self.index + (len(self.jobs.get("chief", [])) if self.job == "worker" else 0)


@dataclasses.dataclass(frozen=True)
class Devices:
    """What `connect` found."""

    strategy: tf.distribute.Strategy
    kind: str
    """cpu, gpu or tpu."""
    chip: Chip | None
    """Row of the table; None for one that it does not have, or that nobody named."""
    cluster: Cluster

    @property
    def replicas(self) -> int:
        """How many share a batch, over all machines."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def is_chief(self) -> bool:
        """Whether this machine is the one that writes."""
        return self.cluster.rank == 0

    def gather(self, values: list[float]) -> np.ndarray:
        """`values` of each machine, (machines, n) float64, the same on all; all of them must call it."""
        row = np.asarray(values, np.float64)[None]
        if self.cluster.size == 1:
            return row
        rows = self._gather(tf.constant(row)).numpy()
        return np.asarray(rows[:: self.replicas // self.cluster.size])

    @functools.cached_property
    def _gather(self) -> Any:
        @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
        def gather(row: tf.Tensor) -> tf.Tensor:
            return self.strategy.gather(self.strategy.run(tf.identity, args=(row,)), axis=0)

        return gather


def connect(accelerator: str = "") -> Devices:
    """The devices of `accelerator`, ready to train on; to be called before anything else uses TensorFlow.

    Args:
        accelerator: a name of `trainer.accelerators`, whose chips must be here; without one a TPU is taken where
            this process has been set up for it, else all GPUs, else the processors.

    Raises:
        UserError: if the accelerator is not here, or if TF_CONFIG does not fit.
    """
    cluster = Cluster.from_environment()
    row = accelerators.get(accelerator) if accelerator else None
    kind = kind_of(accelerator)
    check(
        kind == "gpu" or not row or cluster.size == 1,
        f"TF_CONFIG has {cluster.size} machines, but {accelerator} trains on one; name GPUs, or unset TF_CONFIG",
    )
    if kind == "tpu":
        strategy = _tpu_strategy(accelerator)
    elif kind == "gpu":
        strategy = _gpu_strategy(accelerator, row.chips if row else 0, cluster)
    else:
        strategy = _cpu_strategy(cluster)
    devices = Devices(strategy, kind, row.chip if row else None, cluster)
    wanted = row.chips * cluster.size if row else devices.replicas
    check(
        devices.replicas == wanted,
        f"{accelerator} on {cluster.size} machines has {wanted} chips, but {devices.replicas} take part; "
        "name the accelerator that is there",
    )
    return devices


def kind_of(accelerator: str = "") -> str:
    """cpu, gpu or tpu: what `connect` will take. TensorFlow's settings can still be made afterwards."""
    if accelerator:
        return accelerators.get(accelerator).image
    if os.environ.get("PJRT_DEVICE") == "TPU":  # images/Dockerfile sets it
        return "tpu"
    return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"


def _cpu_strategy(cluster: Cluster) -> tf.distribute.Strategy:
    tf.config.set_visible_devices([], "GPU")
    if cluster.size > 1:
        return _workers_strategy(cluster)
    processors = tf.config.list_logical_devices("CPU")
    # More than one only where they have been made, to try out on a processor what several chips do.
    return tf.distribute.MirroredStrategy(processors) if len(processors) > 1 else tf.distribute.get_strategy()


def _gpu_strategy(accelerator: str, chips: int, cluster: Cluster) -> tf.distribute.Strategy:
    found = tf.config.list_physical_devices("GPU")
    chips = chips or len(found)
    check(
        len(found) >= chips,
        f"{accelerator} has {chips} GPUs, but TensorFlow finds {len(found)} here; look at the driver "
        "(nvidia-smi) and at the image, which must be the one for gpu, or name the accelerator that is there",
    )
    tf.config.set_visible_devices(found[:chips], "GPU")
    for device in found[:chips]:
        tf.config.experimental.set_memory_growth(device, True)  # other processes may want some
    if cluster.size > 1:
        return _workers_strategy(cluster)
    names = [f"/gpu:{index}" for index in range(chips)]
    return tf.distribute.MirroredStrategy(names) if chips > 1 else tf.distribute.OneDeviceStrategy(names[0])


def _workers_strategy(cluster: Cluster) -> tf.distribute.Strategy:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.jobs), task_type=cluster.job, task_id=cluster.index, rpc_layer="grpc"
    )
    print(
        f"waiting for all of the {cluster.size} machines in TF_CONFIG; this one is number {cluster.rank}",
        flush=True,
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except (tf.errors.OpError, RuntimeError) as error:
        raise UserError(
            f"the {cluster.size} machines in TF_CONFIG did not get together: {first_line(error)}. The cluster in "
            "it must be the same on all of them, and each must reach the others' ports"
        ) from None


def _tpu_strategy(accelerator: str) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{accelerator or 'a TPU'} is to be trained on, but there is none here ({first_line(error)}); "
            "name the accelerator that is there"
        ) from None
