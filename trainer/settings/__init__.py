"""Settings as fields of dataclasses, and as flags of a command line. Their meaning is not known here.

The settings of a part are in its own `settings.py`, such as `trainer/training/settings.py`.
"""

from trainer.doors import opened

__all__ = [
    "Parser",  # the parser of a command's flags
    "Value",  # a setting's value
    "add_command",  # adds a subcommand
    "add_flag",  # adds a flag
    "add_settings",  # adds the flags of a settings class
    "advising_flags",  # has errors advise settings as flags
    "as_flags",  # a text with the flags of its settings
    "as_type",  # a text or value as the type of a setting
    "brief_value",  # a value in a message
    "check_ranges",  # refuses values outside of their ranges
    "configs_of",  # instances of settings classes, from settings by name
    "flag_of",  # the flag of a setting
    "group_of",  # the title under which helps show a flag
    "output_dir",  # a folder to write, as a flag names it
    "output_dir_or_address",  # the same, or an address
    "output_file",  # a file to write, as a flag names it
    "output_path",  # a file or folder to write, as a flag names it
    "parser_of_program",  # the parser of a program with subcommands
    "results_dir",  # a folder for results, which may exist
    "setting",  # declares a setting: default, help, range
    "settings_of",  # the settings class with the values of its flags
    "settings_text",  # settings as parameters, such as `epochs=3 flip=true`
    "summarize",  # writes a result as JSON to a file or the standard output
]
__getattr__ = opened(__name__, __file__)
