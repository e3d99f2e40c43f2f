"""A run on this machine, each task in a process of its own; what the tasks do is in `components`."""
