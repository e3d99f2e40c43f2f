"""\
Start a run on Vertex AI, after every check that is possible in advance.

Parameters that you pass override the environment, and the environment overrides the template's defaults. A recipe
that you pass overrides each of its settings there. Write a parameter as --base-epochs 3 or base_epochs=3. Without
--template, the pipeline is compiled for the environment.

--wait shows the states of the tasks until the run ends. The exit status is then 0 if it succeeded, 1 if it failed,
and 2 if it was cancelled. If a training gets no machine, and its accelerator is the first of several, another run
tries the next one, unless --cache off would make it repeat a base training. Ctrl-C stops watching, but not the
run.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from lifecycle.vertex import api as vertex_api
from lifecycle.vertex.run import FAILED, titles_of
from pipeline.commands.parameter_flags import add_environment, add_parameters, add_template, passed_parameters
from pipeline.graph.environment import load_environment
from pipeline.vertex import runs, submit
from trainer.errors import UserError, check
from trainer.settings.flags import Parser

HELP = "start a run on Vertex AI"


def configure(parser: Parser) -> None:
    add_environment(parser)
    parser.add_argument("--wait", action="store_true", help="follow the run until it ends")
    parser.add_argument("--dry-run", action="store_true", help="say what would be started, and send nothing")
    parser.add_argument("--json", action="store_true", help="for --dry-run: print the whole request as JSON")
    add_template(parser)
    parser.add_argument("--job-id", default="", help="id of the run; a new one if empty")
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    passed = passed_parameters(parsed, assignments)
    environment = load_environment(parsed.env)
    check(parsed.dry_run or not parsed.json, "--json is for --dry-run")
    submission = submit.prepare_submission(environment, passed, parsed.template, parsed.cache, parsed.job_id)
    if parsed.dry_run:
        if parsed.json:
            print(json.dumps(submission.request, indent=2))
            return 0
        print("\n".join(submit.summary(submission, Run=submission.run)))
        print("Nothing was sent. --json prints the whole request; without --dry-run, the run is started.")
        return 0
    while True:
        started = _start(submission, parsed.env)
        if not parsed.wait:
            print(f"Status:  {runs.command(environment, 'show', started.run)}")
            return 0
        status = runs.follow(environment, started.run, titles_of(started.job["pipelineSpec"]))
        further = submit.fall_back(submission, started) if status == runs.STATUSES[FAILED] else None
        if further is None:
            return status
        print("A training got no machine; another run tries the next accelerator.")
        submission = further


def _start(submission: submit.Submission, name: str) -> submit.Submission:
    """Choose the accelerators of a run, check it, and start it in the environment `name`. Return what was sent."""
    environment = submission.environment
    submission, passed_over = submit.choose_accelerator(submission)
    for line in (*passed_over, *submit.estimates(submission)):
        print(line)
    # Without a network this takes up to half a minute.
    print(f"Checking bucket {environment.bucket}, images and quota ...", file=sys.stderr, flush=True)
    submit.check_bucket_images_and_quota(submission)
    try:
        submit.send(submission)
    except UserError as error:
        doctor = f"`python -m pipeline doctor --env {name}`"
        raise UserError(f"{error}; {doctor} says what a run needs") from None
    print(f"Run:     {submission.run}")
    print(f"Console: {vertex_api.run_link(environment, submission.run)}", flush=True)
    return submission
