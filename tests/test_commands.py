"""The installed commands `msinet`, `msinet-pipeline` and `msinet-studio`: what `python -m PACKAGE` is."""

import importlib.metadata
import re
import shlex
import subprocess
import sys
import tomllib

import pytest

from lifecycle.runs import PARAMETERS
from pipeline.commands.parameter_flags import FIRST
from tests.images import DOCKERFILE
from trainer.settings import flag_of

PROJECT = tomllib.loads((DOCKERFILE.parent.parent / "pyproject.toml").read_text())["project"]
COMMANDS = {
    "msinet": "python -m trainer",
    "msinet-pipeline": "python -m pipeline",
    "msinet-studio": "python -m studio",
}


def call(name, *arguments):
    """Call the command as its script in `.venv/bin` does; whether it loaded TensorFlow is the last line."""
    program = f"""
import atexit, importlib.metadata, sys
sys.argv = {[f"/somewhere/bin/{name}", *arguments]!r}
atexit.register(lambda: print("tensorflow" in sys.modules))
sys.exit(importlib.metadata.EntryPoint({name!r}, {PROJECT["scripts"][name]!r}, "console_scripts").load()())
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


def test_commands_are_installed():
    installed = importlib.metadata.distribution(PROJECT["name"]).entry_points.select(group="console_scripts")
    assert {each.name: each.value for each in installed} == PROJECT["scripts"]
    assert set(PROJECT["scripts"]) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_the_command_and_needs_no_tensorflow(name):
    finished = call(name, "--help")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith(f"usage: {name} ")
    assert COMMANDS[name] not in finished.stdout
    assert finished.stdout.splitlines()[-1] == "False"


def test_help_has_the_parameters_that_people_use_first_and_help_all_has_all():
    first, every = (
        set(re.findall(r"(?m)^  (--[a-z-]+)", call("msinet-pipeline", "run", flag).stdout))
        for flag in ("--help", "--help-all")
    )
    parameters = set(map(flag_of, PARAMETERS))
    assert first & parameters == set(map(flag_of, FIRST))
    assert every == first | parameters


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("msinet", ["compare", "nosuch@1", "other@2"], "error: "),
        ("msinet-pipeline", ["run", "base_epocs=3"], "'base_epocs'"),
        ("msinet-studio", ["compare", "a.png", "b.png", "--region-b=x:0,0,9,9"], "error: unknown region 'x'"),
        ("msinet-pipeline", ["compile", "--nosuch"], "(see `msinet-pipeline compile --help`)"),
    ],
)
def test_mistakes_end_with_one_sentence(name, arguments, message):
    finished = call(name, *arguments)
    assert finished.returncode == (2 if "--help" in message else 1)
    assert message in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_version_names_the_command_and_the_version(name):
    finished = call(name, "--version")
    version, tensorflow = finished.stdout.splitlines()
    assert version.startswith(f"{name} {PROJECT['version']}")
    assert tensorflow == "False"


@pytest.mark.parametrize(
    ("name", "words", "completed"),
    [
        ("msinet", ["train", "--cache", ""], {"auto", "memory", "disk", "stream"}),
        ("msinet-pipeline", ["run", "--no-evaluate"], {"--no-evaluate-base"}),  # which `--help` leaves out
        ("msinet-studio", ["check", "--region"], {"--region", "--regions"}),
    ],
)
def test_bash_completes_flags_and_choices(name, words, completed, tmp_path):
    finished = call(name, "--completion", "bash")
    script = finished.stdout.removesuffix("False\n")
    assert "_shtab" in script, finished.stderr
    function = f"_shtab_{name.replace('-', '_')}"
    program = (
        f"{script}\nCOMP_WORDS=({name} {shlex.join(words)}); COMP_CWORD={len(words)}; "
        f"{function}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    answer = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert set(answer.stdout.split()) == completed, answer.stderr
