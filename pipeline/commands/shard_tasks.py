"""How commands start the tasks of a DAG of shards in an environment, or write it for a person to start."""

import dataclasses
import pathlib
import sys
import tempfile
from collections.abc import Callable

from lifecycle.machines import BatchMachines
from pipeline.graph import Environment
from pipeline.vertex import SentRun, Submission
from trainer.errors import SettingError, check
from trainer.places import stored_at


def start_tasks(
    environment: Environment,
    machines: BatchMachines,
    write: Callable[[pathlib.Path], None],
    file: pathlib.Path | None,
) -> int:
    """Start the tasks in an environment, or write their pipeline.

    Args:
        environment: the environment.
        machines: the machines of the shards.
        write: writes the compiled pipeline to a file.
        file: where to write it. None to start it.
    """
    if file:
        write(file)
        print(f"wrote {file}")
        return 0
    check(
        environment.target == "vertex",
        f"environment {environment.name} is for target {environment.target}, and only on vertex tasks are started "
        "from here. Write the pipeline with --write FILE, and upload it to Kubeflow",
        SettingError,
    )
    machines.row.check_in(environment.location)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "pipeline.yaml")
        write(path)
        # The environment's parameters are those of a training.
        submission = Submission.prepare(dataclasses.replace(environment, parameters={}), {}, str(path))
    print(f"Checking bucket {environment.bucket} ...", file=sys.stderr, flush=True)
    submission.check_needs()
    submission.send()
    print(f"Run:     {submission.run}")
    print(f"Console: {SentRun(environment, submission.run).link}")
    return 0


def check_place(environment: Environment, name: str, address: str) -> None:
    """Raise `SettingError` unless the tasks of an environment can have this place. `name` says which it is."""
    mount = environment.bucket if environment.volume_claim else ""
    below = f" or a path below {mount}, where they have the volume" if mount else ""
    is_there = bool(mount) and pathlib.PurePath(address).is_relative_to(mount)
    check(
        not stored_at(address).is_local or is_there,
        f"{name} is {address}, a place of this machine, which tasks of {environment.name} cannot have. "
        f"Give gs://{below}",
        SettingError,
    )
