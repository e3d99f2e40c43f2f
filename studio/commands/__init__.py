"""The subcommands of `python -m studio`, one file each. Their form is as in `trainer.commands`."""
