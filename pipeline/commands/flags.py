"""What several commands take: an environment, a template, and pipeline parameters, as flags or as NAME=VALUE."""

import argparse
from collections.abc import Sequence

from pipeline.graph.parameters import PARAMETERS, Value, convert
from trainer.errors import UserError


def add_environment(parser: argparse.ArgumentParser, default: str = "vertex") -> None:
    """Give `parser` the flag of the environment."""
    parser.add_argument("--env", default=default, help="environment: a name in configs/, or a TOML file")


def add_template(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the flags of what is to be run on Vertex AI, and with which caching."""
    parser.add_argument(
        "--template",
        default="",
        help="compiled pipeline: a file, or https://.../sha256:DIGEST as `publish` prints it",
    )
    parser.add_argument(
        "--cache",
        default="as-compiled",
        help="as-compiled: each task as the pipeline says; on: reuse all results but those that depend on the "
        "source or the registry as it is now; off: reuse none",
    )


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Give `parser` a flag for each pipeline parameter; none has a default, so that what was given is known."""
    group = parser.add_argument_group("pipeline parameters")
    for parameter in PARAMETERS.values():
        default = f" (default: {parameter.default!r})"
        group.add_argument(
            "--" + parameter.name.replace("_", "-"),
            metavar=parameter.kind.__name__,
            help=(parameter.help + default).replace("%", "%%"),
        )


def given_parameters(parsed: argparse.Namespace, others: Sequence[str]) -> dict[str, Value]:
    """The parameters that were given, by flag or as NAME=VALUE among `others`, as their types.

    Raises `UserError` for an unknown name or flag, with the nearest known one, and for a value of another type.
    """
    flags = {name: getattr(parsed, name) for name in PARAMETERS if getattr(parsed, name) is not None}
    return {name: convert(name, value) for name, value in (flags | _assignments(others)).items()}


def _assignments(others: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for each in others:
        name, equals, value = each.partition("=")
        if name.startswith("--"):
            convert(name.removeprefix("--").replace("-", "_"), value)
        if not equals:
            raise UserError(f"unknown argument {each!r}; write a parameter as --base-epochs 3 or base_epochs=3")
        values[name] = value
    return values
