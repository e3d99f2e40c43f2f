"""Every command of the README and of the guides can be pasted. Each is

- run, if it is QUICK: in its page's order, with the example images and a narrow model as the default;
- otherwise parsed by its own parser, since it takes minutes, serves until Ctrl-C, or needs a dataset or the cloud.
  What `make` would run is parsed, too (`make --dry-run`), down to the parameters of the pipeline.

Blocks of Python run. The pages in ELSEWHERE have tests of their own, which run their commands against servers.
"""

import pathlib
import re
import shlex
import shutil

import pytest

from pipeline.__main__ import WITH_ASSIGNMENTS, parse
from pipeline.commands.flags import passed_parameters
from tests.guide import BLOCK, DOCS, Page
from tests.test_makefile import ROOT, make
from tests.trainer import predictable
from tests.trainer.conftest import narrow  # noqa: F401  fixture
from trainer.__main__ import _parser, main
from trainer.artifacts import ALIASES, MODEL_CONFIG, VERSION_EXTRA
from trainer.files import write_json

GUIDES = ("quickstart.md", "demo.md", "python.md", "data.md", "datasets.md")
PAGES = [Page(name) for name in ("../README.md", *GUIDES)]
ELSEWHERE = {"check.md", "vertex.md", "vertex-reference.md", "kubeflow.md", "serving.md"}
QUICK = ("trainer predict", "trainer datasets")
OTHERS = ("git", "cd", "source", "tensorboard")
"""Programs that are not ours."""
PLACEHOLDERS = ("REPOSITORY", "FOLDER")


def names(page):
    return page.name.removeprefix("../")


def blocks(page, language):
    return [text for found, text in BLOCK.findall(page.text) if found == language]


def commands(page):
    """The words of each command in the page's blocks of shell."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    return [shlex.split(part, comments=True) for line in lines for part in line.split(" && ") if part.strip()]


def is_quick(words):
    return words[:2] == ["python", "-m"] and " ".join(words[2:4]) in QUICK


@pytest.fixture(scope="module")
def work(narrow, tmp_path_factory):  # noqa: F811
    """A working directory as after a training: the examples, `model`, and the registry with it."""
    folder = tmp_path_factory.mktemp("work")
    shutil.copytree(ROOT / "examples", folder / "examples")
    model = predictable.write_model(folder / "models" / "msinet" / "1" / VERSION_EXTRA, predictable.network(3))
    write_json(
        model / MODEL_CONFIG, {"dataset": "osie", "source": "gs://data/osie", "image_size": predictable.SIZE}
    )
    write_json(folder / "models" / "msinet" / ALIASES, {"default": 1})
    (folder / "model").symlink_to(model)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_command_is_parsed(page):
    for words in commands(page):
        program, *arguments = words
        if program == "make":
            finished = make("--dry-run", *arguments)
            assert finished.returncode == 0, f"{words}: {finished.stderr}"
            ours = [
                line for line in finished.stdout.splitlines() if " -m trainer" in line or " -m pipeline" in line
            ]
            for line in ours:
                parse_ours(shlex.split(line)[1:])
            assert ours or arguments[0] == "install", words
        elif program == "python":
            parse_ours(arguments)
        else:
            assert program in OTHERS, words


def parse_ours(words):
    """Parse `-m trainer ...` or `-m pipeline ...`; raises an error or exits if it is wrong."""
    flag, module, *arguments = words
    assert (flag, module in ("trainer", "pipeline")) == ("-m", True), words
    if module == "trainer":
        assert _parser().parse_args(arguments).command == arguments[0]
    else:
        parsed, assignments = parse(arguments)
        if parsed.command in WITH_ASSIGNMENTS:
            given = passed_parameters(parsed, assignments)
            assert given.keys() >= {each.partition("=")[0] for each in assignments}


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(is_quick, commands(page)))], ids=names)
def test_quick_commands_run(page, work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    for words in filter(is_quick, commands(page)):
        main(words[3:])
        assert capsys.readouterr().out, words


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=names)
def test_blocks_of_python_run(page, work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    exec("\n".join(blocks(page, "python")), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in printed] == ["button", "photo"]


def test_quick_commands_are_on_the_pages_that_newcomers_read():
    first = [sum(map(is_quick, commands(page))) for page in PAGES[:2]]
    assert min(first) >= 3


def test_no_command_is_outside_of_these_pages_and_blocks():
    written = {path.name for path in DOCS.glob("*.md") if re.search("^```(sh|python)$", path.read_text(), re.M)}
    assert written - ELSEWHERE == set(GUIDES)
    for page in PAGES:
        for language, text in BLOCK.findall(page.text):
            assert language == "sh" or not re.search(r"^\s*(python|make) ", text, re.MULTILINE), text


def test_examples_exist_and_placeholders_are_few():
    for page in PAGES:
        for name in re.findall(r"examples/[\w.-]+", page.text):
            assert (ROOT / name.rstrip(".")).exists(), f"{page.name}: {name}"
        words = {word.rpartition("=")[2] for command in commands(page) for word in command[1:]}
        assert {word for word in words if re.fullmatch(r"[A-Z]{3,}", word)} <= set(PLACEHOLDERS), page.name


def test_examples_are_small_and_their_licences_are_named():
    listed = (ROOT / "examples" / "README.md").read_text()
    files = [path for path in pathlib.Path(ROOT, "examples").iterdir() if path.name != "README.md"]
    assert len(files) >= 5
    for path in files:
        assert f"`{path.name}`" in listed
        assert path.stat().st_size < (200_000 if path.suffix == ".jpg" else 500_000), path.name
