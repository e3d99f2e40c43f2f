"""A run on this machine, each task in a process of its own. What the tasks do is in `components`."""

from trainer.doors import opened

__all__ = [
    "RUNS",  # the folder of the runs on this machine
    "TASK_ENVIRONMENT",  # variables that the tasks of a local run need
    "describe_run",  # what a prepared run would do
    "execute_run",  # executes a prepared run
    "locked_run",  # keeps a second process from a run or sweep
    "prepare_run",  # makes or finds the folder of a run
]
__getattr__ = opened(__name__, __file__)
