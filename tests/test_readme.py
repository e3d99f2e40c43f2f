"""The README: short, with a diagram of the pipeline that has its tasks."""

import pathlib
import re

import yaml

from pipeline.graph.titles import titles_of

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def tasks_of_the_diagram():
    """The title of each task: that of its step, and what it is within the step, except for the training itself."""
    (diagram,) = re.findall(r"```mermaid\n(.*?)```", README, re.DOTALL)
    found, step = [], ""
    for line in diagram.splitlines():
        if started := re.search(r"subgraph \w+ \[(.+)\]", line):
            step = started[1]
        elif line.strip() == "end":
            step = ""
        else:
            labels = [label.strip('"') for label in re.findall(r"\w+\[(.+?)\]", line)]
            found += [
                label if not step else step if label == "training" else f"{step}: {label}" for label in labels
            ]
    return [title.removesuffix(": training") for title in found]


def test_diagram_has_every_task_of_the_compiled_pipeline_once():
    spec = next(yaml.safe_load_all((ROOT / "pipeline.yaml").read_text()))
    compiled = {title for key, title in titles_of(spec).items() if title != key}
    assert sorted(tasks_of_the_diagram()) == sorted(compiled)


def test_it_is_short_and_shows_the_page_first():
    assert len(README.splitlines()) <= 120
    assert README.index("demo-compare.jpg") < README.index("## ")


def test_commands_of_its_table_exist():
    rows = README.partition("\n## Commands\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| `", rows, re.MULTILINE)) > 8
