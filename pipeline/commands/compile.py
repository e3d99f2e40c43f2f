"""Compile the pipeline to the file that a target takes."""

import argparse
import pathlib
from collections.abc import Sequence

from pipeline import settings
from trainer.config import check, check_choice

HELP = "write pipeline.yaml"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="vertex", help="where it is to run (default: vertex)")
    parser.add_argument("--env", default="", help="environment with the images; the target's name if not given")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("pipeline.yaml"))
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")


def execute(parsed: argparse.Namespace, others: Sequence[str]) -> int:
    from pipeline import compile as compiling

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
