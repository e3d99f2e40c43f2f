"""The commands: what reaches the pipeline, and when something is installed. Nothing here needs a network.

What is installed is in test_install.py.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest

import studio.__main__
from lifecycle.runs.parameters import PARAMETERS

ROOT = pathlib.Path(__file__).parent.parent
MAKE = shutil.which("make")


def make(*arguments, folder=ROOT, **environment):
    """Run `make`, with none of the flags of a `make test` around this process."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    }
    command = [MAKE, "--no-print-directory", *arguments]
    return subprocess.run(
        command, cwd=folder, env=inherited | environment, capture_output=True, text=True, timeout=300
    )


def pipeline_arguments(*arguments, command="run-pipeline", **environment):
    """What `python -m pipeline` would be given."""
    finished = make("--dry-run", command, *arguments, **environment)
    assert finished.returncode == 0, finished.stderr
    (line,) = (each for each in finished.stdout.splitlines() if "-m pipeline" in each)
    return shlex.split(line.partition("-m pipeline")[2])


def test_the_demo_opens_a_browser_unless_told_not_to():
    for given, expected in ((), True), (("ARGS=--no-open",), False):
        (line,) = (each for each in make("--dry-run", "demo", *given).stdout.splitlines() if "studio demo" in each)
        arguments = shlex.split(line.partition("-m studio")[2])
        assert studio.__main__._parser().parse_args(arguments).open == expected


@pytest.fixture
def project(tmp_path):
    """A copy of what installation depends on: the project without its code, and no requirements."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "checks.mk", tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for name in ("requirements", *packages):
        (tmp_path / name.replace(".", "/")).mkdir(parents=True, exist_ok=True)
    for name in ("cpu.txt", "gpu.txt", "dev.txt", "uv.txt"):
        (tmp_path / "requirements" / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("variables", "arguments"),
    [
        ([], "run"),
        (["TARGET=local"], "run"),
        (["BASE_EPOCHS=3"], "run BASE_EPOCHS=3"),  # unknown: the pipeline complains
        (["ENV=my env", "RUN_DIR=a b", "RESUME=latest"], "run --env 'my env' --run-dir 'a b' --resume latest"),
        (["TARGET=vertex"], "submit --env vertex"),
        (["TARGET=vertex", "ENV=prod", "ARGS=--wait"], "submit --env prod --wait"),
        (["GPU=1", "seed=1"], "run seed=1"),
    ],
)
def test_variables_become_flags_and_parameters(variables, arguments):
    assert pipeline_arguments(*variables) == shlex.split(arguments)


def test_target_is_this_machine_or_vertex():
    finished = make("--dry-run", "run-pipeline", "TARGET=vertx", "ENV=prod")
    assert finished.returncode != 0
    assert 'TARGET is local or vertex, not "vertx"' in finished.stderr


def test_a_test_file_that_is_not_there_is_named():
    command = [sys.executable, "-m", "pytest", "--numprocesses", "1", "tests/nothere"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert finished.returncode == pytest.ExitCode.USAGE_ERROR
    assert "tests/nothere" in finished.stderr


def test_every_parameter_reaches_the_pipeline_by_its_name():
    assignments = sorted(f"{name}=1" for name in PARAMETERS)
    assert pipeline_arguments(*assignments) == ["run", *assignments]


@pytest.mark.parametrize(
    "value",
    ["", "gs://bucket/two  words", "it's", '"quoted" $HOME `id`', "$(shell touch run)", "100%", "a\\b"],
)
def test_values_arrive_as_they_were_given(value):
    # make doubles nothing and expands nothing: the shell must not either.
    assert pipeline_arguments(f"base_source={value}") == ["run", f"base_source={value}"]


def test_schedules_are_applied_from_their_files():
    assert pipeline_arguments("ENV=prod", "ARGS=--dry-run", command="schedule") == shlex.split(
        "schedule apply --env prod --dry-run"
    )


def test_part_of_the_images_can_be_built():
    arguments = pipeline_arguments("ENV=prod", "ONLY=cpu,gpu", command="images")
    assert arguments == ["images", "--env", "prod", "--only", "cpu,gpu"]


def test_variables_of_the_shell_choose_nothing():
    assert pipeline_arguments(ENV="prod", TARGET="vertex", ARGS="--wait", base_epochs="3") == ["run"]


def test_nothing_is_installed_again_until_the_pins_change(project):
    stamp = project / ".venv" / ".installed"
    stamp.parent.mkdir()
    (stamp.parent / ".uv").touch()
    stamp.write_text("cpu")
    assert make("--question", "install", folder=project).returncode == 0
    assert make("--question", "install", "GPU=1", folder=project).returncode == 1
    for changed in ("requirements/dev.txt", "requirements/cpu.txt", "requirements/uv.txt", "pyproject.toml"):
        later = stamp.stat().st_mtime + 10
        os.utime(project / changed, (later, later))
        assert make("--question", "install", folder=project).returncode == 1
        for each in (stamp.parent / ".uv", stamp):
            os.utime(each, (later, later))
        assert make("--question", "install", folder=project).returncode == 0
