"""\
Schedule runs on Vertex AI: apply files, or list, show, pause, resume or delete schedules.

A schedule is a file: schedules/NAME.toml is the schedule msinet-ENV-NAME (schedules/weekly.toml.example describes
it). apply makes the schedules of the environment equal to the files, and shows first what differs. With --dry-run
it changes nothing, and while schedules/ has no file, it shows what the example would make. Runs of one schedule
never overlap: a run is skipped if the previous one has not ended. A run ends after a few minutes, without
training, if a version was made of the same data, settings, code and start and was compared with the default
(skip_unchanged = false trains in any case).

apply with several environments, such as --env prod,prod-eu, makes schedules in the region of the first. If a
training gets no machine there, the last task of its run starts another one, with the next accelerator, and then in
the next region.
"""

import argparse
import dataclasses
import datetime
import pathlib
from collections.abc import Collection, Mapping, Sequence

from lifecycle.vertex import state_of
from pipeline.commands.parameter_flags import add_environment, add_template
from pipeline.graph import Environment, load_environments
from pipeline.vertex import (
    EXAMPLE,
    Schedule,
    ScheduleChange,
    SchedulePlan,
    compare_schedules,
    example_of_schedule,
    parameter_lines,
    read_schedules,
    schedules_of_same_model,
)
from trainer.errors import AmbiguousError, NotFoundError, SettingError, UsageError, check
from trainer.settings import Parser

HELP = "schedule runs on Vertex AI"
ACTIONS = ("apply", "list", "show", "pause", "resume", "delete")
REMOVED = ("create", "replace")
"""Actions that made a schedule from flags."""
FOLDER = pathlib.Path(__file__).parents[2] / "schedules"
TIME = "%a %Y-%m-%d %H:%M %Z"


def configure(parser: Parser) -> None:
    parser.add_argument("action", choices=ACTIONS, type=_action)
    add_environment(parser, several=True)
    parser.add_argument(
        "--name", default="", help="name or id of the schedule. May be left out if the environment has only one"
    )
    parser.add_argument("--all", action="store_true", help="for delete: all schedules of the environment")
    parser.add_argument(
        "--folder",
        default=str(FOLDER),
        help="for apply: folder of the files *.toml. If not given, schedules/ of the repository",
    )
    parser.add_argument(
        "--prune", action="store_true", help="for apply: delete schedules of the environment that have no file"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="for apply: say what would be done, and change nothing"
    )
    add_template(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    check(parsed.action == "apply" or not parsed.dry_run, "--dry-run is for apply", SettingError)
    check(
        parsed.action != "apply" or not parsed.name,
        f"apply takes no --name. It applies all of {parsed.folder}",
        SettingError,
    )
    check(
        not parsed.all or (parsed.action == "delete" and not parsed.name),
        "--all is for delete, without --name",
        SettingError,
    )
    environment = load_environments(parsed.env)
    environment.require_target("vertex")
    if parsed.action == "apply":
        return _apply(parsed, environment)
    if parsed.action == "list":
        for entry in Schedule.all(environment):
            print(_line(entry))
        return 0
    chosen = _chosen(environment, parsed.name, parsed.all)
    if parsed.action == "show":
        _show(*chosen)
        return 0
    done = {"pause": "paused", "resume": "active again", "delete": "deleted, but runs that it started continue"}
    for each in chosen:
        each.change(parsed.action)
        print(f"{each.name} ({each.id}) is {done[parsed.action]}")
    return 0


def _action(text: str) -> str:
    """Type of the action: raises `UsageError` for a removed one."""
    if text in REMOVED:
        raise UsageError(
            f"`schedule {text}` was removed: a schedule is a file. Copy schedules/weekly.toml.example to "
            "schedules/NAME.toml, write times and parameters into it, and run `python -m pipeline schedule apply "
            "--env ENV`"
        )
    return text


def _chosen(environment: Environment, name: str, every: bool) -> list[Schedule]:
    """The schedule with this name or id. An empty name means all schedules of the environment.

    Raises `UserError` if these are not exactly one, unless `every`.
    """
    if name:
        return [Schedule.find(environment, name)]
    own = [each for each in Schedule.all(environment) if each.is_own]
    names = ", ".join(f"{each.name} ({each.id})" for each in own) or "none"
    check(
        every or len(own) == 1,
        f"environment {environment.name} has {len(own)} schedules ({names}). Select one with --name",
        AmbiguousError if own else NotFoundError,
    )
    return own


def _apply(parsed: argparse.Namespace, environment: Environment) -> int:
    if parsed.dry_run and parsed.folder == str(FOLDER) and not any(FOLDER.glob("*.toml")):
        step = example_of_schedule(environment, FOLDER, parsed.template, parsed.cache)
        print(f"{FOLDER} has no *.toml yet. As an example, {EXAMPLE} would make:")
        _print_step(step)
        print(f"Nothing was asked or changed. Copy {FOLDER / EXAMPLE} to weekly.toml beside it, and change that.")
        return 0
    wanted, fallbacks = [], {}
    for each in read_schedules(environment, pathlib.Path(parsed.folder), parsed.template, parsed.cache):
        plan, passed_over = each.plan.with_one_accelerator()
        wanted.append(dataclasses.replace(each, plan=plan))
        fallbacks[plan.name] = each.plan.fallback
        for line in passed_over:
            print(f"{plan.name}: {line}")
    steps = compare_schedules(environment, wanted, parsed.prune)
    for step in steps:
        _print_step(step)
    steps = [step for step in steps if step.is_change]
    made = [step.wanted.plan for step in steps if step.wanted and step.makes_one]
    follows = any(plan.locations for plan in made)
    _say_what_falls_back({plan.name: fallbacks[plan.name] for plan in made}, follows)
    _warn_of_same_model(environment, made, [step.name for step in steps if step.deletes])
    if parsed.dry_run or not steps:
        print("Nothing was changed. Without --dry-run, it is done." if steps else "There is nothing to do.")
        return 0
    for plan in made:
        plan.check_needs()
    for step in steps:
        print(f"Done: {step.action} {step.name} ({step.apply().id})", flush=True)
    return 0


def _say_what_falls_back(sentences: Mapping[str, Sequence[str]], follows: bool) -> None:
    """Say what the runs of each schedule that is made do without a machine.

    `follows` says whether another run may follow one. If so, this says what a schedule cannot do then.
    """
    for name, said in sentences.items():
        for sentence in said:
            print(f"{name}: {sentence}")
    if follows:
        print(
            "note: a run that another one starts is none of the schedule's. Pausing or deleting the schedule does "
            "not stop it, and the schedule may start its next run meanwhile. A job that waits for a machine has "
            "not failed: nothing follows it before it ends"
        )


def _print_step(step: ScheduleChange) -> None:
    number = f" ({step.old.id})" if step.old else ""
    print("\n    ".join([f"{step.action:<8}{step.name}{number}", *step.differences, *_summary(step)]))


def _summary(step: ScheduleChange) -> list[str]:
    """Times, parameters and cost of a schedule that is made for the first time. Nothing for another."""
    if not step.creates or not step.wanted:
        return []
    when = step.wanted.plan.timing
    moments = {"Start": when.start, "End": when.end}
    shown = {name: f"{moment:{TIME}}" for name, moment in moments.items() if moment}
    return step.wanted.plan.summary(Times=when.cron, **shown)


def _warn_of_same_model(environment: Environment, made: Sequence[SchedulePlan], removed: Collection[str]) -> None:
    """Say of each schedule that is made which others train the same model. `removed` names those that end."""
    jobs = {each.name: each.job for each in Schedule.all(environment)} if made else {}
    jobs |= {plan.name: dict(plan.job) for plan in made}
    for name in removed:
        jobs.pop(name, None)
    for plan in made:
        if others := schedules_of_same_model(plan.name, jobs):
            print(
                f"warning: {plan.name} trains the same model in the same registry as {', '.join(others)}: what "
                "one promotes, the others must beat. Keep one, or set another model_name"
            )


def _next_run(entry: Schedule) -> datetime.datetime | None:
    """When an active schedule starts its next run, as Vertex AI says. None for any other schedule."""
    return entry.found.next_run_time or None if entry.state == "active" else None


def _line(entry: Schedule) -> str:
    line = f"{entry.id}  {entry.state:<9}  {entry.found.cron}  {entry.name}"
    moment = _next_run(entry)
    return f"{line}  next run {moment:{TIME}}" if moment else line


def _show(entry: Schedule) -> None:
    found = entry.found
    print(f"Schedule:  {entry.name} ({entry.id}), {entry.state}")
    print(f"Console:   {entry.link}")
    print(f"Times:     {found.cron}")
    for name, moment in (("Start", found.start_time), ("End", found.end_time), ("Next run", _next_run(entry))):
        if moment:
            print(f"{name + ':':<11}{moment:{TIME}}")
    job = found.create_pipeline_job_request.pipeline_job
    for line in parameter_lines(job):
        print(line)
    for key, value in sorted(job.labels.items()):
        print(f"  label {key} = {value}")
    for run in entry.runs():
        print(f"Run {run.name.rpartition('/')[2]}: {state_of(run)}")
