"""The compiled pipeline: its YAML file, and the titles of its tasks. Loads kfp only to compile."""

import difflib
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

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


def titles_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Name of each task in the compiled pipeline `spec` -> its title.

    A task without a display name that is the only task of a nested pipeline has the title of that pipeline.
    """
    return dict(_titles(spec, spec["root"], ""))


def _titles(spec: Mapping[str, Any], component: Mapping[str, Any], around: str) -> Iterator[tuple[str, str]]:
    """The titles of the tasks in a component, at any depth; `around` is the title of the component itself."""
    tasks = component.get("dag", {}).get("tasks", {})
    for key, task in tasks.items():
        title = task.get("taskInfo", {}).get("name", key)
        has_own = title != key
        yield key, around if around and not has_own and len(tasks) == 1 else title
        inner = spec.get("components", {}).get(task["componentRef"]["name"], {})
        yield from _titles(spec, inner, title if has_own else around)
