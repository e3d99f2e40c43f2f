"""Flags that several commands share: the environment, the template, and the pipeline parameters."""

import argparse
from collections.abc import Sequence

from lifecycle.runs import PARAMETERS, Values
from trainer.errors import AmbiguousError, UnknownNameError, check
from trainer.settings import Parser, add_flag, flag_of

FIRST = (
    *("base_dataset", "base_source", "base_epochs", "base_model_uri"),
    *("finetune_dataset", "finetune_source", "finetune_epochs", "finetune_batch_size", "finetune_learning_rate"),
    *("test_dataset", "test_source", "test_share", "recipe", "seed", "accelerator"),
    *("columns", "coordinates", "gate", "model_name", "registry"),
)
"""The twenty parameters that people use first. `--help-all` shows the others."""


def add_environment(parser: argparse.ArgumentParser, default: str = "vertex", several: bool = False) -> None:
    """Give `parser` the flag of the environment. `several` says that it takes a list of them."""
    more = ". Several, such as prod,prod-eu, are tried in turn if a region has no machines" if several else ""
    parser.add_argument("--env", default=default, help=f"environment: a name in configs/, or a TOML file{more}")


def add_template(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the flags that choose the compiled pipeline and its caching."""
    parser.add_argument(
        "--template",
        default="",
        help="compiled pipeline: a file, or https://.../sha256:DIGEST as printed by `publish`",
    )
    parser.add_argument(
        "--cache",
        default="as-compiled",
        help="as-compiled caches each task as the pipeline says, on reuses all results except those that depend "
        "on the current source or registry, off reuses none",
    )


def add_parameters(parser: Parser) -> None:
    """Give `parser` a flag for each pipeline parameter, with None for parameters that are not passed."""
    for parameter in PARAMETERS.values():
        group = parser.group(parameter.group)
        add_flag(group, parameter.name, parameter.kind, parameter.default, parameter.help, is_text=True)
    parser.show_later([flag_of(name) for name in PARAMETERS if name not in FIRST])


def confirmed(offer: str, is_agreed: bool, otherwise: str) -> bool:
    """Say what something costs, and return whether the user wants it. If not, print `otherwise`."""
    print(offer, flush=True)
    if is_agreed:
        return True
    try:
        answer = input("Type yes to run it: ")
    except EOFError:
        answer = ""
    if answer.strip().lower() != "yes":
        print(otherwise)
        return False
    return True


def passed_parameters(parsed: argparse.Namespace, assignments: Sequence[str]) -> Values:
    """The parameters passed as flags or as NAME=VALUE in `assignments`, converted to their types.

    Raises `UserError` for

    - an unknown name, with the nearest known one,
    - a value of the wrong type, such as `base_epochs=many`,
    - a parameter that is given twice.
    """
    given = {name: getattr(parsed, name) for name in PARAMETERS}
    values = {name: value for name, value in given.items() if value is not None}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UnknownNameError(
                f"unknown argument {assignment!r}. Write a parameter as --base-epochs 3 or base_epochs=3"
            )
        check(
            name not in values,
            f"{name} is given twice, as {values.get(name)} and as {value}. Give it once",
            AmbiguousError,
        )
        values[name] = value
    return Values.converted(values)
