"""The subcommands of `python -m pipeline`, one file each.

Each has `HELP`, one line; `configure(parser)`, which adds its flags; and `execute(parsed, others)`, which runs it
and returns the exit status, `others` being what argparse did not know. What is slow to import is imported in
`execute`.
"""
