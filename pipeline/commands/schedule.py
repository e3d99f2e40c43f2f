"""\
Schedule runs on Vertex AI: create, list, show, pause, resume, replace or delete one, or apply files.

create and replace accept parameters, --template and --cache like `submit`, and --cron with --timezone. Runs of one
schedule never overlap: a run is skipped if the previous one has not ended. A run ends after a few minutes, without
training, if a version was made of the same data, settings, code and start and was compared with the default
(skip_unchanged=false trains in any case). replace deletes the old schedule after it has created the new one.
Without --cron it keeps the times, but not the parameters; pass them again. apply makes the schedules of the
environment equal to the files of a folder (schedules/weekly.toml.example describes them), and shows first what
differs. delete --all deletes all schedules of the environment.
"""

import argparse
import datetime
import json
import pathlib
from collections.abc import Collection, Sequence
from typing import Any

from pipeline import cloud
from pipeline.commands.flags import add_environment, add_parameters, add_template, passed_parameters
from pipeline.graph.environment import CONFIGS, load_environment
from pipeline.jobs import state_of
from pipeline.vertex import runs, schedule, schedule_files, submit
from trainer.cli import Parser
from trainer.errors import check

HELP = "schedule runs on Vertex AI"
ACTIONS = ("create", "list", "show", "pause", "resume", "replace", "delete", "apply")
FOLDER = CONFIGS.parent / "schedules"
TIME = "%a %Y-%m-%d %H:%M %Z"


def configure(parser: Parser) -> None:
    parser.add_argument("action", choices=ACTIONS)
    add_environment(parser)
    parser.add_argument("--name", default="", help="name or id of the schedule; msinet-ENV if empty")
    parser.add_argument(
        "--cron",
        default="",
        help="times in five fields: '0 3 * * 1' is 3:00 on Mondays (minute, hour, day, ...)",
    )
    parser.add_argument(
        "--when-changed",
        action="store_true",
        help="train when the data has changed: look at the times of --cron, by default every six hours",
    )
    parser.add_argument("--timezone", default="", help="time zone of --cron, such as Europe/London (default: UTC)")
    parser.add_argument("--start", default="", help="first date or time for runs, such as 2026-03-01T12:00")
    parser.add_argument("--end", default="", help="date or time from which no run starts")
    parser.add_argument(
        "--folder", default=str(FOLDER), help="for apply: folder of the files *.toml; schedules in the repository"
    )
    parser.add_argument("--all", action="store_true", help="for delete: all schedules of the environment")
    parser.add_argument(
        "--prune", action="store_true", help="for apply: delete schedules of the environment that have no file"
    )
    add_template(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="for create and apply: say what would be done, and change nothing"
    )
    parser.add_argument("--json", action="store_true", help="for --dry-run: print the whole request as JSON")
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    passed = passed_parameters(parsed, assignments)
    changes = parsed.action in ("create", "replace")
    check(changes or not passed, f"{parsed.action} takes no parameters; see `python -m pipeline schedule --help`")
    check(parsed.action in ("create", "apply") or not parsed.dry_run, "--dry-run is for create and apply")
    check(not parsed.all or (parsed.action == "delete" and not parsed.name), "--all is for delete, without --name")
    environment = load_environment(parsed.env)
    environment.require_target("vertex")
    if parsed.action == "apply":
        return _apply(parsed, environment)
    if parsed.action == "list":
        for entry in schedule.listed(environment):
            print(_line(entry))
        return 0
    name = parsed.name or f"msinet-{environment.name}"
    if changes:
        return _put(parsed, environment, name, passed)
    if parsed.all:
        chosen = [each for each in schedule.listed(environment) if schedule_files.is_of(environment, each)]
    else:
        chosen = [schedule.find(environment, name)]
    if parsed.action == "show":
        _show(environment, *chosen)
        return 0
    done = {"pause": "paused", "resume": "active again", "delete": "deleted; runs that it started continue"}
    for each in chosen:
        schedule.change(environment, each, parsed.action)
        print(f"{each.display_name} ({schedule.id_of(each)}) is {done[parsed.action]}")
    return 0


def _put(parsed: argparse.Namespace, environment: Any, name: str, passed: Any) -> int:
    is_new = parsed.action == "create"
    check(parsed.dry_run or not parsed.json, "--json is for --dry-run")
    if parsed.when_changed:
        passed = schedule.only_on_changes(passed)
        parsed.cron = parsed.cron or schedule.OFTEN
    check(
        bool(parsed.cron) or not is_new,
        "set the times with --cron, such as --cron '0 3 * * 1' (--timezone if it is not UTC), or --when-changed",
    )
    # Check the times before the request for the old schedule.
    limits = parsed.start, parsed.end
    given = schedule.timing(parsed.cron, parsed.timezone or "UTC", *limits) if parsed.cron else None
    old = None if is_new else schedule.find(environment, name)
    when = given or schedule.kept_timing(old, parsed.timezone, *limits)
    title = old.display_name if old else name
    plan = schedule.prepare(environment, title, when, passed, parsed.template, parsed.cache)
    if parsed.dry_run:
        if parsed.json:
            print(json.dumps(plan.request, indent=2))
            return 0
        moments = {"Start": when.start, "End": when.end}
        shown = {name: f"{moment:{TIME}}" for name, moment in moments.items() if moment}
        print("\n".join(submit.summary(plan, Schedule=plan.name, Times=when.cron, **shown)))
        print("Nothing was sent. --json prints the whole request; without --dry-run, the schedule is created.")
        return 0
    plan, passed_over = submit.choose_accelerator(plan)
    for line in passed_over:
        print(line)
    submit.check_bucket_images_and_quota(plan)
    _warn_of_same_model(environment, [plan])
    created = schedule.replace(plan, old) if old else schedule.create(plan)
    _describe(environment, created)
    return 0


def _apply(parsed: argparse.Namespace, environment: Any) -> int:
    flags = ("name", "cron", "when_changed", "timezone", "start", "end")
    given = [f"--{flag.replace('_', '-')}" for flag in flags if getattr(parsed, flag)]
    check(not given, f"apply takes no {', '.join(given)}; the files of {parsed.folder} say it")
    wanted = schedule_files.read(environment, pathlib.Path(parsed.folder), parsed.template, parsed.cache)
    steps = schedule_files.compare(environment, wanted, parsed.prune)
    for step in steps:
        number = f" ({schedule.id_of(step.old)})" if step.old else ""
        print("\n    ".join([f"{step.action:<8}{step.name}{number}", *step.differences]))
    steps = [step for step in steps if step.is_change]
    made = [step.wanted.plan for step in steps if step.wanted and step.makes_one]
    _warn_of_same_model(environment, made, [step.name for step in steps if step.action == schedule_files.DELETE])
    if parsed.dry_run or not steps:
        print("Nothing was changed; without --dry-run, it is done." if steps else "There is nothing to do.")
        return 0
    for plan in made:
        submit.check_bucket_images_and_quota(plan)
    for step in steps:
        made = schedule_files.take(environment, step)
        print(f"Done: {step.action} {step.name} ({schedule.id_of(made)})", flush=True)
    return 0


def _warn_of_same_model(
    environment: Any, made: Sequence[schedule.SchedulePlan], removed: Collection[str] = ()
) -> None:
    """Say of each schedule that is made which others train the same model; `removed` are those that end now."""
    jobs = {each.display_name: schedule.job_of(each) for each in schedule.listed(environment)} if made else {}
    jobs |= {plan.name: dict(plan.job) for plan in made}
    for name in removed:
        jobs.pop(name, None)
    for plan in made:
        if others := schedule.of_same_model(plan.name, jobs):
            print(
                f"warning: {plan.name} trains the same model in the same registry as {', '.join(others)}: what "
                "one promotes, the others must beat; keep one, or set another model_name"
            )


def _next_run(entry: Any) -> datetime.datetime | None:
    """When an active schedule starts its next run, as Vertex AI says; None for any other schedule."""
    return entry.next_run_time or None if state_of(entry) == "active" else None


def _line(entry: Any) -> str:
    line = f"{schedule.id_of(entry)}  {state_of(entry):<9}  {entry.cron}  {entry.display_name}"
    moment = _next_run(entry)
    return f"{line}  next run {moment:{TIME}}" if moment else line


def _show(environment: Any, entry: Any) -> None:
    _describe(environment, entry)
    job = entry.create_pipeline_job_request.pipeline_job
    for line in runs.parameter_lines(job):
        print(line)
    for key, value in sorted(job.labels.items()):
        print(f"  label {key} = {value}")
    for run in runs.of_schedule(environment, entry.name):
        print(f"Run {run.name.rpartition('/')[2]}: {state_of(run)}")


def _describe(environment: Any, entry: Any) -> None:
    number = schedule.id_of(entry)
    print(f"Schedule:  {entry.display_name} ({number}), {state_of(entry)}")
    print(f"Console:   {cloud.schedule_link(environment, number)}")
    print(f"Times:     {entry.cron}")
    for name, moment in (("Start", entry.start_time), ("End", entry.end_time), ("Next run", _next_run(entry))):
        if moment:
            print(f"{name + ':':<11}{moment:{TIME}}")
