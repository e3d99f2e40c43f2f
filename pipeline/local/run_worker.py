"""The worker: the process in which kfp.local runs the pipeline. `pipeline.local.run` starts it.

`python -m pipeline.local.run_worker RUN_DIR` leads its own process group, to which its tasks belong. It kills the
group when its standard input closes. So no training continues after the process that shows its progress has ended,
however that one ended.
"""

import json
import logging
import os
import pathlib
import signal
import sys
import threading
import warnings
from typing import Any


def main(run_dir: pathlib.Path) -> None:
    """Run the pipeline with the parameters of the run in `run_dir`. The output goes to stdout."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    from pipeline.local.fork_server import forked_tasks

    try:
        with forked_tasks():
            _run(run_dir)
    except KeyboardInterrupt:  # `pipeline.local.run` passed it on, and says so
        raise SystemExit(128 + signal.SIGINT) from None


def _run(run_dir: pathlib.Path) -> None:
    from kfp import local

    from pipeline.graph import Environment, pipeline_for
    from pipeline.local.run import TASKS_LINE
    from pipeline.local.run_folder import CACHE, Run

    run = Run.load(run_dir)
    # kfp.local reports cached tasks through the root logger, which it does not configure for them.
    logging.basicConfig(stream=sys.stdout, format="%(asctime)s - %(levelname)s - %(message)s", level=logging.INFO)
    # kfp.local warns that it ignores display names, and that images should be named python.
    warnings.filterwarnings("ignore", module="kfp")
    pipeline = pipeline_for(Environment("local"))
    print(TASKS_LINE + json.dumps(outline(pipeline.pipeline_spec)), flush=True)
    local.init(
        runner=local.SubprocessRunner(use_venv=False),
        pipeline_root=str(run_dir),
        enable_caching=True,
        cache_root=str(run_dir.parent / CACHE),
    )
    try:
        pipeline(**run.parameters.effective.form)
    except RuntimeError as error:
        raise SystemExit(f"error: {error}") from None


def outline(spec: Any) -> dict[str, Any]:
    """The tasks of a compiled pipeline.

    - `tasks`: task -> display name, in the order in which kfp.local runs them. Example: `{"check-run": "Check"}`.
    - `groups`: the task of a branch or a nested pipeline -> the tasks in it.
    """
    from google.protobuf import json_format  # type: ignore[import-untyped]
    from kfp.local import graph_utils

    from lifecycle.vertex import titles_of

    titles = titles_of(json_format.MessageToDict(spec))
    tasks: dict[str, str] = {}
    groups: dict[str, list[str]] = {}

    def walk(dag: Any, parents: tuple[str, ...]) -> None:
        for name in reversed(graph_utils.topological_sort_tasks(dag.tasks)):
            component = spec.components[dag.tasks[name].component_ref.name]
            if component.WhichOneof("implementation") == "dag":
                groups[name] = []
                walk(component.dag, (*parents, name))
                continue
            tasks[name] = titles[name]
            for group in parents:
                groups[group].append(name)

    walk(spec.root.dag, ())
    return {"tasks": tasks, "groups": groups}


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
