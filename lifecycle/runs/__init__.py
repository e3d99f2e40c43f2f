"""A run of the pipeline: its parameters, its settled settings, the checks of its first task, and its end."""
