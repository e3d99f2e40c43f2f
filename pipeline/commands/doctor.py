"""\
Ask Google Cloud for everything that a run on Vertex AI needs, and say what is missing and how to get it.

Nothing is changed: APIs, billing, permissions, buckets, data, images, the template and quota are only read.
Parameters are those of the run that you plan, as for `submit`.

A line begins with ✓ for what is there, ✗ for what is missing, and ? for what could not be asked. The exit status
is 1 if something is missing, and 0 otherwise.
"""

import argparse
import itertools
from collections.abc import Sequence

from pipeline.commands.flags import add_environment, add_parameters, passed_parameters
from pipeline.graph.environment import load_environment
from pipeline.vertex.doctor import findings
from pipeline.vertex.doctor.api import Api
from pipeline.vertex.doctor.examine import examine, make_case
from pipeline.vertex.doctor.findings import MISSING

HELP = "check what a run on Vertex AI needs: what is there, what is missing, and how to get it"


def configure(parser: argparse.ArgumentParser) -> None:
    add_environment(parser)
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    passed = passed_parameters(parsed, assignments)
    environment = load_environment(parsed.env)
    case, settings = make_case(environment, passed)
    api = Api(environment)
    seen = []
    for group in itertools.chain([settings], examine(case, api)):
        print(f"{group.title}\n" + "\n".join(findings.lines(group.findings)), flush=True)
        seen += group.findings
    print(findings.summary(seen, f"start a run with `python -m pipeline submit --env {parsed.env}`"))
    return int(any(finding.state == MISSING for finding in seen))
