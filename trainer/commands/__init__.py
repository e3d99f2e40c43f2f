"""The subcommands of `python -m trainer`, one file each. The work itself is in the packages below.

Each has

- `HELP`, one line,
- `configure(parser)`, which adds its flags,
- `execute(parsed)`, which runs it. What is slow to import is imported there.
"""
