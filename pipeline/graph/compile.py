"""Compiles the pipeline to the YAML file of a target."""

import difflib
import pathlib
import re
import tempfile

from pipeline.graph.environment import Environment
from trainer.errors import UserError
from trainer.files import replacing


def write_pipeline(environment: Environment, output: pathlib.Path) -> None:
    """Compile the pipeline for `environment` and write it to `output`."""
    from kfp import compiler

    from pipeline.graph.dag import build_pipeline

    with replacing(output) as partial:
        compiler.Compiler().compile(build_pipeline(environment.target, environment), str(partial))


def check_pipeline(environment: Environment, golden: pathlib.Path) -> None:
    """Raise `UserError` with the difference if `golden` is not the pipeline that the code compiles to."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "pipeline.yaml"
        write_pipeline(environment, path)
        compiled = without_sdk_version(path.read_text()).splitlines()
    if not golden.exists():
        raise UserError(f"{golden} does not exist; `make compile` writes it")
    committed = without_sdk_version(golden.read_text()).splitlines()
    difference = list(difflib.unified_diff(committed, compiled, str(golden), "compiled now", lineterm="", n=1))
    if difference:
        shown = "\n".join(difference[:40])
        raise UserError(f"{golden} is out of date; `make compile` updates it:\n{shown}")


def without_sdk_version(text: str) -> str:
    """Mask the version of the SDK in a compiled pipeline."""
    return re.sub(r"(?m)^sdkVersion: .*$", "sdkVersion: any", text)
