"""A run of the pipeline: its parameters, its settled settings, the checks of its first task, and its end."""

from trainer.doors import opened

__all__ = [
    "CONSOLE_FIELDS",  # the fields of the console's form
    "KEYWORDS",  # values that are neither a path nor an address
    "PARAMETERS",  # all parameters of a run by name
    "REGIONAL",  # parameters that name a resource of one region
    "SETTINGS",  # the field of the form for all other parameters
    "STEPS",  # the training steps and their titles
    "WEBHOOK_VARIABLE",  # the variable with the address of the webhook
    "End",  # how a run ended, and its message
    "Finding",  # the answer about one need
    "Place",  # a region and the bucket of its runs
    "PlannedRun",  # a run before its start, and its needs
    "RunSettings",  # the settings of a whole run
    "State",  # there, missing or unknown
    "Values",  # the parameters of a run with their values
    "accelerator_names",  # the names in a list of accelerators
    "ask_all",  # asks for several needs at once
    "check_run",  # all checks of the first task
    "fall_back",  # starts the run that follows one without a machine
    "next_accelerators",  # the parameters for the next accelerator
    "next_run_id",  # the id of the run that follows another
    "report_end",  # prints and posts how a run ended
    "settle",  # parameters to settings, checked
    "step_without_machine",  # the training that got no machine
    "validate_values",  # the checks that need no place
]
__getattr__ = opened(__name__, __file__)
