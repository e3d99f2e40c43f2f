"""\
Ask Google Cloud for what a run on Vertex AI needs, and say what is missing and how to get it.

Nothing is changed: APIs, roles, buckets, data, images and quota are only read. Give the parameters of the
run that you plan, as for `submit`.

--live runs one custom job on the accelerator, the only thing here that costs: it says its price and waits for
`yes` (--yes does not wait). The job shows what cannot be seen from outside: user, limits, devices, mounts, and
what works on the mount of Cloud Storage. It also trains one step.

A line begins with ✓ for what is there, ✗ for what is missing, and ? for what could not be asked. The exit status
is 1 if something is missing, and 0 otherwise. Several environments, such as --env prod,prod-eu, are all checked.
"""

import argparse
import sys
from collections.abc import Sequence

from lifecycle.runs import Finding, State, Values
from pipeline.commands.parameter_flags import add_environment, add_parameters, confirmed, passed_parameters
from pipeline.graph import Environment, load_environments
from pipeline.vertex import ExaminedRun
from trainer.settings import Parser

HELP = "check what a run on Vertex AI needs: what is there, what is missing, and how to get it"


def configure(parser: Parser) -> None:
    add_environment(parser, several=True)
    parser.add_argument(
        "--live", action="store_true", help="also run one job, about 7 minutes, on the accelerator"
    )
    parser.add_argument("--yes", action="store_true", help="run the job of --live without asking")
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    passed = passed_parameters(parsed, assignments)
    first = load_environments(parsed.env)
    # A terminal that shows ASCII only gets question marks for the signs.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    seen = []
    for environment in (first, *first.further):
        if first.further:
            print(f"Environment {environment.name}, {environment.location}")
        seen += _examined(parsed, environment, passed)
    states = [finding.state for finding in seen]
    good, bad, open_ = (states.count(state) for state in (State.OK, State.MISSING, State.UNKNOWN))
    following = (
        "run the commands above from top to bottom, or let Terraform make what it can (docs/vertex.md), then run "
        "this command again"
    )
    if not bad:
        following = f"start a run with `python -m pipeline submit --env {parsed.env}`"
    print(f"{good} found, {bad} missing, {open_} unknown: {following}")
    return int(bool(bad))


def _examined(parsed: argparse.Namespace, environment: Environment, passed: Values) -> list[Finding]:
    """Print the findings about a run in an environment, and if asked run a job there. Return them."""
    run = ExaminedRun.of(environment, passed)
    seen = _shown(*run.settings)
    for title, findings in run.examine():
        seen += _shown(title, findings)
    offer = f"{run.offer}." if parsed.live else ""
    if parsed.live and confirmed(offer, parsed.yes, "No job is run."):
        seen += _shown("Job on the accelerator", list(run.try_job()))
    return seen


def _shown(title: str, findings: list[Finding]) -> list[Finding]:
    """Print a group. A remedy comes after the first finding that it is for."""
    print(title)
    said = {""}
    for finding in findings:
        print(f"  {finding.state} {finding.text}")
        if finding.remedy not in said:
            print(f"      {finding.remedy}")
            said.add(finding.remedy)
    sys.stdout.flush()
    return findings
