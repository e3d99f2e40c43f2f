"""`python -m pipeline images`, in a clone of its own and with a `gcloud` that writes down what it is told."""

import dataclasses
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

from pipeline.__main__ import main
from pipeline.commands import images
from tests.refusals import refused
from tests.test_images import BUILD
from tests.vertex import IMAGES, LOCATION, PROJECT, SERVICE_ACCOUNT, write_config
from trainer.errors import MismatchError, NotFoundError, PlaceError, SettingError

GCLOUD = """#!/bin/bash
printf '%s\\n' "$@" > "$0.$1"
if [[ $1 == artifacts && "$*" == *" ${KNOWN%:*} "* ]]; then echo "v0"; echo "${KNOWN##*:}"; fi
"""
"""Knows the image KNOWN, and builds everything."""


def git(folder, *arguments):
    config = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *config, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A repository with the files that the command reads, all committed."""
    for name in (images.BUILD, ".dockerignore", "pyproject.toml", "trainer/errors.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(images.ROOT / name, tmp_path / name)
    (tmp_path / "configs").mkdir()
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "All")
    monkeypatch.setattr(images, "ROOT", tmp_path)
    monkeypatch.setattr("pipeline.graph.environment.CONFIGS", tmp_path / "configs")
    return tmp_path


@pytest.fixture
def prod(clone, vertex):
    environment = dataclasses.replace(vertex.environment, build_service_account=SERVICE_ACCOUNT)
    write_config(environment, clone / "configs")
    return environment


@pytest.fixture
def gcloud(tmp_path_factory, monkeypatch):
    """The program; `read` in its folder are the arguments of its last call of a kind."""
    program = tmp_path_factory.mktemp("bin") / "gcloud"
    program.write_text(GCLOUD)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    # Else there would be no tests left.
    monkeypatch.setattr("os.execvp", lambda program, command: subprocess.run(command).returncode)
    monkeypatch.setattr("os.chdir", lambda folder: None)
    return program


def calls(program, kind="builds"):
    path = pathlib.Path(f"{program}.{kind}")
    return path.read_text().splitlines() if path.exists() else None


def test_everything_comes_from_the_environment_and_the_status_is_that_of_the_build(clone, prod, gcloud, capsys):
    assert main(["images", "--env", "prod"]) == 0
    commit = git(clone, "rev-parse", "--short=12", "HEAD").strip()
    builds, submit, source, *flags = calls(gcloud)
    assert (builds, submit, source) == ("builds", "submit", ".")
    assert dict(flag.removeprefix("--").split("=", 1) for flag in flags) == {
        "project": PROJECT,
        "region": LOCATION,
        "config": "images/cloudbuild.yaml",
        "gcs-source-staging-dir": f"{prod.bucket}/builds",
        "gcs-log-dir": f"{prod.bucket}/builds/logs",
        "substitutions": f"_ENV=prod,_IMAGE_REPOSITORY={IMAGES},_TAG=v1,_COMMIT={commit}",
        "service-account": f"projects/{PROJECT}/serviceAccounts/{SERVICE_ACCOUNT}",
    }
    said = capsys.readouterr().out
    assert f"msinet-cpu:v1, msinet-gpu:v1, msinet-tpu:v1, msinet-serving:v1 of commit {commit} in {IMAGES}" in said
    assert "up to 0.24 USD" in said
    pathlib.Path(f"{gcloud}.builds").unlink()
    assert main(["images", "--env", "prod", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("gcloud builds submit . --project=proj ")
    assert calls(gcloud) is None
    gcloud.write_text("#!/bin/bash\nexit 7\n")
    assert main(["images", "--env", "prod"]) == 7


def test_build_is_given_every_substitution(prod):
    flags = images.build_command(prod, "0123456789ab", images.DEFAULT_MACHINE, "")
    (given,) = (flag.partition("=")[2] for flag in flags if flag.startswith("--substitutions="))
    assert dict(each.split("=") for each in given.split(",")).keys() == BUILD["substitutions"].keys()


@pytest.mark.parametrize("only", ["cpu,gpu", "gpu"])
def test_part_of_the_images_is_built_with_those_that_every_run_needs(clone, prod, gcloud, capsys, only):
    assert main(["images", "--env", "prod", "--only", only]) == 0
    assert "Builds msinet-cpu:v1, msinet-gpu:v1, msinet-serving:v1 of" in capsys.readouterr().out
    (path,) = (flag.partition("=")[2] for flag in calls(gcloud) if flag.startswith("--config="))
    part = yaml.safe_load((clone / path).read_text())
    steps = {step["id"]: step for step in part.pop("steps")}
    whole = {step["id"]: step for step in BUILD["steps"]}
    assert whole.keys() - steps.keys() == {"build-tpu", "push-tpu"}
    assert steps["publish-template"].pop("waitFor") == ["push-cpu", "push-gpu", "push-serving"]
    assert all(fields.items() <= whole[step].items() for step, fields in steps.items())
    assert part.pop("images") == [name for name in BUILD["images"] if "-tpu:" not in name]
    assert part.items() <= BUILD.items()


def test_machine_region_and_the_default_account_are_a_choice(prod, clone, gcloud, capsys):
    write_config(dataclasses.replace(prod, build_service_account=""), clone / "configs")
    assert main(["images", "--env", "prod", "--machine", "e2-highcpu-8", "--region", "europe-west1"]) == 0
    flags = calls(gcloud)
    assert {"--machine-type=e2-highcpu-8", "--region=europe-west1"} < set(flags)
    assert not any(flag.startswith("--service-account") for flag in flags)
    assert "up to 0.64 USD" in capsys.readouterr().out


@pytest.mark.parametrize("tracked", [True, False])
def test_changes_of_the_images_files_are_named(clone, prod, gcloud, tracked):
    changed = "trainer/errors.py" if tracked else "trainer/new.py"
    (clone / changed).write_text("1\n")
    (clone / "notes.txt").write_text("not in any image\n")
    (clone / "configs" / "staging.toml").write_text("# an environment of your own\n")
    with refused(MismatchError, changed):
        main(["images", "--env", "prod"])
    assert calls(gcloud) is None


def test_tag_that_exists_is_replaced_only_if_you_say_so(prod, gcloud, monkeypatch):
    monkeypatch.setenv("KNOWN", f"{IMAGES}/msinet-cpu:v1")
    with refused(PlaceError, f"{IMAGES}/msinet-cpu:v1", "image_tag"):
        main(["images", "--env", "prod"])
    assert calls(gcloud) is None
    assert main(["images", "--env", "prod", "--replace"]) == 0
    assert calls(gcloud)


def test_environment_that_the_build_would_not_find_is_refused(prod, clone, gcloud, tmp_path_factory):
    elsewhere = write_config(prod, tmp_path_factory.mktemp("elsewhere"))
    assert main(["images", "--env", elsewhere]) == 0  # the same as in configs/
    (clone / "configs" / "prod.toml").unlink()
    with refused(NotFoundError, "configs/prod.toml"):
        main(["images", "--env", elsewhere])


@pytest.mark.parametrize(
    ("changes", "arguments", "named"),
    [
        ({}, ["--machine", "e2-highcpu-16"], (SettingError, "machine", "e2-highcpu-16")),
        ({}, ["--only", "cpu,gpus"], (SettingError, "gpus", "gpu")),
        ({"target": "kubeflow"}, [], (MismatchError, "target kubeflow")),
        ({"template_repository": ""}, [], (SettingError, "template_repository")),
    ],
)
def test_mistake_is_named_before_anything_is_asked(prod, clone, gcloud, changes, arguments, named):
    write_config(dataclasses.replace(prod, **changes), clone / "configs")
    with refused(*named):
        main(["images", "--env", "prod", *arguments])
    assert calls(gcloud) is None
    assert calls(gcloud, "artifacts") is None
