"""The walker of pages: what it runs of a page, and that it notices when a command does not work."""

import pathlib
import socket
import subprocess
import sys

import pytest

from tests import bare_machine
from tests.bare_machine import Command, More, Serve, Skip
from tests.guide import ROOT


def run(typed, folder):
    """Run commands in a shell, as `bare_machine.walk` does; returns the exit status and what was printed."""
    command = ["bash", "-c", "\n".join(bare_machine.script("page.md", [Command("", text) for text in typed]))]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    return finished.returncode, finished.stdout


@pytest.mark.parametrize("page", bare_machine.MARKS)
def test_each_mark_is_of_a_command_of_its_page(page):
    typed = [command.text for command in bare_machine.commands(page)]
    assert [words for words in bare_machine.MARKS[page] if not any(text.startswith(words) for text in typed)] == []


def test_sections_of_readme_have_readers_of_their_own():
    first, *others = bare_machine.readings("README.md").values()
    assert first[0].text == "make run-pipeline"
    assert any(reading[0].text == "make demo" for reading in others)
    assert len(bare_machine.readings("docs/check.md")) == 1


def test_a_command_that_fails_ends_the_reading(tmp_path):
    status, printed = run(["touch first", "false", "touch second"], tmp_path)
    assert status == 1
    assert printed.splitlines()[-1] == "== false"
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


def test_marks_leave_out_and_add_words(tmp_path, monkeypatch):
    marks = {"touch a": Skip("no"), "touch b": More("c", "more")}
    monkeypatch.setitem(bare_machine.MARKS, "page.md", marks)
    status, printed = run(["touch a  # a remark", "touch b  # another"], tmp_path)
    assert status == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]
    assert "skipped, since no: touch a" in printed


def test_programs_of_a_page_are_one_session(tmp_path):
    first, second = (Command("", text, "python") for text in ("number = 3\n", "open(str(number), 'w').close()\n"))
    lines = "\n".join(bare_machine.script("page.md", [first, second]))
    environment = {"PATH": f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"}
    subprocess.run(["bash", "-c", lines], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert (tmp_path / "3").exists()


def test_a_server_is_asked_and_stopped(tmp_path, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = f"{sys.executable} -m http.server --bind 127.0.0.1 {port}"
    address = Serve(f"http://127.0.0.1:{port}/")
    monkeypatch.setitem(bare_machine.MARKS, "page.md", {server: address, "true": address})
    assert run([server, "touch after"], tmp_path)[0] == 0
    assert (tmp_path / "after").exists()
    # One that ends by itself has served nothing.
    status, printed = run(["true"], tmp_path)
    assert status == 1
    assert "did not serve" in printed


@pytest.mark.parametrize(("said", "status"), [(bare_machine.REFUSAL, 0), ("something else", 1)])
def test_without_tensorflow_a_command_must_be_refused_by_its_name(said, status, tmp_path, monkeypatch):
    monkeypatch.setattr(bare_machine, "BUILT_FOR_TENSORFLOW", False)
    monkeypatch.setitem(bare_machine.MARKS, "page.md", {"make install": More("&& false", "more")})
    (tmp_path / "Makefile").write_text(f"install:\n\t@echo '{said}'; exit 1\n")
    assert run(["make install"], tmp_path)[0] == status
    (tmp_path / "Makefile").write_text(f"install:\n\t@echo '{said}'\n")
    assert run(["make install"], tmp_path)[0] == 1


def test_recordings_are_read_by_fetch(tmp_path):
    bare_machine.write_examples(tmp_path)
    command = [sys.executable, "-m", "trainer", "fetch", "--dataset", "custom", "--source", "study"]
    finished = subprocess.run(
        [*command, "--blur-px", "4", "--image-size", "48x64", "--output-dir", tmp_path / "data"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert "Images: 3 training, 2 validation." in finished.stdout + finished.stderr
