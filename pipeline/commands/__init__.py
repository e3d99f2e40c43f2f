"""The subcommands of `python -m pipeline`, one file each; the work itself is in the packages beside.

Each has `HELP`, one line; `configure(parser)`, which adds its flags; and `execute(parsed, assignments)`, which
runs it and returns the exit status. `assignments` are the arguments of the form NAME=VALUE. Slow imports are in
`execute`.
"""
