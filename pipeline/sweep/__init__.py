"""Sweeps: a search for the settings with the lowest validation loss, among trainings on one prepared dataset."""

from trainer.doors import opened

__all__ = [
    "StartedSweep",  # a sweep on Vertex AI that has started
    "describe_here",  # says what a sweep on this machine will do
    "describe_on_vertex",  # says what a sweep on Vertex AI will do
    "read_sweep",  # reads a sweep's file
    "run_here",  # runs a sweep on this machine
]
__getattr__ = opened(__name__, __file__)
