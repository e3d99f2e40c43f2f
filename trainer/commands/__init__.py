"""The subcommands of `python -m trainer`, one file each; the work itself is in the packages below.

Each has `HELP`, one line; `configure(parser)`, which adds its flags; and `execute(parsed)`, which runs it. What is
slow to import is imported in `execute`.
"""
