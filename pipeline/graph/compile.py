"""Compiles the pipeline to the YAML file that a target takes."""

import difflib
import pathlib
import re
import tempfile

from pipeline.graph.environment import Environment
from trainer.errors import UserError


def write(environment: Environment, output: pathlib.Path) -> None:
    """Write the pipeline for `environment` to `output`."""
    from kfp import compiler

    from pipeline.graph.dag import build

    compiler.Compiler().compile(build(environment.target, environment), str(output))


def check(environment: Environment, golden: pathlib.Path) -> None:
    """Raise `UserError`, with the difference, unless `golden` is what the code compiles to."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = pathlib.Path(folder) / "pipeline.yaml"
        write(environment, fresh)
        wanted = normalised(fresh.read_text()).splitlines()
    if not golden.exists():
        raise UserError(f"{golden} does not exist; `make compile` writes it")
    found = normalised(golden.read_text()).splitlines()
    difference = list(difflib.unified_diff(found, wanted, str(golden), "compiled now", lineterm="", n=1))
    if difference:
        shown = "\n".join(difference[:40])
        raise UserError(f"{golden} is not what the code compiles to; `make compile` writes it anew:\n{shown}")


def normalised(text: str) -> str:
    """A compiled pipeline without the version of the SDK that compiled it."""
    return re.sub(r"(?m)^sdkVersion: .*$", "sdkVersion: any", text)
