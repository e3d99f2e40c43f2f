"""\
List, show or cancel runs on Vertex AI. With --summary, show how the last twelve runs ended, and why.

`show` without an id shows the latest run. With --wait it follows the run until it ends, like `submit --wait`.
--summary and `show` also know the runs of this machine that have ended, with --env local.
"""

import argparse
import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from lifecycle.registry import Version, open_registry
from lifecycle.runs import End
from lifecycle.vertex import Run, state_of
from pipeline.commands.parameter_flags import add_environment
from pipeline.graph import PIPELINE_NAME, Environment, Template, load_environment
from pipeline.vertex import SentRun, latest_runs, lines_of_run
from trainer.errors import NotFoundError, SettingError, UserError, check
from trainer.evaluation import RunFolder
from trainer.reports import summary_lines
from trainer.texts import printable

HELP = "list, show or cancel runs on Vertex AI"
MAX_LISTED = 10
VERSION = re.compile(r"([^@]+)@(\d+): ")
"""Beginning of the result of a run that has added a version."""
SUMMARY = 12
"""Number of ends in the summary, about a quarter of weekly runs."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("list", "show", "cancel"), default="list")
    parser.add_argument("run", nargs="?", default="", help="id of the run. Without it, show prints the latest run")
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
        print(f"{'ended, UTC':<16}  {'run':<28}  result")
        for end in itertools.islice(ends, SUMMARY):
            print(f"{end.ended:<16}  {end.run:<28}  {end.result}", *(f"    {line}" for line in end.why), sep="\n")
        return 0
    if parsed.action == "show" and environment.target == "local":
        shown = next((end for end in _local_ends() if parsed.run in ("", end.run)), None)
        if shown is None:
            named = f"run {parsed.run!r}" if parsed.run else "run"
            raise NotFoundError(
                f"there is no {named} that has ended. `python -m pipeline runs --summary` lists them"
            )
        facts = (f"Run:     {shown.run}", f"Ended:   {shown.ended} UTC", f"Result:  {shown.result}")
        print(*facts, *shown.why, sep="\n")
        return 0
    environment.require_target("vertex")
    if parsed.action == "list":
        check(parsed.limit >= 1, f"limit is {parsed.limit}. It must be at least 1", SettingError)
        for job in latest_runs(environment, PIPELINE_NAME, parsed.limit):
            print(_line(job))
        return 0
    if parsed.action == "cancel":
        check(bool(parsed.run), "name the run: `python -m pipeline runs cancel RUN`", SettingError)
        sent = SentRun(environment, parsed.run)
        sent.cancel()
        print(f"{parsed.run} is being cancelled: {sent.link}")
        return 0
    if parsed.run:
        run = parsed.run
    else:
        jobs = latest_runs(environment, PIPELINE_NAME, 1)
        check(
            bool(jobs),
            f"there is no run of {PIPELINE_NAME} in {environment.project}, {environment.location}",
            NotFoundError,
        )
        run = jobs[0].name.rpartition("/")[2]
    sent = SentRun(environment, run)
    shown_run = Run(sent.find())
    print(f"Run:     {run}\nConsole: {sent.link}")
    if parsed.wait:
        return sent.follow()
    print(f"State:   {shown_run.state}\nCreated: {shown_run.job.create_time:%Y-%m-%d %H:%M} UTC")
    for line in lines_of_run(shown_run):
        print(line)
    if shown_run.has_failed:
        print("\n".join(shown_run.failures))
    elif shown_run.has_ended:
        with contextlib.suppress(UserError):  # a registry that cannot be read is no reason to show no run
            result, why = _result(shown_run, run, _versions)
            print(f"Result:  {result}", *why, sep="\n")
    return 0


def _line(job: Any) -> str:
    schedule = f"  by schedule {job.schedule_name.rpartition('/')[2]}" if job.schedule_name else ""
    run = job.name.rpartition("/")[2]
    return f"{run}  {state_of(job):<10}  {job.create_time:%Y-%m-%d %H:%M} UTC  {job.display_name}{schedule}"


class _End(NamedTuple):
    """How a run ended."""

    ended: str
    """When, in UTC."""
    run: str
    result: str
    why: list[str]
    """Lines about the version that it added."""


def _local_ends() -> Iterator[_End]:
    """How each run of this machine ended, the latest first."""
    from pipeline.local import RUNS

    ends = []
    for each in RunFolder.below(RUNS):
        run = each.read("remove it")
        if run.get("ended"):
            ends.append((run["ended"].removesuffix(" UTC"), each.folder.name, run))
    versions = functools.cache(_versions)
    for ended, name, run in sorted(ends, key=lambda end: end[:2], reverse=True):
        why: list[str] = []
        if added := VERSION.match(run["result"]):
            with contextlib.suppress(UserError):  # a registry that is gone
                known = versions(str(run["parameters"].get("registry", "")), added[1])
                why = [line for each in known if each.number == int(added[2]) for line in _why(each)]
        yield _End(ended, name, run["result"], why)


def _vertex_ends(environment: Environment) -> Iterator[_End]:
    """How the last runs on Vertex AI ended, the latest first."""
    environment.require_target("vertex")
    versions = functools.cache(_versions)
    for listed in latest_runs(environment, PIPELINE_NAME, 2 * SUMMARY):
        if Run(listed).has_ended:
            run = listed.name.rpartition("/")[2]
            result, why = _result(Run(SentRun(environment, run).find()), run, versions)
            yield _End(f"{listed.end_time:%Y-%m-%d %H:%M}", run, result, why)


def _versions(location: str, name: str) -> list[Version]:
    return open_registry(location).versions(name)


def _why(version: Version) -> list[str]:
    lines = summary_lines(version.facts).items()
    return [printable(f"{f'{name}:':<9}{text}") for name, text in lines]


def _result(ended: Run, run: str, versions: Callable[[str, str], list[Version]]) -> tuple[str, list[str]]:
    """How a run on Vertex AI ended, such as `msinet@3: promoted`, and why.

    `versions` returns the versions in a registry of a model.
    """
    if not ended.has_succeeded:
        return End.failed_at(ended.failed_tasks) if ended.has_failed else ended.state, []
    values = Template(ended.content["pipelineSpec"]).values(ended.arguments)
    known = versions(values["registry"], values["model_name"])
    version = next((each for each in known if each.run == run), None)
    if version is not None:
        return f"{values['model_name']}@{version.number}: {version.end}", _why(version)
    is_added = any(task.task_name == "upload-model" and state_of(task) == "succeeded" for task in ended.tasks)
    return "its version was removed" if is_added else End.UNCHANGED, []
