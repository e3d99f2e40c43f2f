"""\
Look at runs on Vertex AI, or cancel one.

`show` without a run shows the latest; with --wait it is followed until it ends, as `submit --wait` does.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from pipeline.commands.flags import add_environment
from trainer.errors import check

HELP = "list, show or cancel runs on Vertex AI"
SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "show", "cancel"))
    parser.add_argument("run", nargs="?", default="", help="id of the run; the latest for show if not given")
    add_environment(parser)
    parser.add_argument("--wait", action="store_true", help="of show: follow the run until it ends")
    parser.add_argument("--limit", type=int, default=SHOWN, help=f"of list: at most so many (default: {SHOWN})")


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    from pipeline import cloud
    from pipeline.graph import dag
    from pipeline.graph.environment import load_environment
    from pipeline.vertex import checks, runs

    environment = load_environment(parsed.env)
    checks.check_environment(environment)
    if parsed.action == "list":
        check(parsed.limit >= 1, f"limit is {parsed.limit}; it must be at least 1")
        for job in runs.latest(environment, dag.NAME, parsed.limit):
            print(_line(job))
        return 0
    if parsed.action == "cancel":
        check(bool(parsed.run), "which run? write `python -m pipeline runs cancel RUN`")
        runs.cancel(environment, parsed.run)
        print(f"{parsed.run} is being cancelled: {cloud.run_link(environment, parsed.run)}")
        return 0
    run = parsed.run or _latest(environment)
    job = runs.find(environment, run)
    titles = runs.titles_of_job(job)
    print(f"Run:     {run}\nConsole: {cloud.run_link(environment, run)}")
    if parsed.wait:
        return runs.follow(environment, run, titles)
    print(f"State:   {runs.state_of(job)}\nCreated: {job.create_time:%Y-%m-%d %H:%M} UTC")
    for name, value in sorted(runs.parameters_of(job).items()):
        # The API knows one kind of number alone.
        print(f"  {name} = {value:g}" if isinstance(value, float) else f"  {name} = {value}")
    for line in runs.changes(job, titles, {}):
        print(line)
    if runs.state_of(job) == runs.FAILED:
        print("\n".join(runs.failures(job, titles)))
    return 0


def _latest(environment: Any) -> str:
    from pipeline.graph import dag
    from pipeline.vertex import runs

    found = runs.latest(environment, dag.NAME, 1)
    check(bool(found), f"there is no run of {dag.NAME} in {environment.project}, {environment.location}")
    return str(found[0].name.rpartition("/")[2])


def _line(job: Any) -> str:
    from pipeline.vertex import runs

    schedule = f"  by schedule {job.schedule_name.rpartition('/')[2]}" if job.schedule_name else ""
    run = job.name.rpartition("/")[2]
    return f"{run}  {runs.state_of(job):<10}  {job.create_time:%Y-%m-%d %H:%M} UTC  {job.display_name}{schedule}"
