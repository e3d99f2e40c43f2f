"""Builds the images of a commit on Cloud Build and publishes the template that names them: images/cloudbuild.yaml.

`gcloud` sends the source and shows the log. Its released command shows logs on Cloud Storage alone
(googlecloudsdk/api_lib/cloudbuild/logs.py of the Google Cloud CLI 528), so they go to the environment's bucket.
That needs no right to read the project's logs.
"""

import pathlib
import shutil
import subprocess

from pipeline.graph import environment as environments
from pipeline.graph.environment import Environment
from pipeline.vertex import checks, template
from trainer.errors import check, check_choice

ROOT = pathlib.Path(__file__).parents[2]
BUILD = "images/cloudbuild.yaml"
KINDS = ("cpu", "gpu", "tpu", "serving")
MACHINES = {"e2-standard-2": 0.006, "e2-highcpu-8": 0.016, "e2-highcpu-32": 0.064}
"""Machine of a build -> USD a minute (cloud.google.com/build/pricing, November 2026).

The first is Cloud Build's default and has free minutes. A new project may be refused the others: its quota can be
5 CPUs in a region (cloud.google.com/build/quotas).
"""
DEFAULT_MACHINE = next(iter(MACHINES))
FREE_MINUTES = 2500
"""Free minutes of the default machine, a month and billing account."""
MINUTES = 40
"""Time of a build on the default machine; an estimate, from 5 minutes for the image for CPUs on two cores."""
REGIONS = "us-central1, us-west2, europe-west1, asia-east1, australia-southeast1 or southamerica-east1"
"""Where every project may build (cloud.google.com/build/docs/locations)."""


def check_buildable(environment: Environment, machine: str) -> None:
    """Raise `UserError` unless a build could make and publish the images of `environment`; asks no service."""
    check_choice("machine", machine, MACHINES)
    checks.check_environment(environment)
    template.check_repository(environment.template_repository)
    path = _file_of(environment)
    check(
        path.is_file() and environments.load_environment(environment.name) == environment,
        f"the build reads the environment from the source that it is sent; move it to {path}",
    )


def commit_of(environment: Environment) -> str:
    """The commit that the images carry. Raises `UserError` if one of their files has changes not committed."""
    check((ROOT / BUILD).is_file(), f"{ROOT} has no {BUILD}; run this in a clone of the repository")
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    paths = ["images", *(line[1:] for line in lines if line.startswith("!"))]
    status = _git("status", "--porcelain", "--untracked-files=all", "--", *paths).splitlines()
    # Environments name the images, and say nothing about what is in them.
    changed = [line[3:] for line in status if not _is_environment(ROOT / line[3:], environment)]
    check(
        not changed,
        f"not committed: {', '.join(changed)}; commit first, since the images and each model that they train "
        "carry the commit",
    )
    return _git("rev-parse", "--short=12", "HEAD").strip()


def check_tag(environment: Environment) -> None:
    """Raise `UserError` if there is an image with this tag, or no gcloud to ask."""
    check(
        shutil.which("gcloud") is not None,
        "there is no gcloud on the PATH; install the Google Cloud CLI: https://cloud.google.com/sdk/docs/install",
    )
    image, _, tag = environment.image.rpartition(":")
    # `images describe` would need rights that no build needs.
    command = ["gcloud", "artifacts", "docker", "tags", "list", image, "--format=value(tag.basename())", "--quiet"]
    listed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # It fails if there is no image yet. Whatever else is wrong, the build will say.
    check(
        tag not in listed.stdout.split(),
        f"{environment.image} exists, and runs and schedules may use it; set image_tag in {_file_of(environment)} "
        "to a new name, or build this tag again with --replace",
    )


def command(environment: Environment, commit: str, machine: str, region: str) -> list[str]:
    """The command line of gcloud that builds the images and publishes the template."""
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
        "config": BUILD,
        "gcs-source-staging-dir": builds,
        "gcs-log-dir": f"{builds}/logs",
        "substitutions": ",".join(f"{name}={value}" for name, value in substitutions.items()),
        # gcloud has no name for the default.
        "machine-type": "" if machine == DEFAULT_MACHINE else machine,
        "service-account": account if environment.build_service_account else "",
    }
    return ["gcloud", "builds", "submit", ".", *(f"--{name}={value}" for name, value in options.items() if value)]


def announcement(environment: Environment, commit: str, machine: str) -> str:
    """The lines that say what a build is about to do, its time, and its price."""
    names = ", ".join(environment.image_of(kind).rpartition("/")[2] for kind in KINDS)
    is_default = machine == DEFAULT_MACHINE
    free = f"; {FREE_MINUTES} minutes a month are free" if is_default else ""
    return (
        f"Builds {names} of commit {commit} in {environment.image_repository},\n"
        f"then publishes the template {environment.image_tag} in {environment.template_repository}.\n"
        f"On a machine {machine} this takes {'about' if is_default else 'less than'} {MINUTES} minutes and costs "
        f"{'about' if is_default else 'less than'} {MINUTES * MACHINES[machine]:.2f} USD "
        f"({MACHINES[machine]:g} a minute{free}).\n"
        f"If Cloud Build refuses the region: --region with {REGIONS}."
    )


def _file_of(environment: Environment) -> pathlib.Path:
    """Where the build looks for the environment."""
    return environments.CONFIGS / f"{environment.name}.toml"


def _is_environment(path: pathlib.Path, environment: Environment) -> bool:
    """Whether `path` is the file of `environment`, or one of another environment of your own."""
    is_own = path.parent == environments.CONFIGS and path.suffix == ".toml" and not _is_tracked(path)
    return is_own or path == _file_of(environment)


def _is_tracked(path: pathlib.Path) -> bool:
    return bool(_git("ls-files", "--", str(path)))


def _git(*arguments: str) -> str:
    check(shutil.which("git") is not None, "there is no git on the PATH; install it: the images carry the commit")
    finished = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    check(finished.returncode == 0, f"git: {finished.stderr.strip()}; run this in a clone of the repository")
    return finished.stdout
