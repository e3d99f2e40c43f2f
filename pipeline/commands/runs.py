"""\
List, show or cancel runs on Vertex AI; with --summary, show how the last twelve runs ended.

`show` without an id shows the latest run; with --wait it follows the run until it ends, like `submit --wait`.
--summary also shows the runs of this machine, with --env local.
"""

import argparse
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from lifecycle import run_outcome, vertex_api
from lifecycle.registry.register import open_registry
from lifecycle.vertex_run import FAILED, failed_tasks, failures, message_as_json, state_of, tasks_of, titles_of_job
from pipeline.commands.parameter_flags import add_environment
from pipeline.graph.compiled import Template
from pipeline.graph.environment import PIPELINE_NAME, Environment, load_environment
from pipeline.vertex import runs
from trainer.errors import check
from trainer.evaluation import run_folders
from trainer.evaluation.run_folders import RUN_FILE
from trainer.io.files import read_json

HELP = "list, show or cancel runs on Vertex AI"
MAX_LISTED = 10
SUMMARY = 12
"""Number of ends in the summary, about a quarter of weekly runs."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("list", "show", "cancel"), default="list")
    parser.add_argument("run", nargs="?", default="", help="id of the run; show without it shows the latest run")
    add_environment(parser)
    parser.add_argument("--wait", action="store_true", help="for show: follow the run until it ends")
    parser.add_argument("--summary", action="store_true", help=f"how the last {SUMMARY} runs ended, as a table")
    parser.add_argument(
        "--limit", type=int, default=MAX_LISTED, help=f"for list: maximum number of runs (default: {MAX_LISTED})"
    )


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    environment = load_environment(parsed.env)
    if parsed.summary:
        ends = _local_ends() if environment.target == "local" else _vertex_ends(environment)
        for ended, run, result in (("ended, UTC", "run", "result"), *itertools.islice(ends, SUMMARY)):
            print(f"{ended:<16}  {run:<28}  {result}")
        return 0
    environment.require_target("vertex")
    if parsed.action == "list":
        check(parsed.limit >= 1, f"limit is {parsed.limit}; it must be at least 1")
        for job in runs.latest(environment, PIPELINE_NAME, parsed.limit):
            print(_line(job))
        return 0
    if parsed.action == "cancel":
        check(bool(parsed.run), "name the run: `python -m pipeline runs cancel RUN`")
        runs.cancel(environment, parsed.run)
        print(f"{parsed.run} is being cancelled: {vertex_api.run_link(environment, parsed.run)}")
        return 0
    if parsed.run:
        run = parsed.run
    else:
        jobs = runs.latest(environment, PIPELINE_NAME, 1)
        check(bool(jobs), f"there is no run of {PIPELINE_NAME} in {environment.project}, {environment.location}")
        run = jobs[0].name.rpartition("/")[2]
    job = runs.find_run(environment, run)
    titles = titles_of_job(job)
    print(f"Run:     {run}\nConsole: {vertex_api.run_link(environment, run)}")
    if parsed.wait:
        return runs.follow(environment, run, titles)
    print(f"State:   {state_of(job)}\nCreated: {job.create_time:%Y-%m-%d %H:%M} UTC")
    for line in (*runs.parameter_lines(job), *runs.changes(job, titles, {})):
        print(line)
    if state_of(job) == FAILED:
        print("\n".join(failures(job, titles)))
    return 0


def _line(job: Any) -> str:
    schedule = f"  by schedule {job.schedule_name.rpartition('/')[2]}" if job.schedule_name else ""
    run = job.name.rpartition("/")[2]
    return f"{run}  {state_of(job):<10}  {job.create_time:%Y-%m-%d %H:%M} UTC  {job.display_name}{schedule}"


def _local_ends() -> Iterator[tuple[str, str, str]]:
    """When each run of this machine ended, its name and how it ended, the latest first."""
    from pipeline.local.run_folder import RUNS

    ends = []
    for path in RUNS.glob(f"*/{RUN_FILE}"):
        run = read_json(path, "remove it", run_folders.RunRecord)
        if run.get("ended"):
            ends.append((run["ended"].removesuffix(" UTC"), path.parent.name, run["result"]))
    yield from sorted(ends, reverse=True)


def _vertex_ends(environment: Environment) -> Iterator[tuple[str, str, str]]:
    """As `_local_ends`, of the runs on Vertex AI that were started last."""
    environment.require_target("vertex")
    versions = functools.cache(lambda location, name: open_registry(location).versions(name))
    for listed in runs.latest(environment, PIPELINE_NAME, 2 * SUMMARY):
        if state_of(listed) in runs.STATUSES:
            run = listed.name.rpartition("/")[2]
            yield f"{listed.end_time:%Y-%m-%d %H:%M}", run, _result(runs.find_run(environment, run), run, versions)


def _result(job: Any, run: str, versions: Any) -> str:
    """How a run on Vertex AI ended; `versions` returns those of a registry and a model."""
    if state_of(job) != runs.SUCCEEDED:
        return (
            run_outcome.failed_at(failed_tasks(job, titles_of_job(job)))
            if state_of(job) == FAILED
            else state_of(job)
        )
    arguments = dict(message_as_json(job)["runtimeConfig"].get("parameterValues", {}))
    values = Template(message_as_json(job)["pipelineSpec"]).values(arguments)
    version = run_outcome.version_of(run, versions(values["registry"], values["model_name"]))
    if version is not None:
        return f"{values['model_name']}@{version.number}: {run_outcome.decided(version.record)}"
    added = any(task.task_name == "upload-model" and state_of(task) == runs.SUCCEEDED for task in tasks_of(job))
    return "its version was removed" if added else run_outcome.UNCHANGED
