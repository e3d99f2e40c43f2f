"""\
Build the images of this commit on Cloud Build, and publish the template that names them.

The environment says where they go and which tag they get. This needs the Google Cloud CLI, logged in as the
account that deploys, and shows the build's log until its end.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from pipeline.commands.parameter_flags import add_environment
from pipeline.graph import COMMON_IMAGES, IMAGE_KINDS, Environment, load_environment
from trainer.errors import MismatchError, NotFoundError, PlaceError, SettingError, check, check_choice

HELP = "build the images on Cloud Build and publish the template"
ROOT = pathlib.Path(__file__).parents[2]
BUILD = "images/cloudbuild.yaml"
PART = "build/cloudbuild.yaml"
"""Where the build of some images is written. Git ignores the folder."""
MACHINES = {"e2-standard-2": 0.006, "e2-highcpu-8": 0.016, "e2-highcpu-32": 0.064}
"""Machine of a build -> USD a minute (cloud.google.com/build/pricing, November 2026).

The first is Cloud Build's default. A new project may be refused the others: its quota can be 5 CPUs in a region
(cloud.google.com/build/quotas).
"""
DEFAULT_MACHINE = next(iter(MACHINES))
MINUTES = 40
"""Time of a build on the default machine. It is estimated from 5 minutes for the image for CPUs on two cores."""
REGIONS = "us-central1, us-west2, europe-west1, asia-east1, australia-southeast1 or southamerica-east1"
"""Where every project may build (cloud.google.com/build/docs/locations)."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_environment(parser)
    parser.add_argument(
        "--only",
        default="",
        help=f"images to build, such as cpu,gpu. {' and '.join(COMMON_IMAGES)} are always among them, since every "
        "run needs them. All if empty",
    )
    parser.add_argument("--machine", default=DEFAULT_MACHINE, help=f"machine of the build: {', '.join(MACHINES)}")
    parser.add_argument("--region", default="", help="region of the build. If empty, the one of the environment")
    parser.add_argument("--replace", action="store_true", help="build a tag again that exists already")
    parser.add_argument("--dry-run", action="store_true", help="show the command of gcloud, and build nothing")


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    environment = load_environment(parsed.env)
    environment.require_target("vertex")
    check_choice("machine", parsed.machine, MACHINES)
    kinds = kinds_of(parsed.only)
    check_buildable(environment)
    commit = commit_of_images()
    config = BUILD if kinds == IMAGE_KINDS else write_part(kinds)
    command = build_command(environment, commit, parsed.machine, parsed.region, config)
    if not (parsed.replace or parsed.dry_run):
        check_tag(environment)
    names = ", ".join(environment.image_of(kind).rpartition("/")[2] for kind in kinds)
    print(
        f"Builds {names} of commit {commit} in {environment.image_repository},\n"
        f"then publishes the template {environment.image_tag} in {environment.template_repository}.\n"
        f"On a machine {parsed.machine} this takes up to {MINUTES} minutes and costs up to "
        f"{MINUTES * MACHINES[parsed.machine]:.2f} USD.\n"
        f"If Cloud Build refuses the region: --region with {REGIONS}.",
        flush=True,
    )
    if parsed.dry_run:
        print(shlex.join(command))
        return 0
    print("The log follows. Ctrl-C cancels the build.", flush=True)
    os.chdir(ROOT)
    # Instead of this process, so that Ctrl-C reaches gcloud alone, which then cancels the build.
    return os.execvp(command[0], command)


def kinds_of(only: str) -> tuple[str, ...]:
    """The images to build for the value of --only. Raises `UserError` for an unknown image.

    >>> kinds_of("gpu")
    ('cpu', 'gpu', 'serving')
    """
    chosen = only.split(",") if only else IMAGE_KINDS
    for kind in chosen:
        check_choice("image", kind, IMAGE_KINDS)
    return tuple(kind for kind in IMAGE_KINDS if kind in (*COMMON_IMAGES, *chosen))


def write_part(kinds: Sequence[str]) -> str:
    """Write the build with the steps of the images `kinds` alone. Return its path in the repository."""
    import yaml

    build = yaml.safe_load((ROOT / BUILD).read_text())
    others = [kind for kind in IMAGE_KINDS if kind not in kinds]
    omitted = {f"{verb}-{kind}" for verb in ("build", "push") for kind in others}
    build["steps"] = [step for step in build["steps"] if step["id"] not in omitted]
    for step in build["steps"]:
        if "waitFor" in step:
            step["waitFor"] = [each for each in step["waitFor"] if each not in omitted]
    build["images"] = [name for name in build["images"] if not any(f"-{kind}:" in name for kind in others)]
    path = ROOT / PART
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(build, sort_keys=False))
    return PART


def check_buildable(environment: Environment) -> None:
    """Raise `UserError` if the build would not find the environment, or the repository of templates."""
    check(
        bool(environment.template_repository),
        "template_repository is empty. Add it to the TOML file of the environment",
        SettingError,
    )
    path = ROOT / "configs" / f"{environment.name}.toml"
    check(
        path.is_file() and load_environment(environment.name) == environment,
        f"the build reads the environment from the source that it is sent. Move it to {path}",
        NotFoundError,
    )


def commit_of_images() -> str:
    """The commit that the images carry. Raises `UserError` if one of their files has changes not committed.

    Environments (configs/) are left out: they name the images, and say nothing about what is in them.
    """
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    paths = ["images", *(line[1:] for line in lines if line.startswith("!"))]
    status = _git("status", "--porcelain", "--untracked-files=all", "--", *paths).splitlines()
    changed = [line[3:] for line in status if not line[3:].startswith("configs/")]
    check(
        not changed,
        f"not committed: {', '.join(changed)}. Commit first, since the images and each model that they train "
        "carry the commit",
        MismatchError,
    )
    return _git("rev-parse", "--short=12", "HEAD").strip()


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotFoundError(f"{error}. Run this in a clone of the repository") from None


def check_tag(environment: Environment) -> None:
    """Raise `UserError` if there is an image with this tag, or no gcloud to ask."""
    check(
        shutil.which("gcloud") is not None,
        "there is no gcloud on the PATH. Install the Google Cloud CLI: https://cloud.google.com/sdk/docs/install",
        NotFoundError,
    )
    image, _, tag = environment.image.rpartition(":")
    # `images describe` would need rights that no build needs.
    command = ["gcloud", "artifacts", "docker", "tags", "list", image, "--format=value(tag.basename())", "--quiet"]
    listed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # It fails if there is no image yet. Whatever else is wrong, the build will say.
    check(
        tag not in listed.stdout.split(),
        f"{environment.image} exists, and runs and schedules may use it. Set image_tag in "
        f"configs/{environment.name}.toml to a new name, or build this tag again with --replace",
        PlaceError,
    )


def build_command(
    environment: Environment, commit: str, machine: str, region: str, config: str = BUILD
) -> list[str]:
    """The command line of gcloud that builds the images and publishes the template.

    The log goes to the environment's bucket: the released gcloud shows logs on Cloud Storage alone
    (googlecloudsdk/api_lib/cloudbuild/logs.py of the Google Cloud CLI 528), and that needs no right to read the
    project's logs.
    """
    substitutions = {
        "_ENV": environment.name,
        "_IMAGE_REPOSITORY": environment.image_repository,
        "_TAG": environment.image_tag,
        "_COMMIT": commit,
    }
    builds = f"{environment.bucket}/builds"
    account = f"projects/{environment.project}/serviceAccounts/{environment.build_service_account}"
    options = {
        "project": environment.project,
        "region": region or environment.location,
        "config": config,
        "gcs-source-staging-dir": builds,
        "gcs-log-dir": f"{builds}/logs",
        "substitutions": ",".join(f"{name}={value}" for name, value in substitutions.items()),
        # gcloud has no name for the default.
        "machine-type": "" if machine == DEFAULT_MACHINE else machine,
        "service-account": account if environment.build_service_account else "",
    }
    return ["gcloud", "builds", "submit", ".", *(f"--{name}={value}" for name, value in options.items() if value)]
