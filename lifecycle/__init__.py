"""What the tasks of a run share with the commands: its parameters, checks, machines, registry and outcome.

All of it may run in a pod. What builds, sends, runs or lists pipelines is in `pipeline`; the network and its data
are in `trainer`.
"""
