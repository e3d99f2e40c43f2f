"""docs/data.md does what it says, and its messages exist; docs/datasets.md has the facts of the rows."""

import ast
import pathlib
import re
import shlex

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from tests import dataset_page
from tests.guide import Page
from trainer.__main__ import main
from trainer.data.roles import place_all
from trainer.datasets import DATASETS
from trainer.sources import Member

PAGE = Page("data.md")
DATASETS_PAGE = Page("datasets.md")
ROOT = pathlib.Path(__file__).parent.parent
SIZE = (60, 80)
"""(height, width) of the examples' images, pixels."""
EXAMPLES = re.findall(r"^### (Example \d: .+?)\n(.*?)(?=^##)", PAGE.text, re.MULTILINE | re.DOTALL)


def table(page, title):
    """The cells of the first table after a heading, without its head."""
    section = page.text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
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
        drawn = points if "fixations" in path.parts else 255 * blurred / blurred.max()
        pixels = drawn.astype(np.uint8)
    Image.fromarray(pixels).save(path)


def test_table_of_datasets_is_that_of_the_rows():
    published = {name: row for name, row in DATASETS.items() if row.places}
    rows = {re.match(r"\[(.+?)\]", cells[0])[1]: cells for cells in table(DATASETS_PAGE, "The datasets")}
    assert set(rows) == set(published)
    for name, row in published.items():
        named, counts, *_ = rows[name]
        assert named == f"[{name}]({row.homepage})"
        assert counts == f"{row.n_train:,}, {row.n_valid:,}"


def test_section_of_each_dataset_is_made_from_its_row():
    written = dataset_page.BLOCK.search(DATASETS_PAGE.text)[0]
    assert written == dataset_page.sections(), "write it with `python -m tests.dataset_page`"
    assert re.findall(r"^### (\S+)$", written, re.MULTILINE) == list(DATASETS)


@pytest.mark.parametrize("name", [name for name, row in DATASETS.items() if row.places])
def test_tree_of_each_dataset_names_files_that_it_reads(name):
    row = DATASETS[name]
    paths = [line.split()[0] for line in dataset_page.tree(row)]
    paths = [path.replace("SPLIT", "train").replace("CATEGORY", "Action") for path in paths]
    placed, _ = place_all([Member(path, path, bytes) for path in paths], row)
    assert len(placed) == len(paths) >= 2


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
    printed = capsys.readouterr().out.splitlines()
    assert expected in "".join(f"{line}\n" for line in printed), title
    last = printed[-1]
    assert last.startswith(f"wrote {folder}: ")
    assert last.endswith(f"train --dataset-dir {folder} --output-dir model --base-model pretrained --recipe small")
    preview = pathlib.Path(arguments[arguments.index("--preview") + 1]).read_text()
    assert "How the source was read" in preview


def test_messages_of_the_page_are_those_of_the_code():
    texts = []
    for path in (ROOT / "trainer").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        texts += [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    messages = [re.fullmatch(r"`(.+)`", cells[0])[1] for cells in table(PAGE, "When something is wrong")]
    assert len(messages) > 10
    assert [message for message in messages if not any(message in text for text in texts)] == []
