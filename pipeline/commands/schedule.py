"""\
Schedule runs on Vertex AI: create, list, show, pause, resume, replace or delete.

create and replace take parameters, --template and --cache as `submit` does, and --cron with --timezone. Runs of
one schedule never overlap: one whose time comes while another is on its way is left out. replace keeps the old
schedule until the new one stands; without --cron it keeps the old one's times, but parameters are given anew.
"""

import argparse
import datetime
import json
from collections.abc import Sequence
from typing import Any

from pipeline.commands.flags import add_environment, add_parameters, add_template, passed_parameters
from trainer.errors import UserError, check

HELP = "schedule runs on Vertex AI"
ACTIONS = ("create", "list", "show", "pause", "resume", "replace", "delete")
TIME = "%a %Y-%m-%d %H:%M %Z"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=ACTIONS)
    add_environment(parser)
    parser.add_argument("--name", default="", help="name of the schedule, or its id; msinet-ENV if not given")
    parser.add_argument(
        "--cron",
        default="",
        help="when, in five fields: '0 3 * * 1' is at 3:00 on Mondays (minute, hour, day, ...)",
    )
    parser.add_argument("--timezone", default="", help="zone of --cron, such as Europe/London (default: UTC)")
    parser.add_argument("--start", default="", help="no run before this date or time, as 2026-03-01T12:00")
    parser.add_argument("--end", default="", help="no run from this date or time on")
    add_template(parser)
    parser.add_argument("--dry-run", action="store_true", help="of create: print the request; send nothing")
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    from pipeline.graph.environment import load_environment
    from pipeline.vertex import checks, schedule

    given = passed_parameters(parsed, assignments)
    changes = parsed.action in ("create", "replace")
    check(changes or not given, f"{parsed.action} takes no parameters; see `python -m pipeline schedule --help`")
    environment = load_environment(parsed.env)
    checks.check_environment(environment)
    if parsed.action == "list":
        for each in schedule.named(environment):
            print(f"{schedule.id_of(each)}  {_state(each):<9}  {each.cron}  {each.display_name}")
        return 0
    name = parsed.name or schedule.default_name(environment)
    if changes:
        return _put(parsed, environment, name, given)
    found = schedule.find(environment, name)
    if parsed.action == "show":
        _show(environment, found)
        return 0
    getattr(schedule, parsed.action)(environment, found)
    done = {"pause": "paused", "resume": "active again", "delete": "deleted; runs that it started go on"}
    print(f"{found.display_name} ({schedule.id_of(found)}) is {done[parsed.action]}")
    return 0


def _put(parsed: argparse.Namespace, environment: Any, name: str, given: Any) -> int:
    from pipeline.vertex import checks, schedule

    is_new = parsed.action == "create"
    check(is_new or not parsed.dry_run, "--dry-run is for create")
    check(bool(parsed.cron) or not is_new, "when? write --cron '0 3 * * 1', and --timezone where it is not UTC")
    # What is wrong with the times is said before the old schedule is asked for.
    when = (
        schedule.timing(parsed.cron, parsed.timezone or "UTC", parsed.start, parsed.end) if parsed.cron else None
    )
    old = None if is_new else schedule.find(environment, name)
    if when is None:
        kept, limits = schedule.timing_of(old), schedule.times_to_come(old)
        given_limits = {name: getattr(parsed, name) or limits[name] for name in limits}
        when = schedule.timing(kept.expression.text, parsed.timezone or kept.zone, **given_limits)
    title = old.display_name if old else name
    plan = schedule.prepare(environment, title, when, given, parsed.template, parsed.cache)
    if parsed.dry_run:
        print(json.dumps(plan.request, indent=2))
        return 0
    checks.check_bucket(environment)
    made = schedule.replace(plan, old) if old else schedule.create(plan)
    _describe(environment, made)
    return 0


def _show(environment: Any, found: Any) -> None:
    from pipeline.vertex import runs

    _describe(environment, found)
    job = found.create_pipeline_job_request.pipeline_job
    for name, value in sorted(runs.parameters_of(job).items()):
        print(f"  {name} = {value:g}" if isinstance(value, float) else f"  {name} = {value}")
    for key, value in sorted(job.labels.items()):
        print(f"  label {key} = {value}")
    for run in runs.of_schedule(environment, found.name):
        print(f"Run {run.name.rpartition('/')[2]}: {runs.state_of(run)}")


def _describe(environment: Any, found: Any) -> None:
    from pipeline import cloud
    from pipeline.vertex import schedule

    number = schedule.id_of(found)
    print(f"Schedule:  {found.display_name} ({number}), {_state(found)}")
    print(f"Console:   {cloud.schedule_link(environment, number)}")
    try:
        when = schedule.timing_of(found)
    except UserError:
        # One that was made elsewhere, in words that only Vertex AI knows.
        print(f"Times:     {found.cron}")
        return
    print(f"Times:     {when.expression.text} ({when.zone})")
    for name, text in schedule.times_to_come(found).items():
        if text:
            print(f"{name.title() + ':':<11}{datetime.datetime.fromisoformat(text):{TIME}}")
    for moment in when.next_runs() if _state(found) == schedule.ACTIVE else ():
        print(f"Next run:  {moment:{TIME}}, here {moment.astimezone():{TIME}}")


def _state(found: Any) -> str:
    from pipeline.vertex import runs

    return runs.state_of(found)
