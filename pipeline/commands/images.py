"""\
Build the images of this commit on Cloud Build, and publish the template that names them.

The environment says where they go and which tag they get. This needs the Google Cloud CLI, logged in as the
account that deploys, and shows the build's log until its end.
"""

import argparse
import os
import shlex
from collections.abc import Sequence

from pipeline.commands.flags import add_environment
from pipeline.graph.environment import load_environment
from pipeline.vertex import images

HELP = "build the images on Cloud Build and publish the template"


def configure(parser: argparse.ArgumentParser) -> None:
    add_environment(parser)
    parser.add_argument(
        "--machine", default=images.DEFAULT_MACHINE, help=f"machine of the build: {', '.join(images.MACHINES)}"
    )
    parser.add_argument("--region", default="", help="region of the build; that of the environment if empty")
    parser.add_argument("--replace", action="store_true", help="build a tag again that exists already")
    parser.add_argument("--dry-run", action="store_true", help="show the command of gcloud, and build nothing")


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    environment = load_environment(parsed.env)
    images.check_buildable(environment, parsed.machine)
    commit = images.commit_of(environment)
    command = images.command(environment, commit, parsed.machine, parsed.region)
    if not (parsed.replace or parsed.dry_run):
        images.check_tag(environment)
    print(images.announcement(environment, commit, parsed.machine), flush=True)
    if parsed.dry_run:
        print(shlex.join(command))
        return 0
    print("The log follows; Ctrl-C cancels the build.", flush=True)
    os.chdir(images.ROOT)
    # In place of this process, so that Ctrl-C reaches gcloud alone, which then cancels the build.
    return os.execvp(command[0], command)
