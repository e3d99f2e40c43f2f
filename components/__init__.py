"""The tasks of the pipeline: each imports, calls by keyword, and logs."""

IMAGE = "msinet-cpu"
"""Name of the image that runs the tasks; an environment puts its repository before it and its tag behind it."""
