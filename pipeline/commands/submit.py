"""\
Start a run on Vertex AI, after every check that is possible in advance.

Parameters that you pass override the environment, and the environment overrides the template's defaults. A recipe
that you pass overrides each of its settings there. Write a parameter as --base-epochs 3 or base_epochs=3. Without
--template, the pipeline is compiled for the environment.

--wait shows the states of the tasks until the run ends. The exit status is then 0 if it succeeded, 1 if it failed,
and 2 if it was cancelled. If a training gets no machine, and its accelerator is the first of several, another run
tries the next one, unless --cache off would make it repeat a base training. Ctrl-C stops watching, but not the
run.

With several environments, such as --env prod,prod-eu, nobody has to wait: the last task of a run that got no
machine starts another one, with the next accelerator, and then in the next region. --wait follows it there.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from lifecycle.vertex import titles_of
from pipeline.commands.parameter_flags import add_environment, add_parameters, add_template, passed_parameters
from pipeline.graph import load_environments
from pipeline.vertex import SentRun, Submission
from trainer.errors import SettingError, UnreachableError, UserError, check
from trainer.settings import Parser

HELP = "start a run on Vertex AI"
FAILED = 1
"""Exit status for a run that failed."""


def configure(parser: Parser) -> None:
    add_environment(parser, several=True)
    parser.add_argument("--wait", action="store_true", help="follow the run until it ends")
    parser.add_argument("--dry-run", action="store_true", help="say what would be started, and send nothing")
    parser.add_argument("--json", action="store_true", help="for --dry-run: print the whole request as JSON")
    add_template(parser)
    parser.add_argument("--job-id", default="", help="id of the run. A new one if empty")
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    passed = passed_parameters(parsed, assignments)
    environment = load_environments(parsed.env)
    check(parsed.dry_run or not parsed.json, "--json is for --dry-run", SettingError)
    submission = Submission.prepare(environment, passed, parsed.template, parsed.cache, parsed.job_id)
    if parsed.dry_run:
        if parsed.json:
            print(json.dumps(submission.request, indent=2))
            return 0
        print("\n".join([*submission.summary(Run=submission.run), *submission.fallback]))
        print("Nothing was sent. --json prints the whole request. Without --dry-run, the run is started.")
        return 0
    while True:
        started = _start(submission, parsed.env)
        sent, titles = SentRun(environment, started.run), titles_of(started.job["pipelineSpec"])
        if not parsed.wait:
            print("\n".join([f"Status:  {sent.command('show')}", *submission.fallback]))
            return 0
        status = sent.follow(titles)
        if started.locations:
            return _follow_further(sent, titles, status)
        further = submission.fall_back(started) if status == FAILED else None
        if further is None:
            return status
        print("A training got no machine. Another run tries the next accelerator.")
        submission = further


def _follow_further(sent: SentRun, titles: Mapping[str, str], status: int) -> int:
    """Follow each run that the last task of the one before has started. Return the status of the last."""
    while status == FAILED and (later := sent.following()):
        print(f"A training got no machine. Run {later.run} in {later.environment.location} follows: {later.link}")
        sent, status = later, later.follow(titles)
    return status


def _start(submission: Submission, name: str) -> Submission:
    """Choose the accelerators of a run, check it, and start it in the environment `name`. Return what was sent."""
    environment = submission.environment
    submission, passed_over = submission.with_one_accelerator()
    for line in (*passed_over, *submission.estimates()):
        print(line)
    # Without a network this takes up to half a minute.
    print(f"Checking bucket {environment.bucket}, images and quota ...", file=sys.stderr, flush=True)
    submission.check_needs()
    try:
        submission.send()
    except UserError as error:
        doctor = f"`python -m pipeline doctor --env {name}`"
        raise UnreachableError(f"{error}. {doctor} says what a run needs") from None
    print(f"Run:     {submission.run}")
    print(f"Console: {SentRun(environment, submission.run).link}", flush=True)
    return submission
