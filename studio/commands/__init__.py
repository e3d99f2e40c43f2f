"""The subcommands of `python -m studio`, one file each, as those of `trainer.commands`."""
