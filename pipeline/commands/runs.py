"""\
List, show or cancel runs on Vertex AI.

`show` without an id shows the latest run; with --wait it follows the run until it ends, like `submit --wait`.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from pipeline import cloud
from pipeline.commands.flags import add_environment
from pipeline.graph.environment import PIPELINE_NAME, load_environment
from pipeline.vertex import runs
from trainer.errors import check

HELP = "list, show or cancel runs on Vertex AI"
MAX_LISTED = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "show", "cancel"))
    parser.add_argument("run", nargs="?", default="", help="id of the run; show without it shows the latest run")
    add_environment(parser)
    parser.add_argument("--wait", action="store_true", help="for show: follow the run until it ends")
    parser.add_argument(
        "--limit", type=int, default=MAX_LISTED, help=f"for list: maximum number of runs (default: {MAX_LISTED})"
    )


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    environment = load_environment(parsed.env)
    environment.require_target("vertex")
    if parsed.action == "list":
        check(parsed.limit >= 1, f"limit is {parsed.limit}; it must be at least 1")
        for job in runs.latest(environment, PIPELINE_NAME, parsed.limit):
            print(_line(job))
        return 0
    if parsed.action == "cancel":
        check(bool(parsed.run), "name the run: `python -m pipeline runs cancel RUN`")
        runs.cancel(environment, parsed.run)
        print(f"{parsed.run} is being cancelled: {cloud.run_link(environment, parsed.run)}")
        return 0
    if parsed.run:
        run = parsed.run
    else:
        jobs = runs.latest(environment, PIPELINE_NAME, 1)
        check(bool(jobs), f"there is no run of {PIPELINE_NAME} in {environment.project}, {environment.location}")
        run = jobs[0].name.rpartition("/")[2]
    job = runs.find(environment, run)
    titles = runs.titles_of_job(job)
    print(f"Run:     {run}\nConsole: {cloud.run_link(environment, run)}")
    if parsed.wait:
        return runs.follow(environment, run, titles)
    print(f"State:   {runs.state_of(job)}\nCreated: {job.create_time:%Y-%m-%d %H:%M} UTC")
    for line in (*runs.parameter_lines(job), *runs.changes(job, titles, {})):
        print(line)
    if runs.state_of(job) == runs.FAILED:
        print("\n".join(runs.failures(job, titles)))
    return 0


def _line(job: Any) -> str:
    schedule = f"  by schedule {job.schedule_name.rpartition('/')[2]}" if job.schedule_name else ""
    run = job.name.rpartition("/")[2]
    return f"{run}  {runs.state_of(job):<10}  {job.create_time:%Y-%m-%d %H:%M} UTC  {job.display_name}{schedule}"
