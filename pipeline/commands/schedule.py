"""\
Schedule runs on Vertex AI: create, list, show, pause, resume, replace or delete a schedule.

create and replace take parameters, --template and --cache like `submit`, and --cron with --timezone. Runs of one
schedule never overlap: a run that is due while another one is unfinished is skipped. replace deletes the old
schedule only after the new one exists. Without --cron it keeps the old schedule's times, but not its parameters.
"""

import argparse
import datetime
import json
from collections.abc import Sequence
from typing import Any

from pipeline.commands.flags import add_environment, add_parameters, add_template, given_parameters
from trainer.errors import check

HELP = "schedule runs on Vertex AI"
ACTIONS = ("create", "list", "show", "pause", "resume", "replace", "delete")
DONE = {"pause": "paused", "resume": "active again", "delete": "deleted; runs that it started continue"}
TIME = "%a %Y-%m-%d %H:%M %Z"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=ACTIONS)
    add_environment(parser)
    parser.add_argument("--name", default="", help="name or id of the schedule (default: msinet-ENV)")
    parser.add_argument(
        "--cron",
        default="",
        help="times of the runs as five cron fields: '0 3 * * 1' means Mondays at 3:00 (minute, hour, day, ...)",
    )
    parser.add_argument("--timezone", default="", help="time zone of --cron, such as Europe/London (default: UTC)")
    parser.add_argument(
        "--start", default="", help="start no run before this date or time, such as 2026-03-01T12:00"
    )
    parser.add_argument("--end", default="", help="start no run at or after this date or time")
    add_template(parser)
    parser.add_argument("--dry-run", action="store_true", help="create only: print the request, send nothing")
    add_parameters(parser)


def execute(parsed: argparse.Namespace, others: Sequence[str]) -> int:
    from pipeline.graph.environment import load_environment
    from pipeline.vertex import checks, schedule

    parameters = given_parameters(parsed, others)
    takes_parameters = parsed.action in ("create", "replace")
    check(
        takes_parameters or not parameters,
        f"{parsed.action} takes no parameters; see `python -m pipeline schedule --help`",
    )
    environment = load_environment(parsed.env)
    checks.check_environment(environment)
    if parsed.action == "list":
        for scheduled in schedule.named(environment):
            print(_line(scheduled))
        return 0
    name = parsed.name or schedule.default_name(environment)
    if takes_parameters:
        return _put(parsed, environment, name, parameters)
    scheduled = schedule.find(environment, name)
    if parsed.action == "show":
        _show(environment, scheduled)
        return 0
    getattr(schedule, parsed.action)(environment, scheduled)
    print(f"{scheduled.display_name} ({schedule.id_of(scheduled)}) is {DONE[parsed.action]}")
    return 0


def _put(parsed: argparse.Namespace, environment: Any, name: str, parameters: Any) -> int:
    """Create or replace a schedule."""
    from pipeline.vertex import checks, schedule

    is_new = parsed.action == "create"
    check(is_new or not parsed.dry_run, "--dry-run works with create only")
    check(
        bool(parsed.cron) or not is_new,
        "--cron is missing; write, for example, --cron '0 3 * * 1' for Mondays at 3:00",
    )
    # Mistakes in the times are reported before the old schedule is requested.
    zone = parsed.timezone or "UTC"
    timing = schedule.timing(parsed.cron, zone, parsed.start, parsed.end) if parsed.cron else None
    old = None if is_new else schedule.find(environment, name)
    if timing is None:
        kept, limits = schedule.timing_of(old), schedule.future_limits(old)
        limits = {name: getattr(parsed, name) or limit for name, limit in limits.items()}
        timing = schedule.timing(kept.expression, parsed.timezone or kept.zone, **limits)
    title = old.display_name if old else name
    plan = schedule.prepare(environment, title, timing, parameters, parsed.template, parsed.cache)
    if parsed.dry_run:
        print(json.dumps(plan.request, indent=2))
        return 0
    checks.check_bucket(environment)
    _describe(environment, schedule.replace(plan, old) if old else schedule.create(plan))
    return 0


def _line(scheduled: Any) -> str:
    from pipeline.vertex import runs, schedule

    line = (
        f"{schedule.id_of(scheduled)}  {runs.state_of(scheduled):<9}  {scheduled.cron}  {scheduled.display_name}"
    )
    moment = schedule.next_run(scheduled)
    return f"{line}  next run {moment:{TIME}}" if moment else line


def _show(environment: Any, scheduled: Any) -> None:
    from pipeline.vertex import runs

    _describe(environment, scheduled)
    job = scheduled.create_pipeline_job_request.pipeline_job
    for name, value in sorted(runs.parameters_of(job).items()):
        print(f"  {name} = {value:g}" if isinstance(value, float) else f"  {name} = {value}")
    for key, value in sorted(job.labels.items()):
        print(f"  label {key} = {value}")
    for run in runs.of_schedule(environment, scheduled.name):
        print(f"Run {run.name.rpartition('/')[2]}: {runs.state_of(run)}")


def _describe(environment: Any, scheduled: Any) -> None:
    from pipeline import cloud
    from pipeline.vertex import runs, schedule

    number = schedule.id_of(scheduled)
    timing = schedule.timing_of(scheduled)
    print(f"Schedule:  {scheduled.display_name} ({number}), {runs.state_of(scheduled)}")
    print(f"Console:   {cloud.schedule_link(environment, number)}")
    print(f"Times:     {timing.expression} ({timing.zone})")
    for name, text in schedule.future_limits(scheduled).items():
        if text:
            print(f"{name.title() + ':':<11}{datetime.datetime.fromisoformat(text):{TIME}}")
    moment = schedule.next_run(scheduled)
    if moment:
        there = moment.astimezone(schedule.time_zone(timing.zone))
        print(f"Next run:  {there:{TIME}}, local time {moment.astimezone():{TIME}}")
