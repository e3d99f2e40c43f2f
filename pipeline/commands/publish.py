"""\
Compile the pipeline and upload it to Artifact Registry, for the console and `submit --template`.

Prints the address of the version. Submit by this address, not by a tag: tags can move, and Vertex AI has returned
error 500 for tags.
"""

import argparse
from collections.abc import Sequence

from pipeline.commands.flags import add_environment
from pipeline.graph import compiled
from pipeline.graph.environment import load_environment

HELP = "upload the compiled pipeline to Artifact Registry"


def configure(parser: argparse.ArgumentParser) -> None:
    add_environment(parser)
    parser.add_argument("--tag", action="append", help="tag for the version; may be repeated (default: latest)")


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    environment = load_environment(parsed.env)
    address = compiled.publish(environment, parsed.tag or ("latest",))
    print(address)
    print(f"Submit it with: python -m pipeline submit --env {parsed.env} --template {address}")
    return 0
