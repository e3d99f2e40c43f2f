"""\
Ask Google Cloud for everything that a run on Vertex AI needs, and say what is missing and how to get it.

Nothing is changed: APIs, billing, permissions, buckets, data, images, the template and quota are only read.
Parameters are those of the run that you plan, as for `submit`.

--live runs one custom job on the accelerator, the only thing here that costs: it says its price and waits for
`yes` (--yes does not wait). The job shows what cannot be seen from outside: user, limits, devices, mounts, and
what works on the mount of Cloud Storage; and it trains one step.

A line begins with ✓ for what is there, ✗ for what is missing, and ? for what could not be asked. The exit status
is 1 if something is missing, and 0 otherwise.
"""

import argparse
import itertools
from collections.abc import Sequence

from pipeline.commands.flags import add_environment, add_parameters, passed_parameters
from pipeline.graph.environment import load_environment
from pipeline.vertex.doctor import findings, live
from pipeline.vertex.doctor.api import Api
from pipeline.vertex.doctor.case import Case
from pipeline.vertex.doctor.examine import Group, examine, make_case
from pipeline.vertex.doctor.findings import MISSING, Finding
from trainer.parser import Parser

HELP = "check what a run on Vertex AI needs: what is there, what is missing, and how to get it"


def configure(parser: Parser) -> None:
    add_environment(parser)
    parser.add_argument(
        "--live", action="store_true", help="also run one job, about 7 minutes, on the accelerator"
    )
    parser.add_argument("--yes", action="store_true", help="run the job of --live without asking")
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    passed = passed_parameters(parsed, assignments)
    environment = load_environment(parsed.env)
    case, settings = make_case(environment, passed)
    api = Api(environment)
    seen: list[Finding] = []
    for group in itertools.chain([settings], examine(case, api)):
        seen += _shown(group)
    if parsed.live and _is_wanted(case, parsed.yes):
        seen += _shown(Group("Job on the accelerator", list(live.try_job(case))))
    print(findings.summary(seen, f"start a run with `python -m pipeline submit --env {parsed.env}`"))
    return int(any(finding.state == MISSING for finding in seen))


def _shown(group: Group) -> list[Finding]:
    print(f"{group.title}\n" + "\n".join(findings.lines(group.findings)), flush=True)
    return group.findings


def _is_wanted(case: Case, is_agreed: bool) -> bool:
    """Say what the job costs, and whether the user wants it."""
    print(f"{live.offer(live.choose(case))}.", flush=True)
    if is_agreed:
        return True
    try:
        answer = input("Type yes to run it: ")
    except EOFError:
        answer = ""
    if answer.strip().lower() != "yes":
        print("No job is run.")
        return False
    return True
