"""docs/check.md: its commands run as they are written, on the files of examples/; the workflow runs one too."""

import os
import shlex

import pytest

from tests.guide import ROOT, Page
from tests.trainer.attention.pages import needs_browser
from trainer.__main__ import main
from trainer.attention.page import is_page

pytestmark = pytest.mark.usefixtures("narrow")

GUIDE = Page("docs/check.md")
COMMANDS = [words for words in GUIDE.commands if words[:2] == ["python", "-m"]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with examples/."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(model, arguments):
    """The exit status of a command of the guide, with this model."""
    pages = arguments[0] == "check" and any(map(is_page, arguments))
    if pages:
        needs_browser()
    extra = ["--timeout-s=200", *["--no-sandbox"] * (os.geteuid() == 0)] if pages else []
    try:
        main([*arguments, *extra, "--model", str(model)])
    except SystemExit as left:
        return left.code
    return 0


def test_commands_can_be_pasted(folder, narrow_model, capsys):
    statuses = {}
    for command in COMMANDS:
        assert command[:3] == ["python", "-m", "trainer"]
        statuses[shlex.join(command)] = run(narrow_model, command[3:])
        assert "error" not in capsys.readouterr().err
    # Which regions fall short depends on the model; that the check could be made does not.
    assert set(statuses.values()) <= {0, 1}, statuses
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    maps = {f"attention/{role}-{kind}.png" for role in ("design", "baseline") for kind in ("attention", "page")}
    assert written == {"regions.json", "attention.xml", "attention.json"} | maps
