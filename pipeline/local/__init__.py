"""A run on this machine, each task in a process of its own. What the tasks do is in `components`."""
