"""Command line of the pipeline: `python -m pipeline run | compile | registry`."""

import argparse
import json
import pathlib
import sys

from pipeline.parameters import PARAMETERS, convert
from trainer.config import check
from trainer.errors import UserError, reported

RUN_HELP = """\
Run the pipeline on this machine.

Without --env, the environment is `sample` (a small set of patterns, drawn on the spot: minutes on two cores)
unless base_source or finetune_source is given; then it is `local` (the paper's settings). Parameters go before
those of the environment, and those before the defaults below. A parameter is written --base-epochs 3 or
base_epochs=3.

The run's folder has the log, the report and all outputs. A run that was killed or failed goes on with --resume:
data whose source did not change is not fetched again, and training continues from its last checkpoint.
"""


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit status."""
    parsed, others = _parser().parse_known_args(arguments)
    if others and parsed.command != "run":
        raise UserError(f"unknown argument {others[0]!r}; see `python -m pipeline {parsed.command} --help`")
    status = {"run": _run, "compile": _compile, "registry": _registry}[parsed.command](parsed, others)
    return int(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    run = commands.add_parser(
        "run", help="run it here", description=RUN_HELP, formatter_class=raw, allow_abbrev=False
    )
    run.add_argument("--env", default="", help="environment: a name in configs/, or a TOML file")
    run.add_argument("--run-dir", default="", help="folder of the run; runs/TIME if not given")
    run.add_argument(
        "--resume",
        nargs="?",
        const="latest",
        default="",
        help="folder of a run to go on with; the latest if empty",
    )
    group = run.add_argument_group("pipeline parameters")
    for parameter in PARAMETERS.values():
        flag = "--" + parameter.name.replace("_", "-")
        default = f" (default: {parameter.default!r})"
        group.add_argument(
            flag, metavar=parameter.kind.__name__, help=(parameter.help + default).replace("%", "%%")
        )

    compiling = commands.add_parser("compile", help="write pipeline.yaml", allow_abbrev=False)
    compiling.add_argument("--target", default="vertex", help="where it is to run (default: vertex)")
    compiling.add_argument("--env", default="", help="environment with the images; the target's name if not given")
    compiling.add_argument("--output", type=pathlib.Path, default=pathlib.Path("pipeline.yaml"))
    compiling.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")

    registry = commands.add_parser("registry", help="look at the local registry", allow_abbrev=False)
    registry.add_argument("action", choices=("list", "show", "set-default"))
    registry.add_argument(
        "version", type=int, nargs="?", help="of show (the default if not given) and set-default"
    )
    for name in ("registry", "model_name"):
        wanted = PARAMETERS[name]
        registry.add_argument("--" + name.replace("_", "-"), default=wanted.default, help=wanted.help)
    return parser


def _run(parsed: argparse.Namespace, others: list[str]) -> int:
    from rich.console import Console

    from pipeline import run

    flags = {name: getattr(parsed, name) for name in PARAMETERS if getattr(parsed, name) is not None}
    given = {name: convert(name, value) for name, value in (flags | _assignments(others)).items()}
    return run.execute(run.prepare(parsed.env, parsed.run_dir, parsed.resume, given), Console())


def _assignments(others: list[str]) -> dict[str, str]:
    """The parameters among `others`, written NAME=VALUE; the error for an unknown flag names the nearest one."""
    values: dict[str, str] = {}
    for each in others:
        name, equals, value = each.partition("=")
        if name.startswith("--"):
            convert(name.removeprefix("--").replace("-", "_"), value)
        if not equals:
            raise UserError(f"unknown argument {each!r}; write a parameter as --base-epochs 3 or base_epochs=3")
        values[name] = value
    return values


def _compile(parsed: argparse.Namespace, others: list[str]) -> int:
    from pipeline import compile as compiling
    from pipeline import settings
    from trainer.config import check_choice

    check_choice("target", parsed.target, settings.TARGET_NAMES)
    environment = settings.load(parsed.env or parsed.target)
    check(
        environment.target == parsed.target,
        f"environment {environment.name} is for target {environment.target}, not {parsed.target}",
    )
    if parsed.check:
        compiling.check(environment, parsed.output)
    else:
        compiling.write(environment, parsed.output)
        print(f"wrote {parsed.output}")
    return 0


def _registry(parsed: argparse.Namespace, others: list[str]) -> int:
    from pipeline.registry import DEFAULT, connect

    registry, name = connect(parsed.registry), parsed.model_name
    if parsed.action == "set-default":
        check(parsed.version is not None, "which version? write `python -m pipeline registry set-default VERSION`")
        registry.set_alias(name, DEFAULT, parsed.version)
    versions, aliases = registry.versions(name), registry.aliases(name)
    check(bool(versions), f"there is no version of model {name!r} in {parsed.registry or 'models'}")
    if parsed.action == "show":
        wanted = aliases.get(DEFAULT) if parsed.version is None else parsed.version
        found = [each for each in versions if each.number == wanted]
        check(bool(found), f"model {name!r} has no version {wanted}; see `python -m pipeline registry list`")
        print(json.dumps(found[0].record, indent=2))
        return 0
    for version in versions:
        names = [alias for alias, number in aliases.items() if number == version.number]
        print(f"{version.number:>4}  {version.record['created']}  {', '.join(names)}".rstrip())
    return 0


if __name__ == "__main__":
    with reported():
        sys.exit(main(sys.argv[1:]))
