"""docs/data.md: its table is that of the datasets, its examples do what it says, and its messages exist."""

import ast
import pathlib
import re
import shlex

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from tests.guide import Page
from trainer.__main__ import main
from trainer.artifacts import Manifest
from trainer.datasets import DATASETS, NOT_STATED

PAGE = Page("data.md")
ROOT = pathlib.Path(__file__).parent.parent
SIZE = (60, 80)
"""(height, width) of the examples' images, pixels."""
EXAMPLES = re.findall(r"^### (Example \d: .+?)\n(.*?)(?=^##)", PAGE.text, re.MULTILINE | re.DOTALL)


def table(title):
    """The cells of the first table after a heading, without its head."""
    section = PAGE.text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)
    return [row.split(" | ") for row in rows[1:]]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def write_file(path, index, text):
    """A file of an example: the table on the page, or by its folder an image, a map or a picture of points."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        (content,) = blocks(text, "csv")
        path.write_text(content)
        return
    random = np.random.default_rng(index)
    pixels = random.integers(0, 256, (*SIZE, 3), np.uint8)
    if {"maps", "fixations"} & set(path.parts):
        points = np.zeros(SIZE)
        points[random.integers(10, 50, 4), random.integers(10, 70, 4)] = 255
        blurred = gaussian_filter(points, 5)
        pixels = np.uint8(points if "fixations" in path.parts else 255 * blurred / blurred.max())
    Image.fromarray(pixels).save(path)


def test_table_of_datasets_is_that_of_the_rows():
    published = {name: row for name, row in DATASETS.items() if row.places}
    rows = {re.match(r"\[(.+?)\]", cells[0])[1]: cells for cells in table("The datasets")}
    assert set(rows) == set(published)
    for name, row in published.items():
        named, counts, _, _, archives, licence = rows[name]
        assert named == f"[{name}]({row.homepage})"
        assert counts == f"{row.n_train:,}, {row.n_valid:,}"
        assert sorted(archives.split(", ")) == sorted(place.name for place in row.places)
        assert (licence == "not stated") is (row.licence == NOT_STATED)


def test_there_are_three_examples():
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("title", "text"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_example_does_what_the_page_says(title, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    listing, *_ = blocks(text, "")
    for index, name in enumerate(listing.split()):
        write_file(pathlib.Path(name), index, text)
    (command,) = blocks(text, "sh")
    python, flag, module, *arguments = shlex.split(command.replace("\\\n", " "))
    assert (python, flag, module) == ("python", "-m", "trainer")
    main(arguments)
    folder = arguments[arguments.index("--output-dir") + 1]
    (expected,) = blocks(text, "text")
    assert set(expected.splitlines()) <= set(Manifest.load(folder).notes), title
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"wrote {folder}: ")
    preview = pathlib.Path(arguments[arguments.index("--preview") + 1]).read_text()
    assert "What was understood" in preview


def test_messages_of_the_page_are_those_of_the_code():
    texts = []
    for path in (ROOT / "trainer").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        texts += [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    messages = [re.fullmatch(r"`(.+)`", cells[0])[1] for cells in table("When something is wrong")]
    assert len(messages) > 10
    assert [message for message in messages if not any(message in text for text in texts)] == []
