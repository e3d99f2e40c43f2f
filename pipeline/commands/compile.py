"""Compile the pipeline to the YAML file of a target.

Without --target, this writes all committed files: pipeline.yaml for Vertex AI, pipeline-kubeflow.yaml, and
components/*.yaml, the tasks that other pipelines can use. The parameters of the environment become the defaults of
the compiled pipeline. With --output, parameters that you pass override them. Write a parameter as --base-epochs 3
or base_epochs=3.
"""

import argparse
import dataclasses
import difflib
import pathlib
import re
import tempfile
from collections.abc import Sequence

from lifecycle.runs import validate_values
from pipeline.commands.parameter_flags import add_parameters, passed_parameters
from pipeline.graph import (
    Environment,
    layered_values,
    load_environment,
    load_environments,
    write_components,
    write_pipeline,
)
from trainer.errors import ContentError, NotFoundError, SettingError, check, check_choice
from trainer.settings import Parser

HELP = "write pipeline.yaml and pipeline-kubeflow.yaml"
FILES = {"vertex": "pipeline.yaml", "kubeflow": "pipeline-kubeflow.yaml"}
"""Target -> its committed pipeline."""


def configure(parser: Parser) -> None:
    parser.add_argument("--target", default="", help="vertex or kubeflow. Both if empty")
    parser.add_argument(
        "--env",
        default="",
        help="environment with the names of the images. If empty, the one of the target. Several, such as "
        "prod,prod-eu, are tried in turn if a region has no machines",
    )
    parser.add_argument("--output", type=pathlib.Path, help="file to write. By default the committed file")
    parser.add_argument("--check", action="store_true", help="fail if the file is out of date, and write nothing")
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    passed = passed_parameters(parsed, assignments)
    check(
        parsed.output is not None or not passed,
        "parameters are for a file of your own. Name it with --output",
        SettingError,
    )
    if parsed.target:
        check_choice("target", parsed.target, FILES)
    default = [parsed.target] if parsed.target else ["vertex"] if parsed.output else FILES
    for name in [parsed.env] if parsed.env else default:
        environment = load_environments(name)
        target = parsed.target or (environment.target if environment.target in FILES else "vertex")
        environment.require_target(target)
        if environment.name not in FILES or environment.further:
            check(
                parsed.output is not None,
                f"{FILES[target]} is compiled for {target}.toml. Name your file with --output",
                SettingError,
            )
        environment = dataclasses.replace(environment, parameters=layered_values(environment.parameters, passed))
        validate_values({**environment.derived, **environment.parameters}, target, typed=passed)
        output = parsed.output or pathlib.Path(FILES[target])
        if parsed.check:
            check_pipeline(environment, output)
            print(f"{output} is up to date")
        else:
            write_pipeline(environment, output)
            print(f"wrote {output}")
    if not (parsed.env or parsed.target or parsed.output):
        _compile_components(parsed.check)
    return 0


def _compile_components(is_check: bool) -> None:
    environment, folder = load_environment("vertex"), pathlib.Path("components")
    if is_check:
        _check_components(environment, folder)
        print(f"{folder}/*.yaml are up to date")
        return
    for path in write_components(environment, folder):
        print(f"wrote {path}")


# === Whether the committed files are up to date ===


def _check_components(environment: Environment, folder: pathlib.Path) -> None:
    """Raise `UserError` with the difference if a file in `folder` is not what its task compiles to."""
    with tempfile.TemporaryDirectory() as temporary:
        for path in write_components(environment, pathlib.Path(temporary)):
            _check_golden(folder / path.name, path)


def check_pipeline(environment: Environment, golden: pathlib.Path) -> None:
    """Raise `UserError` with the difference if `golden` is not the pipeline that the code compiles to."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "pipeline.yaml"
        write_pipeline(environment, path)
        _check_golden(golden, path)


def _check_golden(golden: pathlib.Path, written: pathlib.Path) -> None:
    now = without_sdk_version(written.read_text()).splitlines()
    if not golden.exists():
        raise NotFoundError(f"{golden} does not exist. `make compile` writes it")
    committed = without_sdk_version(golden.read_text()).splitlines()
    difference = list(difflib.unified_diff(committed, now, str(golden), "compiled now", lineterm="", n=1))
    if difference:
        shown = "\n".join(difference[:40])
        raise ContentError(f"{golden} is out of date. `make compile` updates it:\n{shown}")


def without_sdk_version(text: str) -> str:
    """Mask the version of the SDK in a compiled pipeline."""
    return re.sub(r"(?m)^sdkVersion: .*$", "sdkVersion: any", text)
