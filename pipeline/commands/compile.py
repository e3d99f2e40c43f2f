"""Compile the pipeline to the file that a target takes.

Without --target, both committed files are written: pipeline.yaml for Vertex AI and pipeline-kubeflow.yaml. The
environment's parameters become the defaults of the compiled pipeline's.
"""

import argparse
import pathlib
from collections.abc import Sequence

from pipeline.graph import parameters
from pipeline.graph.environment import load_environment
from trainer.errors import check, check_choice

HELP = "write pipeline.yaml and pipeline-kubeflow.yaml"
FILES = {"vertex": "pipeline.yaml", "kubeflow": "pipeline-kubeflow.yaml"}
"""The compiled pipelines that are committed, by target."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="", help="where it is to run: vertex or kubeflow; both if not given")
    parser.add_argument("--env", default="", help="environment with the images; the target's name if not given")
    parser.add_argument("--output", type=pathlib.Path, help="file to write; pipeline.yaml for Vertex")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    from pipeline.graph import compile as compiling

    if parsed.target:
        check_choice("target", parsed.target, FILES)
    given = load_environment(parsed.env) if parsed.env else None
    target = parsed.target or ("vertex" if parsed.output or given else "")
    if given and not parsed.target and given.target in FILES:
        target = given.target
    for each in [target] if target else FILES:
        environment = given or load_environment(each)
        check(
            environment.target == each,
            f"environment {environment.name} is for target {environment.target}, not {each}",
        )
        parameters.validate({**environment.derived, **environment.parameters}, each)
        output = parsed.output or pathlib.Path(FILES[each])
        if parsed.check:
            compiling.check(environment, output)
        else:
            compiling.write(environment, output)
            print(f"wrote {output}")
    return 0
