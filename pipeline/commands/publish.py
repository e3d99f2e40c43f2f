"""\
Compile the pipeline and its components, and upload them to Artifact Registry.

The pipeline is for the console and `submit --template`, a component for pipelines of other people. Prints their
addresses. Submit by such an address, not by a tag: tags can move, and Vertex AI has returned error 500 for tags.

With several environments, such as --env prod,prod-eu, runs of the template go on in the next region if a training
gets no machine, whoever has started them: the console, a schedule, or an upload.
"""

import argparse
from collections.abc import Sequence

from pipeline.commands.parameter_flags import add_environment
from pipeline.graph import load_environments, publish

HELP = "upload the compiled pipeline to Artifact Registry"


def configure(parser: argparse.ArgumentParser) -> None:
    add_environment(parser, several=True)
    parser.add_argument("--tag", action="append", help="tag for the version. May be repeated (default: latest)")


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    environment = load_environments(parsed.env)
    address, *components = publish(environment, parsed.tag or ("latest",))
    print("\n".join([address, *components]))
    print(f"Submit it with: python -m pipeline submit --env {parsed.env} --template {address}")
    return 0
