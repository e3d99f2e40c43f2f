"""Where a training step keeps what must outlive its machine: on Kubeflow, outside of the pod.

Line numbers are those of kubeflow/pipelines 2.17.0, below backend/src/v2/.
"""

import secrets

from pipeline.plan.fit import check_outside_pod
from trainer.artifacts import checkpoints_of
from trainer.errors import UserError
from trainer.folder import PROBE, Folder


def check_places(platform: str, registry: str, checkpoint_dir: str) -> None:
    """Raise `UserError` if a run on `platform` would lose its versions or checkpoints, or cannot save."""
    if platform == "kubeflow":
        check_outside_pod("registry", registry)
        check_outside_pod("checkpoint_dir", checkpoint_dir)
    if checkpoint_dir:
        check_writable("checkpoint_dir", checkpoint_dir)


def check_writable(name: str, address: str) -> None:
    """Raise `UserError` unless this process can write and remove a file at `address`, the value of `name`."""
    try:
        # Another run may check at the same time.
        Folder(address).check_writable(f"{PROBE}-{secrets.token_hex(4)}")
    except UserError as error:
        raise UserError(f"{name} is {address!r}, where nothing can be written: {error}") from None


def checkpoint_folder(checkpoint_dir: str, step: str, uri: str, path: str) -> str:
    """Folder or address of the checkpoints of a training step, for a training in this process.

    On Kubeflow they are below the id of the run, which is in the address of the task's own output:
    ROOT/PIPELINE/RUN/TASK/SALT/NAME (metadata/client.go:420, driver/driver.go:775,786). The driver makes this
    address before the first attempt, so that all retries of the pod receive the same. It is not in the cache key.
    A parameter with `{{$.pipeline_job_uuid}}` would be: the driver replaces it before it computes the key
    (driver/resolve.go:440, cacheutils/cache.go:196,205), and no later run would find the training in the cache.

    Args:
        checkpoint_dir: parameter of this name; empty for a folder next to `path`.
        step: base or finetune.
        uri: address of the model that the task writes; equal to `path` on this machine.
        path: its path.
    """
    if not checkpoint_dir:
        return checkpoints_of(path)
    run = [uri.split("/")[-4]] if "://" in uri else []
    return "/".join([checkpoint_dir.rstrip("/"), *run, step])
