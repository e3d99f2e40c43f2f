"""The subcommands of `python -m pipeline`, one file each. The work itself is in the packages beside.

Each has

- `HELP`, one line,
- `configure(parser)`, to add its flags,
- `execute(parsed, assignments)`, to run it and return the exit status. `assignments` are the arguments of the form
  NAME=VALUE, such as `base_epochs=3`. Slow imports are in `execute`.
"""
